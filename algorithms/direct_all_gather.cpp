// Direct all-gather: everybody publishes its block to everybody.
//
//     send (lane 0)    x  →  output, every other rank, in one sweep
//     take (lane 1)    q  →  output block q              for every other rank q
//
// Two lanes, so that the next pass is published while this one is taken. Time α + (p−1)mβ, and the posting of p−1 messages.
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/arithmetic.h"

namespace tutti {
namespace direct_all_gather_detail {

Shape shape(const Problem&, const View&, const Parameters& parameters) {
  return {.chunks = 1, .lanes = 2, .depth = or_default(parameters.depth, 2), .message_cells = 1};
}

void build(Builder& builder, const View&, const Parameters&) {
  const LaneBuilder send = builder.lane(0);
  const LaneBuilder take = builder.lane(1);
  const int p = builder.ranks();
  const int rank = builder.rank();
  std::vector<Ref> destinations{output(block_range(wrap(rank, p)))};
  for (int i = 1; i < p; ++i) destinations.push_back(send.to(wrap_rank(rank + i, p)));
  send.move(std::vector{input(0)}, destinations);
  for (int i = 1; i < p; ++i) {
    const int peer = wrap_rank(rank - i, p);
    take.move({take.from(peer, 0)}, {output(block_range(wrap(peer, p)))});
  }
}

Cost cost(const Problem& problem, const View&) {
  const double others = problem.ranks - 1;
  return {.alphas = 1, .betas = others, .messages = others, .posted = others - 1};
}

}  // namespace direct_all_gather_detail

const Algorithm direct_all_gather = {"direct",
                                     Collective::all_gather,
                                     "everybody sends its block to everybody; one wait",
                                     always_fits,
                                     direct_all_gather_detail::shape,
                                     direct_all_gather_detail::build,
                                     direct_all_gather_detail::cost,
                                     around_a_ring,
                                     true};

}  // namespace tutti
