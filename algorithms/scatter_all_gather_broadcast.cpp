// Scatter and all-gather broadcast: the root scatters the buffer down a binomial tree, and a ring hands the parts round.
//
//     scatter    position v gets the chunks of its subtree, [v, v + size), and hands its children theirs
//     ring       0 ─→ 1 ─→ 2 ─→ … ─→ p−1     position v sends chunks v, v−1, v−2, …; the root needs none and gets none
//
// Van de Geijn's. Time (h + p−1)α + 2(p−1)/p·mβ.
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/trees.h"

namespace tutti {
namespace scatter_all_gather_broadcast_detail {

Shape shape(const Problem& problem, const View&, const Parameters&) {
  return {.chunks = static_cast<std::uint32_t>(problem.ranks),
          .lanes = 1,
          .message_cells = static_cast<std::uint32_t>(binomial_widest(problem.ranks))};
}

Ref part(int position, int p) {
  return output(static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(binomial_size(position, p)));
}

void build(Builder& builder, const View&, const Parameters&) {
  const LaneBuilder lane = builder.lane(0);
  const Rooted tree{builder.problem().root, builder.ranks()};
  const int p = tree.p;
  const int v = tree.position(builder.rank());
  if (v == 0) {
    lane.move({input(0, builder.shape().chunks)}, {output(0, builder.shape().chunks)});
  } else {
    lane.move({lane.from(tree.rank(binomial_parent(v)))}, {part(v, p)});
  }
  const std::vector<int> children = binomial_children(v, p);
  for (auto child = children.rbegin(); child != children.rend(); ++child)
    lane.move({part(*child, p)}, {lane.to(tree.rank(*child))});
  for (int m = 0; m < p - 1; ++m) {
    if (v + 1 < p) lane.move({output(wrap(v - m, p))}, {lane.to(tree.rank(v + 1))});
    if (v > 0) lane.move({lane.from(tree.rank(v - 1))}, {output(wrap(v - 1 - m, p))});
  }
}

Cost cost(const Problem& problem, const View&) {
  const double p = problem.ranks;
  const double messages = tree_messages(problem) * filled(problem, problem.ranks);  // nobody sends to the root
  const double h = log2_ceil(problem.ranks);
  return {.alphas = h + p - 1,
          .betas = 2 * (p - 1) / p,
          .messages = messages,
          .sent = (h / 2 + (p - 1) * (p - 1) / p) / p,
          .pattern = CommunicationPattern::scatter_then_ring};
}

}  // namespace scatter_all_gather_broadcast_detail

const Algorithm scatter_all_gather_broadcast = {
    "scatter_all_gather",
    Collective::broadcast,
    "scattered down a tree, then handed round a ring; twice the bytes, no pipeline to fill",
    always_fits,
    scatter_all_gather_broadcast_detail::shape,
    scatter_all_gather_broadcast_detail::build,
    scatter_all_gather_broadcast_detail::cost};

}  // namespace tutti
