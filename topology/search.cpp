#include "topology/search.h"

#include <algorithm>
#include <limits>

#include "topology/narrowest.h"
#include "topology/packed.h"

namespace tutti {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

constexpr double kNever = std::numeric_limits<double>::infinity();

// ---- Beyond what can be packed: greedy -------------------------------------------------------------------------------

constexpr int kMostGreedy = 16;          // rings
constexpr double kWorthARing = 1. / 64;  // of the first ring's rate

/// Rings one after the other over what the ones before have left, each going on to where the most can still be sent.
class GreedyRings {
 public:
  GreedyRings(const Network& network, Steps& steps) : network_(network), steps_(steps) {
    for (std::uint32_t link = 0; link < network.links(); ++link) left_.push_back(network.link(link).bytes_per_second);
  }

  RingSet run() {
    RingSet set;
    while (set.rings.size() < kMostGreedy) {
      FoundRing ring = next();
      if (ring.order.empty()) break;
      if (!set.rings.empty() && ring.bytes_per_second < kWorthARing * set.rings[0].bytes_per_second) break;
      for (const std::uint32_t link : links_of(network_, ring)) left_[link] -= ring.bytes_per_second;
      set.bytes_per_second += ring.bytes_per_second;
      set.rings.push_back(std::move(ring));
    }
    return set;
  }

 private:
  FoundRing next() {
    times_.assign(left_.size(), 0);
    const int places = network_.endpoints();
    FoundRing ring;
    ring.order = {0};
    ring.bytes_per_second = kNever;
    std::vector<bool> used(at(places), false);
    used[0] = true;
    while (ring.order.size() < at(places)) {
      const int to = widest_hop(ring.order.back(), used);
      if (to < 0) return {};
      used[at(to)] = true;
      take(ring, to);
      ring.order.push_back(to);
    }
    take(ring, 0);
    return ring.bytes_per_second > 0 && ring.bytes_per_second != kNever ? ring : FoundRing{};
  }

  int widest_hop(int from, const std::vector<bool>& used) {
    int best = -1;
    double widest = 0;
    std::size_t fewest = 0;
    for (int to = 0; to < network_.endpoints(); ++to) {
      if (used[at(to)]) continue;
      if (!steps_.take()) return -1;
      network_.route(from, to, way_);
      double width = way_.empty() ? 0 : kNever;
      for (const std::uint32_t link : way_) width = std::min(width, left_[link] / (times_[link] + 1));
      if (width < widest || width == 0 || (width == widest && way_.size() >= fewest)) continue;
      best = to;
      widest = width;
      fewest = way_.size();
    }
    return best;
  }

  void take(FoundRing& ring, int to) {
    network_.route(ring.order.back(), to, way_);
    if (way_.empty()) ring.bytes_per_second = 0;
    for (const std::uint32_t link : way_) {
      ring.bytes_per_second = std::min(ring.bytes_per_second, left_[link] / ++times_[link]);
    }
  }

  const Network& network_;
  Steps& steps_;
  std::vector<double> left_;  // bytes per second, by link
  std::vector<int> times_;    // that this ring passes a link
  std::vector<std::uint32_t> way_;
};

/// Chains: rings without their last hop, rooted in the middle, at the rate that all of them can have both ways.
TreeSet chains_of(const Network& network, const RingSet& rings) {
  TreeSet set;
  std::vector<double> load(network.links(), 0);
  for (const FoundRing& ring : rings.rings) {
    TreeShape shape;
    for (std::size_t i = 0; i + 1 < ring.order.size(); ++i) shape.edges.emplace_back(ring.order[i], ring.order[i + 1]);
    Tree tree;
    tree.root = ring.order[ring.order.size() / 2];
    tree.edges = rooted(shape, tree.root);
    tree.bytes_per_second = ring.bytes_per_second;
    for (const std::uint32_t link : links_of(network, tree)) load[link] += tree.bytes_per_second;
    set.trees.push_back(std::move(tree));
  }
  double fullest = 0;
  for (std::uint32_t link = 0; link < network.links(); ++link) {
    fullest = std::max(fullest, load[link] / network.link(link).bytes_per_second);
  }
  for (Tree& tree : set.trees) set.bytes_per_second += tree.bytes_per_second /= fullest;
  return set;
}

// ---- What a set fills ------------------------------------------------------------------------------------------------

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
  if (network.endpoints() > kMostPacked) {
    std::vector<FoundRing> rings = GreedyRings(network, steps).run().rings;
    if (rings.empty()) return std::nullopt;
    rings.resize(1);
    mark_narrowest(network, rings);
    return rings[0];
  }
  const Hops hops = hops_of(network);
  const auto widest = widest_ring(hops, hops.bound(), steps);
  if (!widest) return std::nullopt;
  std::vector<FoundRing> alone = {{widest->ring.order, widest->rate, 0, {}}};
  mark_narrowest(network, alone);
  return alone[0];
}

RingSet search_rings(const Network& network, const SearchOptions& options) {
  Steps steps(options.steps);
  if (network.endpoints() < 2) return {.optimal = true};
  RingSet set;
  if (network.endpoints() > kMostPacked) {
    set = GreedyRings(network, steps).run();
  } else {
    const Packed<RingOrder> packed = pack_rings(hops_of(network), options.give_up, steps);
    set = {{}, packed.sum, packed.bound, packed.optimal(), 0};
    for (const auto& [ring, rate] : packed.orders) set.rings.push_back({ring.order, rate, 0, {}});
  }
  mark_narrowest(network, set.rings);
  return set;
}

TreeSet search_trees(const Network& network, const SearchOptions& options) {
  Steps steps(options.steps);
  if (network.endpoints() < 2) return {.optimal = true};
  TreeSet set;
  if (network.endpoints() > kMostPacked) {
    set = chains_of(network, GreedyRings(network, steps).run());
  } else {
    const Packed<TreeShape> packed = pack_trees(hops_of(network), 0, options.give_up, steps);
    set = {{}, packed.sum, packed.bound, packed.optimal()};
    for (const auto& [shape, rate] : packed.orders) {
      const int root = center_of(shape, network.endpoints(), 0);
      set.trees.push_back({root, rooted(shape, root), rate, 0, {}});
    }
  }
  mark_narrowest(network, set.trees);
  return set;
}

}  // namespace tutti
