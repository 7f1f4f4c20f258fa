// Calls like the one before take a shorter way: nothing may be told apart by it but the time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/ranks.h"

namespace tutti::test {
namespace {

using ::testing::HasSubstr;

std::string message_of(tutti_comm* comm) {
  tutti_error error{};
  error.size = sizeof error;
  tutti_error_get(comm, &error);
  return error.message;
}

tutti_status sum(const std::vector<int>& from, std::vector<int>& to, tutti_comm* comm, const tutti_call* call = nullptr) {
  return tutti_all_reduce(from.data(), to.data(), from.size(), TUTTI_INT32, TUTTI_SUM, comm, {}, call);
}

std::uint64_t completed(tutti_comm* comm) {
  tutti_error error{};
  error.size = sizeof error;
  tutti_error_get(comm, &error);
  return error.guilty_count > 0 ? error.guilty[0].last_operation : UINT64_MAX;
}

class Again : public testing::TestWithParam<int> {};

// Runs of equal calls of random length, over other buffers each time, in place and out, with and without empty options.
TEST_P(Again, ManyCallsOfFewShapesGiveWhatEachShallGive) {
  const Ranks ranks(GetParam());
  ranks.run([](int rank, tutti_comm* comm) {
    int n = 0;
    ASSERT_EQ(tutti_comm_size(comm, &n), TUTTI_SUCCESS);
    std::minstd_rand random(7);  // the same on all ranks
    for (int step = 0; step < 300; ++step) {
      const std::size_t count = std::vector<std::size_t>{1, 2, 10, 26, 27, 100, 256, 257, 1500}[random() % 9];
      const unsigned what = random() % 4;
      const int root = static_cast<int>(random() % static_cast<unsigned>(n));
      const std::size_t times = random() % 6;
      for (std::size_t i = 0; i < times; ++i) {
        std::vector<int> from(count), to(count, -1);
        for (std::size_t k = 0; k < count; ++k) from[k] = step + static_cast<int>(k * i) * (rank + 1);
        const bool in_place = random() % 2 == 0;
        const tutti_call unset = TUTTI_CALL_INIT;
        const tutti_call* const call = random() % 2 == 0 ? &unset : nullptr;
        const std::vector<int> mine = from;
        std::vector<int>& out = in_place ? from : to;
        const auto at = [&](int r, std::size_t k) { return step + static_cast<int>(k * i) * (r + 1); };
        const auto all = [&](std::size_t k) { return n * step + static_cast<int>(k * i) * (n * (n + 1) / 2); };
        if (what == 0) {
          ASSERT_EQ(sum(from, out, comm, call), TUTTI_SUCCESS) << last_error();
          for (std::size_t k = 0; k < count; ++k) ASSERT_EQ(out[k], all(k)) << step << ' ' << i << ' ' << k;
        } else if (what == 1) {
          ASSERT_EQ(tutti_broadcast(from.data(), out.data(), count, TUTTI_INT32, root, comm, {}, call), TUTTI_SUCCESS);
          for (std::size_t k = 0; k < count; ++k) ASSERT_EQ(out[k], at(root, k)) << step << ' ' << i << ' ' << k;
        } else if (what == 2) {
          const bool has = rank == root;  // the others' receive buffers may be NULL
          ASSERT_EQ(
              tutti_reduce(from.data(), has ? out.data() : nullptr, count, TUTTI_INT32, TUTTI_MAX, root, comm, {}, call),
              TUTTI_SUCCESS);
          for (std::size_t k = 0; k < count && has; ++k) ASSERT_EQ(out[k], std::max(at(0, k), at(n - 1, k)));
        } else {
          ASSERT_EQ(tutti_barrier(comm, {}, call), TUTTI_SUCCESS);
        }
        if (!in_place) {
          ASSERT_EQ(from, mine);
        }
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
      EXPECT_THAT(message_of(comm), HasSubstr("all_reduce of 5 int32 (sum)" + number)) << equal;
      EXPECT_THAT(message_of(comm), HasSubstr("broadcast of 5 int32 with root 1" + number)) << equal;
    });
  }
}

TEST(AgainOnce, APeerThatDoesNotComeIsNamedWithTheLastItCompleted) {
  const Ranks ranks(2, "", 300'000'000);
  std::atomic<bool> over{false};
  ranks.run([&over](int rank, tutti_comm* comm) {
    std::vector<int> data(5, 0);
    for (int i = 0; i < 20; ++i) ASSERT_EQ(sum(data, data, comm), TUTTI_SUCCESS);
    if (rank == 0) {
      EXPECT_EQ(sum(data, data, comm), TUTTI_TIMEOUT);
      EXPECT_THAT(message_of(comm), HasSubstr("rank 1 "));
      EXPECT_THAT(message_of(comm), HasSubstr("its last completed operation is #19 all_reduce"));
      EXPECT_EQ(completed(comm), 19u);
      over = true;
    }
    while (!over) ::usleep(1000);
    EXPECT_EQ(sum(data, data, comm), TUTTI_TIMEOUT);
  });
}

TEST(AgainOnce, ASplitOrAnAbortOrTheEndBetweenThemCounts) {
  const Ranks ranks(2);
  ranks.run([](int rank, tutti_comm* comm) {
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
