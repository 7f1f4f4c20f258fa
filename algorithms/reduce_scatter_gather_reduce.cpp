// Reduce-scatter and gather reduce: a ring sums each position's chunk, and a binomial tree gathers them at the root.
//
//     ring      0 ─→ 1 ─→ 2 ─→ … ─→ p−1 ─→ 0     chunk v starts at v+1, gathers every share, and is complete at v
//     gather    position v collects the chunks of its subtree, [v, v + size), and hands them to its parent
//
// The mirror image of scatter_all_gather_broadcast.cpp. Time (h + p−1)α + 2(p−1)/p·mβ + (p−1)/p·mγ.
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/trees.h"

namespace tutti {
namespace reduce_scatter_gather_reduce_detail {

Shape shape(const Problem& problem, const View&, const Parameters&) {
  return {.chunks = static_cast<std::uint32_t>(problem.ranks),
          .lanes = 1,
          .credit = 2,
          .scratch_blocks = 1,
          .message_cells = static_cast<std::uint32_t>(binomial_widest(problem.ranks))};
}

void build(Builder& builder, const View&, const Parameters&) {
  const LaneBuilder lane = builder.lane(0);
  const Rooted tree{builder.problem().root, builder.ranks()};
  const int p = tree.p;
  const int v = tree.position(builder.rank());
  const Ref next = lane.to(tree.rank(v + 1));
  const Ref previous = lane.from(tree.rank(v - 1));
  lane.move({input(wrap(v - 1, p))}, {next});
  for (int m = 1; m < p - 1; ++m) lane.move({previous, input(wrap(v - 1 - m, p))}, {next});

  const auto part = [&](int position, int chunks) {
    const auto low = static_cast<std::uint32_t>(position);
    return v == 0 ? output(low, static_cast<std::uint32_t>(chunks)) : scratch(low, static_cast<std::uint32_t>(chunks));
  };
  lane.complete({previous, input(wrap(v, p))}, {part(v, 1)});
  for (const int child : binomial_children(v, p))
    lane.move({lane.from(tree.rank(child))}, {part(child, binomial_size(child, p))});
  if (v != 0) lane.move({part(v, binomial_size(v, p))}, {lane.to(tree.rank(binomial_parent(v)))});
}

Cost cost(const Problem& problem, const View&) {
  const double p = problem.ranks;
  const double messages = tree_messages(problem) * (1 + filled(problem, problem.ranks));
  const double h = log2_ceil(problem.ranks);
  return {.alphas = h + p - 1,
          .betas = 2 * (p - 1) / p,
          .gammas = (p - 1) / p,
          .messages = messages,
          .sent = (p - 1 + h / 2) / p,
          .pattern = CommunicationPattern::ring_then_gather};
}

}  // namespace reduce_scatter_gather_reduce_detail

const Algorithm reduce_scatter_gather_reduce = {
    "reduce_scatter_gather",
    Collective::reduce,
    "summed round a ring, then gathered up a tree; twice the bytes, no pipeline to fill",
    always_fits,
    reduce_scatter_gather_reduce_detail::shape,
    reduce_scatter_gather_reduce_detail::build,
    reduce_scatter_gather_reduce_detail::cost};

}  // namespace tutti
