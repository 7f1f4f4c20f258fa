// Ranks that share a class, and what algorithms claim about their symmetry.
#include "src/executors/simulator/program_classes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "algorithms/algorithms.h"
#include "src/executors/simulator/simulator.h"
#include "tests/support/schedules.h"

namespace tutti::testing {
namespace {

Plan plan_of(const Algorithm& algorithm, const View& view, std::uint64_t count) {
  Problem problem;
  problem.collective = algorithm.collective;
  problem.ranks = view.ranks();
  problem.count = algorithm.collective == Collective::barrier ? 1 : count;
  return make_plan(algorithm, problem, view, {}, 1 << 16);
}

ProgramClasses program_classes(const Algorithm& algorithm, const Plan& plan, const View& view,
                               const std::vector<int>& symmetry) {
  return classify_programs(plan, [&](int rank) { return make_program(algorithm, plan, view, rank); }, symmetry);
}

/// A count that makes all chunks of the algorithm's plan alike, and takes two passes of it and a bit.
std::uint64_t count_alike(const Algorithm& algorithm, const View& view) {
  const Plan plan = plan_of(algorithm, view, 1);
  return 2 * plan.window + even_count(plan);
}

std::vector<View> views() {
  std::vector<View> views;
  for (int ranks = 2; ranks <= 64; ++ranks) views.push_back(flat_view(ranks));
  for (const std::vector<std::int32_t>& sizes :
       std::vector<std::vector<std::int32_t>>{{8}, {2, 2}, {2, 3}, {4, 4}, {8, 8}, {2, 2, 2}, {4, 4, 4}, {3, 1, 5}}) {
    int ranks = 1;
    for (const std::int32_t size : sizes) ranks *= size;
    views.push_back(flat_view(ranks));
    views.back().torus = sizes;
  }
  return views;
}

// Up to 64 ranks every program is compared, so that a claim which holds here is one about the algorithm.
TEST(ProgramClasses, FindsEveryClaimOfSymmetryTrueForUpTo64Ranks) {
  int claims = 0;
  for (const View& view : views()) {
    for (const Algorithm* algorithm : all_algorithms()) {
      Problem problem;
      problem.collective = algorithm->collective;
      problem.ranks = view.ranks();
      if (algorithm->symmetry == nullptr || !algorithm->fits(problem, view)) continue;
      const std::vector<int> symmetry = algorithm->symmetry(problem, view);
      if (symmetry.empty()) continue;
      const Plan plan = plan_of(*algorithm, view, count_alike(*algorithm, view));
      const ProgramClasses one = program_classes(*algorithm, plan, view, symmetry);
      EXPECT_TRUE(one.by_symmetry) << describe(*algorithm, view.ranks(), 0);
      EXPECT_EQ(one.programs_looked_at, static_cast<std::uint64_t>(view.ranks())) << describe(*algorithm, view.ranks(), 0);
      ++claims;
    }
  }
  EXPECT_GT(claims, 500);
}

// Whoever has a class has its program but for peers and places, which links and their order do not change.
TEST(ProgramClasses, GivesARankItsOwnPeersInItsPartsOrder) {
  for (const char* name : {"ring", "double_tree", "halving_doubling"}) {
    const Algorithm* algorithm = find_algorithm(Collective::all_reduce, name);
    const View view = flat_view(13);
    const Plan plan = plan_of(*algorithm, view, 5000);
    const ProgramClasses found = program_classes(*algorithm, plan, view, {});
    EXPECT_FALSE(found.by_symmetry);
    for (int r = 0; r < 13; ++r) {
      const Program own = make_program(*algorithm, plan, view, r);
      std::vector<std::int32_t> expected, actual(found.peers_of(r).begin(), found.peers_of(r).end());
      for (const Link& link : own.links) expected.push_back(link.peer);
      EXPECT_THAT(actual, ::testing::UnorderedElementsAreArray(expected)) << name << " " << r;
      EXPECT_EQ(found.program(r).steps.size(), own.steps.size());
    }
  }
}

TEST(ProgramClasses, DoesNotBelieveAClaimThatDoesNotHold) {
  const View view = flat_view(16);
  const Plan plan = plan_of(double_tree_all_reduce, view, 32 * 4);
  const ProgramClasses found = program_classes(double_tree_all_reduce, plan, view, {16});
  EXPECT_FALSE(found.by_symmetry);
  EXPECT_GT(found.programs.size(), 1u);
  // Nor where peers are others than the claim says, though all programs look alike.
  const Plan halving = plan_of(halving_doubling_all_reduce, view, 32 * 16);
  EXPECT_TRUE(program_classes(halving_doubling_all_reduce, halving, view, {2, 2, 2, 2}).by_symmetry);
  EXPECT_FALSE(program_classes(halving_doubling_all_reduce, halving, view, {16}).by_symmetry);
  EXPECT_FALSE(program_classes(halving_doubling_all_reduce, halving, view, {2, 2, 2}).by_symmetry);
}

TEST(ProgramClasses, DoesNotBelieveAClaimWhereChunksDiffer) {
  const View view = flat_view(8);
  EXPECT_TRUE(program_classes(ring_all_reduce, plan_of(ring_all_reduce, view, 32 * 8), view, {8}).by_symmetry);
  const ProgramClasses uneven = program_classes(ring_all_reduce, plan_of(ring_all_reduce, view, 32 * 8 - 1), view, {8});
  EXPECT_FALSE(uneven.by_symmetry);
  EXPECT_EQ(uneven.programs.size(), 8u);
}

}  // namespace
}  // namespace tutti::testing
