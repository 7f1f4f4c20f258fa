// Hierarchical reduce-scatter: blocks add up inside the machine first, so that few bytes leave it.
//
//     machine 0     0 ─ 1 ─ 2        inside      rank 1 sums the machine's shares of the blocks of 1 and 4
//                   │   │   │        across      1 and 4 swap and add: one block each
//     machine 1     3 ─ 4 ─ 5
//
// Rings at every level, each a lane. A message holds the blocks of a share; they have to lie regularly. Time for g ranks on
// each of n machines (g−1)αᵢ + (g−1)n·mβᵢ + (n−1)αₒ + (n−1)mβₒ + (p−1)mγ.
#include "algorithms/algorithms.h"
#include "algorithms/hierarchies.h"

namespace tutti {
namespace hierarchical_reduce_scatter_detail {

Shape shape(const Problem& problem, const View& view, const Parameters& parameters) {
  const Grid grid = hierarchy_of(view);
  const auto lanes = static_cast<std::uint32_t>(grid.size());
  const auto left = static_cast<std::uint32_t>(problem.ranks / grid[0].size);
  return {.chunks = 1,
          .lanes = lanes,
          .depth = or_default(parameters.depth, lanes),
          .credit = 2,
          .scratch_blocks = left,
          .message_cells = left};
}

void build(Builder& builder, const View& view, const Parameters&) {
  const Grid grid = hierarchy_of(view);
  const GridTraversal tour{grid, builder.rank(), dimensions_from(grid, 0)};
  reduce_scatter_over(tour, *block_axes(grid), 0,
                      [&](int level) { return builder.lane(static_cast<std::uint32_t>(level)); });
}

Cost cost(const Problem& problem, const View& view) {
  Cost cost = levels_blocks_cost(problem, view);
  cost.gammas = problem.ranks - 1.0;
  return cost;
}

}  // namespace hierarchical_reduce_scatter_detail

const Algorithm hierarchical_reduce_scatter = {"hierarchical",
                                               Collective::reduce_scatter,
                                               "blocks add up inside, then across; the least bytes between machines",
                                               regular_levels,
                                               hierarchical_reduce_scatter_detail::shape,
                                               hierarchical_reduce_scatter_detail::build,
                                               hierarchical_reduce_scatter_detail::cost};

}  // namespace tutti
