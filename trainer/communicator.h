// Training over a Tutti communicator, through the public face alone.
#pragma once

#include <vector>

#include "trainer/peers.h"
#include "tutti/tutti.h"

namespace tutti::trainer {

/// Gradients go over a host queue of this object's, everything else blocks. The communicator stays the caller's and must
/// outlive it. Used by one thread.
class CommunicatorPeers : public Peers {
 public:
  /// Call open() before anything else.
  explicit CommunicatorPeers(tutti_comm* comm) : comm_(comm) {}
  ~CommunicatorPeers() override;
  CommunicatorPeers(const CommunicatorPeers&) = delete;
  CommunicatorPeers& operator=(const CommunicatorPeers&) = delete;

  /// Reads rank and size, and makes the queue.
  TrainingOutcome open();

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Fallible<std::span<float>> memory(std::size_t count) override;
  TrainingOutcome start_sum(std::size_t slot, std::span<float> data, std::size_t operands) override;
  TrainingOutcome wait(std::size_t slot) override;
  TrainingOutcome sum(std::span<double> values) override;
  TrainingOutcome gather(const void* mine, std::size_t bytes, void* all) override;
  TrainingOutcome broadcast(void* data, std::size_t bytes) override;
  double communication_seconds() const override;

  /// The first status that was not a success; the communicator's error has the rest.
  tutti_status status() const { return status_; }

 private:
  TrainingOutcome outcome(tutti_status status);

  tutti_comm* comm_;
  tutti_queue* queue_ = nullptr;
  int rank_ = 0;
  int size_ = 1;
  tutti_status status_ = TUTTI_SUCCESS;
  std::uint64_t busy_ns_ = 0;       ///< that the gradients' all-reduces have taken, hidden or not
  std::vector<void*> memory_;       ///< of tutti_memory_alloc: peers read and write it in place
  std::vector<tutti_work*> works_;  ///< [slot], null where nothing is under way
};

}  // namespace tutti::trainer
