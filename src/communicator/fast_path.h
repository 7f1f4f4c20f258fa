// A collective like the last one, over other buffers. Most calls are such. What the last call left in place is used as it
// is: the plan, its links, the executor's bindings, the waiter's hook. So little is left to look at that a call of a few
// bytes over shared memory takes no longer than its messages.
#pragma once

#include <cstdint>

#include "src/base/poll_hook.h"
#include "src/communicator/collective_call.h"
#include "src/communicator/history_comparison.h"
#include "src/communicator/plan_cache.h"
#include "src/control/activity.h"
#include "src/executors/host/executor.h"
#include "src/links/waiter.h"

namespace tutti {

/// The one place that knows how to repeat a call. What it is made from outlives it, and runs nothing else between
/// `remember` and `forget`. Used by whoever's turn it is in the order of entry.
class FastPath {
 public:
  FastPath(HostExecutor& executor, Waiter& waiter, HistoryComparison& comparison, ActivityBoard& board)
      : executor_(executor), waiter_(waiter), comparison_(comparison), board_(board) {}

  /// The last call can be repeated no more: another one begins, or its plan goes.
  void forget() { plan_ = nullptr; }
  /// A call has completed. The next may repeat it, where it was flat (flat_call.h) and had no options.
  /// timeout_ns, hook: of calls without options.
  void remember(const PreparedPlan& plan, const CollectiveCall& call, std::uint64_t timeout_ns, const PollHook& hook) {
    const bool plain = call.algorithm.empty() && call.name.empty() && call.timeout_ns == 0 && !call.beside &&
                       !call.finalizes && !call.irregular && !call.one_fold && call.custom == nullptr;
    if (!plain || call.count == 0 || !executor_.may_run_again()) return;
    plan_ = &plan;
    call_ = call;
    comparison_.begin(call_, *plan.linked);
    waiter_.begin(timeout_ns, &comparison_, false, hook);
  }

  /// Whether a call repeats the last one. A buffer that may be NULL (a root's, a barrier's) may be so again.
  bool repeats(const CallShape& shape, const void* send, const void* recv) const {
    return plan_ != nullptr && shape == call_ && (send != nullptr) == (call_.send != nullptr) &&
           (recv != nullptr) == (call_.recv != nullptr);
  }
  /// The call that is repeated, with its latest buffers.
  const CollectiveCall& call() const { return call_; }
  /// Its plan's hash. There is one.
  std::uint64_t hash() const { return plan_->plan.hash; }

  /// Repeats the call, as operation `sequence`. As HostExecutor::run.
  /// executor: as given to the constructor. A reference kept here would be one more load before anything else.
  const Outcome& run(HostExecutor& executor, const void* send, void* recv, std::uint64_t sequence,
                     std::uint64_t fingerprint, std::uint64_t timeout_ns) {
    call_.send = send;
    call_.recv = recv;
    board_.start_again(sequence);
    comparison_.begin_again();
    waiter_.begin_again(timeout_ns);
    return executor.run_again(send, recv, fingerprint, waiter_);
  }

 private:
  HostExecutor& executor_;
  Waiter& waiter_;
  HistoryComparison& comparison_;
  ActivityBoard& board_;
  const PreparedPlan* plan_ = nullptr;  ///< of the last call, where that may be repeated
  CollectiveCall call_;
};

}  // namespace tutti
