#include "src/communicator/streaming.h"

#include <gtest/gtest.h>

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

TEST(Streaming, WhatIsMeasuredIsMeasuredOnceForAllThreads) {
  const StreamingBounds bounds = streaming_bounds(cache_sizes(), 1);
  EXPECT_FALSE(past_caches(0, 1));
  EXPECT_FALSE(past_caches(bounds.never_below - 1, 1));
  EXPECT_TRUE(past_caches(bounds.always_from, 1));
  std::vector<int> answers(4, -1);
  std::vector<std::thread> threads;
  for (int& answer : answers) {
    threads.emplace_back([&] { answer = past_caches(bounds.never_below, 1) ? 1 : 0; });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int answer : answers) EXPECT_EQ(answer, past_caches(bounds.always_from - 1, 1) ? 1 : 0);
}

}  // namespace
}  // namespace tutti
