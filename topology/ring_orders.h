// Orders of places in a ring: the cheapest by prices of links, the widest, and several that share the links evenly.
#pragma once

#include <optional>
#include <vector>

#include "topology/transit_graph.h"

namespace tutti {

/// Places in the order of a ring, from place 0, and which of its ways each hop takes: ways[i] from order[i] to the next.
struct RingOrder {
  std::vector<int> order;
  std::vector<int> ways;
  friend auto operator<=>(const RingOrder&, const RingOrder&) = default;
};

/// How often the ring passes each link.
Loads loads_of(const TransitGraph& hops, const RingOrder& ring);

/// The most that each hop of the ring can carry at once, in the capacities' unit.
double rate_of(const TransitGraph& hops, const RingOrder& ring);

/// The ring that costs least by the links' prices (at least 0), nothing where there is none. Of rings that cost the same
/// one with few links.
/// exact  by dynamic programming over subsets (Held & Karp 1962), where can_be_exact; else what the nearest neighbor and
///        moves of stretches (Or 1976) come to, or nothing where that leads nowhere.
std::optional<RingOrder> cheapest_ring(const TransitGraph& hops, const std::vector<double>& prices, bool exact,
                                       Steps& steps);

/// Whether there are few enough places (17) and enough steps for that.
bool can_be_exact(const TransitGraph& hops, const Steps& steps);

/// The ring whose rate_of is greatest, by depth-first search that leaves out what cannot beat the best so far and ends at
/// `bound`. Nothing where there is no ring, or none was found in time. `exact` where the search was not cut short.
struct WideRing {
  RingOrder ring;
  double rate = 0;
  bool exact = false;
};
std::optional<WideRing> widest_ring(const TransitGraph& hops, double bound, Steps& steps);

/// `count` rings of the rate `total` / count each that no link is too narrow for; each next to its reverse where that is
/// possible. Empty where there are none, or none were found in time.
std::vector<RingOrder> equal_rings(const TransitGraph& hops, double total, int count, Steps& steps);

}  // namespace tutti
