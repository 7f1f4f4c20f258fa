// Plans in places of every shape, for algorithms that go by the places of ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "tests/support/schedules.h"

namespace tutti::testing {

/// Something to prove.
struct PlacedTask {
  const Algorithm* algorithm;
  View view;
  int root;
};

/// The algorithms that take no ranks of one machine without a torus.
inline std::vector<const Algorithm*> placed_algorithms() {
  std::vector<const Algorithm*> placed;
  for (const Algorithm* algorithm : all_algorithms()) {
    Problem problem;
    problem.collective = algorithm->collective;
    problem.ranks = 64;
    if (!algorithm->fits(problem, flat_view(64))) placed.push_back(algorithm);
  }
  return placed;
}

/// Adds the tasks of one view: of all algorithms that take it, from all roots.
inline void add_tasks(const View& view, std::vector<PlacedTask>& tasks) {
  Problem problem;
  problem.ranks = view.ranks();
  problem.count = 1000;
  for (const Algorithm* algorithm : placed_algorithms()) {
    problem.collective = algorithm->collective;
    if (!algorithm->fits(problem, view)) continue;
    // Trees see machines alone: deeper views are theirs again and again.
    const bool deep = !view.rack.empty() || std::ranges::any_of(view.numa, [](std::int32_t node) { return node != 0; });
    if (rooted(algorithm->collective) && deep) continue;
    const int roots = rooted(algorithm->collective) ? view.ranks() : 1;
    for (int root = 0; root < roots; ++root) tasks.push_back({algorithm, view, root});
  }
}

/// All racks × machines × NUMA nodes × ranks with at most `most` ranks, in all placements.
inline std::vector<PlacedTask> level_tasks(int most) {
  std::vector<PlacedTask> tasks;
  for (int racks = 1; racks <= most; ++racks) {
    for (int machines = 1; racks * machines <= most; ++machines) {
      for (int nodes = 1; racks * machines * nodes <= most; ++nodes) {
        for (int local = 1; racks * machines * nodes * local <= most; ++local) {
          for (const Placement placement : {Placement::blocks, Placement::round_robin, Placement::shuffled}) {
            add_tasks(view_of_levels({racks, machines, nodes, local, placement}), tasks);
          }
        }
      }
    }
  }
  return tasks;
}

/// Machines with any numbers of ranks: `each` by chance for every number of ranks up to `most`, in all placements.
inline std::vector<PlacedTask> unequal_tasks(int most, int each) {
  std::mt19937 random(20261122);
  std::vector<PlacedTask> tasks;
  for (int ranks = 3; ranks <= most; ++ranks) {
    for (int i = 0; i < each; ++i) {
      std::vector<int> sizes;
      for (int left = ranks; left > 0; left -= sizes.back()) {
        sizes.push_back(std::uniform_int_distribution(1, std::max(1, std::min(left, ranks / 2)))(random));
      }
      for (const Placement placement : {Placement::blocks, Placement::round_robin, Placement::shuffled}) {
        add_tasks(view_of_machines(sizes, placement), tasks);
      }
    }
  }
  return tasks;
}

/// All tori of one to `most_dimensions` dimensions with at most `most` ranks.
inline std::vector<PlacedTask> torus_tasks(int most, int most_dimensions) {
  std::vector<PlacedTask> tasks;
  for (int dimensions = 1; dimensions <= most_dimensions; ++dimensions) {
    each_product(dimensions, most, [&](const std::vector<std::int32_t>& sizes) { add_tasks(view_of_torus(sizes), tasks); });
  }
  return tasks;
}

}  // namespace tutti::testing
