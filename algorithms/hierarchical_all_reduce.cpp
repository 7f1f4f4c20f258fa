// Hierarchical all-reduce: reduce-scatter inside, all-reduce across, all-gather inside, for any number of levels (NUMA
// node, machine, rack).
//
//     machine 0     0 ─ 1 ─ 2        inside      0 → share 0, 1 → share 1, 2 → share 2, of the machine's sums
//                   │   │   │        across      ranks with the same share, each share on links of its own (multi-rail)
//     machine 1     3 ─ 4 ─ 5        inside      shares are handed round
//
// Rings at every level, so each level carries the least bytes, and the slow links only 1/g of them a rank. Each phase is a
// lane: while one pass is summed across, the next is summed inside. Groups come from the view, wherever ranks are; unequal
// machines are refused (leaders_all_reduce.cpp takes them). Jia et al. 2018, Cho et al. 2019 (BlueConnect).
// Time for g ranks on each of n machines 2(g−1)αᵢ + 2(g−1)/g·mβᵢ + 2(n−1)αₒ + 2(n−1)/n·(m/g)βₒ + (p−1)/p·mγ in one pass;
// in many the levels overlap.
#include "algorithms/algorithms.h"
#include "algorithms/hierarchies.h"

namespace tutti {
namespace hierarchical_all_reduce_detail {

Shape shape(const Problem& problem, const View& view, const Parameters& parameters) {
  const Grid grid = hierarchy_of(view);
  const auto ranks = static_cast<std::uint32_t>(problem.ranks);
  const auto inside = static_cast<std::uint32_t>(grid[0].size);
  const auto lanes = static_cast<std::uint32_t>(2 * grid.size() - 1);
  return {.chunks = ranks,
          .lanes = lanes,
          .depth = or_default(parameters.depth, lanes),
          .credit = 2,
          .message_cells = ranks / inside * shortening(problem, inside)};
}

void build(Builder& builder, const View& view, const Parameters&) {
  const Grid grid = hierarchy_of(view);
  const GridTraversal tour{grid, builder.rank(), dimensions_from(grid, 0)};
  const int last = grid.size() - 1;
  all_reduce_over(
      tour, {0, builder.shape().chunks}, [&](int level) { return builder.lane(static_cast<std::uint32_t>(level)); },
      [&](int level) { return builder.lane(static_cast<std::uint32_t>(2 * last - level)); });
}

Cost cost(const Problem& problem, const View& view) {
  Cost cost{.pattern = CommunicationPattern::ring};
  double share = 1;
  const Grid grid = hierarchy_of(view);
  for (const GridDimension& level : grid.dimensions()) {
    cost[level.link].alphas += 2 * (level.size - 1);
    cost[level.link].betas += 2 * share * (level.size - 1) / level.size;
    share /= level.size;
  }
  cost.gammas = (problem.ranks - 1.0) / problem.ranks;
  return cost;
}

}  // namespace hierarchical_all_reduce_detail

const Algorithm hierarchical_all_reduce = {
    "hierarchical",
    Collective::all_reduce,
    "scattered inside, summed across, gathered inside; the least bytes between machines, on every rank's link",
    several_levels,
    hierarchical_all_reduce_detail::shape,
    hierarchical_all_reduce_detail::build,
    hierarchical_all_reduce_detail::cost};

}  // namespace tutti
