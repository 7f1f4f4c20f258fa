// Direct all-reduce: every rank owns one chunk, gets everybody's share of it, folds once, and hands the sum to all.
//
//     send (lane 0)     x_q  →  q                          for every other rank q
//     fold (lane 1)     x^0 + x^1 + … + x^{p−1}  →  output, every other rank       in rank order, in one sweep
//     take (lane 2)     q  →  output                       for every other rank q
//
// Three lanes, so that the next pass's shares travel while this one's sums do. The ring's bytes in two waits, and floats of
// 8 and 16 bits are rounded once. Time 2α + 2(p−1)/p·mβ + (p−1)/p·mγ, and the posting of 2(p−1) messages.
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/arithmetic.h"
#include "algorithms/operands.h"

namespace tutti {
namespace direct_all_reduce_detail {

Shape shape(const Problem& problem, const View&, const Parameters& parameters) {
  return {.chunks = static_cast<std::uint32_t>(problem.ranks),
          .lanes = 3,
          .depth = or_default(parameters.depth, 2),
          .scratch_blocks = blocks_of_taken(problem),
          .message_cells = cells_of_message(problem, static_cast<std::uint32_t>(problem.ranks))};
}

void build(Builder& builder, const View&, const Parameters&) {
  const LaneBuilder send = builder.lane(0);
  const LaneBuilder fold = builder.lane(1);
  const LaneBuilder take = builder.lane(2);
  const int p = builder.ranks();
  const int rank = builder.rank();
  const std::uint32_t own = static_cast<std::uint32_t>(rank);
  std::vector<Ref> results{output(own)};
  for (int i = 1; i < p; ++i) {
    const int peer = wrap_rank(rank + i, p);
    send.move({own_operands(builder, static_cast<std::uint32_t>(peer))}, {send.to(peer)});
    results.push_back(take.to(peer));
  }
  fold.complete(taken_operands(builder, fold, send.index(), own), results);
  for (int i = 1; i < p; ++i) {
    const int peer = wrap_rank(rank - i, p);
    take.move({take.from(peer)}, {output(static_cast<std::uint32_t>(peer))});
  }
}

Cost cost(const Problem& problem, const View&) {
  const double p = problem.ranks;
  const double messages = 2 * filled(problem, problem.ranks) * (p - 1) / p;
  const double shares = problem.shares;
  return {.alphas = 2,
          .betas = (shares + 1) * (p - 1) / p,
          .gammas = shares * (p - 1) / p,
          .messages = messages,
          .posted = 2 * (p - 2)};
}

}  // namespace direct_all_reduce_detail

const Algorithm direct_all_reduce = {"direct",
                                     Collective::all_reduce,
                                     "two exchanges with everybody; the least bytes in two waits",
                                     always_fits,
                                     direct_all_reduce_detail::shape,
                                     direct_all_reduce_detail::build,
                                     direct_all_reduce_detail::cost,
                                     nullptr,
                                     false,
                                     true};

}  // namespace tutti
