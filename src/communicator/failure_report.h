// Why a collective failed: one sentence that names the operation, the ranks at fault and what to do.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/poll_hook.h"
#include "src/base/status.h"
#include "src/communicator/collective_call.h"
#include "src/control/control.h"
#include "src/control/wait_limits.h"
#include "src/links/failure_state.h"
#include "src/links/waiter.h"

namespace tutti {

/// Reports the failures of a communicator's collectives: finds the cause, records it as the first error and tells the
/// peers. What it is made from outlives it. Thread safe.
class FailureReporter {
 public:
  /// timeout_ns: of calls that have no limit of their own.
  FailureReporter(FailureState& failures, ControlPlane& control, const std::atomic<std::uint64_t>& timeout_ns)
      : failures_(failures), control_(control), timeout_ns_(timeout_ns) {}

  // Below, `hook` is the caller's: it ends what takes a while, and is empty in a thread of the library's.

  /// The error of a wait that was given up for `why`, or the first error there was. waiting: the peers that it was for.
  Status report_gave_up(GaveUp why, const CollectiveCall& call, std::uint64_t sequence, const std::vector<int>& waiting,
                        const PollHook& hook);
  /// Likewise, of a peer whose link broke; `why` is the transport's.
  Status report_lost(int peer, const std::string& why, const PollHook& hook);
  /// Likewise, of a peer whose message was another operation's.
  Status report_mismatch(int peer, const CollectiveCall& call, std::uint64_t sequence, const PollHook& hook);
  /// A v-variant begins whose counts only pairs of ranks share. What it leaves in links an operation after it may meet.
  void note_irregular(std::uint64_t sequence, const char* kind) {
    const std::lock_guard lock(irregular_mutex_);
    irregular_ = {sequence, kind};
  }
  /// As report_mismatch of a v-variant's message, whose length in bytes may be another than its block's. Both ranks may
  /// have called the same.
  Status report_length(int peer, const CollectiveCall& call, std::uint64_t sequence, std::uint64_t bytes,
                       std::uint64_t expected, const PollHook& hook);
  /// Whether the peers have called the same, as far as they and this rank have got. Where one has not, the communicator
  /// fails.
  bool agrees_with_peers(const CollectiveCall& call, std::uint64_t sequence, std::span<const PeerReport> peers);
  /// Likewise, and whether none of them has left that did not complete the operation: no link tells where data moves on
  /// devices.
  bool are_there(const CollectiveCall& call, std::uint64_t sequence, std::span<const PeerReport> peers);
  /// How sentences name an operation: `all_reduce #3 (gradients) of "world"`. sequence: UINT64_MAX in a capture.
  std::string label(const CollectiveCall& call, std::uint64_t sequence) const;

 private:
  Status report_deadline(const CollectiveCall& call, std::uint64_t sequence, const std::vector<int>& waiting,
                         const PollHook& hook);
  Status blame_blocks(std::string message, const CollectiveCall& call, std::uint64_t sequence, const PeerReport& report);
  Error error_of(tutti_status status, const CollectiveCall& call, std::uint64_t sequence) const;
  std::string absence(const PeerReport& report, std::uint64_t sequence, std::uint64_t limit_ns) const;
  WaitLimits asking(std::uint64_t ns, const PollHook& hook);

  FailureState& failures_;
  ControlPlane& control_;
  const std::atomic<std::uint64_t>& timeout_ns_;
  struct IrregularCall {
    std::uint64_t sequence;
    const char* kind;
  };
  std::optional<IrregularCall> last_irregular() const {
    const std::lock_guard lock(irregular_mutex_);
    return irregular_;
  }
  mutable std::mutex irregular_mutex_;      ///< a thread of the library's may look at what a caller's begins
  std::optional<IrregularCall> irregular_;  ///< the last of note_irregular
};

}  // namespace tutti
