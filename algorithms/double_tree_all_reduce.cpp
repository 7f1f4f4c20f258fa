// Double-tree all-reduce: two binary trees, each for half of the chunks. Who is inner in one is a leaf in the other, so
// that all ranks send and receive alike and the bytes are the ring's at a tree's latency.
//
//     tree 0        0          tree 1: its mirror image for even p (3 2 1 0), shifted by one for odd p
//                   │
//                   2          up and down as in tree_all_reduce.cpp, on lanes of each tree's own
//                  ╱ ╲
//                 1   3
//
// Sanders, Speck & Träff 2009; NCCL's. In tree 1 of an odd number of ranks folds are in rank order but for a rotation.
// Time (√(2mβ) + √(4hα))² at the best number of pieces; (2h+n−1)α + (2h+2(n−1))/n·mβ + 2(h+n−1)/n·mγ for n of them.
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/trees.h"

namespace tutti {
namespace double_tree_all_reduce_detail {

constexpr std::uint32_t pieces_per_tree = 2;

int levels(int p) { return log2_ceil(p) + 1; }

Shape shape(const Problem& problem, const View&, const Parameters& parameters) {
  const std::uint32_t round_trip = 2 * static_cast<std::uint32_t>(levels(problem.ranks));
  return {.chunks = 2 * pieces_per_tree, .lanes = 4, .depth = or_default(parameters.depth, round_trip), .message_cells = 1};
}

void build_tree(Builder& builder, bool second) {
  const int p = builder.ranks();
  const BinaryNode node = binary_node(double_tree_position(builder.rank(), p, second), p);
  const LaneBuilder climb = builder.lane(second ? 2 : 0);
  const LaneBuilder descend = builder.lane(second ? 3 : 1);
  // Mirrored, what is left of a position has the higher ranks.
  const bool mirrored = second && p % 2 == 0;
  const int lower = mirrored ? node.right : node.left;
  const int upper = mirrored ? node.left : node.right;
  const auto rank = [&](int position) { return double_tree_rank(position, p, second); };
  for (std::uint32_t c = second ? pieces_per_tree : 0; c < (second ? 2 : 1) * pieces_per_tree; ++c) {
    std::vector<Ref> sources;
    std::vector<Ref> destinations{output(c)};
    if (lower >= 0) sources.push_back(climb.from(rank(lower)));
    sources.push_back(input(c));
    if (upper >= 0) sources.push_back(climb.from(rank(upper)));
    for (const int child : {lower, upper}) {
      if (child >= 0) destinations.push_back(descend.to(rank(child)));
    }
    if (node.parent < 0) {
      climb.complete(sources, destinations);
    } else {
      climb.move(sources, std::vector{climb.to(rank(node.parent))});
      descend.move(std::vector{descend.from(rank(node.parent))}, destinations);
    }
  }
}

void build(Builder& builder, const View&, const Parameters&) {
  build_tree(builder, false);
  build_tree(builder, true);
}

Cost cost(const Problem& problem, const View&) {
  const double h = levels(problem.ranks);
  const double n = pieces(problem, 2 * pieces_per_tree);
  return {2 * h + n - 1, (2 * h + 2 * (n - 1)) / n, 2 * (h + n - 1) / n, 2 * n * tree_messages(problem),
          2 * tree_messages(problem)};
}

}  // namespace double_tree_all_reduce_detail

const Algorithm double_tree_all_reduce = {"double_tree",
                                          Collective::all_reduce,
                                          "two trees in a pipeline, each for half; few waits and twice the bytes",
                                          always_fits,
                                          double_tree_all_reduce_detail::shape,
                                          double_tree_all_reduce_detail::build,
                                          double_tree_all_reduce_detail::cost};

}  // namespace tutti
