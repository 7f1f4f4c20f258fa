#include "tools/plan/synthesis/arborescence.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "topology/index.h"
#include "topology/search_costs.h"

namespace tutti::synthesis {
namespace {

/// A hop between places, with what it costs between the nodes that these have been contracted into.
struct Arc {
  double cost = kNever;
  int from = -1;
  int to = -1;
};

/// Nodes, each of one place or of a circle of nodes that were contracted, and the cheapest arc between each two.
struct Contraction {
  std::vector<std::vector<Arc>> arcs;
  std::vector<int> node_of;  ///< by place
  int root = 0;              ///< node

  int nodes() const { return static_cast<int>(arcs.size()); }
};

/// By node: the node from which its cheapest arc comes; -1 at the root. Empty where a node has none.
std::vector<int> cheapest_sources(const Contraction& now) {
  std::vector<int> source(at(now.nodes()), -1);
  for (int b = 0; b < now.nodes(); ++b) {
    if (b == now.root) continue;
    for (int a = 0; a < now.nodes(); ++a) {
      const double least = source[at(b)] < 0 ? kNever : now.arcs[at(source[at(b)])][at(b)].cost;
      if (a != b && now.arcs[at(a)][at(b)].cost < least) source[at(b)] = a;
    }
    if (source[at(b)] < 0) return {};
  }
  return source;
}

/// A circle that nodes form with their sources; empty where there is none.
std::vector<int> circle_in(const std::vector<int>& source) {
  std::vector<int> seen_from(source.size(), -1);
  for (int start = 0; start < static_cast<int>(source.size()); ++start) {
    int node = start;
    while (node >= 0 && seen_from[at(node)] < 0) {
      seen_from[at(node)] = start;
      node = source[at(node)];
    }
    if (node < 0 || seen_from[at(node)] != start) continue;
    std::vector<int> circle = {node};
    for (int next = source[at(node)]; next != node; next = source[at(next)]) circle.push_back(next);
    return circle;
  }
  return {};
}

/// The circle as one node, the last. An arc into it costs what it costs more than the circle's own arc that it replaces.
Contraction contract(const Contraction& now, const std::vector<int>& source, const std::vector<int>& circle) {
  std::vector<int> number(at(now.nodes()), -1);
  int kept = 0;
  for (int node = 0; node < now.nodes(); ++node) {
    if (std::find(circle.begin(), circle.end(), node) == circle.end()) number[at(node)] = kept++;
  }
  for (const int node : circle) number[at(node)] = kept;
  Contraction next;
  next.root = number[at(now.root)];
  next.arcs.assign(at(kept) + 1, std::vector<Arc>(at(kept) + 1));
  for (const int node : now.node_of) next.node_of.push_back(number[at(node)]);
  for (int a = 0; a < now.nodes(); ++a) {
    for (int b = 0; b < now.nodes(); ++b) {
      Arc arc = now.arcs[at(a)][at(b)];
      if (number[at(a)] == number[at(b)] || arc.cost == kNever) continue;
      if (number[at(b)] == kept) arc.cost -= now.arcs[at(source[at(b)])][at(b)].cost;
      Arc& best = next.arcs[at(number[at(a)])][at(number[at(b)])];
      if (arc.cost < best.cost) best = arc;
    }
  }
  return next;
}

/// The arcs of the cheapest tree, one into every node but the root; false where there is none.
bool choose(const Contraction& now, std::vector<Arc>& chosen) {
  if (now.nodes() == 1) return true;
  const std::vector<int> source = cheapest_sources(now);
  if (source.empty()) return false;
  const std::vector<int> circle = circle_in(source);
  if (circle.empty()) {
    for (int b = 0; b < now.nodes(); ++b) {
      if (b != now.root) chosen.push_back(now.arcs[at(source[at(b)])][at(b)]);
    }
    return true;
  }
  if (!choose(contract(now, source, circle), chosen)) return false;
  // One arc of the tree enters the circle; the circle keeps its own arcs but the one into the same node.
  std::vector<bool> entered(at(now.nodes()), false);
  for (const Arc& arc : chosen) entered[at(now.node_of[at(arc.to)])] = true;
  for (const int node : circle) {
    if (!entered[at(node)]) chosen.push_back(now.arcs[at(source[at(node)])][at(node)]);
  }
  return true;
}

}  // namespace

int height_of(const RootedTree& tree) {
  int height = 0;
  for (int place = 0; place < static_cast<int>(tree.parent.size()); ++place) {
    int hops = 0;
    for (int above = place; tree.parent[at(above)] >= 0; above = tree.parent[at(above)]) ++hops;
    height = std::max(height, hops);
  }
  return height;
}

std::vector<std::vector<int>> children_of(const RootedTree& tree) {
  std::vector<std::vector<int>> children(tree.parent.size());
  for (int place = 0; place < static_cast<int>(tree.parent.size()); ++place) {
    if (tree.parent[at(place)] >= 0) children[at(tree.parent[at(place)])].push_back(place);
  }
  return children;
}

std::optional<RootedTree> cheapest_arborescence(const HopCosts& cost, int root) {
  const int places = static_cast<int>(cost.size());
  Contraction whole;
  whole.root = root;
  whole.arcs.assign(at(places), std::vector<Arc>(at(places)));
  for (int a = 0; a < places; ++a) {
    whole.node_of.push_back(a);
    for (int b = 0; b < places; ++b) {
      if (a != b) whole.arcs[at(a)][at(b)] = {cost[at(a)][at(b)], a, b};
    }
  }
  std::vector<Arc> chosen;
  if (!choose(whole, chosen)) return std::nullopt;
  RootedTree tree{root, std::vector<int>(at(places), -1)};
  for (const Arc& arc : chosen) tree.parent[at(arc.to)] = arc.from;
  return tree;
}

std::optional<RootedTree> shallow_arborescence(const HopCosts& cost, int root) {
  const int places = static_cast<int>(cost.size());
  RootedTree tree{root, std::vector<int>(at(places), -1)};
  std::vector<bool> found(at(places), false);
  found[at(root)] = true;
  std::vector<int> level = {root};
  int left = places - 1;
  while (left > 0 && !level.empty()) {
    std::vector<int> next;
    for (int place = 0; place < places; ++place) {
      if (found[at(place)]) continue;
      double least = kNever;
      for (const int above : level) {
        if (cost[at(above)][at(place)] >= least) continue;
        least = cost[at(above)][at(place)];
        tree.parent[at(place)] = above;
      }
      if (least < kNever) next.push_back(place);
    }
    for (const int place : next) found[at(place)] = true;
    left -= static_cast<int>(next.size());
    level = std::move(next);
  }
  return left == 0 ? std::optional(std::move(tree)) : std::nullopt;
}

}  // namespace tutti::synthesis
