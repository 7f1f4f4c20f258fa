// Bruck all-gather: in round j everybody gets, from the rank 2^j above, as many blocks as it has.
//
//     rank 0 has  0                    blocks of a rank are always an interval [r, r + n), around the end
//     round 0     0 1                  ← from 1
//     round 1     0 1 2 3              ← from 2
//     round 2     0 1 2 3 4 5 6        ← from 4; for p = 7 the last round moves the rest
//
// Blocks go straight to their place in the output: no rotation at the end. Any p. Bruck et al. 1997.
// Time hα + (p−1)mβ, h = ⌈log₂ p⌉.
#include <algorithm>

#include "algorithms/algorithms.h"
#include "algorithms/trees.h"

namespace tutti {
namespace bruck_all_gather_detail {

Shape shape(const Problem& problem, const View&, const Parameters&) {
  return {
      .chunks = 1, .lanes = 1, .credit = 1, .message_cells = static_cast<std::uint32_t>(binomial_widest(problem.ranks))};
}

void build(Builder& builder, const View&, const Parameters&) {
  const LaneBuilder lane = builder.lane(0);
  const int p = builder.ranks();
  const int rank = builder.rank();
  lane.move({input(0)}, {output(block_range(wrap(rank, p)))});
  for (int distance = 1; distance < p; distance *= 2) {
    const auto blocks = static_cast<std::uint32_t>(std::min(distance, p - distance));
    lane.move({output(block_range(wrap(rank, p), blocks))}, {lane.to(wrap_rank(rank - distance, p))});
    lane.move({lane.from(wrap_rank(rank + distance, p))}, {output(block_range(wrap(rank + distance, p), blocks))});
  }
}

Cost cost(const Problem& problem, const View&) {
  return {static_cast<double>(log2_ceil(problem.ranks)), problem.ranks - 1.0, 0};
}

}  // namespace bruck_all_gather_detail

const Algorithm bruck_all_gather = {"bruck",
                                    Collective::all_gather,
                                    "twice as many blocks each round; the fewest waits",
                                    always_fits,
                                    bruck_all_gather_detail::shape,
                                    bruck_all_gather_detail::build,
                                    bruck_all_gather_detail::cost,
                                    around_a_ring};

}  // namespace tutti
