// Central reduce: the root gets everybody's share, and folds them in rank order in one sweep.
//
//     every other rank  ─→  root        x_0 + x_1 + … + x_{p−1}
//
// One wait; for small messages and few ranks. Time α + (p−1)mβ + (p−1)mγ, and the taking of p−1 messages.
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/arithmetic.h"
#include "algorithms/operands.h"

namespace tutti {
namespace central_reduce_detail {

Shape shape(const Problem& problem, const View&, const Parameters&) {
  return {
      .chunks = 1, .lanes = 1, .scratch_blocks = blocks_of_taken(problem), .message_cells = cells_of_message(problem, 1)};
}

void build(Builder& builder, const View&, const Parameters&) {
  const LaneBuilder lane = builder.lane(0);
  const int root = builder.problem().root;
  if (builder.rank() != root) return lane.move({own_operands(builder, 0)}, {lane.to(root)});
  lane.complete(taken_operands(builder, lane, 0, 0), std::vector{output(0)});
}

Cost cost(const Problem& problem, const View&) {
  const double others = problem.ranks - 1;
  const double edges = tree_messages(problem);
  const double bytes = others * problem.local_operands;
  return {.alphas = 1,
          .betas = bytes,
          .gammas = bytes,
          .messages = edges,
          .sent = edges * problem.local_operands,
          .posted = others - 1};
}

}  // namespace central_reduce_detail

const Algorithm central_reduce = {"central",
                                  Collective::reduce,
                                  "everybody sends to the root, which sums at once; one wait",
                                  always_fits,
                                  central_reduce_detail::shape,
                                  central_reduce_detail::build,
                                  central_reduce_detail::cost,
                                  nullptr,
                                  false,
                                  true,
                                  true};

}  // namespace tutti
