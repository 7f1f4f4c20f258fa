// Direct gather: everybody sends its block to the root.
//
//     q  →  root's output block q         for every rank q but the root, from root + 1 on
//
// Time α + (p−1)mβ, and the taking of p−1 messages.
#include "algorithms/algorithms.h"
#include "algorithms/arithmetic.h"

namespace tutti {
namespace direct_gather_detail {

Shape shape(const Problem&, const View&, const Parameters&) { return {.chunks = 1, .lanes = 1, .message_cells = 1}; }

void build(Builder& builder, const View&, const Parameters&) {
  const LaneBuilder lane = builder.lane(0);
  const int p = builder.ranks();
  const int root = builder.problem().root;
  if (builder.rank() != root) {
    lane.move({input(0)}, {lane.to(root)});
    return;
  }
  lane.move({input(0)}, {output(block_range(wrap(root, p)))});
  for (int i = 1; i < p; ++i) lane.move({lane.from(wrap_rank(root + i, p))}, {output(block_range(wrap(root + i, p)))});
}

Cost cost(const Problem& problem, const View&) {
  const double others = problem.ranks - 1;
  const double edges = tree_messages(problem);
  return {.alphas = 1, .betas = others, .messages = edges, .sent = edges, .posted = others - 1};
}

}  // namespace direct_gather_detail

const Algorithm direct_gather = {"direct",
                                 Collective::gather,
                                 "everybody sends to the root; one wait",
                                 always_fits,
                                 direct_gather_detail::shape,
                                 direct_gather_detail::build,
                                 direct_gather_detail::cost,
                                 nullptr,
                                 true};

}  // namespace tutti
