// Dissemination barrier: in round j everybody tells the rank 2^j above all that it has heard of.
//
//     round 0     r ─→ r+1
//     round 1     r ─→ r+2         after ⌈log₂ p⌉ rounds everybody has heard of everybody
//     round 2     r ─→ r+4
//
// What is said is one byte of scratch, folded by max; block 0 holds what was heard, and copies of it, from where a peer may
// pull, are sent. Hensgen, Finkel & Manber 1988. Time hα, h = ⌈log₂ p⌉.
#include "algorithms/algorithms.h"
#include "algorithms/arithmetic.h"

namespace tutti {
namespace {

Shape shape(const Problem&, const View&, const Parameters&) {
  return {.chunks = 1, .lanes = 1, .scratch_blocks = 3, .message_cells = 1};
}

void build(Builder& builder, const View&, const Parameters&) {
  const LaneBuilder lane = builder.lane(0);
  const int p = builder.ranks();
  const int rank = builder.rank();
  const Ref heard = scratch(0);
  for (int distance = 1, round = 0; distance < p; distance *= 2, ++round) {
    const Ref said = scratch(block_range(1 + static_cast<std::uint32_t>(round % 2)));
    lane.move({heard}, {said, lane.to(wrap_rank(rank + distance, p))});
    lane.move({heard, lane.from(wrap_rank(rank - distance, p))}, {heard});
  }
}

Cost cost(const Problem& problem, const View&) { return {static_cast<double>(log2_ceil(problem.ranks)), 0, 0}; }

}  // namespace

const Algorithm dissemination_barrier = {"dissemination",
                                         Collective::barrier,
                                         "hearsay, twice as far each round; the fewest waits",
                                         always_fits,
                                         shape,
                                         build,
                                         cost,
                                         around_a_ring};

}  // namespace tutti
