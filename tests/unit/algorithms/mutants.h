// Mutants of every algorithm's fused programs: what the verifier says, and what the referee saw.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <random>
#include <string>

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
  int for_lengths = 0;     ///< rejected v-variants whose programs are proved for equal blocks

  void add(const MutantCounts& other) {
    rejected += other.rejected;
    shown_wrong += other.shown_wrong;
    equivalent += other.equivalent;
    accepted_wrong += other.accepted_wrong;
    for_lengths += other.for_lengths;
  }
  void print(const char* name) const {
    std::printf("%-36s %7d rejected (%d seen to go wrong), %5d accepted and equivalent, %d accepted and wrong\n", name,
                rejected, shown_wrong, equivalent, accepted_wrong);
    if (for_lengths != 0) std::printf("%36s %7d rejected for their lengths alone\n", "", for_lengths);
  }
};

/// Counts of blocks for a run of the referee: an even, skewed, zeros or one division, or any.
inline BlockCounts drawn_counts(const Plan& plan, std::mt19937_64& random) {
  const std::size_t kind = random() % (block_divisions.size() + 2);
  if (kind >= block_divisions.size()) return some_counts(plan.problem.ranks, plan.window, random);
  return divided_counts(block_divisions[kind], plan.problem.ranks, 1 + random() % (2 * plan.window));
}

/// One run of the referee, all ways of carrying messages and of being called taking turns.
inline std::string play(const Schedule& schedule, int run, std::mt19937_64& random) {
  const double in_place[] = {0, 1, 0.5};
  const double pulled[] = {1, 0, 0.5, 1};
  const double put[] = {0, 1, 0.5, 0};
  const std::uint32_t credit = schedule.plan.shape.credit + (run % 5 == 4 ? 2 : 0);
  Match match{schedule.plan.problem.count, credit, in_place[run % 3], pulled[run % 4], put[run / 2 % 4]};
  if (!schedule.plan.problem.irregular) return referee(schedule, match, random);
  const BlockCounts counts = drawn_counts(schedule.plan, random);
  match.counts = &counts;
  return referee(schedule, match, random);
}

/// Whether a schedule of a v-variant is proved for blocks of one count.
inline bool proved_for_equal_blocks(Schedule schedule) {
  schedule.plan.problem.irregular = false;
  return verify(schedule.plan, schedule.programs).proved();
}

/// Makes `mutants` mutants of a schedule. runs: of the referee for each that is accepted; those rejected get two.
inline MutantCounts try_mutants(const Schedule& original, const std::string& name, int mutants, int runs,
                                std::mt19937_64& random) {
  MutantCounts counts;
  const bool irregular = original.plan.problem.irregular;
  for (int m = 0; m < mutants; ++m) {
    Schedule mutant = original;
    std::string what = mutate(mutant, random);
    // A wrong length does no harm before somebody reads what has it.
    for (std::size_t chance = irregular ? random() % 4 : 0; chance > 1; --chance) what += "; " + mutate(mutant, random);
    const Verdict verdict = verify(mutant.plan, mutant.programs);
    if (!verdict.proved()) {
      ++counts.rejected;
      counts.for_lengths += irregular && proved_for_equal_blocks(mutant) ? 1 : 0;
      counts.shown_wrong += play(mutant, 0, random).empty() && play(mutant, 1, random).empty() ? 0 : 1;
      continue;
    }
    std::string wrong;
    for (int run = 0; run < runs && wrong.empty(); ++run) wrong = play(mutant, run, random);
    ++(wrong.empty() ? counts.equivalent : counts.accepted_wrong);
    EXPECT_EQ(wrong, "") << name << ", count " << mutant.plan.problem.count << ", mutant " << m << " (" << what
                         << ") was proved";
  }
  return counts;
}

inline int any_root(const Algorithm& algorithm, int ranks, std::mt19937_64& random) {
  return rooted(algorithm.collective) ? static_cast<int>(random() % static_cast<unsigned>(ranks)) : 0;
}

/// The same of an algorithm, in some places.
inline MutantCounts try_mutants(const Algorithm& algorithm, int ranks, int mutants, int runs, std::mt19937_64& random) {
  const std::vector<View> views = views_of(algorithm, ranks);
  if (views.empty()) return {};
  const int root = any_root(algorithm, ranks, random);
  const Schedule original = make_small_schedule(algorithm, views[random() % views.size()], root, random);
  return try_mutants(original, describe(algorithm, ranks, root), mutants, runs, random);
}

/// The same of its v-variant, where that is proved. Mutants may use more scratch than the algorithm does.
inline MutantCounts try_v_mutants(const Algorithm& algorithm, int ranks, int mutants, int runs, std::mt19937_64& random) {
  const std::vector<View> views = views_of(algorithm, ranks);
  if (views.empty()) return {};
  const int root = any_root(algorithm, ranks, random);
  // In the smallest windows chunks begin in the same places whatever a block's length.
  const std::uint64_t slot_bytes = random() % 2 == 0 ? 1 : 2048;
  Schedule original = make_irregular_schedule(algorithm, views[random() % views.size()], root, slot_bytes);
  original.plan.shape.scratch_blocks += 4;
  if (!verify(original.plan, original.programs).proved()) return {};
  return try_mutants(original, describe(algorithm, ranks, root) + ", v-variant", mutants, runs, random);
}

/// An all_gather_v whose blocks go through two blocks of scratch in turn, by two lanes that wait for each other; a third
/// has chunks of one block, one by one. No algorithm uses scratch so.
inline Schedule make_staged_schedule(int ranks) {
  std::string text = "schedule all_gather_v staged\nranks " + std::to_string(ranks) +
                     " root 0 count 1 type float32 op sum\nlanes 2 depth 2 credit 2 chunks 2 scratch 4 message 2\n"
                     "window 256 grain 32 hash 0\n";
  for (int r = 0; r < ranks; ++r) {
    const std::string own = "output[" + std::to_string(r) + ";";
    std::string links, sends, takes, reads;
    for (int i = 1; i < ranks; ++i) {
      const std::string peer = std::to_string((r + i) % ranks), slot = "scratch[" + std::to_string(i % 2) + ";0+2]";
      links += " to:" + peer + ".0 from:" + peer + ".0";
      sends += " to:" + peer + ".0[0;0+2]";
      takes += std::to_string(i) + " recv from:" + peer + ".0[0;0+2] -> output[" + peer + ";0+2] " + slot +
               (i > 2 ? " after 1." + std::to_string(i - 3 + 4) : std::string()) + "\n";
      reads +=
          std::to_string(i - 1 + 4) + " copy " + slot + " -> output[" + peer + ";0+2] after 0." + std::to_string(i) + "\n";
    }
    text += "rank " + std::to_string(r) + "\nlinks" + links +
            "\nlane 0\n0 send input[0;0+2] -> scratch[3;0+2] scratch[0;0+2]" + sends + "\n" + takes +
            "lane 1\n0 copy input[0;1] -> scratch[2;1]\n1 copy input[0;0] -> scratch[2;0]\n" + "2 copy scratch[2;0] -> " +
            own + "0] after 0.0\n3 copy scratch[2;1] -> " + own + "1]\n" + reads;
  }
  return parse_schedule(text).value();
}

}  // namespace tutti::testing
