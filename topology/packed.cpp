#include "topology/packed.h"

#include <algorithm>
#include <cmath>

#include "topology/greedy.h"
#include "topology/packing.h"
#include "topology/search_costs.h"

namespace tutti {
namespace {

constexpr double kWorthRounding = 1e-6;
/// Up to so many places a table over all subsets is as quick as trying.
constexpr int kFewPlaces = 10;
/// Sets of equal rings are looked for up to this size, each with this part of the steps.
constexpr int kMostEqual = 16;
constexpr std::uint64_t kPartOfSteps = 64;
/// Where the others do not suffice, the greedy search has this part of the steps; for 24 places it needs a thousandth.
constexpr std::uint64_t kPartForGreedy = 512;

/// A ring that the program lacks at these prices; `certain` where none means that there is none.
std::optional<RingOrder> missing_ring(const TransitGraph& hops, const Packing& program, bool& certain, Steps& steps) {
  certain = false;
  const auto missing = [&](const std::optional<RingOrder>& ring) {
    return ring && program.cost(loads_of(hops, *ring)) < 1 - kRounding;
  };
  if (hops.places() > kFewPlaces) {
    std::optional<RingOrder> ring = cheapest_ring(hops, program.prices(), false, steps);
    if (missing(ring)) return ring;
  }
  if (!can_be_exact(hops, steps)) return std::nullopt;
  std::optional<RingOrder> ring = cheapest_ring(hops, program.prices(), true, steps);
  certain = true;
  return ring;
}

/// Prices by which every ring costs at least 1 bound the sum by what all links are worth (weak duality).
template <typename Order>
void tighten(Packed<Order>& packed, const Packing& program, double least_cost) {
  if (least_cost > 0) packed.bound = std::min(packed.bound, program.sum() / std::min(1., least_cost));
}

template <typename Order>
void take_used(Packed<Order>& packed, const Packing& program, const std::vector<Order>& columns) {
  packed.orders.clear();
  packed.sum = 0;
  for (const auto& [column, rate] : program.used()) {
    packed.orders.emplace_back(columns[static_cast<std::size_t>(column)], rate);
    packed.sum += rate;
  }
}

/// Returns the links' prices by which every ring costs at least 1, but for rounding; none where that is not certain.
std::vector<double> pack_by_program(const TransitGraph& hops, RingOrder first, Packed<RingOrder>& packed, Steps& steps) {
  Packing program(hops.capacity());
  std::vector<RingOrder> columns;
  std::vector<double> prices;
  std::optional<RingOrder> next = std::move(first);
  while (next) {
    const Loads loads = loads_of(hops, *next);
    columns.push_back(*std::move(next));
    if (!program.enter(static_cast<int>(columns.size()) - 1, loads, steps)) break;
    if (program.sum() >= packed.bound * (1 - kRounding)) break;
    bool certain = false;
    next = missing_ring(hops, program, certain, steps);
    if (!certain) continue;
    const double cost = next ? program.cost(loads_of(hops, *next)) : kNever;
    tighten(packed, program, cost);
    if (cost >= 1 - kRounding) {
      prices = program.prices();
      break;
    }
  }
  take_used(packed, program, columns);
  return prices;
}

/// Whether rings of this rate, which use whole multiples of it of every link, can have that sum: by weak duality no more
/// than what those multiples are worth. Most rates fail here.
bool may_be_equal(const TransitGraph& hops, const std::vector<double>& prices, double sum, double rate) {
  if (prices.empty()) return true;
  double worth = 0;
  for (std::size_t link = 0; link < prices.size(); ++link) {
    worth += std::floor(hops.capacity()[link] / rate * (1 + kRounding)) * rate * prices[link];
  }
  return worth >= sum * (1 - kWorthRounding);
}

/// The fewest rings of one rate with the same sum. False where there are none, or none are found in time.
bool prefer_equal(const TransitGraph& hops, const std::vector<double>& prices, Packed<RingOrder>& packed, Steps& steps) {
  const std::uint64_t part = steps.left() / kPartOfSteps;
  for (int count = 2; count <= kMostEqual; ++count) {
    if (!may_be_equal(hops, prices, packed.sum, packed.sum / count)) continue;
    Steps few(part);
    std::vector<RingOrder> rings = equal_rings(hops, packed.sum, count, few);
    steps.take(part - few.left());
    if (rings.empty()) continue;
    packed.orders.clear();
    for (RingOrder& ring : rings) packed.orders.emplace_back(std::move(ring), packed.sum / count);
    return true;
  }
  return false;
}

/// The best rates of some orders alone.
template <typename Order, typename LoadsOf>
Packed<Order> best_of(const TransitGraph& hops, const std::vector<Order>& orders, LoadsOf loads_of, Steps& steps) {
  Packing program(hops.capacity());
  std::vector<Loads> loads;
  for (const Order& order : orders) loads.push_back(loads_of(order));
  const auto cost = [&](int column) { return program.cost(loads[static_cast<std::size_t>(column)]); };
  for (;;) {
    int best = 0;
    for (int column = 1; column < static_cast<int>(orders.size()); ++column)
      best = cost(column) < cost(best) ? column : best;
    if (cost(best) >= 1 - kRounding || !program.enter(best, loads[static_cast<std::size_t>(best)], steps)) break;
  }
  Packed<Order> packed;
  take_used(packed, program, orders);
  return packed;
}

/// Leaves out the order with the least rate, again and again, as long as the others can have the sum but for what may be
/// given up.
template <typename Order, typename LoadsOf>
void thin_out(const TransitGraph& hops, double give_up, LoadsOf loads_of, Packed<Order>& packed, Steps& steps) {
  const double enough = packed.sum * (1 - give_up);
  while (give_up > 0 && packed.orders.size() > 1) {
    const auto least = std::min_element(packed.orders.begin(), packed.orders.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
    std::vector<Order> others;
    for (auto one = packed.orders.begin(); one != packed.orders.end(); ++one) {
      if (one != least) others.push_back(one->first);
    }
    Packed<Order> fewer = best_of(hops, others, loads_of, steps);
    if (fewer.sum < enough) return;
    packed.orders = std::move(fewer.orders);
    packed.sum = fewer.sum;
  }
}

/// Sets a part of the steps aside.
Steps share_of(Steps& steps, std::uint64_t part) {
  const std::uint64_t given = steps.left() / part;
  steps.take(given);
  return Steps(given);
}

/// Where the program did not come to its end the greedy set may have more.
template <typename Order>
void take_if_more(Packed<Order>& packed, Packed<Order> greedy) {
  if (greedy.sum <= packed.sum) return;
  packed.orders = std::move(greedy.orders);
  packed.sum = greedy.sum;
}

}  // namespace

Packed<RingOrder> pack_rings(const TransitGraph& hops, double give_up, Steps& steps) {
  if (!hops.few()) return greedy_rings(hops, steps);
  Packed<RingOrder> packed;
  packed.bound = hops.bound();
  if (packed.bound == 0) return packed;
  Steps kept = share_of(steps, kPartForGreedy);
  Steps quarter(steps.left() / 4);
  const std::uint64_t given = quarter.left();
  std::optional<WideRing> widest = widest_ring(hops, packed.bound, quarter);
  steps.take(given - quarter.left());
  if (!widest && quarter.left() > 0) packed.bound = 0;
  if (!widest && quarter.left() == 0) take_if_more(packed, greedy_rings(hops, kept));
  if (!widest) return packed;
  if (widest->rate >= packed.bound * (1 - kRounding)) {
    packed.orders = {{widest->ring, widest->rate}};
    packed.sum = widest->rate;
    return packed;
  }
  const std::vector<double> prices = pack_by_program(hops, std::move(widest->ring), packed, steps);
  if (!packed.optimal()) take_if_more(packed, greedy_rings(hops, kept));
  if (packed.orders.size() > 1 && !prefer_equal(hops, prices, packed, steps)) {
    thin_out(hops, give_up, [&](const RingOrder& ring) { return loads_of(hops, ring); }, packed, steps);
  }
  return packed;
}

Packed<TreeShape> pack_trees(const TransitGraph& hops, OutsideLoad outside, double give_up, Steps& steps) {
  if (!hops.few()) return greedy_trees(hops, outside, steps);
  Packed<TreeShape> packed;
  packed.bound = hops.bound();
  if (packed.bound == 0) return packed;
  Steps kept = share_of(steps, kPartForGreedy);
  Packing program(hops.capacity());
  std::vector<TreeShape> columns;
  for (;;) {
    const auto places = static_cast<std::uint64_t>(hops.places());
    std::optional<TreeShape> tree = cheapest_tree(hops, program.prices(), outside);
    if (!tree) packed.bound = 0;  // there is none at any prices
    if (!tree || !steps.take(places * places)) break;
    const Loads loads = loads_of(hops, *tree, outside);
    const double cost = program.cost(loads);
    tighten(packed, program, cost);
    if (cost >= 1 - kRounding) break;
    columns.push_back(*std::move(tree));
    if (!program.enter(static_cast<int>(columns.size()) - 1, loads, steps)) break;
  }
  take_used(packed, program, columns);
  if (!packed.optimal()) take_if_more(packed, greedy_trees(hops, outside, kept));
  thin_out(hops, give_up, [&](const TreeShape& tree) { return loads_of(hops, tree, outside); }, packed, steps);
  return packed;
}

}  // namespace tutti
