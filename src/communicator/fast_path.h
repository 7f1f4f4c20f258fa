// A collective like the last one, over other buffers. Most calls are such. What the last call left in place is used as it
// is: the plan, its links, the executor's bindings, the waiter's hook. So little is left to look at that a call of a few
// bytes over shared memory takes no longer than its messages.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

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
  /// hash: the call's, for the history. timeout_ns, hook: of calls without options.
  void remember(const PreparedPlan& plan, const CollectiveCall& call, std::uint64_t hash, std::uint64_t timeout_ns,
                const PollHook& hook) {
    const bool plain = call.algorithm.empty() && call.name.empty() && call.timeout_ns == 0 && call.user_tag == 0 &&
                       !call.beside && !call.finalizes && !call.one_fold && call.custom == nullptr &&
                       (!call.irregular || call.problem_units() == 1);
    if (!plain || call.count == 0 || !executor_.may_run_again()) return;
    plan_ = &plan;
    call_ = call;
    hash_ = hash;
    comparison_.begin(call_, *plan.linked);
    waiter_.begin(timeout_ns, &comparison_, false, hook);
  }

  /// Whether a call repeats the last one. A buffer that may be NULL (a root's, a barrier's) may be so again.
  bool repeats(const CallShape& shape, const void* send, const void* recv) const {
    return plan_ != nullptr && shape == call_ && !call_.irregular && (send != nullptr) == (call_.send != nullptr) &&
           (recv != nullptr) == (call_.recv != nullptr);
  }
  /// Likewise a v-variant, over the same blocks. shape: without a count.
  bool repeats(const CallShape& shape, const IrregularArguments& given) const {
    if (plan_ == nullptr || !call_.irregular) return false;
    const bool alike = shape.collective == call_.collective && shape.type == call_.type && shape.op == call_.op &&
                       shape.root == call_.root;
    const CollectiveInfo& info = info_of(shape.collective);
    return alike && has(call_.input, info.has_send_blocks() ? given.send_blocks : &given.send) &&
           has(call_.output, info.has_recv_blocks() ? given.recv_blocks : &given.recv);
  }
  /// The call that is repeated, with its latest buffers.
  const CollectiveCall& call() const { return call_; }
  std::uint64_t hash() const { return hash_; }

  /// Repeats the call, as operation `sequence`: its wait begins.
  void begin(const void* send, void* recv, std::uint64_t sequence, std::uint64_t timeout_ns) {
    call_.send = send;
    call_.recv = recv;
    board_.start_again(sequence);
    comparison_.begin_again();
    waiter_.begin_again(timeout_ns);
  }
  /// Then: as HostExecutor::run, within a turn.
  /// executor: as given to the constructor. A reference kept here would be one more load before anything else.
  const Outcome& run(HostExecutor& executor, std::uint64_t fingerprint) {
    return executor.run_again(call_.send, call_.recv, fingerprint, waiter_);
  }

 private:
  /// given: as many; NULL where this rank has no such buffer, or the call is refused.
  static bool has(const std::vector<tutti_block>& blocks, const tutti_block* given) {
    const auto equal = [](const tutti_block& a, const tutti_block& b) { return a.ptr == b.ptr && a.count == b.count; };
    return blocks.empty() || (given != nullptr && std::equal(blocks.begin(), blocks.end(), given, equal));
  }

  HostExecutor& executor_;
  Waiter& waiter_;
  HistoryComparison& comparison_;
  ActivityBoard& board_;
  const PreparedPlan* plan_ = nullptr;  ///< of the last call, where that may be repeated
  CollectiveCall call_;
  std::uint64_t hash_ = 0;
};

}  // namespace tutti
