// Why a collective failed: one sentence that names the operation, the ranks at fault and what to do.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/communicator/collective_call.h"
#include "src/control/control.h"
#include "src/control/wait_limits.h"
#include "src/executors/host/executor.h"
#include "src/links/failure_state.h"
#include "src/links/waiter.h"

namespace tutti {

/// Reports the failures of a communicator's collectives: finds the cause, records it as the first error and tells the
/// peers. What it is made from outlives it. Used by whoever's turn it is in the order of entry.
class FailureReporter {
 public:
  /// timeout_ns: of calls that have no limit of their own.
  FailureReporter(FailureState& failures, ControlPlane& control, const HostExecutor& executor, Waiter& waiter,
                  const std::atomic<std::uint64_t>& timeout_ns)
      : failures_(failures), control_(control), executor_(executor), waiter_(waiter), timeout_ns_(timeout_ns) {}

  /// The error of a run that did not complete, or the first error there was.
  Status report(const Outcome& outcome, const CollectiveCall& call, std::uint64_t sequence);
  /// Likewise, of a wait that the waiter gave up. waiting: the peers that it was for.
  Status report_gave_up(const CollectiveCall& call, std::uint64_t sequence, const std::vector<int>& waiting);
  /// Likewise, of a peer whose link broke; `why` is the transport's.
  Status report_lost(int peer, const std::string& why);
  /// Whether the peers have called the same, as far as they and this rank have got. Where one has not, the communicator
  /// fails.
  bool agrees_with_peers(const CollectiveCall& call, std::uint64_t sequence, std::span<const PeerReport> peers);
  /// How sentences name an operation: `all_reduce #3 (gradients) of "world"`.
  std::string label(const CollectiveCall& call, std::uint64_t sequence) const;

 private:
  Status report_mismatch(int peer, const CollectiveCall& call, std::uint64_t sequence);
  Status report_deadline(const CollectiveCall& call, std::uint64_t sequence, const std::vector<int>& waiting);
  Error error_of(tutti_status status, const CollectiveCall& call, std::uint64_t sequence) const;
  std::string absence(const PeerReport& report, std::uint64_t sequence, std::uint64_t limit_ns) const;
  WaitLimits asking(std::uint64_t ns);

  FailureState& failures_;
  ControlPlane& control_;
  const HostExecutor& executor_;
  Waiter& waiter_;
  const std::atomic<std::uint64_t>& timeout_ns_;
};

}  // namespace tutti
