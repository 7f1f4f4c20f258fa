#include "topology/tree_orders.h"

#include <algorithm>
#include <map>

#include "topology/index.h"
#include "topology/search_costs.h"

namespace tutti {
namespace {

constexpr double kEqual = 1e-12;

double cost_of(const TransitGraph::Way& way, const std::vector<double>& prices) {
  double sum = 0;
  for (const std::uint32_t link : way) sum += prices[link] + kPerLink;
  return sum;
}

/// The price of both ways between two places.
double both_ways(const TransitGraph& hops, int a, int b, const std::vector<double>& prices) {
  if (hops.ways(a, b).empty() || hops.ways(b, a).empty()) return kNever;
  return cost_of(hops.ways(a, b)[0], prices) + cost_of(hops.ways(b, a)[0], prices);
}

void find_head(const TransitGraph& hops, const std::vector<double>& prices, TreeShape& tree) {
  double least = kNever;
  for (int place = 1; place < hops.places(); ++place) {
    for (std::size_t w = 0; w < hops.ways(place, 0).size(); ++w) {
      const double cost = cost_of(hops.ways(place, 0)[w], prices) + cost_of(hops.ways(0, place)[w], prices);
      if (cost >= least - kEqual) continue;
      least = cost;
      tree.head = place;
      tree.head_way = static_cast<int>(w);
    }
  }
}

/// How many edges the farthest place is away.
int height_from(const std::vector<std::vector<int>>& neighbors, int root) {
  std::vector<std::pair<int, int>> found = {{root, -1}};
  std::vector<int> depth = {0};
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (const int next : neighbors[at(found[i].first)]) {
      if (next == found[i].second) continue;
      found.emplace_back(next, found[i].first);
      depth.push_back(depth[i] + 1);
    }
  }
  return depth.back();
}

std::vector<std::vector<int>> neighbors_in(const TreeShape& tree) {
  int last = 0;
  for (const auto& [a, b] : tree.edges) last = std::max({last, a, b});
  std::vector<std::vector<int>> neighbors(at(last) + 1);
  for (const auto& [a, b] : tree.edges) {
    neighbors[at(a)].push_back(b);
    neighbors[at(b)].push_back(a);
  }
  return neighbors;
}

}  // namespace

Loads loads_of(const TransitGraph& hops, const TreeShape& tree, OutsideLoad outside) {
  std::map<std::uint32_t, double> times;
  for (const auto& [a, b] : tree.edges) {
    for (const std::uint32_t link : hops.ways(a, b)[0]) times[link] += 1;
    for (const std::uint32_t link : hops.ways(b, a)[0]) times[link] += 1;
  }
  if (tree.head >= 0) {
    for (const std::uint32_t link : hops.ways(tree.head, 0)[at(tree.head_way)]) times[link] += outside;
    for (const std::uint32_t link : hops.ways(0, tree.head)[at(tree.head_way)]) times[link] += outside;
  }
  return {times.begin(), times.end()};
}

std::optional<TreeShape> cheapest_tree(const TransitGraph& hops, const std::vector<double>& prices, OutsideLoad outside) {
  const int first = outside > 0 ? 1 : 0;
  TreeShape tree;
  std::vector<double> cost(at(hops.places()), kNever);
  std::vector<int> parent(at(hops.places()), -1);
  std::vector<bool> inside(at(hops.places()), false);
  int newest = first;
  inside[at(first)] = true;
  for (int count = first + 1; count < hops.places(); ++count) {
    for (int place = first; place < hops.places(); ++place) {
      if (inside[at(place)]) continue;
      // Among equals the newest, which makes a chain: no place has more than two neighbors to serve.
      const double by_newest = both_ways(hops, newest, place, prices);
      if (by_newest > cost[at(place)] + kEqual) continue;
      cost[at(place)] = by_newest;
      parent[at(place)] = newest;
    }
    int next = -1;
    for (int place = first; place < hops.places(); ++place) {
      if (!inside[at(place)] && (next < 0 || cost[at(place)] < cost[at(next)] - kEqual)) next = place;
    }
    if (cost[at(next)] == kNever) return std::nullopt;
    inside[at(next)] = true;
    tree.edges.emplace_back(parent[at(next)], next);
    newest = next;
  }
  if (outside > 0) find_head(hops, prices, tree);
  if (outside > 0 && tree.head < 0) return std::nullopt;
  return tree;
}

int center_of(const TreeShape& tree, int places, int first_place) {
  if (tree.edges.empty()) return first_place;
  const std::vector<std::vector<int>> neighbors = neighbors_in(tree);
  int best = first_place;
  for (int place = first_place; place < places; ++place) {
    if (height_from(neighbors, place) < height_from(neighbors, best)) best = place;
  }
  return best;
}

std::vector<std::pair<int, int>> rooted(const TreeShape& tree, int root) {
  std::vector<std::pair<int, int>> edges;
  if (tree.edges.empty()) return edges;
  const std::vector<std::vector<int>> neighbors = neighbors_in(tree);
  std::vector<std::pair<int, int>> found = {{-1, root}};
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (const int next : neighbors[at(found[i].second)]) {
      if (next == found[i].first) continue;
      found.emplace_back(found[i].second, next);
    }
  }
  return {found.begin() + 1, found.end()};
}

}  // namespace tutti
