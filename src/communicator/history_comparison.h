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
/// when they have come. The data moves on meanwhile: where links are slow the answers come behind it. What this is made
/// from outlives it.
class HistoryComparison final : public WaitObserver {
 public:
  /// sequence: the number of the next operation.
  HistoryComparison(FailureReporter& reporter, ControlPlane& control, const HostExecutor& executor,
                    const std::atomic<std::uint64_t>& sequence)
      : reporter_(reporter), control_(control), executor_(executor), sequence_(sequence) {}

  /// A call begins; it and its program live until the next one does.
  void begin(const CollectiveCall& call, const LinkedProgram& linked) {
    call_ = &call;
    linked_ = &linked;
    begin_again();
  }
  /// Likewise, like the one before.
  void begin_again() {
    next_ns_ = 100'000'000;
    if (inquiry_ != nullptr) [[unlikely]]
      inquiry_.reset();
  }
  bool still_waiting(std::uint64_t waited_ns) override {
    if (inquiry_ != nullptr) {
      if (!inquiry_->over()) return true;
      const std::vector<PeerReport> reports = inquiry_->reports();
      inquiry_.reset();
      // Relaxed: only changed in a turn, which this is.
      return reporter_.agrees_with_peers(*call_, sequence_.load(std::memory_order_relaxed) - 1, reports);
    }
    if (waited_ns < next_ns_) return true;
    next_ns_ *= 4;
    inquiry_ =
        control_.inquire(linked_->open ? executor_.waiting_for() : linked_->waiting, Deadline::in(next_ns_ - waited_ns));
    return true;
  }

 private:
  FailureReporter& reporter_;
  ControlPlane& control_;
  const HostExecutor& executor_;
  const std::atomic<std::uint64_t>& sequence_;
  const CollectiveCall* call_ = nullptr;
  const LinkedProgram* linked_ = nullptr;
  std::uint64_t next_ns_ = 0;
  std::unique_ptr<ControlPlane::Inquiry> inquiry_;
};

}  // namespace tutti
