// Mutants of every algorithm's fused programs: what the verifier says, and what the referee saw.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "tests/support/mutate.h"
#include "tests/support/referee.h"
#include "tests/support/schedules.h"

namespace tutti::testing {

/// How many mutants ended how.
struct MutantCounts {
  int rejected = 0;        ///< by the verifier
  int shown_wrong = 0;     ///< of these, the referee's first runs saw wrong data, a deadlock or an overrun
  int equivalent = 0;      ///< accepted, and right in all runs of the referee
  int accepted_wrong = 0;  ///< must be 0

  void add(const MutantCounts& other) {
    rejected += other.rejected;
    shown_wrong += other.shown_wrong;
    equivalent += other.equivalent;
    accepted_wrong += other.accepted_wrong;
  }
  void print(const char* name) const {
    std::printf("%-36s %7d rejected (%d seen to go wrong), %5d accepted and equivalent, %d accepted and wrong\n", name,
                rejected, shown_wrong, equivalent, accepted_wrong);
  }
};

/// One run of the referee, all ways of carrying messages and of being called taking turns.
inline std::string play(const Schedule& schedule, int run, std::mt19937_64& random) {
  const double in_place[] = {0, 1, 0.5};
  const double pulled[] = {1, 0, 0.5, 1};
  const double put[] = {0, 1, 0.5, 0};
  const std::uint32_t credit = schedule.plan.shape.credit + (run % 5 == 4 ? 2 : 0);
  return referee(schedule, {schedule.plan.problem.count, credit, in_place[run % 3], pulled[run % 4], put[run / 2 % 4]},
                 random);
}

/// Makes `mutants` mutants of one schedule. runs: of the referee for each that is accepted; those rejected get two.
inline MutantCounts try_mutants(const Algorithm& algorithm, int ranks, int mutants, int runs, std::mt19937_64& random) {
  MutantCounts counts;
  const std::vector<View> views = views_of(algorithm, ranks);
  if (views.empty()) return counts;
  const int root = rooted(algorithm.collective) ? static_cast<int>(random() % static_cast<unsigned>(ranks)) : 0;
  const Schedule original = make_small_schedule(algorithm, views[random() % views.size()], root, random);
  for (int m = 0; m < mutants; ++m) {
    Schedule mutant = original;
    const std::string what = mutate(mutant, random);
    const Verdict verdict = verify(mutant.plan, mutant.programs);
    if (!verdict.proved()) {
      ++counts.rejected;
      counts.shown_wrong += play(mutant, 0, random).empty() && play(mutant, 1, random).empty() ? 0 : 1;
      continue;
    }
    std::string wrong;
    for (int run = 0; run < runs && wrong.empty(); ++run) wrong = play(mutant, run, random);
    ++(wrong.empty() ? counts.equivalent : counts.accepted_wrong);
    EXPECT_EQ(wrong, "") << describe(algorithm, ranks, root) << ", count " << mutant.plan.problem.count << ", mutant " << m
                         << " (" << what << ") was proved";
  }
  return counts;
}

}  // namespace tutti::testing
