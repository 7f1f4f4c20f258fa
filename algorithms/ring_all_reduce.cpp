// Ring all-reduce. Chunks travel around the ring twice: first adding up, then, complete, being handed out.
//
//     message 0      1              p−1                     2p−2
//     x_c at c  →  +x_{c+1}  → …  → complete at c−1 → …  → everybody has it
//
// Every link carries 2(p−1)/p of the buffer, the least that any algorithm can (Patarasuk & Yuan 2009).
// Time 2(p−1)α + 2(p−1)/p·mβ + (p−1)/p·mγ. Several lanes run as many rings over a share of the chunks each.
// Everybody sends before it receives, all around the ring: that takes room for two messages on each link.
#include "algorithms/algorithms.h"
#include "algorithms/phases.h"
#include "algorithms/rings.h"

namespace tutti {
namespace ring_all_reduce_detail {

Shape shape(const Problem& problem, const View&, const Parameters& parameters) {
  const std::uint32_t lanes = parameters.lanes != 0 ? parameters.lanes : 1;
  return {.chunks = static_cast<std::uint32_t>(problem.ranks) * lanes, .lanes = lanes, .credit = 2, .message_cells = 1};
}

void build_lane(const LaneBuilder& lane, const Ring& ring) {
  const std::uint32_t count = static_cast<std::uint32_t>(ring.size);
  const Part part{lane.index() * count, count};
  const auto in = [&](std::uint32_t share) { return part.share(share, count).in(); };
  const auto out = [&](std::uint32_t share) { return part.share(share, count).out(); };
  reduce_scatter_round(lane, ring, in, out(ring.after(0)), SumState::complete, OwnedShare::forward);
  all_gather_round(lane, ring, out, OwnedShare::forward);
}

void build(Builder& builder, const View& view, const Parameters&) {
  const Ring ring = RankRing(view).ring(builder.rank(), 1);
  for (std::uint32_t l = 0; l < builder.shape().lanes; ++l) build_lane(builder.lane(l), ring);
}

Cost cost(const Problem& problem, const View&) {
  const double p = problem.ranks;
  const double messages = 2 * filled(problem, problem.ranks) * (p - 1) / p;
  return {.alphas = 2 * (p - 1),
          .betas = 2 * (p - 1) / p,
          .gammas = (p - 1) / p,
          .messages = messages,
          .pattern = CommunicationPattern::ring};
}

}  // namespace ring_all_reduce_detail

const Algorithm ring_all_reduce = {"ring",
                                   Collective::all_reduce,
                                   "chunks travel around the ring twice; the least bytes, latency grows with the ranks",
                                   always_fits,
                                   ring_all_reduce_detail::shape,
                                   ring_all_reduce_detail::build,
                                   ring_all_reduce_detail::cost,
                                   around_ring_order};

}  // namespace tutti
