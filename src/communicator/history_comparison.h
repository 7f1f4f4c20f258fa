// Compares histories with the peers that a lasting wait is for.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "src/communicator/collective_call.h"
#include "src/communicator/failure_report.h"
#include "src/communicator/plan_cache.h"
#include "src/control/control.h"
#include "src/executors/host/executor.h"
#include "src/links/waiter.h"

namespace tutti {

/// After 100 ms, 400 ms, 1.6 s and so on of a wait its peers are asked what they have called. Their answers are looked at
/// when they have come. The data moves on meanwhile: where links are slow the answers come behind it. Used by one thread at
/// a time. What this is made from outlives it.
class PeerInquiry {
 public:
  /// leavers: a peer that has left is to be noticed, too.
  PeerInquiry(FailureReporter& reporter, ControlPlane& control, bool leavers = false)
      : reporter_(reporter), control_(control), leavers_(leavers) {}

  /// A wait begins.
  void begin() {
    next_ns_ = 100'000'000;
    if (inquiry_ != nullptr) [[unlikely]]
      inquiry_.reset();
  }
  /// Looks again, waited_ns after that. False: a peer has called something else (or left), and the communicator has failed.
  /// Waits for nothing.
  ///
  /// call, sequence  the operation that waits
  /// peers           gives those that are waited for, as std::vector<int>; called where they are asked
  template <typename Peers>
  bool look(std::uint64_t waited_ns, const CollectiveCall& call, std::uint64_t sequence, const Peers& peers) {
    if (inquiry_ != nullptr) {
      if (!inquiry_->over()) return true;
      const std::vector<PeerReport> reports = inquiry_->reports();
      inquiry_.reset();
      return leavers_ ? reporter_.are_there(call, sequence, reports) : reporter_.agrees_with_peers(call, sequence, reports);
    }
    if (waited_ns < next_ns_) return true;
    while (next_ns_ <= waited_ns) next_ns_ *= 4;  // some waits are first looked at when they are long under way
    inquiry_ = control_.inquire(peers(), Deadline::in(next_ns_ - waited_ns));
    return true;
  }

 private:
  FailureReporter& reporter_;
  ControlPlane& control_;
  const bool leavers_;
  std::uint64_t next_ns_ = 0;
  std::unique_ptr<ControlPlane::Inquiry> inquiry_;
};

/// Of the host executor's waits. What this is made from outlives it.
class HistoryComparison final : public WaitObserver {
 public:
  /// sequence: the number of the next operation.
  HistoryComparison(FailureReporter& reporter, ControlPlane& control, const HostExecutor& executor,
                    const std::atomic<std::uint64_t>& sequence)
      : inquiry_(reporter, control), executor_(executor), sequence_(sequence) {}

  /// A call begins; it and its program live until the next one does.
  void begin(const CollectiveCall& call, const LinkedProgram& linked) {
    call_ = &call;
    linked_ = &linked;
    begin_again();
  }
  /// Likewise, like the one before.
  void begin_again() { inquiry_.begin(); }
  bool still_waiting(std::uint64_t waited_ns) override {
    // Relaxed: only changed in a turn, which this is.
    return inquiry_.look(waited_ns, *call_, sequence_.load(std::memory_order_relaxed) - 1,
                         [this] { return linked_->open ? executor_.waiting_for() : linked_->waiting; });
  }

 private:
  PeerInquiry inquiry_;
  const HostExecutor& executor_;
  const std::atomic<std::uint64_t>& sequence_;
  const CollectiveCall* call_ = nullptr;
  const LinkedProgram* linked_ = nullptr;
};

}  // namespace tutti
