// Building and proving schedules in tests.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "algorithms/algorithm.h"
#include "src/schedule/text.h"
#include "src/schedule/verifier.h"
#include "topology/view.h"

namespace tutti::testing {

/// The schedule of an algorithm. count: elements of a block.
inline Schedule make_schedule(const Algorithm& algorithm, int ranks, int root, std::uint64_t count = 1000,
                              std::uint64_t slot_bytes = 1 << 16, const Parameters& parameters = {}) {
  Problem problem;
  problem.collective = algorithm.collective;
  problem.ranks = ranks;
  problem.root = root;
  problem.count = count;
  const View view = flat_view(ranks);
  Schedule schedule{make_plan(algorithm, problem, view, parameters, slot_bytes), {}};
  for (int rank = 0; rank < ranks; ++rank) schedule.programs.push_back(make_program(algorithm, schedule.plan, view, rank));
  return schedule;
}

/// A schedule with the smallest windows there are, and a count that takes a few passes, the last one short.
inline Schedule make_small_schedule(const Algorithm& algorithm, int ranks, int root, std::mt19937_64& random) {
  const std::uint64_t window = make_schedule(algorithm, ranks, root, 1, 1).plan.window;
  const std::uint64_t passes = random() % 4;
  return make_schedule(algorithm, ranks, root, passes * window + 1 + random() % window, 1);
}

/// "all_reduce ring, 5 ranks, root 0".
inline std::string describe(const Algorithm& algorithm, int ranks, int root) {
  return std::string(name_of(algorithm.collective)) + " " + algorithm.name + ", " + std::to_string(ranks) +
         " ranks, root " + std::to_string(root);
}

/// Roots that the algorithm's collective may have.
inline int roots_of(const Algorithm& algorithm, int ranks) { return rooted(algorithm.collective) ? ranks : 1; }

/// Empty where the schedule is proved, else the verifier's sentence after the schedule's name.
inline std::string unproved(const Algorithm& algorithm, int ranks, int root, const Parameters& parameters = {}) {
  const Schedule schedule = make_schedule(algorithm, ranks, root, 1000, 1 << 16, parameters);
  const Verdict verdict = verify(schedule.plan, schedule.programs);
  return verdict.proved() ? std::string{} : describe(algorithm, ranks, root) + ": " + verdict.fault.text();
}

}  // namespace tutti::testing
