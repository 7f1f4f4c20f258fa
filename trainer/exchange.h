// The exchange of gradients beside back-propagation: while earlier layers are still being computed, the buckets of the
// later ones are already on their way (Li et al. 2020, PyTorch DDP).
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "trainer/failure.h"
#include "trainer/peers.h"
#include "trainer/sampling.h"

namespace tutti::trainer {

/// Adds up one array of gradients over the ranks into another, in buckets from its end to its beginning. The buckets follow from the
/// calls of ready(), which must be the same on every rank. Not thread safe; `peers` and both arrays must outlive it.
class GradientExchange {
 public:
  /// sums     as long as `gradients`, or the same memory.
  /// bucket   elements that are worth an operation of their own; at least 1.
  GradientExchange(Peers& peers, std::span<const float> gradients, std::span<float> sums, std::size_t bucket);

  /// Gradients [begin, end of the array or last begin) are final from now on. Starts the sum of everything ready once it
  /// fills a bucket, and of the rest at begin = 0.
  void ready(std::size_t begin);

  /// Waits for the buckets in the order they were started, hands each range of finished sums to `use`, and is ready for the next
  /// step. The first failure of the whole exchange ends it.
  Outcome finish(const std::function<void(Range)>& use);

  /// Seconds that finish() has waited so far: communication that was not hidden behind computation.
  double waited_seconds() const { return waited_seconds_; }

 private:
  Peers& peers_;
  std::span<const float> gradients_;
  std::span<float> sums_;
  std::size_t bucket_;
  std::size_t posted_;  ///< [posted_, end) is under way
  std::vector<Range> under_way_;
  Outcome failure_;
  double waited_seconds_ = 0;
};

}  // namespace tutti::trainer
