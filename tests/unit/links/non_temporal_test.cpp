#include "src/links/non_temporal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/clock.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

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
  EXPECT_FALSE(use_non_temporal(0, 1));
  EXPECT_FALSE(use_non_temporal(bounds.never_below - 1, 1));
  EXPECT_TRUE(use_non_temporal(bounds.always_from, 1));
}

constexpr std::uint64_t second = 1'000'000'000;

/// What became of asking every millisecond.
struct Course {
  int measured = 0;
  std::vector<std::uint64_t> turned_ns;  ///< when another one was believed; memory first
};
Course ask(std::uint64_t for_ns, const std::function<bool(std::uint64_t)>& memory_wins) {
  NonTemporalTrials trials;
  Course course;
  bool believed = false;
  for (std::uint64_t now = 0; now < for_ns; now += 1'000'000) {
    const bool before =
        std::exchange(believed, trials.memory_is_better(second + now, [&] { return ++course.measured, memory_wins(now); }));
    if (believed != before) course.turned_ns.push_back(now);
  }
  return course;
}

TEST(NonTemporalTrials, BelieveMemoryThatWinsAgainAndAgain) {
  const Course course = ask(150 * second, [](std::uint64_t) { return true; });
  EXPECT_THAT(course.turned_ns, ElementsAre(3 * NonTemporalTrials::kApartNs));
  EXPECT_EQ(course.measured, NonTemporalTrials::kInARow + 2) << "and now and then afterwards";
}

TEST(NonTemporalTrials, BelieveTheCacheWithoutALossOfTime) {
  const Course course = ask(150 * second, [](std::uint64_t) { return false; });
  EXPECT_THAT(course.turned_ns, IsEmpty());
  EXPECT_EQ(course.measured, 3);
}

TEST(NonTemporalTrials, DoNotMindMomentsOfEitherKind) {
  const Course busy = ask(200 * second, [](std::uint64_t at) { return at < 50'000'000; });
  EXPECT_THAT(busy.turned_ns, IsEmpty()) << "a twentieth of a second is nothing to go by";
  const Course lucky = ask(500 * second, [n = 0](std::uint64_t at) mutable { return at < second || ++n % 2 == 0; });
  EXPECT_EQ(lucky.turned_ns.size(), 1u) << "nor is it later";
}

TEST(NonTemporalTrials, HearOfWhatHasChangedForGood) {
  const Course course = ask(400 * second, [](std::uint64_t at) { return at >= 100 * second && at < 200 * second; });
  ASSERT_EQ(course.turned_ns.size(), 2u);
  EXPECT_GE(course.turned_ns[0], 100 * second);
  EXPECT_LE(course.turned_ns[0], 100 * second + NonTemporalTrials::kAgainNs + second);
  EXPECT_GE(course.turned_ns[1], 200 * second);
  EXPECT_LE(course.turned_ns[1], 200 * second + NonTemporalTrials::kAgainNs + second);
}

TEST(NonTemporalTrials, AreMadeByOneThreadAtATimeAndKeepNobodyWaiting) {
  NonTemporalTrials trials;
  std::atomic<bool> measuring{false};
  std::atomic<int> others{0};
  std::thread measurer([&] {
    trials.memory_is_better(0, [&] {
      measuring = true;
      const Deadline deadline = Deadline::in(20 * second);
      while (others < 100 && !deadline.passed()) std::this_thread::yield();
      return true;
    });
  });
  while (!measuring) std::this_thread::yield();
  for (int i = 0; i < 100; ++i, ++others) {
    EXPECT_FALSE(trials.memory_is_better(second, [] {
      ADD_FAILURE() << "two at a time";
      return true;
    }));
  }
  measurer.join();
}

}  // namespace
}  // namespace tutti
