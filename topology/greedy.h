// Rings and trees over more places than the linear program takes on (Hops::few).
#pragma once

#include "topology/packed.h"

namespace tutti {

/// Up to 16 rings, one after the other over what those before have left, each going on from place to place to where the
/// most can still be sent. Time about proportional to the ways there are. Empty where that leads to no ring, though there
/// may be some; the bound is Hops::bound.
Packed<RingOrder> greedy_rings(const TransitGraph& hops, Steps& steps);

/// Chains along those rings, at the rates that they can have both ways; one tree with few links where there are no rings.
/// outside: see tree_orders.h.
Packed<TreeShape> greedy_trees(const TransitGraph& hops, OutsideLoad outside, Steps& steps);

}  // namespace tutti
