// Calls like the one before take a shorter way: nothing may be told apart by it but the time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <latch>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/ranks.h"

namespace tutti::test {
namespace {

using ::testing::HasSubstr;

tutti_status sum(const std::vector<int>& from, std::vector<int>& to, tutti_comm* comm, const tutti_call* call = nullptr) {
  return tutti_all_reduce(from.data(), to.data(), from.size(), TUTTI_INT32, TUTTI_SUM, comm, {}, call);
}

/// Calls of one shape, over buffers that are other ones each time.
class Shape {
 public:
  Shape(int rank, int ranks, tutti_comm* comm, std::minstd_rand& random) : rank_(rank), ranks_(ranks), comm_(comm) {
    constexpr std::array<std::size_t, 9> counts = {1, 2, 10, 26, 27, 100, 256, 257, 1500};
    count_ = counts[random() % counts.size()];
    verb_ = random() % 4;
    root_ = static_cast<int>(random() % static_cast<unsigned>(ranks));
  }

  void call(int number, bool in_place, const tutti_call* options) {
    number_ = number;
    from_.resize(count_);
    for (std::size_t k = 0; k < count_; ++k) from_[k] = given(rank_, k);
    to_.assign(count_, -1);
    int* const out = in_place ? from_.data() : to_.data();
    ASSERT_EQ(run(out, options), TUTTI_SUCCESS) << last_error();
    for (std::size_t k = 0; k < count_; ++k) {
      if (gets_result()) {
        ASSERT_EQ(out[k], wanted(k)) << number << ' ' << k;
      }
      if (!in_place) {
        ASSERT_EQ(from_[k], given(rank_, k)) << number << ' ' << k;
      }
    }
  }

 private:
  int given(int rank, std::size_t k) const { return number_ + static_cast<int>(k) * (rank + 1); }
  /// No rank but the root has a reduce's result, and a barrier has none.
  bool gets_result() const { return verb_ < 2 || (verb_ == 2 && rank_ == root_); }
  int wanted(std::size_t k) const {
    if (verb_ == 1) return given(root_, k);
    if (verb_ == 2) return given(ranks_ - 1, k);  // of max
    int sum = 0;
    for (int r = 0; r < ranks_; ++r) sum += given(r, k);
    return sum;
  }
  tutti_status run(int* out, const tutti_call* options) const {
    int* const at_root = rank_ == root_ ? out : nullptr;  // the others' may be NULL
    switch (verb_) {
      case 0:
        return tutti_all_reduce(from_.data(), out, count_, TUTTI_INT32, TUTTI_SUM, comm_, {}, options);
      case 1:
        return tutti_broadcast(from_.data(), out, count_, TUTTI_INT32, root_, comm_, {}, options);
      case 2:
        return tutti_reduce(from_.data(), at_root, count_, TUTTI_INT32, TUTTI_MAX, root_, comm_, {}, options);
      default:
        return tutti_barrier(comm_, {}, options);
    }
  }

  const int rank_;
  const int ranks_;
  tutti_comm* const comm_;
  std::size_t count_ = 0;
  std::size_t verb_ = 0;
  int root_ = 0;
  int number_ = 0;
  std::vector<int> from_;
  std::vector<int> to_;
};

class Again : public testing::TestWithParam<int> {};

// Runs of equal calls of random length, in place and out, with and without empty options.
TEST_P(Again, ManyCallsOfFewShapesGiveWhatEachShallGive) {
  const Ranks ranks(GetParam());
  ranks.run([&ranks](int rank, tutti_comm* comm) {
    std::minstd_rand random(7);  // the same on all ranks
    const tutti_call unset = TUTTI_CALL_INIT;
    for (int number = 0; number < 1000;) {
      Shape shape(rank, ranks.size(), comm, random);
      for (const int last = number + 1 + static_cast<int>(random() % 6); number < last; ++number) {
        const bool in_place = random() % 2 == 0;
        ASSERT_NO_FATAL_FAILURE(shape.call(number, in_place, random() % 2 == 0 ? &unset : nullptr));
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Again, testing::Values(1, 2, 3, 4, 5, 8));

TEST(AgainOnce, ABufferThatIsNullNowIsRefusedAndNothingIsSent) {
  const Ranks ranks(2);
  ranks.run([](int, tutti_comm* comm) {
    std::vector<int> data(5, 1);
    ASSERT_EQ(sum(data, data, comm), TUTTI_SUCCESS);
    EXPECT_EQ(tutti_all_reduce(nullptr, data.data(), 5, TUTTI_INT32, TUTTI_SUM, comm, {}, nullptr), TUTTI_INVALID_ARGUMENT);
    EXPECT_EQ(tutti_all_reduce(data.data(), nullptr, 5, TUTTI_INT32, TUTTI_SUM, comm, {}, nullptr), TUTTI_INVALID_ARGUMENT);
    EXPECT_EQ(sum(data, data, comm), TUTTI_SUCCESS);
    EXPECT_EQ(data, std::vector<int>(5, 4));
  });
}

// Of another version, whose options end where the readable memory does.
TEST(AgainOnce, OptionsOfAShorterStructAreReadNoFurther) {
  const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const pages = ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(::mprotect(static_cast<char*>(pages) + page, page, PROT_NONE), 0);
  constexpr std::size_t size = 2 * sizeof(std::size_t);
  auto* const options = reinterpret_cast<tutti_call*>(static_cast<char*>(pages) + page - size);
  options->size = size;
  const Ranks ranks(2);
  ranks.run([options](int, tutti_comm* comm) {
    std::vector<int> data(5, 1);
    for (int i = 0; i < 5; ++i) ASSERT_EQ(sum(data, data, comm, options), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(data, std::vector<int>(5, 32));
  });
  ::munmap(pages, 2 * page);
}

// The numbers go on being counted: both ranks are told which call was the odd one, long before and just now.
TEST(AgainOnce, AMismatchAfterManyIsNamedByItsNumber) {
  for (const int equal : {1, 2, 7, 8, 9, 50}) {
    const Ranks ranks(2);
    ranks.run([equal](int rank, tutti_comm* comm) {
      std::vector<int> data(5, 0);
      tutti_status status = TUTTI_SUCCESS;
      for (int i = 0; i < equal; ++i) ASSERT_EQ(sum(data, data, comm), TUTTI_SUCCESS);
      if (rank == 1) status = tutti_broadcast(data.data(), data.data(), 5, TUTTI_INT32, 1, comm, {}, nullptr);
      for (int i = 0; i < 3 && status == TUTTI_SUCCESS; ++i) status = sum(data, data, comm);
      EXPECT_EQ(status, TUTTI_MISMATCH);
      const std::string number = " as #" + std::to_string(equal);
      EXPECT_THAT(error_of(comm).message, HasSubstr("all_reduce of 5 int32 (sum)" + number)) << equal;
      EXPECT_THAT(error_of(comm).message, HasSubstr("broadcast of 5 int32 with root 1" + number)) << equal;
    });
  }
}

// What a call may take counts from its own first wait, not from that of one before it, in which it slept and asked.
TEST(AgainOnce, AWaitThatLastedIsForgottenByTheNextCall) {
  const Ranks ranks(2, "", 2'000'000'000);
  std::atomic<bool> over{false};
  ranks.run([&over](int rank, tutti_comm* comm) {
    std::vector<int> data(5, 1);
    for (int late = 0; late < 3; ++late) {
      for (int i = 0; i < 5; ++i) {
        if (rank == 1 && i == 3) ::usleep(800'000);  // thrice that is more than a call may take
        ASSERT_EQ(sum(data, data, comm), TUTTI_SUCCESS);
      }
    }
    EXPECT_EQ(data[0], 1 << 15);
    if (rank == 0) {
      EXPECT_EQ(sum(data, data, comm), TUTTI_TIMEOUT);
      EXPECT_THAT(error_of(comm).message, HasSubstr("its last completed operation is #14 all_reduce"));
    }
    while (rank == 1 && !over) ::usleep(1000);
    over = true;
  });
}

// A call that is refused takes the plans of others with it, for all that it was never run.
TEST(AgainOnce, WhatComesAfterARefusedAlgorithmIsRun) {
  const Ranks ranks(2);
  ranks.run([](int, tutti_comm* comm) {
    std::vector<int> data(5, 1);
    tutti_call nonsense = TUTTI_CALL_INIT;
    nonsense.algorithm = "nonsense";
    int sums = 0;
    for (int round = 0; round < 4; ++round) {
      for (int i = 0; i < 3; ++i, ++sums) ASSERT_EQ(sum(data, data, comm), TUTTI_SUCCESS) << last_error();
      EXPECT_EQ(data[0], 1 << sums);
      EXPECT_EQ(sum(data, data, comm, &nonsense), TUTTI_INVALID_ARGUMENT);
    }
  });
}

TEST(AgainOnce, APeerThatDoesNotComeIsNamedWithTheLastItCompleted) {
  const Ranks ranks(2, "", 300'000'000);
  std::atomic<bool> over{false};
  ranks.run([&over](int rank, tutti_comm* comm) {
    std::vector<int> data(5, 0);
    for (int i = 0; i < 20; ++i) ASSERT_EQ(sum(data, data, comm), TUTTI_SUCCESS);
    if (rank == 0) {
      EXPECT_EQ(sum(data, data, comm), TUTTI_TIMEOUT);
      EXPECT_THAT(error_of(comm).message, HasSubstr("rank 1 "));
      EXPECT_THAT(error_of(comm).message, HasSubstr("its last completed operation is #19 all_reduce"));
      EXPECT_EQ(error_of(comm).guilty[0].last_operation, 19u);
      over = true;
    }
    while (!over) ::usleep(1000);
    // What rank 0 had sent is whole, so the late call may still end well; not so the one after.
    tutti_status status = sum(data, data, comm);
    if (status == TUTTI_SUCCESS && rank == 1) status = sum(data, data, comm);
    EXPECT_EQ(status, TUTTI_TIMEOUT);
  });
}

TEST(AgainOnce, ASplitOrAnAbortOrTheEndBetweenThemCounts) {
  const Ranks ranks(2);
  std::latch through(2);  // with all calls that are to succeed
  ranks.run([&through](int rank, tutti_comm* comm) {
    std::vector<int> data(5, 1);
    for (int i = 0; i < 3; ++i) ASSERT_EQ(sum(data, data, comm), TUTTI_SUCCESS);
    tutti_comm* part = nullptr;
    ASSERT_EQ(tutti_comm_split(comm, rank, 0, &part, nullptr), TUTTI_SUCCESS) << last_error();
    for (int i = 0; i < 3; ++i) ASSERT_EQ(sum(data, data, comm), TUTTI_SUCCESS);
    EXPECT_EQ(data, std::vector<int>(5, 64));
    for (int i = 0; i < 3; ++i) ASSERT_EQ(sum(data, data, part), TUTTI_SUCCESS);
    EXPECT_EQ(tutti_comm_finalize(part), TUTTI_SUCCESS);
    EXPECT_EQ(sum(data, data, part), TUTTI_INVALID_USAGE);
    EXPECT_EQ(tutti_comm_destroy(part), TUTTI_SUCCESS);
    through.arrive_and_wait();
    if (rank == 0) tutti_comm_abort(comm);
    tutti_status status = TUTTI_SUCCESS;
    while (status == TUTTI_SUCCESS) status = sum(data, data, comm);
    EXPECT_EQ(status, TUTTI_ABORTED);
  });
}

// Three threads a rank, each with calls of its own, that all look alike: they take turns, in whichever order.
TEST(AgainOnce, ManyThreadsTakeTurns) {
  const Ranks ranks(2);
  constexpr int threads = 3;
  constexpr int calls = 400;
  ranks.run([](int, tutti_comm* comm) {
    std::vector<std::thread> running;
    for (int t = 0; t < threads; ++t) {
      running.emplace_back([comm] {
        for (int i = 0; i < calls; ++i) {
          std::vector<int> data(3, 2);
          ASSERT_EQ(sum(data, data, comm), TUTTI_SUCCESS) << last_error();
          ASSERT_EQ(data, std::vector<int>(3, 4));
        }
      });
    }
    for (std::thread& thread : running) thread.join();
  });
}

TEST(AgainOnce, InAGroupItIsHeldBackLikeAnyOther) {
  const Ranks ranks(2);
  ranks.run([](int, tutti_comm* comm) {
    std::vector<int> data(5, 1);
    for (int i = 0; i < 3; ++i) ASSERT_EQ(sum(data, data, comm), TUTTI_SUCCESS);
    ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
    ASSERT_EQ(sum(data, data, comm), TUTTI_SUCCESS);
    EXPECT_EQ(data, std::vector<int>(5, 8));
    ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS);
    EXPECT_EQ(data, std::vector<int>(5, 16));
  });
}

}  // namespace
}  // namespace tutti::test
