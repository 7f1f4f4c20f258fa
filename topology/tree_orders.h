// Spanning trees over places: the cheapest by prices of links, and the double tree between machines.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "topology/transit_graph.h"

namespace tutti {

/// A tree without a root: its edges, which bytes pass both ways. Where place 0 stands for what is outside, `head` is the
/// place that sends there, by its way number `head_way`, and place 0 is no part of the edges.
struct TreeShape {
  std::vector<std::pair<int, int>> edges;
  int head = -1;
  int head_way = 0;
};

/// Where place 0 stands for what is outside the machine: how often the tree's rate passes the head's way out, and as often
/// its way in. 0: place 0 is a place like the others.
using OutsideLoad = double;

/// How often the tree's rate passes each link.
Loads loads_of(const TransitGraph& hops, const TreeShape& tree, OutsideLoad outside);

/// The tree that costs least by the links' prices (at least 0): a minimum spanning tree (Prim 1957), with the head that
/// sends outside at the least cost. Of trees that cost the same one with few links, like a chain. Nothing where places
/// cannot reach each other.
std::optional<TreeShape> cheapest_tree(const TransitGraph& hops, const std::vector<double>& prices, OutsideLoad outside);

/// The place from which the farthest one is nearest, the lowest of two.
int center_of(const TreeShape& tree, int places, int first_place);

/// The edges from parent to child, seen from a root, level by level.
std::vector<std::pair<int, int>> rooted(const TreeShape& tree, int root);

}  // namespace tutti
