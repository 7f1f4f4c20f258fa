// The search for an all-reduce of one machine: trees and rings packed by linear programming, made into schedules of some
// numbers of chunks and lengths of messages, of which the simulator says what is quickest.
#pragma once

#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/schedule/text.h"
#include "topology/network.h"
#include "topology/view.h"

namespace tutti::synthesis {

/// Ranks that a synthesis takes: column generation is exact beyond, but cuts and trees grow too many to be called a search.
inline constexpr int most_ranks = 8;

/// A schedule that was simulated.
struct Contender {
  std::string name;  ///< the algorithm's
  std::string how;   ///< its parameters, for people: "24 chunks of 65536 bytes, 13 pairs of trees"
  double seconds = 0;
};

struct Synthesis {
  Schedule schedule;             ///< the quickest of those made here, proved
  Contender winner;              ///< the same
  std::vector<Contender> made;   ///< the best schedule of each kind made here (trees, rings), quickest first
  std::vector<Contender> named;  ///< the best of each named algorithm, quickest first
  double bytes_per_second = 0;   ///< that packed trees reach with very many bytes, by the linear program
  double limit = 0;              ///< that no algorithm exceeds (any_algorithm_bound)
};

/// Searches for the quickest all-reduce of problem.count elements between the first problem.ranks endpoints of a network.
/// view: their places, for the named algorithms, and γ. Named algorithms are given the same choice of message lengths, and
/// all are simulated with the credit that the library's links have. Deterministic; seconds for 64 MiB.
/// Errors: TUTTI_INVALID_ARGUMENT where there are fewer than 2 ranks or more than most_ranks, no elements, or ranks that do
/// not reach each other; TUTTI_UNSUPPORTED in a build without a solver.
Result<Synthesis> synthesize(const Network& network, const View& view, const Problem& problem);

}  // namespace tutti::synthesis
