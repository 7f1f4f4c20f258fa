// Places of ranks for tests: machines, NUMA nodes, racks and tori of every shape.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "algorithms/algorithm.h"
#include "src/schedule/ir.h"
#include "topology/oversubscription.h"
#include "topology/view.h"

namespace tutti::testing {

/// How ranks are spread over the machines.
enum class Placement {
  blocks,       ///< consecutive ranks on each machine
  round_robin,  ///< rank r on machine r mod n
  shuffled,     ///< by chance, always the same
};

/// racks × machines a rack × NUMA nodes a machine × ranks a node.
struct Levels {
  int racks = 1;
  int machines = 1;
  int nodes = 1;
  int local = 1;
  Placement placement = Placement::blocks;

  int ranks() const { return racks * machines * nodes * local; }
  std::string text() const {
    const char* const placements[] = {"blocks", "round robin", "shuffled"};
    return std::to_string(racks) + " racks x " + std::to_string(machines) + " machines x " + std::to_string(nodes) +
           " nodes x " + std::to_string(local) + " ranks, " + placements[static_cast<int>(placement)];
  }
};

/// The view of machines with so many ranks each.
inline View view_of_machines(const std::vector<int>& sizes, Placement placement = Placement::blocks) {
  View view;
  std::vector<int> left = sizes;
  int most = 0;
  for (const int size : sizes) most = std::max(most, size);
  const auto machines = static_cast<int>(sizes.size());
  if (placement == Placement::round_robin) {
    for (int turn = 0; turn < most; ++turn) {
      for (int m = 0; m < machines; ++m) {
        if (turn < sizes[static_cast<std::size_t>(m)]) view.machine.push_back(m);
      }
    }
  } else {
    for (int m = 0; m < machines; ++m) {
      view.machine.insert(view.machine.end(), static_cast<std::size_t>(sizes[static_cast<std::size_t>(m)]), m);
    }
  }
  if (placement == Placement::shuffled) {
    std::mt19937 random(5);
    std::shuffle(view.machine.begin(), view.machine.end(), random);
  }
  // Machines are numbered as they come, as in a real view.
  std::vector<std::int32_t> number(sizes.size(), -1);
  std::int32_t next = 0;
  for (std::int32_t& machine : view.machine) {
    std::int32_t& own = number[static_cast<std::size_t>(machine)];
    if (own < 0) own = next++;
    machine = own;
  }
  view.numa.assign(view.machine.size(), 0);
  return view;
}

inline View view_of_levels(const Levels& levels) {
  const int machines = levels.racks * levels.machines;
  const int each = levels.nodes * levels.local;
  View view = view_of_machines(std::vector<int>(static_cast<std::size_t>(machines), each), levels.placement);
  std::vector<int> there(static_cast<std::size_t>(machines), 0);
  for (std::size_t r = 0; r < view.machine.size(); ++r) {
    view.numa[r] = there[static_cast<std::size_t>(view.machine[r])]++ / levels.local;
    if (levels.racks > 1) view.rack.push_back(view.machine[r] / levels.machines);
  }
  return view;
}

inline View view_of_torus(std::vector<std::int32_t> sizes) {
  int ranks = 1;
  for (const std::int32_t size : sizes) ranks *= size;
  View view = uniform_view(ranks, 1);
  view.torus = std::move(sizes);
  return view;
}

/// Calls visit(sizes) for every way to write numbers up to `most` as a product of `factors` factors from 2 on, in order.
inline void each_product(int factors, int most, const std::function<void(const std::vector<std::int32_t>&)>& visit) {
  std::vector<std::int32_t> sizes;
  const std::function<void(int)> extend = [&](int product) {
    if (static_cast<int>(sizes.size()) == factors) return visit(sizes);
    for (std::int32_t size = 2; product * size <= most; ++size) {
      sizes.push_back(size);
      extend(product * size);
      sizes.pop_back();
    }
  };
  extend(1);
}

/// A view of `ranks` ranks that the algorithm takes: all on one machine if it does, else a torus or machines as square as
/// may be; nothing where it takes none of these.
inline std::optional<View> usual_view(const Algorithm& algorithm, int ranks) {
  int side = 1;
  for (int s = 2; s * s <= ranks; ++s) side = ranks % s == 0 ? s : side;
  Problem problem;
  problem.collective = algorithm.collective;
  problem.ranks = ranks;
  problem.count = 1000;
  View unequal = flat_view(ranks);
  for (int r = ranks / 2 + 1; r < ranks; ++r) unequal.machine[static_cast<std::size_t>(r)] = 1;
  for (const View& view :
       {flat_view(ranks), view_of_torus({side, ranks / side}), uniform_view(side, ranks / side), unequal}) {
    if (ranks == 1 || algorithm.fits(problem, view)) return view;
  }
  return std::nullopt;
}

/// Whether ranks do the same in both views.
inline bool same_programs(const Algorithm& algorithm, const Problem& problem, const View& one, const View& other) {
  for (int rank = 0; rank < problem.ranks; ++rank) {
    const auto program = [&](const View& view) {
      return make_program(algorithm, make_plan(algorithm, problem, view, {}, 1 << 16), view, rank);
    };
    const Program a = program(one), b = program(other);
    if (a.links != b.links || a.operands != b.operands || a.steps.size() != b.steps.size()) return false;
  }
  return true;
}

/// Views of `ranks` ranks in which the algorithm has plans of different shapes or programs: the usual one, every rank on a
/// machine of its own where it goes by that, and ranks bound in turn to a few cores where it goes by those. None where it
/// takes no such number.
inline std::vector<View> views_of(const Algorithm& algorithm, int ranks) {
  std::vector<View> views;
  const std::optional<View> usual = usual_view(algorithm, ranks);
  if (!usual) return views;
  views.push_back(*usual);
  View bound = *usual;
  std::vector<std::int32_t> core;
  for (int r = 0; r < ranks; ++r) core.push_back(ranks > 1 ? (r * r + r / 2) % (ranks / 2) : 0);
  share_cores(bound, 3, core);
  Problem problem;
  problem.collective = algorithm.collective;
  problem.ranks = ranks;
  problem.count = 1000;
  if (ranks > 1 && !same_programs(algorithm, problem, *usual, bound)) views.push_back(bound);
  const View apart = uniform_view(ranks, 1);
  if (usual->machines() > 1 || !algorithm.fits(problem, apart)) return views;
  if (!(algorithm.shape(problem, apart, {}) == algorithm.shape(problem, *usual, {}))) views.push_back(apart);
  return views;
}

}  // namespace tutti::testing
