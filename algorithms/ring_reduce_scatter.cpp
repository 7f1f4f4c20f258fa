// Ring reduce-scatter: each block travels round, adding up, and is complete where it belongs.
//
//     r+1 ─→ r+2 ─→ … ─→ r−1 ─→ r        block r starts at r+1
//
// Everybody sends before it receives: room for two messages on each link. Time (p−1)(α + mβ + mγ): the least bytes.
#include "algorithms/algorithms.h"
#include "algorithms/phases.h"
#include "algorithms/rings.h"

namespace tutti {
namespace ring_reduce_scatter_detail {

Shape shape(const Problem&, const View&, const Parameters&) {
  return {.chunks = 1, .lanes = 1, .credit = 2, .message_cells = 1};
}

void build(Builder& builder, const View& view, const Parameters&) {
  const LaneBuilder lane = builder.lane(0);
  const RankRing order(view);
  const auto block = [&order](std::uint32_t share) {
    return input(block_range(static_cast<std::uint32_t>(order.rank(static_cast<int>(share)))));
  };
  const Ring ring = order.ring(builder.rank(), 0);
  reduce_scatter_round(lane, ring, block, output(0), SumState::complete);
}

Cost cost(const Problem& problem, const View&) {
  const double others = problem.ranks - 1;
  return {.alphas = others, .betas = others, .gammas = others, .pattern = CommunicationPattern::ring};
}

}  // namespace ring_reduce_scatter_detail

const Algorithm ring_reduce_scatter = {"ring",
                                       Collective::reduce_scatter,
                                       "blocks add up around the ring; one neighbour each, latency grows with the ranks",
                                       always_fits,
                                       ring_reduce_scatter_detail::shape,
                                       ring_reduce_scatter_detail::build,
                                       ring_reduce_scatter_detail::cost,
                                       around_ring_order,
                                       true};

}  // namespace tutti
