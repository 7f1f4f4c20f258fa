// Direct scatter: the root sends everybody its block.
//
//     root's input block q  →  q          for every rank q but the root, from root + 1 on
//
// Time α + (p−1)mβ, and the posting of p−1 messages.
#include "algorithms/algorithms.h"
#include "algorithms/arithmetic.h"

namespace tutti {
namespace direct_scatter_detail {

Shape shape(const Problem&, const View&, const Parameters&) { return {.chunks = 1, .lanes = 1, .message_cells = 1}; }

void build(Builder& builder, const View&, const Parameters&) {
  const LaneBuilder lane = builder.lane(0);
  const int p = builder.ranks();
  const int root = builder.problem().root;
  if (builder.rank() != root) {
    lane.move({lane.from(root)}, {output(0)});
    return;
  }
  for (int i = 1; i < p; ++i) lane.move({input(block_range(wrap(root + i, p)))}, {lane.to(wrap_rank(root + i, p))});
  lane.move({input(block_range(wrap(root, p)))}, {output(0)});
}

Cost cost(const Problem& problem, const View&) {
  const double others = problem.ranks - 1;
  const double edges = tree_messages(problem);
  return {.alphas = 1, .betas = others, .messages = edges, .sent = edges, .posted = others - 1};
}

}  // namespace direct_scatter_detail

const Algorithm direct_scatter = {"direct",
                                  Collective::scatter,
                                  "the root sends to everybody; one wait",
                                  always_fits,
                                  direct_scatter_detail::shape,
                                  direct_scatter_detail::build,
                                  direct_scatter_detail::cost,
                                  nullptr,
                                  true};

}  // namespace tutti
