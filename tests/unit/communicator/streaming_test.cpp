#include "src/communicator/streaming.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

namespace tutti {
namespace {

TEST(Streaming, WhatACoreKeepsIsNotStreamedAndTheSharedCacheIsSharedOut) {
  const CacheSizes sizes = {.l1d = 48u << 10, .l2 = 1u << 20, .l3 = 96u << 20};
  EXPECT_EQ(streaming_bounds(sizes, 1).never_below, 1u << 20);
  EXPECT_EQ(streaming_bounds(sizes, 1).always_from, 60u << 20);
  EXPECT_EQ(streaming_bounds(sizes, 2).always_from, 30u << 20);
  EXPECT_EQ(streaming_bounds(sizes, 4).always_from, 15u << 20);
  EXPECT_EQ(streaming_bounds(sizes, 64).always_from, 8u << 20) << "more than what a core has to itself";
}

TEST(Streaming, RanksThatAreSpreadShareFewerCaches) {
  const CacheSizes sizes = {.l3 = 32u << 20, .l3_sharers = 8};
  EXPECT_EQ(cache_sharers(sizes, 1, 8), 1u);
  EXPECT_EQ(cache_sharers(sizes, 8, 8), 8u);
  EXPECT_EQ(cache_sharers(sizes, 8, 64), 1u);
  EXPECT_EQ(cache_sharers(sizes, 64, 64), 8u);
  EXPECT_EQ(cache_sharers(sizes, 100, 64), 12u) << "more ranks than cores";
  EXPECT_EQ(cache_sharers(sizes, 2, 1), 2u) << "of CPUs that are not all there";
  EXPECT_EQ(cache_sharers({.l3_sharers = 0}, 0, 0), 1u);
}

TEST(Streaming, ALittleSharedCacheDoesNotCount) {
  const StreamingBounds bounds = streaming_bounds({.l1d = 48u << 10, .l2 = 2u << 20, .l3 = 8u << 20, .l2_sharers = 2}, 2);
  EXPECT_EQ(bounds.never_below, 1u << 20);
  EXPECT_EQ(bounds.always_from, 8u << 20);
}

TEST(Streaming, UnknownCachesHaveBoundsToo) {
  const StreamingBounds bounds = streaming_bounds({}, 1);
  EXPECT_GT(bounds.never_below, 0u);
  EXPECT_GT(bounds.always_from, bounds.never_below);
}

TEST(Streaming, BoundsNeedNoMeasurement) {
  const StreamingBounds bounds = streaming_bounds(cache_sizes(), 1);
  EXPECT_FALSE(past_caches(0, 1));
  EXPECT_FALSE(past_caches(bounds.never_below - 1, 1));
  EXPECT_TRUE(past_caches(bounds.always_from, 1));
  EXPECT_FALSE(past_caches(bounds.never_below, 1)) << "the first measurement alone decides for the cache, or nothing";
}

constexpr std::uint64_t kSecond = 1'000'000'000;

/// Asks every millisecond for so long; when memory was believed from there on, or 0.
struct Course {
  int measured = 0;
  std::uint64_t believed_ns = 0;
  bool believed = false;
};
Course ask(std::uint64_t for_ns, const std::function<bool(std::uint64_t)>& memory_wins) {
  CacheTrials trials;
  Course course;
  for (std::uint64_t now = kSecond; now < kSecond + for_ns; now += 1'000'000) {
    const bool before = course.believed;
    course.believed = trials.memory_is_better(now, [&] { return ++course.measured, memory_wins(now - kSecond); });
    if (course.believed && !before) course.believed_ns = now - kSecond;
  }
  return course;
}

TEST(CacheTrials, BelieveMemoryThatWinsAgainAndAgain) {
  const Course course = ask(25 * kSecond, [](std::uint64_t) { return true; });
  EXPECT_TRUE(course.believed);
  EXPECT_EQ(course.believed_ns, 3 * CacheTrials::kApartNs);
  EXPECT_EQ(course.measured, CacheTrials::kWins + 2) << "and twice more in 25 s";
}

TEST(CacheTrials, BelieveTheCacheOnceItHasWon) {
  const Course never = ask(25 * kSecond, [](std::uint64_t) { return false; });
  EXPECT_FALSE(never.believed);
  EXPECT_EQ(never.measured, 1);
  const Course disturbed = ask(25 * kSecond, [](std::uint64_t at) { return at < 50'000'000; });
  EXPECT_EQ(disturbed.believed_ns, 0u) << "a busy twentieth of a second is nothing to go by";
  EXPECT_FALSE(disturbed.believed);
  EXPECT_EQ(disturbed.measured, 4);
  const Course busy = ask(25 * kSecond, [](std::uint64_t at) { return at < 5 * kSecond; });
  EXPECT_GT(busy.believed_ns, 0u);
  EXPECT_FALSE(busy.believed) << "what held for seconds holds no more";
}

TEST(CacheTrials, AreMadeByOneThreadAtATime) {
  CacheTrials trials;
  std::atomic<int> measuring{0};
  std::atomic<int> measured{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (std::uint64_t now = 0; now < 200; ++now) {
        trials.memory_is_better(now * CacheTrials::kApartNs, [&] {
          EXPECT_EQ(measuring.fetch_add(1), 0);
          ++measured;
          std::this_thread::yield();
          measuring.fetch_sub(1);
          return true;
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(measured.load(), CacheTrials::kWins);
  EXPECT_TRUE(trials.memory_is_better(UINT64_MAX - CacheTrials::kAgainNs, [] { return true; }));
}

}  // namespace
}  // namespace tutti
