// Machines with a leader each, for algorithms that take any numbers of ranks on them.
#pragma once

#include <vector>

#include "algorithms/algorithm.h"
#include "algorithms/trees.h"

namespace tutti {

/// The ranks of every machine, its leader first, then in order.
struct MachineGroups {
  /// first: the leader of its machine, whose crew comes first; the others' leaders are their least ranks. The crews are in
  /// the order of machines from there on, around. O(ranks).
  MachineGroups(const View& view, int first) : of(static_cast<std::size_t>(view.machines())) {
    const int machines = static_cast<int>(of.size());
    const int start = view.machine[static_cast<std::size_t>(first)];
    const auto crew = [&](int rank) -> std::vector<int>& {
      return of.at(wrap(view.machine[static_cast<std::size_t>(rank)] - start, machines));
    };
    crew(first).push_back(first);
    for (int r = 0; r < view.ranks(); ++r) {
      if (r != first) crew(r).push_back(r);
    }
  }
  int machines() const { return static_cast<int>(of.size()); }
  const std::vector<int>& operator[](int machine) const { return of[static_cast<std::size_t>(machine)]; }
  int leader(int machine) const { return (*this)[machine][0]; }
  /// Of the largest crew.
  int most() const {
    std::size_t most = 0;
    for (const auto& crew : of) most = std::max(most, crew.size());
    return static_cast<int>(most);
  }

  std::vector<std::vector<int>> of;
};

/// One rank's crew and place in it.
struct CrewMember {
  CrewMember(const MachineGroups& crews, int rank) {
    for (machine = 0; machine < crews.machines(); ++machine) {
      const auto& crew = crews[machine];
      const auto at = std::find(crew.begin(), crew.end(), rank);
      if (at == crew.end()) continue;
      position = static_cast<int>(at - crew.begin());
      return;
    }
  }
  int machine = 0;
  int position = 0;  ///< 0: the leader
};

/// Algorithm::fits: there are several machines, and one with several ranks.
inline bool has_crews(const Problem&, const View& view) { return view.machines() > 1 && view.machines() < view.ranks(); }

/// The dearest link within a machine.
inline LinkClass crew_link(const View& view) {
  LinkClass dearest = LinkClass::same_numa;
  const MachineGroups crews(view, 0);
  for (const auto& crew : crews.of) {
    for (const int rank : crew) {
      if (rank != crew[0]) dearest = std::max(dearest, view.link_class(crew[0], rank));
    }
  }
  return dearest;
}

/// One rank's neighbours in the tree of a rooted collective: a binomial tree of the leaders, the root's first, and one of
/// each crew below its leader. Messages cross machines ⌈log₂ n⌉ times, whatever the ranks' order.
struct CrewTree {
  CrewTree(const View& view, int root, int rank) {
    const MachineGroups crews(view, root);
    const CrewMember me(crews, rank);
    const std::vector<int>& crew = crews[me.machine];
    if (me.position > 0) {
      parent = crew[static_cast<std::size_t>(binomial_parent(me.position))];
    } else {
      if (me.machine > 0) parent = crews.leader(binomial_parent(me.machine));
      for (const int child : binomial_children(me.machine, crews.machines())) across.push_back(crews.leader(child));
    }
    for (const int child : binomial_children(me.position, static_cast<int>(crew.size()))) {
      inside.push_back(crew[static_cast<std::size_t>(child)]);
    }
  }
  int parent = -1;          ///< -1: the root
  std::vector<int> inside;  ///< children on this machine, smallest subtree first
  std::vector<int> across;  ///< children on others, likewise
};

/// Shape of what goes over that tree: the whole block at once.
inline Shape crew_tree_shape(const Problem&, const View&, const Parameters&) {
  return {.chunks = 1, .lanes = 1, .message_cells = 1};
}

/// What a message down or up that tree takes: one of m bytes at each level.
inline Cost crew_tree_cost(const Problem&, const View& view) {
  const MachineGroups crews(view, 0);
  Cost cost;
  cost.alphas = cost.betas = log2_ceil(crews.machines());
  LinkCost& inside = cost[crew_link(view)];
  inside.alphas = inside.betas = log2_ceil(crews.most());
  return cost;
}

}  // namespace tutti
