// The exchange of gradients beside computation: while the gradients of later layers are still being computed, the buckets
// of the earlier ones are already on their way (Li et al. 2020, PyTorch DDP), and they are waited for only when the next
// forward pass comes to read what they change (Peng et al. 2019, ByteScheduler). A rank that was held up for as long as a
// layer takes thus holds up nobody.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "trainer/failure.h"
#include "trainer/peers.h"
#include "trainer/sampling.h"

namespace tutti::trainer {

/// Adds up an array of gradients over the ranks, in place, in buckets from its beginning to its end. The buckets follow
/// from the calls of ready(), which must be the same on every rank. Not thread safe; `peers` and the array must outlive it.
class GradientExchange {
 public:
  /// bucket: elements that are worth an operation of their own; at least 1.
  /// operands: as of Peers::start_sum; where it is not 0, `bucket` is the whole array.
  GradientExchange(Peers& peers, std::span<float> gradients, std::size_t bucket, std::size_t operands = 0);

  /// Gradients [beginning of the array or last end, end) are final from now on. Starts the sum of everything ready once
  /// it fills a bucket, and of the rest at the array's end.
  void ready(std::size_t end);

  /// Waits for the buckets under way that begin before `end`, in the order they were started, and hands each range of
  /// finished sums to `use`, once; with the array's end it waits for all and is ready for the next step. After a
  /// failure nothing more is started or used, and each call tells the first.
  TrainingOutcome settle(std::size_t end, const std::function<void(SampleRange)>& use);

  /// Seconds that settle() has waited so far: communication that was not hidden behind computation.
  double waited_seconds() const { return waited_seconds_; }

 private:
  Peers& peers_;
  std::span<float> gradients_;
  std::size_t bucket_;
  std::size_t operands_;
  std::size_t posted_ = 0;              ///< [0, posted_) was started in this step
  std::vector<SampleRange> under_way_;  ///< this step's buckets, by slot
  std::size_t settled_ = 0;             ///< buckets of these that were waited for
  TrainingOutcome failure_;
  double waited_seconds_ = 0;
};

}  // namespace tutti::trainer
