// What hierarchical algorithms share: when groups within groups are there to use, and what a level's links cost.
#pragma once

#include "algorithms/algorithm.h"
#include "algorithms/grids.h"

namespace tutti {

/// Algorithm::fits: the ranks are in equal groups within groups, on several machines. On one machine nothing has shown yet
/// that NUMA nodes are worth the waits.
inline bool several_levels(const Problem&, const View& view) {
  return view.machines() > 1 && hierarchy_of(view).size() > 1;
}

/// As several_levels, and blocks lie so regularly that one message can hold a group's: ranks consecutive on each machine,
/// or dealt out machine by machine, or the like.
inline bool regular_levels(const Problem& problem, const View& view) {
  if (!several_levels(problem, view)) return false;
  const Grid grid = hierarchy_of(view);
  const auto axes = block_axes(grid);
  const GridTraversal tour{grid, 0, dimensions_from(grid, 0)};
  return axes && BlockTour(tour, *axes).fits();
}

/// What carrying the blocks of a reduce-scatter or an all-gather takes, level by level.
inline Cost levels_blocks_cost(const Problem& problem, const View& view) {
  Cost cost{.pattern = CommunicationPattern::ring};
  double blocks = problem.ranks;
  const Grid grid = hierarchy_of(view);
  for (const GridDimension& level : grid.dimensions()) {
    blocks /= level.size;
    cost[level.link].alphas += level.size - 1;
    cost[level.link].betas += blocks * (level.size - 1);
  }
  return cost;
}

}  // namespace tutti
