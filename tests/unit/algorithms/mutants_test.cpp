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

TEST(Mutants, OfVVariantsAreRejectedOrDoNoHarm) {
  std::mt19937_64 random(34);
  MutantCounts all;
  for (const Algorithm* algorithm : all_algorithms()) {
    if (info_of(algorithm->collective).v_variant == nullptr) continue;
    for (int ranks = 2; ranks <= 10; ++ranks) all.add(try_v_mutants(*algorithm, ranks, 12, 12, random));
  }
  for (int ranks = 2; ranks <= 5; ++ranks) {
    const Schedule staged = make_staged_schedule(ranks);
    EXPECT_EQ(verify(staged.plan, staged.programs).fault.text(), "");
    all.add(try_mutants(staged, "all_gather_v staged", 100, 12, random));
  }
  all.print("all v-variants");
  EXPECT_EQ(all.accepted_wrong, 0);
  EXPECT_GT(all.for_lengths, 10);
}

}  // namespace
}  // namespace tutti::testing
