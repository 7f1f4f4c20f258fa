// Direct reduce-scatter: everybody sends everybody its share, and folds what it gets once, in rank order.
//
//     send (lane 0)    x_q  →  q                                  for every other rank q
//     fold (lane 1)    x^0 + x^1 + … + x^{p−1}  →  output         floats of 8 and 16 bits are rounded once
//
// Two lanes, so that the next pass's shares travel while this one is folded. Time α + (p−1)mβ + (p−1)mγ, and the posting of
// p−1 messages.
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/arithmetic.h"

namespace tutti {
namespace direct_reduce_scatter_detail {

Shape shape(const Problem&, const View&, const Parameters& parameters) {
  return {.chunks = 1, .lanes = 2, .depth = or_default(parameters.depth, 2), .message_cells = 1};
}

void build(Builder& builder, const View&, const Parameters&) {
  const LaneBuilder send = builder.lane(0);
  const LaneBuilder fold = builder.lane(1);
  const int p = builder.ranks();
  const int rank = builder.rank();
  for (int i = 1; i < p; ++i) {
    const int peer = wrap_rank(rank + i, p);
    send.move({input(block_range(wrap(peer, p)))}, {send.to(peer)});
  }
  std::vector<Ref> shares;
  for (int r = 0; r < p; ++r) shares.push_back(r == rank ? input(block_range(wrap(r, p))) : fold.from(r, 0));
  fold.complete(shares, std::vector{output(0)});
}

Cost cost(const Problem& problem, const View&) {
  const double others = problem.ranks - 1;
  return {.alphas = 1, .betas = others, .gammas = others, .messages = others, .posted = others - 1};
}

}  // namespace direct_reduce_scatter_detail

const Algorithm direct_reduce_scatter = {"direct",
                                         Collective::reduce_scatter,
                                         "everybody sends everybody its share; one wait",
                                         always_fits,
                                         direct_reduce_scatter_detail::shape,
                                         direct_reduce_scatter_detail::build,
                                         direct_reduce_scatter_detail::cost,
                                         nullptr,
                                         true,
                                         true};

}  // namespace tutti
