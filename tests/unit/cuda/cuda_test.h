// What tests of CUDA have in common: the driver that LD_LIBRARY_PATH leads to, the stand-in or a real one, or a skip by
// name.
#pragma once

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <optional>
#include <ostream>
#include <sstream>
#include <thread>
#include <vector>

#include "src/cuda/context.h"
#include "src/cuda/driver.h"
#include "src/cuda/memory.h"
#include "src/cuda/stream.h"
#include "tests/standin/control.h"
#include "tests/standin/kernels.h"
#include "tests/standin/test_kernels.h"
#include "tests/unit/cuda/beside.h"

namespace tutti::cuda {

/// How googletest prints a result: by the driver's name for it.
inline void PrintTo(DriverResult result, std::ostream* out) {
  const char* name = nullptr;
  const auto driver = Driver::get();
  if (driver.ok()) (*driver)->api().cuGetErrorName(result, &name);
  *out << static_cast<unsigned>(result) << (name != nullptr ? std::string(" ") + name : "");
}

/// The stand-in's ear; all NULL where a real driver is loaded.
struct StandinControl {
  decltype(&standin_fail) fail = nullptr;
  decltype(&standin_set) set = nullptr;
  decltype(&standin_calls) calls = nullptr;
  decltype(&standin_live) live = nullptr;
  decltype(&standin_threads) threads = nullptr;
  decltype(&standin_most_resident) most_resident = nullptr;
  decltype(&standin_protects) protects = nullptr;

  explicit operator bool() const { return fail != nullptr; }

  static StandinControl find() {
    StandinControl control;
    void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) return control;
    const auto put = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    };
    put(control.fail, "standin_fail");
    put(control.set, "standin_set");
    put(control.calls, "standin_calls");
    put(control.live, "standin_live");
    put(control.threads, "standin_threads");
    put(control.most_resident, "standin_most_resident");
    put(control.protects, "standin_protects");
    return control;
  }
};

/// Calls `visit(entry)` for every entry point of the table.
template <typename Visit>
void for_each_entry(const DriverApi& api, const Visit& visit) {
#define TUTTI_CUDA_VISIT(symbol, ...) visit(api.symbol);
  TUTTI_CUDA_ENTRIES(TUTTI_CUDA_VISIT, TUTTI_CUDA_VISIT)
#undef TUTTI_CUDA_VISIT
}

/// Calls an entry point with nothing: zeros and null pointers. For calls that are refused before they look at them.
template <typename... Parameters>
DriverResult call_with_nothing(const DriverEntry<Parameters...>& entry) {
  return entry(Parameters{}...);
}

/// Asks `condition` until it holds, for half a minute at most; whether it did.
template <typename Condition>
bool eventually(const Condition& condition) {
  for (int tries = 0; tries < 30000; ++tries) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

/// A test with the primary context of device 0 current. Afterwards the context is gone, with all that the test left in it.
class CudaTest : public ::testing::Test {
 protected:
  static constexpr DriverResult ok = DriverResult::success;

  void SetUp() override {
    const auto found = Driver::get();
    if (!found.ok()) GTEST_SKIP() << found.status().text();
    driver = *found;
    standin = StandinControl::find();
    if (standin) live_before_ = standin.live();
    open_context();
  }

  void TearDown() override {
    if (driver == nullptr) return;
    if (standin) standin.fail("");
    close_context();
    if (!standin || leaks) return;
    for (const auto& [name, value] : {std::pair{"SMS", "4"}, {"BLOCKS_PER_SM", "2"}, {"QUEUES", "8"}, {"THREADS", "3"}}) {
      standin.set(name, value);
    }
    // Threads of the driver's may still be about to let go.
    EXPECT_TRUE(eventually([&] { return standin.live() == live_before_; }))
        << standin.live() << " alive, before " << live_before_;
  }

  void open_context() {
    auto made = Context::primary(*driver, 0);
    ASSERT_TRUE(made.ok()) << made.status().text();
    context.emplace(std::move(*made));
    auto entered = ContextScope::enter(*context);
    ASSERT_TRUE(entered.ok()) << entered.status().text();
    scope_.emplace(std::move(*entered));
  }

  void close_context() {
    scope_.reset();
    driver->release_deferred();  // what holders of the test left, while their context lives
    context.reset();
    driver->release_deferred();
  }

  const DriverApi& api() const { return driver->api(); }

  StreamHandle make_stream(unsigned flags = kStreamNonBlocking) {
    StreamHandle stream = nullptr;
    EXPECT_EQ(api().cuStreamCreateWithPriority(&stream, flags, 0), ok);
    return stream;
  }

  EventHandle make_event(unsigned flags = kEventDisableTiming) {
    EventHandle event = nullptr;
    EXPECT_EQ(api().cuEventCreate(&event, flags), ok);
    return event;
  }

  DevicePointer allocate(std::size_t bytes) {
    DevicePointer address = 0;
    EXPECT_EQ(api().cuMemAlloc_v2(&address, bytes), ok);
    return address;
  }

  /// A word that host and device share, 0 at first.
  std::uint32_t* make_word() {
    void* word = nullptr;
    EXPECT_EQ(api().cuMemHostAlloc(&word, sizeof(std::uint64_t), kHostDeviceMap), ok);
    std::memset(word, 0, sizeof(std::uint64_t));
    return static_cast<std::uint32_t*>(word);
  }

  /// Release: what the test wrote before is seen by who waits for the word.
  static void put(std::uint32_t* word, std::uint32_t value) {
    std::atomic_ref(*word).store(value, std::memory_order_release);
  }
  static std::uint32_t get(std::uint32_t* word) { return std::atomic_ref(*word).load(std::memory_order_acquire); }

  /// The stream stands still until the word is 1.
  void hold(StreamHandle stream, std::uint32_t* word) {
    EXPECT_EQ(api().cuStreamWaitValue32_v2(stream, reinterpret_cast<DevicePointer>(word), 1, kWaitValueEqual), ok);
  }

  /// Writes a word in stream order.
  void mark(StreamHandle stream, std::uint32_t* word, std::uint32_t value) {
    EXPECT_EQ(api().cuStreamWriteValue32_v2(stream, reinterpret_cast<DevicePointer>(word), value, 0), ok);
  }

  /// The image of the tests' kernels: for a real driver a file that nvcc or clang made beside the stand-in.
  static const void* kernel_image(bool is_standin) {
    if (is_standin) return &standin::kTestKernelsImage;
    static const std::string image = [] {
      const std::ifstream file(beside("standin/test_kernels.image"), std::ios::binary);
      std::ostringstream bytes;
      if (file) bytes << file.rdbuf();
      return bytes.str();
    }();
    return image.empty() ? nullptr : image.data();
  }
  bool has_kernels() const { return kernel_image(static_cast<bool>(standin)) != nullptr; }

  FunctionHandle find_kernel(const char* name) {
    KernelHandle kernel = nullptr;
    FunctionHandle function = nullptr;
    if (library_ == nullptr) {
      const void* const image = kernel_image(static_cast<bool>(standin));
      EXPECT_EQ(api().cuLibraryLoadData(&library_, image, nullptr, nullptr, 0, nullptr, nullptr, 0), ok);
    }
    EXPECT_EQ(api().cuLibraryGetKernel(&kernel, library_, (std::string(name) + "_kernel").c_str()), ok);
    EXPECT_EQ(api().cuKernelGetFunction(&function, kernel), ok);
    return function;
  }

  /// Every launch has this much storage for its blocks.
  static constexpr unsigned kSharedBytes = 1024;

  template <typename Parameters>
  DriverResult launch(const char* name, unsigned blocks, unsigned threads, StreamHandle stream, const Parameters& given) {
    Parameters copy = given;
    void* parameters[] = {&copy};
    return api().cuLaunchKernel(find_kernel(name), blocks, 1, 1, threads, 1, 1, kSharedBytes, stream, parameters, nullptr);
  }

  /// An address as kernels' parameters have it.
  template <typename T = unsigned>
  static T* at(DevicePointer address) {
    return reinterpret_cast<T*>(address);
  }

  /// Call before the test's end where find_kernel was used.
  void unload() {
    if (library_ != nullptr) {
      EXPECT_EQ(api().cuLibraryUnload(std::exchange(library_, nullptr)), ok);
    }
  }

  std::vector<std::int32_t> read(DevicePointer address, std::size_t count) {
    std::vector<std::int32_t> values(count);
    EXPECT_EQ(api().cuMemcpyDtoHAsync_v2(values.data(), address, count * sizeof(std::int32_t), nullptr), ok);
    EXPECT_EQ(api().cuStreamSynchronize(nullptr), ok);
    return values;
  }

  const Driver* driver = nullptr;
  StandinControl standin;
  bool leaks = false;  ///< the test means to
  std::optional<Context> context;

 private:
  std::optional<ContextScope> scope_;
  LibraryHandle library_ = nullptr;
  std::uint64_t live_before_ = 0;
};

/// A test that launches kernels, and is skipped where they were not built for a real driver.
class KernelTest : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (driver != nullptr && !has_kernels()) GTEST_SKIP() << "the tests' kernels were built by neither nvcc nor clang-19";
  }
};

/// A test of what only the stand-in can show.
class StandinTest : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (driver != nullptr && !standin) GTEST_SKIP() << "a real driver does not promise this";
  }
};

}  // namespace tutti::cuda
