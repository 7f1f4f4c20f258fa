#include "tools/plan/synthesis/packing_lp.h"

#include <algorithm>
#include <functional>

#include "tools/plan/synthesis/linear_program.h"
#include "topology/index.h"
#include "topology/search_costs.h"

namespace tutti::synthesis {
namespace {

constexpr int kMostRounds = 1000;
constexpr double kAgree = 1e-6;
/// Besides its price every link of a hop costs a little, of 1 that a pair brings, so that among pairs of the same price
/// those with short ways come.
constexpr double kPerLinkOfHop = 1e-10;

double cost_of(const std::vector<std::uint32_t>& rows, const std::vector<double>& prices) {
  double cost = rows.empty() ? kNever : 0;
  for (const std::uint32_t row : rows) cost += prices[row] + kPerLinkOfHop;
  return cost;
}

double cost_of(const Loads& loads, const std::vector<double>& prices) {
  double cost = 0;
  for (const auto& [row, times] : loads) cost += times * prices[row];
  return cost;
}

/// What prices say that no sum of rates exceeds: capacities at their prices buy no more pairs than this.
double bound_by(const Resources& resources, const std::vector<double>& prices, double cheapest) {
  double worth = 0;
  for (std::size_t row = 0; row < prices.size(); ++row) worth += prices[row] * resources.capacity()[row];
  return cheapest > 0 ? worth / cheapest : kNever;
}

/// The greatest number of bytes a second that hops (those of which `counts`) carry together.
double all_hops(const Resources& resources, const std::function<bool(int, int)>& counts) {
  LinearProgram program(resources.capacity());
  bool any = false;
  for (int a = 0; a < resources.ranks(); ++a) {
    for (int b = 0; b < resources.ranks(); ++b) {
      if (a == b || resources.sending(a, b).empty() || !counts(a, b)) continue;
      Loads loads;
      for (const std::uint32_t row : resources.sending(a, b)) loads.emplace_back(row, 1.0);
      program.add(loads);
      any = true;
    }
  }
  return any && program.solve() ? program.sum() : 0;
}

}  // namespace

PricedHops::PricedHops(const Resources& resources, const std::vector<double>& prices)
    : climb(at(resources.ranks()), std::vector<double>(at(resources.ranks()))), descend(climb) {
  for (int parent = 0; parent < resources.ranks(); ++parent) {
    for (int child = 0; child < resources.ranks(); ++child) {
      climb[at(parent)][at(child)] = cost_of(resources.folding(child, parent), prices);
      descend[at(parent)][at(child)] = cost_of(resources.sending(parent, child), prices);
    }
  }
}

std::vector<TreePair> cheapest_pairs(const PricedHops& hops) {
  std::vector<TreePair> pairs;
  for (int root = 0; root < static_cast<int>(hops.climb.size()); ++root) {
    auto in = cheapest_arborescence(hops.climb, root);
    auto out = cheapest_arborescence(hops.descend, root);
    if (!in || !out) return {};
    pairs.push_back({*std::move(in), *std::move(out)});
  }
  return pairs;
}

std::optional<TreePacking> pack_tree_pairs(const Resources& resources) {
  LinearProgram program(resources.capacity());
  TreePacking packing;
  packing.bound = kNever;
  std::vector<double> prices;
  for (const double capacity : resources.capacity()) prices.push_back(1 / capacity);
  for (int round = 0; round < kMostRounds; ++round) {
    const std::vector<TreePair> pairs = cheapest_pairs(PricedHops(resources, prices));
    if (pairs.empty()) return std::nullopt;
    double cheapest = kNever;
    std::size_t before = packing.pairs.size();
    for (const TreePair& pair : pairs) {
      const Loads loads = resources.loads(pair);
      const double cost = cost_of(loads, prices);
      cheapest = std::min(cheapest, cost);
      const bool known = std::any_of(packing.pairs.begin(), packing.pairs.end(),
                                     [&](const PackedPair& other) { return other.pair == pair; });
      if (known || (round > 0 && cost >= 1 - kAgree / 2)) continue;
      packing.pairs.push_back({pair, 0});
      program.add(loads);
    }
    packing.bound = std::min(packing.bound, bound_by(resources, prices, cheapest));
    if (packing.pairs.size() == before || packing.bytes_per_second >= packing.bound * (1 - kAgree)) break;
    if (!program.solve()) return std::nullopt;
    packing.bytes_per_second = program.sum();
    prices = program.prices();
  }
  const std::vector<double> rates = program.columns();
  for (std::size_t column = 0; column < rates.size(); ++column) packing.pairs[column].bytes_per_second = rates[column];
  std::stable_sort(packing.pairs.begin(), packing.pairs.end(),
                   [](const PackedPair& a, const PackedPair& b) { return a.bytes_per_second > b.bytes_per_second; });
  return packing;
}

double any_algorithm_bound(const Resources& resources) {
  const int ranks = resources.ranks();
  const double others = ranks - 1;
  double bound = all_hops(resources, [](int, int) { return true; }) / (2 * others);
  if (resources.folds_per_second() > 0) bound = std::min(bound, ranks * resources.folds_per_second() / others);
  for (unsigned set = 1; set + 1 < 1u << ranks; ++set) {
    const auto inside = [&](int rank) { return (set >> rank & 1) != 0; };
    bound = std::min(bound, all_hops(resources, [&](int a, int b) { return inside(a) && !inside(b); }));
  }
  return bound;
}

}  // namespace tutti::synthesis
