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

}  // namespace
}  // namespace tutti::testing
