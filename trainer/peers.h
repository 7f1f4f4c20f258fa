// What data-parallel training needs of the other ranks. The trainer runs it on a Tutti communicator (communicator.h);
// tests run it on ranks that are threads of one process.
#pragma once

#include <cstddef>
#include <span>

#include "trainer/failure.h"

namespace tutti::trainer {

/// One rank's view of its group. All calls but rank, size and the times are collective, in the same order on every rank.
/// Used by one thread. A failure is final: no further call but destruction follows.
class Peers {
 public:
  virtual ~Peers() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Zeroed memory for `count` numbers that sums move quickest. It is the peers', and lives as long as they. Not
  /// collective.
  virtual Fallible<std::span<float>> memory(std::size_t count) = 0;

  /// Starts adding up `data` over the ranks, in place, behind the caller's back; at most one under way in each `slot`.
  /// `data` belongs to the operation until wait(slot) has returned.
  /// operands: 0, or how many all ranks together add up, each as many. This rank's lie one behind the other, `data` being
  /// the first of them, which becomes the sum. Its bits are then the same for any number of ranks.
  virtual TrainingOutcome start_sum(std::size_t slot, std::span<float> data, std::size_t operands) = 0;
  virtual TrainingOutcome wait(std::size_t slot) = 0;

  /// Adds up `values` over the ranks, in place; returns when done.
  virtual TrainingOutcome sum(std::span<double> values) = 0;
  /// Puts rank r's `bytes` bytes at all + r * bytes, on every rank.
  virtual TrainingOutcome gather(const void* mine, std::size_t bytes, void* all) = 0;
  /// Copies rank 0's bytes to every rank.
  virtual TrainingOutcome broadcast(void* data, std::size_t bytes) = 0;

  /// Seconds spent inside operations so far, whoever waited for them.
  virtual double communication_seconds() const = 0;
};

}  // namespace tutti::trainer
