#include "src/communicator/streaming.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace tutti {
namespace {

TEST(Streaming, WhatACoreKeepsIsNotStreamedAndTheSharedCacheCountsForAQuarter) {
  const StreamingBounds bounds = streaming_bounds({.l1d = 48u << 10, .l2 = 1u << 20, .l3 = 96u << 20});
  EXPECT_EQ(bounds.never_below, 1u << 20);
  EXPECT_EQ(bounds.always_from, 24u << 20);
}

TEST(Streaming, ALittleSharedCacheDoesNotCount) {
  const StreamingBounds bounds = streaming_bounds({.l1d = 48u << 10, .l2 = 2u << 20, .l3 = 8u << 20, .l2_sharers = 2});
  EXPECT_EQ(bounds.never_below, 1u << 20);
  EXPECT_EQ(bounds.always_from, 8u << 20);
}

TEST(Streaming, UnknownCachesHaveBoundsToo) {
  const StreamingBounds bounds = streaming_bounds({});
  EXPECT_GT(bounds.never_below, 0u);
  EXPECT_GT(bounds.always_from, bounds.never_below);
}

TEST(Streaming, WhatIsMeasuredIsMeasuredOnceForAllThreads) {
  const StreamingBounds bounds = streaming_bounds(cache_sizes());
  EXPECT_FALSE(past_caches(0));
  EXPECT_FALSE(past_caches(bounds.never_below - 1));
  EXPECT_TRUE(past_caches(bounds.always_from));
  std::vector<int> answers(4, -1);
  std::vector<std::thread> threads;
  for (int& answer : answers) {
    threads.emplace_back([&] { answer = past_caches(bounds.never_below) ? 1 : 0; });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int answer : answers) EXPECT_EQ(answer, past_caches(bounds.always_from - 1) ? 1 : 0);
}

}  // namespace
}  // namespace tutti
