// Tree all-reduce: sums climb a binary tree, the result comes down it, in a pipeline of chunks.
//
//          0                 up (lane 0):    x_left… + x_own + x_right…  →  parent
//          │                 down (lane 1):  parent  →  output, left, right
//          4
//        ╱   ╲               Subtrees are intervals of ranks, so every sum is in rank order.
//       2     6
//      ╱ ╲   ╱ ╲
//     1   3 5   7
//
// Up and down are lanes of their own, so that later passes climb while earlier ones come down. No memory but the output.
// An inner rank sends and receives every chunk three times, h = ⌈log₂ p⌉ + 1 levels: time about
// (2h+n−1)α + (2h+3(n−1))/n·mβ + 2(h+n−1)/n·mγ for n chunks.
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/trees.h"

namespace tutti {
namespace tree_all_reduce_detail {

constexpr std::uint32_t pieces_per_window = 4;
constexpr std::uint32_t up = 0;
constexpr std::uint32_t down = 1;

int levels(int p) { return log2_ceil(p) + 1; }

Shape shape(const Problem& problem, const View&, const Parameters& parameters) {
  const std::uint32_t round_trip = 2 * static_cast<std::uint32_t>(levels(problem.ranks));
  return {.chunks = pieces_per_window, .lanes = 2, .depth = or_default(parameters.depth, round_trip), .message_cells = 1};
}

void build(Builder& builder, const View&, const Parameters&) {
  const BinaryNode node = binary_node(builder.rank(), builder.ranks());
  const LaneBuilder climb = builder.lane(up);
  const LaneBuilder descend = builder.lane(down);  // at the root, only the name of its links
  for (std::uint32_t c = 0; c < pieces_per_window; ++c) {
    std::vector<Ref> sources;
    std::vector<Ref> destinations{output(c)};
    if (node.left >= 0) sources.push_back(climb.from(node.left));
    sources.push_back(input(c));
    if (node.right >= 0) sources.push_back(climb.from(node.right));
    for (const int child : {node.left, node.right}) {
      if (child >= 0) destinations.push_back(descend.to(child));
    }
    if (node.parent < 0) {
      climb.complete(sources, destinations);
    } else {
      climb.move(sources, std::vector{climb.to(node.parent)});
      descend.move(std::vector{descend.from(node.parent)}, destinations);
    }
  }
}

Cost cost(const Problem& problem, const View&) {
  const double h = levels(problem.ranks);
  const double n = pieces(problem, pieces_per_window);
  return {2 * h + n - 1, (2 * h + 3 * (n - 1)) / n, 2 * (h + n - 1) / n, 2 * n * tree_messages(problem),
          2 * tree_messages(problem)};
}

}  // namespace tree_all_reduce_detail

const Algorithm tree_all_reduce = {"tree",
                                   Collective::all_reduce,
                                   "up and down a binary tree in a pipeline; few waits, three times the bytes",
                                   always_fits,
                                   tree_all_reduce_detail::shape,
                                   tree_all_reduce_detail::build,
                                   tree_all_reduce_detail::cost};

}  // namespace tutti
