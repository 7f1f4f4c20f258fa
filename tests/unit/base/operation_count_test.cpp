#include "src/base/operation_count.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace tutti {
namespace {

constexpr std::uint64_t brief_ns = 5'000'000;
constexpr std::uint64_t long_ns = 60'000'000'000;

TEST(OperationCount, IsWaitedForAndRefusedOnceClosed) {
  const OperationCount operations_under_way;
  EXPECT_TRUE(operations_under_way.wait(0));
  {
    const ScopedOperation visit(operations_under_way);
    EXPECT_TRUE(visit.admitted());
    EXPECT_FALSE(operations_under_way.wait(brief_ns));
    operations_under_way.close();
    EXPECT_FALSE(operations_under_way.wait(brief_ns));
    EXPECT_FALSE(ScopedOperation(operations_under_way).admitted());
    EXPECT_EQ(operations_under_way.admit(), nullptr);
  }
  EXPECT_TRUE(operations_under_way.wait(brief_ns));
}

// As transfers do: within a lock that whoever closes takes before waiting, what is found open may go on to count itself.
TEST(OperationCount, WaitsForWhatWasFoundOpenWithinALock) {
  for (int round = 0; round < 50; ++round) {
    auto operations_under_way = std::make_unique<OperationCount>();
    std::mutex mutex;
    std::uint64_t guarded = 0;
    std::atomic<bool> inside{false};
    std::thread visitor([&] {
      for (;;) {
        std::unique_lock lock(mutex);
        if (operations_under_way->closed()) return;
        if (++guarded % 2 != 0) continue;
        const ScopedOperation visit(*operations_under_way, ScopedOperation::Within());
        EXPECT_TRUE(visit.admitted());
        inside = true;
        lock.unlock();
        for (int i = 0; i < 20; ++i) std::this_thread::yield();
        inside = false;
      }
    });
    while (std::unique_lock(mutex), guarded < 10) std::this_thread::yield();
    operations_under_way->close();
    mutex.lock();
    mutex.unlock();
    EXPECT_TRUE(operations_under_way->wait(long_ns));
    EXPECT_FALSE(inside);
    visitor.join();
  }
}

TEST(OperationCount, OnceAbandonedIsWaitedForAsFarAsItHasBegun) {
  const OperationCount operations_under_way;
  const auto behind = operations_under_way.admit();
  const auto begun = operations_under_way.admit();
  ASSERT_TRUE(begun->begin());
  std::optional<ScopedOperation> visit(operations_under_way);
  operations_under_way.abandon();
  EXPECT_FALSE(behind->begin());
  EXPECT_FALSE(operations_under_way.wait(brief_ns));
  std::thread([&] { visit.reset(); }).join();
  EXPECT_FALSE(operations_under_way.wait(brief_ns));
}

// What is behind visits, and what counts them, may be freed as soon as the wait for them is over.
TEST(OperationCount, IsNotTouchedByOperationsThatWereWaitedFor) {
  for (int round = 0; round < 200; ++round) {
    auto operations_under_way = std::make_unique<OperationCount>();
    auto visited = std::make_unique<std::atomic<int>>(0);
    std::atomic<int> inside{0};
    std::atomic<bool> leave{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        const ScopedOperation visit(*operations_under_way);
        EXPECT_TRUE(visit.admitted());
        inside.fetch_add(1);
        while (!leave.load()) std::this_thread::yield();
        visited->fetch_add(1);
      });
    }
    while (inside.load() < 3) std::this_thread::yield();
    operations_under_way->close();
    leave.store(true);
    EXPECT_TRUE(operations_under_way->wait(long_ns));
    EXPECT_EQ(visited->load(), 3);
    visited.reset();
    operations_under_way.reset();
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace tutti
