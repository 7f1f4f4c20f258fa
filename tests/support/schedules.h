// Building and proving schedules in tests.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "algorithms/algorithm.h"
#include "src/schedule/text.h"
#include "src/schedule/verifier.h"
#include "tests/support/views.h"
#include "topology/view.h"

namespace tutti::testing {

/// The schedule of an algorithm on ranks in these places. count: elements of a block.
inline Schedule make_schedule(const Algorithm& algorithm, const View& view, int root, std::uint64_t count = 1000,
                              std::uint64_t slot_bytes = 1 << 16, const Parameters& parameters = {}) {
  Problem problem;
  problem.collective = algorithm.collective;
  problem.ranks = view.ranks();
  problem.root = root;
  problem.count = count;
  Schedule schedule{make_plan(algorithm, problem, view, parameters, slot_bytes), {}};
  for (int rank = 0; rank < view.ranks(); ++rank) {
    schedule.programs.push_back(make_program(algorithm, schedule.plan, view, rank));
  }
  return schedule;
}

/// An irregular plan of an algorithm, which does not know its counts.
inline Schedule make_irregular_schedule(const Algorithm& algorithm, const View& view, int root, std::uint64_t slot_bytes) {
  Problem problem;
  problem.collective = algorithm.collective;
  problem.irregular = true;
  problem.ranks = view.ranks();
  problem.root = root;
  problem.count = 1;
  Schedule schedule{make_plan(algorithm, problem, view, {}, slot_bytes), {}};
  for (int rank = 0; rank < view.ranks(); ++rank) {
    schedule.programs.push_back(make_program(algorithm, schedule.plan, view, rank));
  }
  return schedule;
}

/// The same in the places that usual_view gives; ranks_fit says whether it gives any.
inline Schedule make_schedule(const Algorithm& algorithm, int ranks, int root, std::uint64_t count = 1000,
                              std::uint64_t slot_bytes = 1 << 16, const Parameters& parameters = {}) {
  return make_schedule(algorithm, usual_view(algorithm, ranks).value(), root, count, slot_bytes, parameters);
}

/// A schedule with the smallest windows there are, and a count that takes a few passes, the last one short.
inline Schedule make_small_schedule(const Algorithm& algorithm, const View& view, int root, std::mt19937_64& random) {
  const std::uint64_t window = make_schedule(algorithm, view, root, 1, 1).plan.window;
  const std::uint64_t passes = random() % 4;
  return make_schedule(algorithm, view, root, passes * window + 1 + random() % window, 1);
}

/// "all_reduce ring, 5 ranks, root 0".
inline std::string describe(const Algorithm& algorithm, int ranks, int root) {
  return std::string(name_of(algorithm.collective)) + " " + algorithm.name + ", " + std::to_string(ranks) +
         " ranks, root " + std::to_string(root);
}

/// Whether the algorithm takes so many ranks in some places.
inline bool ranks_fit(const Algorithm& algorithm, int ranks) { return usual_view(algorithm, ranks).has_value(); }

/// Roots that the algorithm's collective may have; 0 where it does not take so many ranks.
inline int roots_of(const Algorithm& algorithm, int ranks) {
  return !ranks_fit(algorithm, ranks) ? 0 : rooted(algorithm.collective) ? ranks : 1;
}

/// Empty where the schedule is proved, else the verifier's sentence after the schedule's name.
inline std::string unproved(const Algorithm& algorithm, const View& view, int root, const Parameters& parameters = {}) {
  const Schedule schedule = make_schedule(algorithm, view, root, 1000, 1 << 16, parameters);
  const Verdict verdict = verify(schedule.plan, schedule.programs);
  return verdict.proved() ? std::string{} : describe(algorithm, view.ranks(), root) + ": " + verdict.fault.text();
}

}  // namespace tutti::testing
