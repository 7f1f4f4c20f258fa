// What ranks that share cores take: costs and terms are turned into those by which select.cpp gets seconds as it always
// does. All that was measured of algorithms on shared cores is here. Where no core is shared, both come back as they are.
#pragma once

#include "algorithms/algorithm.h"
#include "topology/view.h"

namespace tutti {

/// Seconds for each of a Cost's alphas, its bytes' betas and gammas, and its messages.
struct Terms {
  double alpha = 0;
  double beta = 0;
  double gamma = 0;
  double message = 0;  ///< 0 where messages take no other rank's time
};

/// alone: the terms of links of class `on`, were there a core for each rank. Pure. O(ranks).
Terms on_shared_cores(const Terms& alone, const View& view, LinkClass on);
/// Likewise, what an algorithm says of itself. Pure. O(ranks).
Cost on_shared_cores(Cost cost, const Problem& problem, const View& view);

}  // namespace tutti
