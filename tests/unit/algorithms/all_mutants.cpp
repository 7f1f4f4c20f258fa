// At least a thousand mutants of each algorithm at 2 to 9 ranks, and of each that v-variants are proved by at 2 to 12; with
// TEST_EVERY=n the nth part of them. Prints the counts.
#include "tests/support/sample.h"
#include "tests/unit/algorithms/mutants.h"

namespace tutti::testing {
namespace {

const int least = static_cast<int>(1200 / sample_step());  // of each algorithm, over all the rank counts that it takes

int counts_taken(const Algorithm& algorithm, int most_ranks) {
  int taken = 0;
  for (int ranks = 2; ranks <= most_ranks; ++ranks) taken += ranks_fit(algorithm, ranks) ? 1 : 0;
  return taken;
}

TEST(AllMutants, AreRejectedOrDoNoHarm) {
  std::mt19937_64 random(2024);
  MutantCounts all;
  for (const Algorithm* algorithm : all_algorithms()) {
    MutantCounts counts;
    const int taken = counts_taken(*algorithm, 9);
    for (int ranks = 2; ranks <= 9; ++ranks) counts.add(try_mutants(*algorithm, ranks, least / taken, 24, random));
    counts.print((std::string(name_of(algorithm->collective)) + " " + algorithm->name).c_str());
    std::fflush(stdout);
    all.add(counts);
  }
  all.print("all algorithms");
  EXPECT_EQ(all.accepted_wrong, 0);
}

// From 10 ranks on a pairwise exchange uses its scratch again.
TEST(AllMutants, OfVVariantsAreRejectedOrDoNoHarm) {
  constexpr int most_ranks = 12;
  const int of_each = 3 * least;
  std::mt19937_64 random(34);
  MutantCounts all;
  for (const Algorithm* algorithm : all_algorithms()) {
    if (info_of(algorithm->collective).v_variant == nullptr) continue;
    MutantCounts counts;
    const int taken = counts_taken(*algorithm, most_ranks);
    for (int ranks = 2; ranks <= most_ranks; ++ranks)
      counts.add(try_v_mutants(*algorithm, ranks, of_each / taken, 24, random));
    counts.print((std::string(info_of(algorithm->collective).v_variant) + " " + algorithm->name).c_str());
    std::fflush(stdout);
    EXPECT_TRUE(counts.rejected > 0 || !algorithm->irregular) << algorithm->name;
    all.add(counts);
  }
  MutantCounts staged;
  for (int ranks = 2; ranks <= 6; ++ranks)
    staged.add(try_mutants(make_staged_schedule(ranks), "all_gather_v staged", of_each / 2, 24, random));
  staged.print("all_gather_v through scratch");
  all.add(staged);
  all.print("all v-variants");
  EXPECT_EQ(all.accepted_wrong, 0);
}

}  // namespace
}  // namespace tutti::testing
