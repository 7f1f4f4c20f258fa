#include "src/schedule/lowering.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/schedules.h"

namespace tutti::testing {
namespace {

// The copies that let go of the input, in place, and a sum that a leaf only hands on.
TEST(OnlyOffered, FindsTheScratchThatNoStepReads) {
  std::set<std::string> some;
  for (const Algorithm* algorithm : all_algorithms()) {
    const Schedule schedule = make_schedule(*algorithm, 8, 0);
    for (int rank = 0; rank < 8; ++rank) {
      const Program& program = schedule.programs[static_cast<std::size_t>(rank)];
      const std::vector<std::uint8_t> offered = only_offered(schedule.plan, rank, program);
      ASSERT_EQ(offered.size(), program.operands.size());
      if (std::count(offered.begin(), offered.end(), 1) != 0) {
        some.insert(std::string(name_of(algorithm->collective)) + " " + algorithm->name);
      }
    }
  }
  EXPECT_EQ(some, (std::set<std::string>{"all_reduce flat", "all_reduce recursive_doubling", "all_to_all pairwise",
                                         "all_to_all bruck", "barrier dissemination", "reduce reduce_scatter_gather"}));
}

}  // namespace
}  // namespace tutti::testing
