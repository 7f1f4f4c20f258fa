// Binomial-tree broadcast: who has it hands it on, to ever nearer positions.
//
//              0               position 0 is the root
//          ╱   │  ╲
//         1    2    4          one step a rank and pass: parent → output, children (largest subtree first)
//              │   ╱ ╲
//              3  5   6        passes follow each other down the tree
//                     │
//                     7
//
// Time h(α + mβ), h = ⌈log₂ p⌉.
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/trees.h"

namespace tutti {
namespace binomial_broadcast_detail {

Shape shape(const Problem&, const View&, const Parameters&) { return {.chunks = 1, .lanes = 1, .message_cells = 1}; }

void build(Builder& builder, const View&, const Parameters&) {
  const LaneBuilder lane = builder.lane(0);
  const Rooted tree{builder.problem().root, builder.ranks()};
  const int position = tree.position(builder.rank());
  const std::vector<int> children = binomial_children(position, tree.p);
  std::vector<Ref> destinations{output(0)};
  for (auto child = children.rbegin(); child != children.rend(); ++child)
    destinations.push_back(lane.to(tree.rank(*child)));
  lane.move(std::vector{position == 0 ? input(0) : lane.from(tree.rank(binomial_parent(position)))}, destinations);
}

Cost cost(const Problem& problem, const View&) {
  const double h = log2_ceil(problem.ranks);
  return {h, h, 0, tree_messages(problem), tree_messages(problem)};
}

}  // namespace binomial_broadcast_detail

const Algorithm binomial_broadcast = {"binomial",
                                      Collective::broadcast,
                                      "down a binomial tree; the fewest waits",
                                      always_fits,
                                      binomial_broadcast_detail::shape,
                                      binomial_broadcast_detail::build,
                                      binomial_broadcast_detail::cost};

}  // namespace tutti
