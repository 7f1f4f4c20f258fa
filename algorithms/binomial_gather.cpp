// Binomial-tree gather: every rank collects the blocks of its subtree and sends them on as one message.
//
//              0               position 0 is the root; subtree of v: [v, v + size)
//          ╱   │  ╲
//         1    2    4          4 sends the blocks of 4 5 6 7
//              │   ╱ ╲
//              3  5   6
//                     │
//                     7
//
// Time hα + (p−1)mβ, h = ⌈log₂ p⌉.
#include "algorithms/algorithms.h"
#include "algorithms/trees.h"

namespace tutti {
namespace binomial_gather_detail {

Shape shape(const Problem& problem, const View&, const Parameters&) {
  const auto widest = static_cast<std::uint32_t>(binomial_widest(problem.ranks));
  return {.chunks = 1, .lanes = 1, .scratch_blocks = widest, .message_cells = widest};
}

void build(Builder& builder, const View&, const Parameters&) {
  const LaneBuilder lane = builder.lane(0);
  const Rooted tree{builder.problem().root, builder.ranks()};
  const int v = tree.position(builder.rank());
  const auto size = [&](int position) { return static_cast<std::uint32_t>(binomial_size(position, tree.p)); };
  const std::vector<int> children = binomial_children(v, tree.p);
  if (v == 0) {
    lane.move({input(0)}, {output(block_range(wrap(tree.root, tree.p)))});
    for (const int child : children) {
      lane.move({lane.from(tree.rank(child))},
                {output(block_range(static_cast<std::uint32_t>(tree.rank(child)), size(child)))});
    }
    return;
  }
  const Ref parent = lane.to(tree.rank(binomial_parent(v)));
  if (children.empty()) {
    lane.move({input(0)}, {parent});
    return;
  }
  lane.move({input(0)}, {scratch(0)});
  for (const int child : children) {
    lane.move({lane.from(tree.rank(child))}, {scratch(block_range(static_cast<std::uint32_t>(child - v), size(child)))});
  }
  lane.move({scratch(block_range(0, size(v)))}, {parent});
}

Cost cost(const Problem& problem, const View&) {
  const double h = log2_ceil(problem.ranks);
  return {h, problem.ranks - 1.0, 0, tree_messages(problem), h / 2};
}

}  // namespace binomial_gather_detail

const Algorithm binomial_gather = {"binomial",
                                   Collective::gather,
                                   "up a binomial tree; the fewest waits",
                                   always_fits,
                                   binomial_gather_detail::shape,
                                   binomial_gather_detail::build,
                                   binomial_gather_detail::cost};

}  // namespace tutti
