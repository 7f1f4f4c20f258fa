#include "topology/greedy.h"

#include <algorithm>

#include "topology/index.h"
#include "topology/search_costs.h"

namespace tutti {
namespace {

constexpr int kMostGreedy = 16;          // rings
constexpr double kWorthARing = 1. / 64;  // of the first ring's rate
/// About so many ways are looked at for a ring, that is 4 times those of 1,024 places: it is begun at several places.
constexpr std::uint64_t kWaysOfARing = 1 << 22;

/// The same hops one after the other in memory: every ring looks at half of them.
class FlatHops {
 public:
  explicit FlatHops(const TransitGraph& hops) : places_(hops.places()) {
    for (int a = 0; a < places_; ++a) {
      for (int b = 0; b < places_; ++b) {
        first_way_.push_back(first_link_.size());
        for (const TransitGraph::Way& way : hops.ways(a, b)) {
          first_link_.push_back(links_.size());
          links_.insert(links_.end(), way.begin(), way.end());
        }
      }
    }
    first_way_.push_back(first_link_.size());
    first_link_.push_back(links_.size());
  }

  /// Visits the ways from a to b, each as its number among them and its links.
  template <typename Visit>
  void each_way(int a, int b, Visit visit) const {
    const std::size_t pair = at(a) * at(places_) + at(b);
    for (std::size_t way = first_way_[pair]; way < first_way_[pair + 1]; ++way) {
      visit(static_cast<int>(way - first_way_[pair]), links_.begin() + static_cast<std::ptrdiff_t>(first_link_[way]),
            links_.begin() + static_cast<std::ptrdiff_t>(first_link_[way + 1]));
    }
  }

 private:
  int places_;
  std::vector<std::size_t> first_way_;
  std::vector<std::size_t> first_link_;
  std::vector<std::uint32_t> links_;
};

class GreedyRings {
 public:
  GreedyRings(const TransitGraph& hops, Steps& steps) : hops_(hops), flat_(hops), steps_(steps), left_(hops.capacity()) {}

  Packed<RingOrder> run() {
    Packed<RingOrder> set;
    set.bound = hops_.bound();
    while (set.bound > 0 && set.orders.size() < kMostGreedy) {
      auto [ring, rate] = next();
      if (rate <= 0 || (!set.orders.empty() && rate < kWorthARing * set.orders[0].second)) break;
      for (const auto& [link, times] : loads_of(hops_, ring)) left_[link] -= rate * times;
      set.sum += rate;
      set.orders.emplace_back(std::move(ring), rate);
    }
    return set;
  }

 private:
  struct Hop {
    int to = -1;
    int way = 0;
    double width = 0;
    std::ptrdiff_t links = 0;

    bool as_good_as(const Hop& other) const {
      return width > other.width || (width == other.width && links <= other.links);
    }
  };

  /// The best of those that begin at several places: what is left at the end of a ring is often narrow.
  std::pair<RingOrder, double> next() {
    std::pair<RingOrder, double> best{{}, 0};
    const std::uint64_t places = at(hops_.places());
    if (!steps_.take(places * places)) return best;
    find_widest();
    const std::uint64_t starts = std::clamp<std::uint64_t>(kWaysOfARing / (places * places), 1, places);
    for (std::uint64_t i = 0; i < starts; ++i) {
      RingOrder ring;
      const double rate = ring_from(static_cast<int>(i * places / starts), ring);
      if (rate > best.second) best = {std::move(ring), rate};
    }
    const auto first = std::find(best.first.order.begin(), best.first.order.end(), 0) - best.first.order.begin();
    std::rotate(best.first.order.begin(), best.first.order.begin() + first, best.first.order.end());
    std::rotate(best.first.ways.begin(), best.first.ways.begin() + first, best.first.ways.end());
    return best;
  }

  /// The hops while this ring has used none: none is better later, so most need not be looked at again.
  void find_widest() {
    times_.assign(left_.size(), 0);
    widest_.assign(at(hops_.places()), Hop());
    widths_.clear();
    for (int from = 0; from < hops_.places(); ++from) {
      for (int to = 0; to < hops_.places(); ++to) {
        Hop hop;
        improve(hop, from, to);
        widths_.push_back(hop.width);
        if (!widest_[at(from)].as_good_as(hop)) widest_[at(from)] = hop;
      }
    }
  }

  /// The rate of a ring that begins at a place, 0 where it cannot be closed.
  double ring_from(int start, RingOrder& ring) {
    times_.assign(left_.size(), 0);
    ring.order = {start};
    std::vector<int> unused;  // those after the start first, so that each start has another end, too
    for (int i = 1; i < hops_.places(); ++i) unused.push_back((start + i) % hops_.places());
    double rate = kNever;
    while (ring.ways.size() < at(hops_.places())) {
      const int from = ring.order.back();
      const Hop hop = widest_hop(from, unused.empty() ? std::vector<int>{start} : unused);
      if (hop.to < 0) return 0;
      for (const std::uint32_t link : hops_.ways(from, hop.to)[at(hop.way)]) {
        rate = std::min(rate, left_[link] / ++times_[link]);
      }
      ring.ways.push_back(hop.way);
      if (unused.empty()) break;
      ring.order.push_back(hop.to);
      unused.erase(std::find(unused.begin(), unused.end(), hop.to));
    }
    return rate;
  }

  /// The first of the widest hops with the fewest links.
  Hop widest_hop(int from, const std::vector<int>& places) {
    Hop best;
    const double* const widths = widths_.data() + at(from) * at(hops_.places());
    for (const int to : places) {
      if (!steps_.take()) return {};
      if (widths[to] < best.width) continue;
      improve(best, from, to);
      if (best.as_good_as(widest_[at(from)])) break;
    }
    return best;
  }

  /// Puts a way to a place in the best one's place where it is better.
  void improve(Hop& best, int from, int to) const {
    flat_.each_way(from, to, [&](int way, auto link, auto end) {
      Hop hop{to, way, kNever, end - link};
      for (; link != end && hop.width >= best.width; ++link) {
        hop.width = std::min(hop.width, left_[*link] / (times_[*link] + 1));
      }
      if (hop.width > 0 && !best.as_good_as(hop)) best = hop;
    });
  }

  const TransitGraph& hops_;
  const FlatHops flat_;
  Steps& steps_;
  std::vector<double> left_;    // bytes per second, by link
  std::vector<int> times_;      // that this ring passes a link
  std::vector<double> widths_;  // by pair, before this ring
  std::vector<Hop> widest_;     // by the place it begins at, likewise
};

/// The ring's places as a chain, below the place by which it comes from outside; no edges where a hop has no way back.
TreeShape chain_along(const TransitGraph& hops, const RingOrder& ring, OutsideLoad outside) {
  TreeShape shape;
  const std::size_t first = outside > 0 ? 1 : 0;
  if (outside > 0) {
    shape.head = ring.order[1];
    shape.head_way = ring.ways[0];
  }
  for (std::size_t i = first; i + 1 < ring.order.size(); ++i) {
    if (hops.ways(ring.order[i], ring.order[i + 1]).empty() || hops.ways(ring.order[i + 1], ring.order[i]).empty())
      return {};
    shape.edges.emplace_back(ring.order[i], ring.order[i + 1]);
  }
  return shape;
}

/// All rates by the same factor, so that no link is too narrow, and then each, one after the other, as far as it goes.
void fill(const TransitGraph& hops, OutsideLoad outside, Packed<TreeShape>& set) {
  std::vector<double> load(hops.capacity().size(), 0);
  for (const auto& [tree, rate] : set.orders) {
    for (const auto& [link, times] : loads_of(hops, tree, outside)) load[link] += times * rate;
  }
  double fullest = 0;
  for (std::size_t link = 0; link < load.size(); ++link) fullest = std::max(fullest, load[link] / hops.capacity()[link]);
  for (double& full : load) full /= fullest;
  for (auto& [tree, rate] : set.orders) {
    const Loads loads = loads_of(hops, tree, outside);
    double more = kNever;
    for (const auto& [link, times] : loads) more = std::min(more, (hops.capacity()[link] - load[link]) / times);
    more = std::max(0., more);
    for (const auto& [link, times] : loads) load[link] += more * times;
    set.sum += rate = rate / fullest + more;
  }
}

}  // namespace

Packed<RingOrder> greedy_rings(const TransitGraph& hops, Steps& steps) { return GreedyRings(hops, steps).run(); }

Packed<TreeShape> greedy_trees(const TransitGraph& hops, OutsideLoad outside, Steps& steps) {
  const Packed<RingOrder> rings = greedy_rings(hops, steps);
  Packed<TreeShape> set;
  set.bound = rings.bound;
  for (const auto& [ring, rate] : rings.orders) {
    TreeShape chain = chain_along(hops, ring, outside);
    if (!chain.edges.empty()) set.orders.emplace_back(std::move(chain), rate);
  }
  if (set.orders.empty() && set.bound > 0) {
    const std::vector<double> free(hops.capacity().size(), 0);
    std::optional<TreeShape> tree = cheapest_tree(hops, free, outside);
    if (tree) set.orders.emplace_back(*std::move(tree), 1.);
    if (!tree) set.bound = 0;  // there is none at any prices
  }
  fill(hops, outside, set);
  return set;
}

}  // namespace tutti
