// Ring all-gather: every rank hands its block round.
//
//     0 ─→ 1 ─→ 2 ─→ … ─→ p−1 ─→ 0        rank r sends blocks r, r−1, r−2, …
//
// Time (p−1)(α + mβ): the least bytes.
#include "algorithms/algorithms.h"
#include "algorithms/phases.h"
#include "algorithms/rings.h"

namespace tutti {
namespace ring_all_gather_detail {

Shape shape(const Problem&, const View&, const Parameters&) {
  return {.chunks = 1, .lanes = 1, .credit = 2, .message_cells = 1};
}

void build(Builder& builder, const View& view, const Parameters&) {
  const LaneBuilder lane = builder.lane(0);
  const RankRing order(view);
  const auto block = [&order](std::uint32_t share) {
    return output(block_range(static_cast<std::uint32_t>(order.rank(static_cast<int>(share)))));
  };
  const Ring ring = order.ring(builder.rank(), 0);
  lane.move({input(0)}, {block(ring.after(0)), lane.to(ring.next)});
  all_gather_round(lane, ring, block, OwnedShare::forward);
}

Cost cost(const Problem& problem, const View&) {
  const double others = problem.ranks - 1;
  return {.alphas = others, .betas = others, .pattern = CommunicationPattern::ring};
}

}  // namespace ring_all_gather_detail

const Algorithm ring_all_gather = {"ring",
                                   Collective::all_gather,
                                   "blocks travel around the ring; one neighbour each, latency grows with the ranks",
                                   always_fits,
                                   ring_all_gather_detail::shape,
                                   ring_all_gather_detail::build,
                                   ring_all_gather_detail::cost,
                                   around_ring_order,
                                   true};

}  // namespace tutti
