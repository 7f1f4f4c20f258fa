// The ring of all ranks.
#pragma once

#include <algorithm>
#include <numeric>
#include <tuple>
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/arithmetic.h"
#include "algorithms/phases.h"

namespace tutti {

/// Whether ranks that are bound to one core stand beside each other in rings: where more than two share one on average, on
/// the machine where most do. With two, one
/// sends while the other waits for the other core, and that hides more of the way than shorter links save
/// (docs/performance.md, "Where ranks share cores").
inline bool rings_go_by_cores(const View& view) { return !view.core.empty() && view.oversubscription > 2; }

/// Algorithm::symmetry of those that use a RankRing.
inline std::vector<int> around_ring_order(const Problem& problem, const View& view) {
  return rings_go_by_cores(view) ? std::vector<int>{} : std::vector<int>{problem.ranks};
}

/// In which order ranks stand in a ring: by their numbers, or by their cores and then their numbers. What neighbours on one
/// core hand on stays in its caches, and as few links as can be lead from core to core (8 ranks on 2 cores, bound in turn:
/// 2 instead of 8).
class RankRing {
 public:
  /// O(1) where rings go by numbers, else O(n log n).
  explicit RankRing(const View& view) : size_(view.ranks()) {
    if (!rings_go_by_cores(view)) return;
    order_.resize(view.core.size());
    std::iota(order_.begin(), order_.end(), 0);
    const auto place = [&view](int rank) {
      const auto r = static_cast<std::size_t>(rank);
      return std::tuple(view.machine[r], view.core[r], rank);
    };
    std::sort(order_.begin(), order_.end(), [&place](int a, int b) { return place(a) < place(b); });
  }

  /// The rank at a position, any number of times around.
  int rank(int position) const {
    const int at = wrap_rank(position, size_);
    return order_.empty() ? at : order_[static_cast<std::size_t>(at)];
  }
  /// The ring as a rank sees it, whose share is the one `ahead` positions further. O(n) where rings go by cores.
  Ring ring(int rank, int ahead) const {
    const auto found = std::find(order_.begin(), order_.end(), rank);
    const int at = order_.empty() ? rank : static_cast<int>(found - order_.begin());
    return {size_, this->rank(at - 1), this->rank(at + 1), at + ahead};
  }

 private:
  int size_;
  std::vector<int> order_;  ///< empty: by their numbers
};

}  // namespace tutti
