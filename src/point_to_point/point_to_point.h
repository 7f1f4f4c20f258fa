// Point to point: sends and receives that match by (source, tag), progress together and may complete out of order.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "include/tutti/tutti.h"
#include "src/base/operation_count.h"
#include "src/base/poll_hook.h"
#include "src/base/status.h"
#include "src/base/work.h"
#include "src/links/failure_state.h"
#include "src/links/transport_set.h"
#include "src/links/waiter.h"

namespace tutti {

/// A send or a receive, as a verb asks for it. The memory belongs to it until its work has completed.
struct Transfer {
  bool sends = false;
  tutti_type type = TUTTI_UINT8;
  std::byte* memory = nullptr;  ///< only read where it sends
  std::uint64_t bytes = 0;
  std::uint64_t element = 1;  ///< bytes of one element of the type
  int peer = -1;              ///< TUTTI_ANY_SOURCE for a receive from anybody
  std::uint64_t tag = 0;
  std::uint64_t timeout_ns = 0;
};

/// What transfers are told of their communicator: values, and references to what outlives them. Nothing here is virtual,
/// since each message asks for some of it.
struct TransferContext {
  int rank = 0;
  int ranks = 1;
  std::uint64_t ranks_here = 1;  ///< of this machine
  double oversubscription = 1;   ///< ranks that share a core, on the machine where most do
  Transports& transports;
  FailureState& failures;
  const OperationCount& operations_under_way;
  const WaitPolicy& wait_policy;
  const std::atomic<std::uint64_t>& timeout_ns;  ///< of a transfer that has no limit of its own
};

/// The transfers of one communicator. Thread safe.
class PointToPoint {
 public:
  explicit PointToPoint(const TransferContext& context);
  ~PointToPoint();
  PointToPoint(const PointToPoint&) = delete;
  PointToPoint& operator=(const PointToPoint&) = delete;

  /// Posts a transfer; `work` completes with it. It progresses while some thread is in `wait`, and with `background` on a
  /// thread of the engine's too. Throws nothing: where it cannot begin (no memory, no thread), `work` completes with that.
  void post(const Transfer& transfer, std::shared_ptr<Work> work, bool background);
  /// Runs transfers together, in this thread, until all have ended: the first failure among theirs. Where the
  /// communicator's legal() is a failure or its OperationCount is closed, nothing begins and legal() is the answer. hook:
  /// as below. Throws std::bad_alloc, and then none has begun.
  Status exchange(std::span<const Transfer> transfers, const PollHook& hook);
  /// Helps until `work` has completed. hook: as in Communicator::run; where it ends the wait the communicator fails.
  Status wait(const Work& work, const PollHook& hook);
  /// Once the communicator's OperationCount is closed: what `exchange` had begun before has ended then, or counts there.
  /// Waits for one turn of whoever makes progress.
  void settle();
  /// Ends its thread, and whatever is under way as a failure. After that it answers `exchange`, with the communicator's
  /// legal(), and nothing else: finalize does not know who may just be calling.
  void end();

 private:
  class Engine;
  std::unique_ptr<Engine> engine_;
};

}  // namespace tutti
