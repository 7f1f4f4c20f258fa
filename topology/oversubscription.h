// What the library decides by how ranks share cores, all in one place. Costs are in src/selection/shared_cores.h.
#pragma once

#include <cstdint>
#include <vector>

#include "topology/view.h"

namespace tutti {

/// Has so many ranks share a core, on the machine where most do. Sets what programs owe to that, too: View::ring_order and
/// View::barrier_ways. The view's machines must be known. core: as View::core; left out where no core is shared.
void share_cores(View& view, double oversubscription, std::vector<std::int32_t> core = {});

/// Whether ranks tell each other when they leave their core. Ranks that know who shares theirs go by that, and spare it.
bool waiters_tell(const View& view);

/// Bytes of the longest transfer between two ranks that is sent before the receiver has asked for it.
std::uint64_t longest_eager(const View& view);

}  // namespace tutti
