// How fast trees can all-reduce on a network, and how fast anything can: linear programs.
//
// A schedule of trees gives every byte a root; the byte's sum climbs an in-tree to it and goes down an out-tree from it.
// How many bytes a second may take which pair of trees is a packing problem: no link, and no processor that folds, does
// more than it can. Blink (Wang et al., MLSys 2020) packs trees of one root that are used both ways; here every pair has a
// root of its own and its trees need not be the same, so rings are a special case (of the sum that climbs to a ring's place
// along the ring, and goes on along it) and no set of rings or trees is better.
#pragma once

#include <optional>
#include <vector>

#include "tools/plan/synthesis/resources.h"

namespace tutti::synthesis {

struct PackedPair {
  TreePair pair;
  double bytes_per_second = 0;
};

struct TreePacking {
  std::vector<PackedPair> pairs;  ///< all that were found, the fastest first; those beyond the optimum have 0
  double bytes_per_second = 0;    ///< of all together: what an all-reduce of very many bytes reaches
  double bound = 0;               ///< that no set of pairs exceeds, by the prices of what is shared
};

/// What hops cost by the rows' prices (at least 0), for a parent and its child: the sum that climbs to the parent, and the
/// result that comes down. Of hops that cost the same those over few links are the cheaper ones, by next to nothing.
struct PricedHops {
  PricedHops(const Resources& resources, const std::vector<double>& prices);
  HopCosts climb;
  HopCosts descend;
};

/// For every root the pair of trees that costs least. Empty where ranks do not reach each other. Deterministic.
std::vector<TreePair> cheapest_pairs(const PricedHops& hops);

/// The greatest sum of rates, by column generation: where prices of links and processors make some pair cheaper than what
/// it brings, it enters the program. The cheapest pair is, for the best root, a cheapest in-tree and a cheapest out-tree
/// (arborescence.h), so that nothing is overlooked. Ends when sum and bound agree to 1e-6, or after 1,000 rounds.
/// Nothing where ranks do not reach each other, or the solver gives up. has_solver() must be true. Deterministic.
std::optional<TreePacking> pack_tree_pairs(const Resources& resources);

/// Bytes per second that no all-reduce of many bytes exceeds on these resources, whatever it does: every set of ranks must
/// get as many bytes from the others as there are to be summed, what hops there can carry is the cut's, and for every
/// element there are at least 2(p−1) messages (the other ranks' shares before somebody has the sum, and one to each other
/// rank after that; Patarasuk & Yuan 2009) and p−1 folds. has_solver() must be true.
double any_algorithm_bound(const Resources& resources);

}  // namespace tutti::synthesis
