#include "topology/ring_orders.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "topology/index.h"
#include "topology/search_costs.h"

namespace tutti {
namespace {

constexpr int kMostForSubsets = 17;  // 2^16 subsets of 16 places: 8 MiB

/// The price of the cheapest way of every hop.
class HopCosts {
 public:
  HopCosts(const TransitGraph& hops, const std::vector<double>& prices) : places_(hops.places()) {
    for (int a = 0; a < places_; ++a) {
      for (int b = 0; b < places_; ++b) add(hops.ways(a, b), prices);
    }
  }
  double cost(int a, int b) const { return costs_[at(a * places_ + b)]; }
  int way(int a, int b) const { return ways_[at(a * places_ + b)]; }

  RingOrder ring(std::vector<int> order) const {
    RingOrder ring;
    for (std::size_t i = 0; i < order.size(); ++i) ring.ways.push_back(way(order[i], order[(i + 1) % order.size()]));
    ring.order = std::move(order);
    return ring;
  }

 private:
  void add(const std::vector<TransitGraph::Way>& ways, const std::vector<double>& prices) {
    double least = kNever;
    int best = 0;
    for (std::size_t w = 0; w < ways.size(); ++w) {
      double cost = 0;
      for (const std::uint32_t link : ways[w]) cost += prices[link] + kPerLink;
      if (cost >= least) continue;
      least = cost;
      best = static_cast<int>(w);
    }
    costs_.push_back(least);
    ways_.push_back(best);
  }

  int places_;
  std::vector<double> costs_;
  std::vector<int> ways_;
};

/// Held and Karp's table: the cheapest way from place 0 through a subset of the others, ending at one of them.
std::vector<int> cheapest_by_subsets(const HopCosts& costs, int places) {
  const int others = places - 1;
  const std::size_t subsets = std::size_t{1} << others;
  std::vector<double> least(subsets * at(others), kNever);
  const auto entry = [&](std::size_t subset, int last) -> double& { return least[subset * at(others) + at(last)]; };
  for (int i = 0; i < others; ++i) entry(std::size_t{1} << i, i) = costs.cost(0, i + 1);
  for (std::size_t subset = 1; subset < subsets; ++subset) {
    for (int last = 0; last < others; ++last) {
      const double so_far = entry(subset, last);
      if (so_far == kNever) continue;
      for (int next = 0; next < others; ++next) {
        if ((subset >> next & 1) != 0) continue;
        double& there = entry(subset | std::size_t{1} << next, next);
        there = std::min(there, so_far + costs.cost(last + 1, next + 1));
      }
    }
  }
  // Backwards: at each step the lowest place by which the least cost was come to.
  std::vector<int> order;
  std::size_t subset = subsets - 1;
  int after = 0;
  while (subset != 0) {
    int best = -1;
    double cost = kNever;
    for (int last = 0; last < others; ++last) {
      if ((subset >> last & 1) == 0) continue;
      const double whole = entry(subset, last) + costs.cost(last + 1, after);
      if (whole < cost) std::tie(cost, best) = std::pair(whole, last);
    }
    if (best < 0) return {};
    order.push_back(best + 1);
    subset &= ~(std::size_t{1} << best);
    after = best + 1;
  }
  order.push_back(0);
  std::reverse(order.begin(), order.end());
  return order;
}

std::uint64_t subset_steps(int places) {
  const auto others = static_cast<std::uint64_t>(places - 1);
  return (std::uint64_t{1} << others) * others * others / 2;
}

double cost_of(const HopCosts& costs, const std::vector<int>& order) {
  double sum = 0;
  for (std::size_t i = 0; i < order.size(); ++i) sum += costs.cost(order[i], order[(i + 1) % order.size()]);
  return sum;
}

std::vector<int> by_nearest_neighbor(const HopCosts& costs, int places, int start) {
  std::vector<int> order = {start};
  std::vector<bool> used(at(places), false);
  used[at(start)] = true;
  while (order.size() < at(places)) {
    int best = -1;
    for (int next = 0; next < places; ++next) {
      if (used[at(next)]) continue;
      if (best < 0 || costs.cost(order.back(), next) < costs.cost(order.back(), best)) best = next;
    }
    used[at(best)] = true;
    order.push_back(best);
  }
  return order;
}

/// Moves stretches of up to three places to where the ring is cheapest (Or 1976), as long as that helps. Hops differ by
/// direction, so that stretches are not turned.
void move_stretches(const HopCosts& costs, std::vector<int>& order, Steps& steps) {
  const std::size_t n = order.size();
  double cost = cost_of(costs, order);
  std::vector<int> moved;
  bool helped = true;
  while (helped) {
    helped = false;
    for (std::size_t length = 1; length <= 3 && length + 1 < n; ++length) {
      for (std::size_t from = 0; from + length <= n; ++from) {
        for (std::size_t to = 0; to + length <= n; ++to) {
          if (from == to || !steps.take(n)) continue;
          moved = order;
          const auto stretch = moved.begin() + static_cast<std::ptrdiff_t>(from);
          const auto end = stretch + static_cast<std::ptrdiff_t>(length);
          const auto place = moved.begin() + static_cast<std::ptrdiff_t>(to);
          to < from ? std::rotate(place, stretch, end)
                    : std::rotate(stretch, end, place + static_cast<std::ptrdiff_t>(length));
          const double other = cost_of(costs, moved);
          if (!(other < cost - kRounding * (1 + std::abs(other)))) continue;
          order = moved;
          cost = other;
          helped = true;
        }
      }
    }
  }
}

std::vector<int> cheapest_by_moves(const HopCosts& costs, int places, Steps& steps) {
  std::vector<int> best;
  double least = kNever;
  for (int start = 0; start < places && (best.empty() || steps.left() > 0); ++start) {
    std::vector<int> order = by_nearest_neighbor(costs, places, start);
    move_stretches(costs, order, steps);
    const double cost = cost_of(costs, order);
    if (cost >= least) continue;
    least = cost;
    best = std::move(order);
  }
  if (!best.empty()) std::rotate(best.begin(), std::find(best.begin(), best.end(), 0), best.end());
  return best;
}

/// Depth-first search for the widest ring.
class WidestSearch {
 public:
  WidestSearch(const TransitGraph& hops, double bound, Steps& steps)
      : hops_(hops), bound_(bound * (1 - kRounding)), steps_(steps), times_(hops.capacity().size(), 0) {
    for (int place = 0; place < hops.places(); ++place) rank_hops(place);
  }

  std::optional<WideRing> run() {
    ring_.order = {0};
    used_.assign(at(hops_.places()), false);
    used_[0] = true;
    descend(kNever);
    if (best_.rate == 0) return std::nullopt;
    best_.exact = !cut_short_;
    return best_;
  }

 private:
  struct Hop {
    double width;
    std::size_t links;
    int to;
    int way;
  };

  /// A place's hops, widest first, so that the first descent is a good one.
  void rank_hops(int from) {
    std::vector<Hop> hops;
    for (int to = 0; to < hops_.places(); ++to) {
      const std::vector<TransitGraph::Way>& ways = hops_.ways(from, to);
      for (std::size_t w = 0; w < ways.size(); ++w) {
        double width = kNever;
        for (const std::uint32_t link : ways[w]) width = std::min(width, hops_.capacity()[link]);
        hops.push_back({width, ways[w].size(), to, static_cast<int>(w)});
      }
    }
    std::sort(hops.begin(), hops.end(), [](const Hop& a, const Hop& b) {
      return std::tuple(-a.width, a.links, a.to, a.way) < std::tuple(-b.width, b.links, b.to, b.way);
    });
    hops_from_.push_back(std::move(hops));
  }

  bool done() const { return cut_short_ || best_.rate >= bound_; }

  void descend(double rate) {
    const int last = ring_.order.back();
    const bool closing = ring_.order.size() == at(hops_.places());
    for (const Hop& hop : hops_from_[at(last)]) {
      if (done() || hop.width <= best_.rate) return;  // the hops after it are no wider
      if (closing ? hop.to != 0 : used_[at(hop.to)]) continue;
      if (!steps_.take(hop.links)) {
        cut_short_ = true;
        return;
      }
      take(hop, rate, closing);
    }
  }

  void take(const Hop& hop, double rate, bool closing) {
    const TransitGraph::Way& way = hops_.ways(ring_.order.back(), hop.to)[at(hop.way)];
    for (const std::uint32_t link : way) rate = std::min(rate, hops_.capacity()[link] / ++times_[link]);
    if (rate > best_.rate) {
      ring_.ways.push_back(hop.way);
      if (closing) {
        best_.ring = ring_;
        best_.rate = rate;
      } else {
        ring_.order.push_back(hop.to);
        used_[at(hop.to)] = true;
        descend(rate);
        used_[at(hop.to)] = false;
        ring_.order.pop_back();
      }
      ring_.ways.pop_back();
    }
    for (const std::uint32_t link : way) --times_[link];
  }

  const TransitGraph& hops_;
  const double bound_;
  Steps& steps_;
  std::vector<int> times_;
  std::vector<std::vector<Hop>> hops_from_;
  std::vector<bool> used_;
  RingOrder ring_;
  WideRing best_;
  bool cut_short_ = false;
};

/// Depth-first search for rings that take one unit of every link they pass, and do not take more units than there are.
class EqualSearch {
 public:
  EqualSearch(const TransitGraph& hops, double rate, int count, bool both_ways, Steps& steps)
      : hops_(hops), count_(count), both_ways_(both_ways), steps_(steps) {
    for (const double capacity : hops.capacity()) {
      units_.push_back(static_cast<int>(std::min(1e6, std::floor(capacity / rate * (1 + kRounding)))));
    }
  }

  std::vector<RingOrder> run() {
    if (!enough_at_places()) return {};
    return next_ring() ? rings_ : std::vector<RingOrder>();
  }

 private:
  /// Whether all rings can leave and enter each place: much cheaper to see than by trying.
  bool enough_at_places() const {
    for (int place = 0; place < hops_.places(); ++place) {
      std::map<std::uint32_t, int> first;
      std::map<std::uint32_t, int> last;
      for (int other = 0; other < hops_.places(); ++other) {
        for (const TransitGraph::Way& way : hops_.ways(place, other)) first[way.front()] = units_[way.front()];
        for (const TransitGraph::Way& way : hops_.ways(other, place)) last[way.back()] = units_[way.back()];
      }
      for (const auto& units : {first, last}) {
        int sum = 0;
        for (const auto& [link, count] : units) sum += count;
        if (sum < count_) return false;
      }
    }
    return true;
  }

  bool next_ring() {
    if (static_cast<int>(rings_.size()) == count_) return true;
    RingOrder ring;
    ring.order = {0};
    std::vector<bool> used(at(hops_.places()), false);
    used[0] = true;
    return extend(ring, used);
  }

  bool extend(RingOrder& ring, std::vector<bool>& used) {
    const bool closing = ring.order.size() == at(hops_.places());
    const int last = ring.order.back();
    for (int to = closing ? 0 : 1; to < (closing ? 1 : hops_.places()); ++to) {
      if (!closing && used[at(to)]) continue;
      for (std::size_t w = 0; w < hops_.ways(last, to).size(); ++w) {
        if (!steps_.take()) return false;
        if (!take(last, to, w)) continue;
        ring.ways.push_back(static_cast<int>(w));
        if (closing ? complete(ring) : go_on(ring, used, to)) return true;
        ring.ways.pop_back();
        give_back(last, to, w);
      }
    }
    return false;
  }

  bool go_on(RingOrder& ring, std::vector<bool>& used, int to) {
    // A set of rings comes up once: in ascending order.
    ring.order.push_back(to);
    used[at(to)] = true;
    const bool found = !before_last(ring) && extend(ring, used);
    used[at(to)] = false;
    ring.order.pop_back();
    return found;
  }

  bool before_last(const RingOrder& ring) const {
    if (rings_.empty()) return false;
    const std::vector<int>& last = rings_[rings_.size() - (both_ways_ ? 2 : 1)].order;
    return std::lexicographical_compare(ring.order.begin(), ring.order.end(), last.begin(),
                                        last.begin() + static_cast<std::ptrdiff_t>(ring.order.size()));
  }

  bool complete(const RingOrder& ring) {
    rings_.push_back(ring);
    if (both_ways_) rings_.push_back(reversed(ring));
    if (next_ring()) return true;
    rings_.resize(rings_.size() - (both_ways_ ? 2 : 1));
    return false;
  }

  static RingOrder reversed(const RingOrder& ring) {
    RingOrder back = ring;
    std::reverse(back.order.begin() + 1, back.order.end());
    std::reverse(back.ways.begin(), back.ways.end());
    return back;
  }

  bool take(int a, int b, std::size_t w) {
    const auto take_way = [&](const TransitGraph::Way& way) {
      bool enough = true;
      for (const std::uint32_t link : way) enough = --units_[link] >= 0 && enough;
      return enough;
    };
    if (both_ways_ && hops_.ways(b, a).size() <= w) return false;
    const bool there = take_way(hops_.ways(a, b)[w]);
    const bool back = !both_ways_ || take_way(hops_.ways(b, a)[w]);
    if (!there || !back) give_back(a, b, w);
    return there && back;
  }

  void give_back(int a, int b, std::size_t w) {
    for (const std::uint32_t link : hops_.ways(a, b)[w]) ++units_[link];
    if (!both_ways_) return;
    for (const std::uint32_t link : hops_.ways(b, a)[w]) ++units_[link];
  }

  const TransitGraph& hops_;
  const int count_;
  const bool both_ways_;
  Steps& steps_;
  std::vector<int> units_;
  std::vector<RingOrder> rings_;
};

}  // namespace

Loads loads_of(const TransitGraph& hops, const RingOrder& ring) {
  std::map<std::uint32_t, double> times;
  for (std::size_t i = 0; i < ring.order.size(); ++i) {
    const int next = ring.order[(i + 1) % ring.order.size()];
    for (const std::uint32_t link : hops.ways(ring.order[i], next)[at(ring.ways[i])]) ++times[link];
  }
  return {times.begin(), times.end()};
}

double rate_of(const TransitGraph& hops, const RingOrder& ring) {
  double rate = kNever;
  for (const auto& [link, times] : loads_of(hops, ring)) rate = std::min(rate, hops.capacity()[link] / times);
  return rate;
}

bool can_be_exact(const TransitGraph& hops, const Steps& steps) {
  return hops.places() <= kMostForSubsets && subset_steps(hops.places()) < steps.left();
}

std::optional<RingOrder> cheapest_ring(const TransitGraph& hops, const std::vector<double>& prices, bool exact,
                                       Steps& steps) {
  const HopCosts costs(hops, prices);
  if (exact) steps.take(subset_steps(hops.places()));
  std::vector<int> order =
      exact ? cheapest_by_subsets(costs, hops.places()) : cheapest_by_moves(costs, hops.places(), steps);
  if (order.empty()) return std::nullopt;
  return costs.ring(std::move(order));
}

std::optional<WideRing> widest_ring(const TransitGraph& hops, double bound, Steps& steps) {
  return WidestSearch(hops, bound, steps).run();
}

std::vector<RingOrder> equal_rings(const TransitGraph& hops, double total, int count, Steps& steps) {
  if (count % 2 == 0 && hops.places() > 2) {
    Steps half(steps.left() / 2);
    const std::uint64_t given = half.left();
    std::vector<RingOrder> rings = EqualSearch(hops, total / count, count, true, half).run();
    steps.take(given - half.left());
    if (!rings.empty()) return rings;
  }
  return EqualSearch(hops, total / count, count, false, steps).run();
}

}  // namespace tutti
