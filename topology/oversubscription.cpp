#include "topology/oversubscription.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "src/base/link_shape.h"
#include "topology/caches.h"

namespace tutti {

void share_cores(View& view, double oversubscription, std::vector<std::int32_t> core) {
  const bool shared = oversubscription > 1;
  view.oversubscription = oversubscription;
  view.core = shared ? std::move(core) : std::vector<std::int32_t>();
  view.barrier_ways = shared ? 8 : 4;  // waits are dearer then
  view.ring_order.clear();
  // What neighbours on one core hand on stays in its caches, and few links lead from core to core. With two ranks a core,
  // one sends while the other waits for the other core. That hides more of the way than shorter links save
  // (docs/performance.md, "Where ranks share cores").
  if (view.core.empty() || oversubscription <= 2) return;
  const auto place = [&view](std::int32_t rank) {
    const auto r = static_cast<std::size_t>(rank);
    return std::pair(view.machine[r], view.core[r]);
  };
  view.ring_order.resize(view.core.size());
  std::iota(view.ring_order.begin(), view.ring_order.end(), 0);
  std::ranges::stable_sort(view.ring_order, {}, place);
}

bool waiters_tell(const View& view) { return view.oversubscription > 1 && view.core.empty(); }

std::uint64_t longest_eager(const View& view) {
  // Source, slot and target of each rank's then stay in the core's own cache. A sender that runs ahead further finds them
  // gone, and had better wait for the receiver, even where that hands the core over. No more than a slot, and no less than
  // what is over before the receiver's word could come.
  const double share = static_cast<double>(cache_sizes().l2_share()) / (4 * view.oversubscription);
  return std::clamp<std::uint64_t>(static_cast<std::uint64_t>(share), 32 * 1024, link_slot_bytes);
}

}  // namespace tutti
