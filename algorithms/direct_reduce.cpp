// Direct reduce: every rank folds one chunk of everybody's once, and hands it to the root.
//
//     send (lane 0)    x_q  →  q                                  for every other rank q
//     fold (lane 1)    x^0 + x^1 + … + x^{p−1}  →  root           in rank order, in one sweep
//     take (lane 2)    q  →  output                               at the root, for every other rank q
//
// Twice the bytes of a pipeline, in two waits. Floats of 8 and 16 bits are rounded once. Time 2α + 2(p−1)/p·mβ +
// (p−1)/p·mγ, and the posting of 2(p−1) messages.
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/arithmetic.h"
#include "algorithms/operands.h"

namespace tutti {
namespace direct_reduce_detail {

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
  const int root = builder.problem().root;
  const std::uint32_t own = static_cast<std::uint32_t>(rank);
  for (int i = 1; i < p; ++i) {
    const int peer = wrap_rank(rank + i, p);
    send.move({own_operands(builder, static_cast<std::uint32_t>(peer))}, {send.to(peer)});
  }
  const std::vector<Ref> operands = taken_operands(builder, fold, send.index(), own);
  fold.complete(operands, std::vector{rank == root ? output(own) : take.to(root)});
  if (rank != root) return;
  for (int i = 1; i < p; ++i) {
    const int peer = wrap_rank(rank - i, p);
    take.move({take.from(peer)}, {output(static_cast<std::uint32_t>(peer))});
  }
}

Cost cost(const Problem& problem, const View&) {
  const double p = problem.ranks;
  const double messages = filled(problem, problem.ranks) * (p - 1) / p + tree_messages(problem);
  return {.alphas = 2,
          .betas = (problem.shares + 1) * (p - 1) / p,
          .gammas = problem.shares * (p - 1) / p,
          .messages = messages,
          .sent = (p - 1) / p * (problem.shares + 1 / p),
          .posted = 2 * (p - 2)};
}

}  // namespace direct_reduce_detail

const Algorithm direct_reduce = {"direct",
                                 Collective::reduce,
                                 "everybody sums a part, and hands it to the root; twice the bytes in two waits",
                                 always_fits,
                                 direct_reduce_detail::shape,
                                 direct_reduce_detail::build,
                                 direct_reduce_detail::cost,
                                 nullptr,
                                 false,
                                 true,
                                 true};

}  // namespace tutti
