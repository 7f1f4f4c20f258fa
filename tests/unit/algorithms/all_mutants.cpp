// At least a thousand mutants of each algorithm at 2 to 9 ranks. Prints the counts.
#include "tests/unit/algorithms/mutants.h"

namespace tutti::testing {
namespace {

TEST(AllMutants, AreRejectedOrDoNoHarm) {
  constexpr int least = 1200;  // of each algorithm, over all the rank counts that it takes
  std::mt19937_64 random(2024);
  MutantCounts all;
  for (const Algorithm* algorithm : all_algorithms()) {
    MutantCounts counts;
    int taken = 0;
    for (int ranks = 2; ranks <= 9; ++ranks) taken += ranks_fit(*algorithm, ranks) ? 1 : 0;
    for (int ranks = 2; ranks <= 9; ++ranks) counts.add(try_mutants(*algorithm, ranks, least / taken, 24, random));
    counts.print((std::string(name_of(algorithm->collective)) + " " + algorithm->name).c_str());
    std::fflush(stdout);
    all.add(counts);
  }
  all.print("all algorithms");
  EXPECT_EQ(all.accepted_wrong, 0);
}

}  // namespace
}  // namespace tutti::testing
