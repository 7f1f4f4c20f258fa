#include "topology/search.h"

#include "topology/bottleneck.h"
#include "topology/greedy.h"

namespace tutti {
namespace {

void append_way(const Network& network, int a, int b, std::vector<std::uint32_t>& links) {
  std::vector<std::uint32_t> way;
  network.route(a, b, way);
  links.insert(links.end(), way.begin(), way.end());
}

}  // namespace

std::vector<std::uint32_t> links_of(const Network& network, const FoundRing& ring) {
  std::vector<std::uint32_t> links;
  for (std::size_t i = 0; i < ring.order.size(); ++i) {
    append_way(network, ring.order[i], ring.order[(i + 1) % ring.order.size()], links);
  }
  return links;
}

std::vector<std::uint32_t> links_of(const Network& network, const Tree& tree) {
  std::vector<std::uint32_t> links;
  for (const auto& [parent, child] : tree.edges) {
    append_way(network, parent, child, links);
    append_way(network, child, parent, links);
  }
  return links;
}

std::optional<FoundRing> best_ring(const Network& network, const SearchOptions& options) {
  Steps steps(options.steps);
  if (network.endpoints() < 2) return std::nullopt;
  const TransitGraph hops = transit_graph_of(network);
  std::vector<FoundRing> alone;
  if (hops.few()) {
    const auto widest = widest_ring(hops, hops.bound(), steps);
    if (widest) alone.push_back({widest->ring.order, widest->rate, 0, {}});
  } else {
    const Packed<RingOrder> greedy = greedy_rings(hops, steps);
    if (!greedy.orders.empty()) alone.push_back({greedy.orders[0].first.order, greedy.orders[0].second, 0, {}});
  }
  if (alone.empty()) return std::nullopt;
  mark_bottleneck(network, alone);
  return alone[0];
}

RingSet search_rings(const Network& network, const SearchOptions& options) {
  Steps steps(options.steps);
  if (network.endpoints() < 2) return {.optimal = true};
  const Packed<RingOrder> packed = pack_rings(transit_graph_of(network), options.give_up, steps);
  RingSet set{{}, packed.sum, packed.bound, packed.optimal(), 0};
  for (const auto& [ring, rate] : packed.orders) set.rings.push_back({ring.order, rate, 0, {}});
  mark_bottleneck(network, set.rings);
  return set;
}

TreeSet search_trees(const Network& network, const SearchOptions& options) {
  Steps steps(options.steps);
  if (network.endpoints() < 2) return {.optimal = true};
  const Packed<TreeShape> packed = pack_trees(transit_graph_of(network), 0, options.give_up, steps);
  TreeSet set{{}, packed.sum, packed.bound, packed.optimal()};
  for (const auto& [shape, rate] : packed.orders) {
    const int root = center_of(shape, network.endpoints(), 0);
    set.trees.push_back({root, rooted(shape, root), rate, 0, {}});
  }
  mark_bottleneck(network, set.trees);
  return set;
}

}  // namespace tutti
