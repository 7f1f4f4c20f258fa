// Sets of rings and trees whose rates add up to the most: the linear program of packing.h with the orders that
// ring_orders.h and tree_orders.h find, and fewer, equal ones where they do as well.
#pragma once

#include <limits>
#include <utility>
#include <vector>

#include "topology/ring_orders.h"
#include "topology/tree_orders.h"

namespace tutti {

/// Orders with their rates in bytes per second.
template <typename Order>
struct Packed {
  std::vector<std::pair<Order, double>> orders;
  double sum = 0;
  /// That no set can exceed: 0 where there certainly is none, infinity where nothing is known.
  double bound = std::numeric_limits<double>::infinity();
  /// The bound is reached, but for rounding.
  bool optimal() const { return sum >= bound * (1 - 1e-7); }
};

/// The best set of rings that `steps` suffice to find, empty where there is none; beyond Hops::few a greedy one (greedy.h).
/// The bound is never above Hops::bound, and holds however few the steps are.
/// give_up  the part of the sum that may be given up where fewer rings have the rest.
Packed<RingOrder> pack_rings(const TransitGraph& hops, double give_up, Steps& steps);

/// The best set of trees, likewise. outside: see tree_orders.h.
Packed<TreeShape> pack_trees(const TransitGraph& hops, OutsideLoad outside, double give_up, Steps& steps);

}  // namespace tutti
