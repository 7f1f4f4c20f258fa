// The whole proof: every algorithm, ranks 1 to 64 with all roots, and 20 random rank counts up to 1,024 with three random
// roots each. Prints how many plans were proved, and how long it took.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <random>

#include "tests/support/schedules.h"

namespace tutti::testing {
namespace {

class Clock {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

TEST(AllProofs, HoldForEveryRootUpTo64Ranks) {
  const Clock clock;
  int plans = 0;
  for (const Algorithm* algorithm : all_algorithms()) {
    for (int ranks = 1; ranks <= 64; ++ranks) {
      for (int root = 0; root < roots_of(*algorithm, ranks); ++root, ++plans) ASSERT_EQ(unproved(*algorithm, ranks, root), "");
    }
  }
  std::printf("ranks 1-64, every root: %d plans proved in %.1f s\n", plans, clock.seconds());
}

TEST(AllProofs, HoldForRandomRankCountsUpTo1024) {
  const Clock clock;
  std::mt19937 random(20240607);
  int plans = 0;
  for (int i = 0; i < 20; ++i) {
    const int ranks = i == 0 ? 1024 : std::uniform_int_distribution(65, 1024)(random);
    for (const Algorithm* algorithm : all_algorithms()) {
      for (int r = 0; r < std::min(3, roots_of(*algorithm, ranks)); ++r, ++plans) {
        const int root = rooted(algorithm->collective) ? std::uniform_int_distribution(0, ranks - 1)(random) : 0;
        ASSERT_EQ(unproved(*algorithm, ranks, root), "");
      }
    }
    std::printf("%d ranks: %d plans so far, %.1f s\n", ranks, plans, clock.seconds());
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace tutti::testing
