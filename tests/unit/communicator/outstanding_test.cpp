#include "src/communicator/outstanding.h"

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

TEST(Outstanding, IsWaitedForAndRefusedOnceClosed) {
  const Outstanding outstanding;
  EXPECT_TRUE(outstanding.wait(0));
  {
    const Visit visit(outstanding);
    EXPECT_TRUE(visit.admitted());
    EXPECT_FALSE(outstanding.wait(brief_ns));
    outstanding.close();
    EXPECT_FALSE(outstanding.wait(brief_ns));
    EXPECT_FALSE(Visit(outstanding).admitted());
    EXPECT_EQ(outstanding.admit(), nullptr);
  }
  EXPECT_TRUE(outstanding.wait(brief_ns));
}

// As transfers do: within a lock that whoever closes takes before waiting, what is found open may go on to count itself.
TEST(Outstanding, WaitsForWhatWasFoundOpenWithinALock) {
  for (int round = 0; round < 50; ++round) {
    auto outstanding = std::make_unique<Outstanding>();
    std::mutex mutex;
    std::uint64_t guarded = 0;
    std::atomic<bool> inside{false};
    std::thread visitor([&] {
      for (;;) {
        std::unique_lock lock(mutex);
        if (outstanding->closed()) return;
        if (++guarded % 2 != 0) continue;
        const Visit visit(*outstanding, Visit::Within());
        EXPECT_TRUE(visit.admitted());
        inside = true;
        lock.unlock();
        for (int i = 0; i < 20; ++i) std::this_thread::yield();
        inside = false;
      }
    });
    while (std::unique_lock(mutex), guarded < 10) std::this_thread::yield();
    outstanding->close();
    mutex.lock();
    mutex.unlock();
    EXPECT_TRUE(outstanding->wait(long_ns));
    EXPECT_FALSE(inside);
    visitor.join();
  }
}

TEST(Outstanding, OnceAbandonedIsWaitedForAsFarAsItHasBegun) {
  const Outstanding outstanding;
  const auto behind = outstanding.admit();
  const auto begun = outstanding.admit();
  ASSERT_TRUE(begun->begin());
  std::optional<Visit> visit(outstanding);
  outstanding.abandon();
  EXPECT_FALSE(behind->begin());
  EXPECT_FALSE(outstanding.wait(brief_ns));
  std::thread([&] { visit.reset(); }).join();
  EXPECT_FALSE(outstanding.wait(brief_ns));
}

// What is behind visits, and what counts them, may be freed as soon as the wait for them is over.
TEST(Outstanding, IsNotTouchedByVisitsThatWereWaitedFor) {
  for (int round = 0; round < 200; ++round) {
    auto outstanding = std::make_unique<Outstanding>();
    auto visited = std::make_unique<std::atomic<int>>(0);
    std::atomic<int> inside{0};
    std::atomic<bool> leave{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        const Visit visit(*outstanding);
        EXPECT_TRUE(visit.admitted());
        inside.fetch_add(1);
        while (!leave.load()) std::this_thread::yield();
        visited->fetch_add(1);
      });
    }
    while (inside.load() < 3) std::this_thread::yield();
    outstanding->close();
    leave.store(true);
    EXPECT_TRUE(outstanding->wait(long_ns));
    EXPECT_EQ(visited->load(), 3);
    visited.reset();
    outstanding.reset();
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace tutti
