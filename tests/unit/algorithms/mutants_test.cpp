// A few mutants of everything; all_mutants.cpp tries more.
#include "tests/unit/algorithms/mutants.h"

namespace tutti::testing {
namespace {

TEST(Mutants, AreRejectedOrDoNoHarm) {
  std::mt19937_64 random(1);
  MutantCounts all;
  for (const Algorithm* algorithm : all_algorithms()) {
    for (int ranks = 2; ranks <= 9; ++ranks) all.add(try_mutants(*algorithm, ranks, 12, 12, random));
  }
  all.print("all algorithms");
  EXPECT_EQ(all.accepted_wrong, 0);
  EXPECT_GT(all.rejected, 20 * all.equivalent / 10);
}

}  // namespace
}  // namespace tutti::testing
