// Hierarchical all-gather: the mirror image of hierarchical_reduce_scatter.cpp. Every rank's own block crosses, then what
// came is handed round inside.
//
//     machine 0     0 ─ 1 ─ 2        across      1 and 4 swap their blocks
//                   │   │   │        inside      blocks 1 and 4 travel together, as 0 and 3, and 2 and 5 do
//     machine 1     3 ─ 4 ─ 5
//
// Rings at every level, each a lane. A message holds the blocks of a share; they have to lie regularly. Time for g ranks on
// each of n machines (n−1)αₒ + (n−1)mβₒ + (g−1)αᵢ + (g−1)n·mβᵢ.
#include "algorithms/algorithms.h"
#include "algorithms/hierarchies.h"

namespace tutti {
namespace hierarchical_all_gather_detail {

Shape shape(const Problem& problem, const View& view, const Parameters& parameters) {
  const Grid grid = hierarchy_of(view);
  const auto lanes = static_cast<std::uint32_t>(grid.size());
  return {.chunks = 1,
          .lanes = lanes,
          .depth = or_default(parameters.depth, lanes),
          .credit = 2,
          .message_cells = static_cast<std::uint32_t>(problem.ranks / grid[0].size)};
}

void build(Builder& builder, const View& view, const Parameters&) {
  const Grid grid = hierarchy_of(view);
  const GridTraversal tour{grid, builder.rank(), dimensions_from(grid, 0)};
  const int last = grid.size() - 1;
  all_gather_over(tour, *block_axes(grid), 0,
                  [&](int level) { return builder.lane(static_cast<std::uint32_t>(last - level)); });
}

}  // namespace hierarchical_all_gather_detail

const Algorithm hierarchical_all_gather = {"hierarchical",
                                           Collective::all_gather,
                                           "blocks cross, then travel inside; the least bytes between machines",
                                           regular_levels,
                                           hierarchical_all_gather_detail::shape,
                                           hierarchical_all_gather_detail::build,
                                           levels_blocks_cost};

}  // namespace tutti
