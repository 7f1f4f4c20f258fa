// The ring of all ranks.
#pragma once

#include <algorithm>
#include <vector>

#include "algorithms/algorithms.h"
#include "algorithms/arithmetic.h"
#include "algorithms/phases.h"

namespace tutti {

/// Algorithm::symmetry of those that use a RankRing.
inline std::vector<int> around_ring_order(const Problem& problem, const View& view) {
  return view.ring_order.empty() ? std::vector<int>{problem.ranks} : std::vector<int>{};
}

/// The ring of a view's ranks, which must outlive it.
class RankRing {
 public:
  explicit RankRing(const View& view) : order_(view.ring_order), size_(view.ranks()) {}

  /// The rank at a position, any number of times around.
  int rank(int position) const {
    const int at = wrap_rank(position, size_);
    return order_.empty() ? at : order_[static_cast<std::size_t>(at)];
  }
  /// The ring as a rank sees it, whose share is the one `ahead` positions further. O(n) where the view has an order.
  Ring ring(int rank, int ahead) const {
    const auto found = std::find(order_.begin(), order_.end(), rank);
    const int at = order_.empty() ? rank : static_cast<int>(found - order_.begin());
    return {size_, this->rank(at - 1), this->rank(at + 1), at + ahead};
  }

 private:
  const std::vector<std::int32_t>& order_;
  int size_;
};

}  // namespace tutti
