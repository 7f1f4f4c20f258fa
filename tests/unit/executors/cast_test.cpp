// Ranks that share a part, and what algorithms claim about their symmetry.
#include "src/executors/simulator/cast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "algorithms/algorithms.h"
#include "tests/support/schedules.h"

namespace tutti::testing {
namespace {

/// The cast of an algorithm's schedule, by its own claim or another.
Cast cast(const Algorithm& algorithm, const Plan& plan, const std::vector<int>& symmetry) {
  const View view = flat_view(plan.problem.ranks);
  return cast_of(plan, [&](int rank) { return make_program(algorithm, plan, view, rank); }, symmetry);
}

Plan plan_of(const Algorithm& algorithm, int ranks, std::uint64_t count) {
  Problem problem;
  problem.collective = algorithm.collective;
  problem.ranks = ranks;
  problem.count = algorithm.collective == Collective::barrier ? 1 : count;
  return make_plan(algorithm, problem, flat_view(ranks), {}, 1 << 16);
}

TEST(Zz, Explore) {
  for (const Algorithm* algorithm : all_algorithms()) {
    bool ring = true, bits = true;
    for (const int ranks : {2, 4, 8, 16, 64, 3, 5, 6, 12, 33}) {
      const Plan plan = plan_of(*algorithm, ranks, 32ull * 64 * 64 * 33 * 5*3);
      if (cast(*algorithm, plan, around_a_ring(plan.problem, {})).programs_looked_at != 0 && cast(*algorithm, plan, {ranks}).parts.size() != 1) ring = false;
      if ((ranks & (ranks - 1)) == 0 && cast(*algorithm, plan, bit_by_bit(plan.problem, {})).parts.size() != 1) bits = false;
    }
    printf("%s %s parts==1 ring %d bits %d\n", name_of(algorithm->collective), algorithm->name, ring, bits);
  }
}

}  // namespace
}  // namespace tutti::testing
