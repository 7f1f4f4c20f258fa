// Binomial-tree scatter: every rank gets the blocks of its subtree as one message, and hands its children theirs.
//
//              0               position 0 is the root; subtree of v: [v, v + size)
//          ╱   │  ╲
//         1    2    4          4 gets the blocks of 4 5 6 7
//              │   ╱ ╲
//              3  5   6
//                     │
//                     7
//
// Time hα + (p−1)mβ, h = ⌈log₂ p⌉.
#include "algorithms/algorithms.h"
#include "algorithms/trees.h"

namespace tutti {
namespace binomial_scatter_detail {

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
  const auto blocks = [&](int position) {
    return v == 0 ? input(block_range(static_cast<std::uint32_t>(tree.rank(position)), size(position)))
                  : scratch(block_range(static_cast<std::uint32_t>(position - v), size(position)));
  };
  if (v != 0 && children.empty()) {
    lane.move({lane.from(tree.rank(binomial_parent(v)))}, {output(0)});
    return;
  }
  if (v != 0) lane.move({lane.from(tree.rank(binomial_parent(v)))}, {blocks(v)});
  for (auto child = children.rbegin(); child != children.rend(); ++child)
    lane.move({blocks(*child)}, {lane.to(tree.rank(*child))});
  lane.move({v == 0 ? input(block_range(static_cast<std::uint32_t>(tree.root))) : scratch(0)}, {output(0)});
}

Cost cost(const Problem& problem, const View&) {
  const double h = log2_ceil(problem.ranks);
  return {h, problem.ranks - 1.0, 0, tree_messages(problem), h / 2};
}

}  // namespace binomial_scatter_detail

const Algorithm binomial_scatter = {"binomial",
                                    Collective::scatter,
                                    "down a binomial tree; the fewest waits",
                                    always_fits,
                                    binomial_scatter_detail::shape,
                                    binomial_scatter_detail::build,
                                    binomial_scatter_detail::cost};

}  // namespace tutti
