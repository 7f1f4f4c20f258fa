// Spanning trees with a root, and the cheapest of them by prices of hops.
#pragma once

#include <optional>
#include <vector>

namespace tutti::synthesis {

/// A tree over places 0 to p - 1. Which way its bytes go is its user's affair: down to the leaves, or up to the root.
struct RootedTree {
  int root = 0;
  std::vector<int> parent;  ///< by place; -1 at the root

  bool operator==(const RootedTree&) const = default;
};

/// Hops from the root to the place farthest from it.
int height_of(const RootedTree& tree);
/// By place: those of which it is the parent, ascending.
std::vector<std::vector<int>> children_of(const RootedTree& tree);

/// What hops cost: cost[a][b] is that of b having a as its parent, at least 0; infinite: b cannot.
using HopCosts = std::vector<std::vector<double>>;

/// The tree of least cost that spans all places from `root` (Chu & Liu 1965; Edmonds 1967, by contraction). Deterministic:
/// of equal hops the one from the lowest place. Nothing where the root does not reach everybody. Time O(places^3).
std::optional<RootedTree> cheapest_arborescence(const HopCosts& cost, int root);

/// A tree in which every place is as few hops from `root` as it can be: of all hops from the level above the cheapest.
/// Nothing where the root does not reach everybody.
std::optional<RootedTree> shallow_arborescence(const HopCosts& cost, int root);

}  // namespace tutti::synthesis
