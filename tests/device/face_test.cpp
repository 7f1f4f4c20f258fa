// Device memory through the faces alone, as a program outside of this repository has them: tutti_memory_alloc_kind and
// tutti/cuda.hpp. Nothing of src/ is included, since that has names of its own in tutti::cuda.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "include/tutti/cuda.hpp"
#include "include/tutti/tutti.h"
#include "include/tutti/tutti.hpp"
#include "tests/support/sanitizers.h"

#if defined(__SANITIZE_THREAD__)
/// As in device_fixture.h.
extern "C" inline __attribute__((used, visibility("default"))) const char* __tsan_default_suppressions() {
  return "race:_dl_deallocate_tls\n";
}
#endif

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kRanks = 3;
constexpr std::size_t kCount = 1000;

std::string last_error() {
  tutti_error error{};
  error.size = sizeof error;
  static_cast<void>(tutti_error_get(nullptr, &error));
  return std::string(error.message) + " " + error.remedy;
}

/// What `action` throws, as status and sentence; success where it throws nothing.
template <typename Action>
std::pair<tutti_status, std::string> thrown(const Action& action) {
  try {
    action();
  } catch (const Failure& failure) {
    return {failure.status(), failure.what()};
  }
  return {TUTTI_SUCCESS, ""};
}

/// Skips by name where there is no driver, or no kernels for it.
class DeviceFace : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      cuda::set_device(0);
      const cuda::Memory<std::int32_t> word(1);
      tutti_comm* comm = nullptr;
      detail::check(tutti_comm_create_all(&comm, 1, nullptr));
      const Communicator one(comm);
      one.all_reduce(word.span());
    } catch (const Failure& failure) {
      if (failure.status() != TUTTI_UNSUPPORTED) throw;
      GTEST_SKIP() << failure.what();
    }
  }

  /// Runs `body(comm)` on each rank in a thread of its own, device 0 being current.
  template <typename Body>
  static void on_ranks(const Body& body) {
    tutti_unique_id id;
    ASSERT_EQ(tutti_get_unique_id(&id), TUTTI_SUCCESS) << last_error();
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        const auto [status, sentence] = thrown([&] {
          cuda::set_device(0);
          const Communicator comm(id, kRanks, rank);
          body(comm);
        });
        EXPECT_EQ(status, TUTTI_SUCCESS) << sentence;
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  /// What lies on the device.
  static std::vector<std::int32_t> read(const cuda::Memory<std::int32_t>& memory) {
    std::vector<std::int32_t> values(memory.size());
    cuda::Stream stream;
    stream.copy_out(values, memory);
    stream.wait();
    return values;
  }
};

TEST_F(DeviceFace, StreamsAndMemoryOfTheCxxFaceCarryACall) {
  on_ranks([](const Communicator& comm) {
    std::vector<std::int32_t> host(kCount);
    std::iota(host.begin(), host.end(), comm.rank());
    cuda::Stream stream;
    const cuda::Memory<std::int32_t> data(kCount);
    stream.copy_in(data, host);
    comm.all_reduce(data.span(), TUTTI_SUM, stream);
    comm.all_reduce(data.span(), TUTTI_MAX, cuda::on(stream.get()));
    stream.copy_out(std::span(host), data);
    stream.wait();
    for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(host[i], static_cast<std::int32_t>(3 * i + 3)) << i;
    // A blocking call, out of place.
    const cuda::Memory<std::int32_t> folded(kCount);
    comm.all_reduce(data.span(), folded.span());
    EXPECT_EQ(read(folded).back(), 3 * 3 * static_cast<std::int32_t>(kCount));
  });
}

TEST_F(DeviceFace, ListsOfMemoryAreOneSum) {
  on_ranks([](const Communicator& comm) {
    cuda::Stream stream;
    const cuda::Memory<std::int32_t> first(3), second(kCount);
    stream.copy_in(first, std::vector<std::int32_t>(3, comm.rank()));
    stream.copy_in(second, std::vector<std::int32_t>(kCount, 10));
    comm.all_reduce_v(std::vector{first.span(), second.span()}, TUTTI_SUM, stream);
    stream.wait();
    EXPECT_EQ(read(first), std::vector<std::int32_t>(3, 0 + 1 + 2));
    EXPECT_EQ(read(second), std::vector<std::int32_t>(kCount, 10 * kRanks));
  });
}

TEST_F(DeviceFace, ObjectsMayBeMovedAndEmptyOnesGoInPeace) {
  cuda::Memory<std::int32_t> none;
  EXPECT_EQ(none.data(), nullptr);
  EXPECT_TRUE(none.span().empty());
  cuda::Memory<std::int32_t> made(kCount, 0);
  std::int32_t* const data = made.data();
  cuda::Memory<std::int32_t> taken(std::move(made));
  EXPECT_EQ(made.data(), nullptr);  // NOLINT: what was moved from is empty, as the face says
  EXPECT_EQ(made.size(), 0u);
  none = std::move(taken);
  EXPECT_EQ(none.data(), data);
  EXPECT_EQ(none.size(), kCount);
  const cuda::Memory<std::int32_t> empty(0);
  EXPECT_EQ(empty.size(), 0u);

  cuda::Stream first;
  void* const handle = first.get();
  cuda::Stream second(std::move(first));
  EXPECT_EQ(second.get(), handle);
  cuda::Stream third;
  third = std::move(second);
  EXPECT_EQ(third.get(), handle);
  EXPECT_EQ(static_cast<tutti_stream>(third).kind, TUTTI_STREAM_CUDA);
  third.copy_in(none, std::vector<std::int32_t>(kCount, 5));
  third.wait();
  EXPECT_EQ(read(none), std::vector<std::int32_t>(kCount, 5));
}

TEST_F(DeviceFace, WhatFailsThrowsASentence) {
  const cuda::Memory<std::int32_t> memory(kCount);
  cuda::Stream stream;
  std::vector<std::int32_t> longer(kCount + 1, 9);
  EXPECT_EQ(thrown([&] { stream.copy_in(memory, longer); }).first, TUTTI_INVALID_ARGUMENT);
  std::vector<std::int32_t> shorter(kCount - 1);
  EXPECT_EQ(thrown([&] { stream.copy_out(shorter, memory); }).first, TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(thrown([] { cuda::set_device(99); }),
            std::pair(TUTTI_UNHANDLED_CUDA_ERROR, std::string("cuDevicePrimaryCtxRetain failed with 101")));
  const auto [status, sentence] = thrown([] { const cuda::Memory<std::int32_t> nowhere(1, 99); });
  EXPECT_EQ(status, TUTTI_INVALID_ARGUMENT);
  EXPECT_THAT(sentence, HasSubstr("device 99"));
  // Bytes that a size_t cannot count are not a few.
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  EXPECT_NE(thrown([] { const cuda::Memory<std::int64_t> all(kMost / 8 + 2); }).first, TUTTI_SUCCESS);
  EXPECT_NE(thrown([] { const cuda::Memory<std::uint8_t> all(kMost); }).first, TUTTI_SUCCESS);
  stream.wait();
}

TEST_F(DeviceFace, MemoryOfEachKindCarriesACallAndIsFreedByOneFunction) {
  for (const tutti_memory_kind kind : {TUTTI_MEMORY_HOST, TUTTI_MEMORY_CUDA, TUTTI_MEMORY_MANAGED}) {
    on_ranks([kind](const Communicator& comm) {
      void* memory = nullptr;
      ASSERT_EQ(tutti_memory_alloc_kind(&memory, kCount * sizeof(std::int32_t), kind, 0), TUTTI_SUCCESS) << last_error();
      ASSERT_NE(memory, nullptr);
      // One broadcast of what one rank wrote: the host can write two kinds of the three.
      std::vector<std::int32_t> values(kCount);
      std::iota(values.begin(), values.end(), 7);
      const cuda::Memory<std::int32_t> beside(kCount);
      cuda::Stream stream;
      const std::span<std::int32_t> data(static_cast<std::int32_t*>(memory), kCount);
      if (kind == TUTTI_MEMORY_CUDA) {
        stream.copy_in(beside, values);
        stream.wait();
        comm.all_reduce(beside.span(), data, TUTTI_MAX);
        comm.all_reduce(data, beside.span(), TUTTI_SUM);
        std::vector<std::int32_t> sums = read(beside);
        for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(sums[i], kRanks * values[i]) << i;
      } else {
        std::copy(values.begin(), values.end(), data.begin());
        comm.all_reduce(data, TUTTI_SUM);
        for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(data[i], kRanks * values[i]) << i;
      }
      EXPECT_EQ(tutti_memory_free(memory), TUTTI_SUCCESS) << last_error();
    });
  }
}

TEST_F(DeviceFace, MemoryIsRefusedInWords) {
  void* memory = &memory;
  EXPECT_EQ(tutti_memory_alloc_kind(nullptr, 8, TUTTI_MEMORY_CUDA, 0), TUTTI_INVALID_ARGUMENT);
  for (const tutti_memory_kind kind : {TUTTI_MEMORY_AUTO, static_cast<tutti_memory_kind>(77)}) {
    EXPECT_EQ(tutti_memory_alloc_kind(&memory, 8, kind, 0), TUTTI_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr("TUTTI_MEMORY_HOST"));
    EXPECT_EQ(memory, nullptr);
  }
  for (const tutti_memory_kind kind : {TUTTI_MEMORY_CUDA, TUTTI_MEMORY_MANAGED}) {
    memory = &memory;
    EXPECT_EQ(tutti_memory_alloc_kind(&memory, 8, kind, -3), TUTTI_INVALID_ARGUMENT);
    EXPECT_EQ(memory, nullptr);
    EXPECT_EQ(tutti_memory_alloc_kind(&memory, 8, kind, 100), TUTTI_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr("device 99"));
    EXPECT_EQ(tutti_memory_alloc_kind(&memory, std::numeric_limits<std::size_t>::max() - 5, kind, 1),
              TUTTI_UNHANDLED_CUDA_ERROR);
    EXPECT_THAT(last_error(), AllOf(HasSubstr("device 0"), HasSubstr("bytes")));
    EXPECT_EQ(memory, nullptr);
    // Nothing was lost by that.
    EXPECT_EQ(tutti_memory_alloc_kind(&memory, 0, kind, 1), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(tutti_memory_free(memory), TUTTI_SUCCESS) << last_error();
  }
  std::int32_t foreign = 0;
  EXPECT_NE(tutti_memory_free(&foreign), TUTTI_SUCCESS) << "it was never given out";
}

}  // namespace
}  // namespace tutti
