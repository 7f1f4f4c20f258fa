// Every algorithm on real numbers, in random orders: what the verifier proves, seen from outside.
#include "tests/support/referee.h"

#include <gtest/gtest.h>

#include "tests/support/schedules.h"

namespace tutti::testing {
namespace {

TEST(Referee, FindsEveryAlgorithmRightInAnyOrder) {
  std::mt19937_64 random(7);
  for (const Algorithm* algorithm : all_algorithms()) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      for (const View& view : views_of(*algorithm, ranks)) {
        for (int run = 0; run < 6; ++run) {
          const int root = rooted(algorithm->collective) ? static_cast<int>(random() % static_cast<unsigned>(ranks)) : 0;
          const Schedule schedule = make_small_schedule(*algorithm, view, root, random);
          const Match match{schedule.plan.problem.count, schedule.plan.shape.credit + static_cast<std::uint32_t>(run % 2),
                            0.5 * (run % 3), run % 2 == 0 ? 1.0 : 0.4, run < 3 ? 0.0 : 0.7};
          ASSERT_EQ(referee(schedule, match, random), "") << describe(*algorithm, ranks, root) << ", count " << match.count;
        }
      }
    }
  }
}

TEST(Referee, FindsEveryVVariantRightWithBlocksOfAnyLengths) {
  std::mt19937_64 random(17);
  int matches = 0;
  for (const Algorithm* algorithm : all_algorithms()) {
    if (info_of(algorithm->collective).v_variant == nullptr) continue;
    for (int ranks = 1; ranks <= 9; ++ranks) {
      for (const View& view : views_of(*algorithm, ranks)) {
        const int root = rooted(algorithm->collective) ? static_cast<int>(random() % static_cast<unsigned>(ranks)) : 0;
        const Schedule schedule = make_irregular_schedule(*algorithm, view, root, 1);
        const bool proved = verify(schedule.plan, schedule.programs).proved();
        ASSERT_TRUE(proved || !algorithm->irregular) << describe(*algorithm, ranks, root);
        if (!proved) continue;
        const std::uint64_t window = schedule.plan.window;
        std::vector<BlockCounts> all;
        for (int i = 0; i < 8; ++i) all.push_back(some_counts(ranks, window, random));
        for (const BlockDivision division : block_divisions) {
          all.push_back(divided_counts(division, ranks, window + random() % window));
        }
        for (std::size_t run = 0; run < all.size(); ++run, ++matches) {
          const Match match{0,
                            schedule.plan.shape.credit + static_cast<std::uint32_t>(run % 2),
                            0.5 * (run % 3),
                            0.5,
                            run < 3 ? 0.0 : 0.7,
                            &all[run]};
          ASSERT_EQ(referee(schedule, match, random), "") << describe(*algorithm, ranks, root) << ", run " << run;
        }
      }
    }
  }
  EXPECT_GT(matches, 500);
}

}  // namespace
}  // namespace tutti::testing
