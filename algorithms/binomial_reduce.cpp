// Binomial-tree reduce: the mirror image of binomial_broadcast.cpp. Every rank folds its own share with its children's sums
// in one sweep, in the order of positions, and sends the sum to its parent.
//
//              0               position 0 is the root
//          ╱   │  ╲
//         1    2    4          x_v + sum of v+1 + sum of v+2,v+3 + sum of v+4 … v+7 + …  →  parent
//              │   ╱ ╲
//              3  5   6
//                     │
//                     7
//
// Time h(α + mβ + mγ), h = ⌈log₂ p⌉.
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/trees.h"

namespace tutti {
namespace binomial_reduce_detail {

Shape shape(const Problem&, const View&, const Parameters&) { return {.chunks = 1, .lanes = 1, .message_cells = 1}; }

void build(Builder& builder, const View&, const Parameters&) {
  const LaneBuilder lane = builder.lane(0);
  const Rooted tree{builder.problem().root, builder.ranks()};
  const int position = tree.position(builder.rank());
  std::vector<Ref> sources{input(0)};
  for (const int child : binomial_children(position, tree.p)) sources.push_back(lane.from(tree.rank(child)));
  if (position == 0) {
    lane.complete(sources, std::vector{output(0)});
  } else {
    lane.move(sources, std::vector{lane.to(tree.rank(binomial_parent(position)))});
  }
}

Cost cost(const Problem& problem, const View&) {
  const double h = log2_ceil(problem.ranks);
  return {h, h, h, tree_messages(problem), tree_messages(problem)};
}

}  // namespace binomial_reduce_detail

const Algorithm binomial_reduce = {"binomial",
                                   Collective::reduce,
                                   "up a binomial tree; the fewest waits",
                                   always_fits,
                                   binomial_reduce_detail::shape,
                                   binomial_reduce_detail::build,
                                   binomial_reduce_detail::cost};

}  // namespace tutti
