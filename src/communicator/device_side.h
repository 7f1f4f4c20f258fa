// A communicator's collectives on device memory: which calls they are, what they wait for, and how they end.
//
//     ready (device, buffers) → prepare (plan) → issue (all ranks met, links, launch) → complete, or a watch of the launch
//
// The data moves in src/device's launches. Errors are those of host calls, in the same words.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/base/poll_hook.h"
#include "src/base/settings.h"
#include "src/base/status.h"
#include "src/base/work.h"
#include "src/bootstrap/rendezvous.h"
#include "src/communicator/collective_call.h"
#include "src/communicator/failure_report.h"
#include "src/communicator/history_comparison.h"
#include "src/communicator/plan_cache.h"
#include "src/cuda/stream.h"
#include "src/device/team.h"
#include "src/device/world.h"
#include "src/links/failure_state.h"

namespace tutti {

class LaunchWatch;

/// A plan ready to run on a device, once it was opened.
struct PreparedDevicePlan {
  Plan plan;
  Lowered lowered;
  const char* algorithm = nullptr;  ///< its name; lives as long as the communicator
  KindName name;                    ///< of the collective
  KindName algorithm_name;
  std::shared_ptr<DevicePlan> device;                    ///< null until it was opened
  std::vector<std::shared_ptr<DeviceBinding>> bindings;  ///< of the last calls over blocks; the oldest first
  bool logged = false;
};

/// A stream of CUDA's that a call runs on, and the capture that it is in, if any.
struct CallStream {
  cuda::StreamHandle handle = nullptr;
  bool captured = false;
  cuda::GraphHandle graph = nullptr;
};

/// A device call that was issued.
struct DeviceCall {
  CollectiveCall call;
  std::uint64_t sequence = UINT64_MAX;  ///< none of one that was captured
  std::uint64_t issued_ns = 0;
  std::shared_ptr<Meeting> meeting;  ///< of its team; null where there is nothing to launch
  std::shared_ptr<Flight> flight;    ///< once it was launched
  std::uint32_t job = 0;             ///< the rank's, in that
  cuda::StreamHandle stream = nullptr;
  std::shared_ptr<Work> work;  ///< of a call on a stream
};

/// What a device side is made from. All of it outlives it.
struct DeviceSideParts {
  const Membership& membership;
  const Settings& settings;
  const PlanCache& plans;  ///< chooses
  FailureState& failures;
  FailureReporter& reporter;
  ActivityBoard& board;
  const std::atomic<std::uint64_t>& timeout_ns;  ///< of calls that have no limit of their own
};

/// One rank's. `armed`, `abort` and what says so are thread safe; all else is used by whoever's turn it is.
class DeviceSide {
 public:
  explicit DeviceSide(const DeviceSideParts& parts);
  ~DeviceSide();
  DeviceSide(const DeviceSide&) = delete;
  DeviceSide& operator=(const DeviceSide&) = delete;
  /// Nothing is issued any more, and what was has ended. Graphs that were captured end at once when they are replayed from
  /// now on. Idempotent.
  void end();

  /// Whether a call may be of device memory, so that its buffers have to be looked at. Relaxed: it only becomes true, and
  /// callers who passed device memory made it so before.
  bool armed() const { return armed_.load(std::memory_order_relaxed); }
  /// Arms where somebody has loaded the driver by now.
  void arm_if_loaded();

  /// Where a call is to run. stream: nullptr without one. Errors: TUTTI_INVALID_ARGUMENT (a CUDA stream where settings say
  /// that all memory is the host's); as cuda::Driver::get.
  Result<Processor> processor_of(const CollectiveCall& call, const CallStream* stream);
  /// Refuses memory of a device for what runs on the host alone. what: "tutti_send". Thread safe. Errors:
  /// TUTTI_UNSUPPORTED.
  Status refuse_device_memory(const void* buffer, const char* what) const;
  /// Says which device is this rank's. Waits for nobody; thread safe. Errors: TUTTI_UNSUPPORTED (ranks of several
  /// processes); as DeviceRuntime::get.
  Status announce();
  bool is_announced() const { return announced_.load(std::memory_order_acquire); }  // acquire: as in announce
  /// Looks at the stream and the buffers of a call once announced. The stream's capture is filled in. Errors:
  /// TUTTI_INVALID_ARGUMENT, TUTTI_UNSUPPORTED.
  Status ready(const CollectiveCall& call, CallStream* stream);
  /// The plan of a call. Errors: as of `select`.
  Result<PreparedDevicePlan*> prepare(const Problem& problem, const std::string& wish);

  /// Makes all that a call's launch needs, for each call of a batch before the first is issued. It may wait for the device,
  /// where launches wait for those to come. captured: the call is in a capture. sequence: of the next operation. Errors: as
  /// of issue.
  Status open_early(PreparedDevicePlan& plan, const CollectiveCall& call, bool captured, std::uint64_t sequence,
                    const PollHook& hook);
  /// Puts a call of operation `out.sequence` beside those of its team; see Team::deposit. Waits until all ranks know each
  /// other's devices, in the first call. Errors: of waits, of the driver.
  Status issue(PreparedDevicePlan& plan, std::uint64_t history, const CallStream* stream, const PollHook& hook,
               DeviceCall& out);
  /// What Team::capture takes of a call in a capture. hash: of its operation. Errors: as of issue.
  Result<Deposit> deposit_for_capture(PreparedDevicePlan& plan, const CollectiveCall& call, std::uint64_t hash,
                                      const CallStream& stream, const PollHook& hook);
  /// Launches what all ranks of the team have come to. Whether the call, which was issued, is launched then, or cannot be.
  bool try_launch(const DeviceCall& call);
  /// Waits a little for the launch of an issued call. Errors: its limit is over, the hook ends it, the communicator has
  /// failed.
  Status wait_a_little(const DeviceCall& call, const PollHook& hook);
  /// Waits until an issued call is launched. Thread safe, as what follows. Errors: the communicator has failed.
  Status await_launch(DeviceCall& call, const PollHook& hook);
  /// Waits until a launched call has ended. Errors: the communicator has failed.
  Status await_end(DeviceCall& call, const PollHook& hook);
  /// The outcome of a call that ended so. Errors: the communicator has failed.
  Status outcome(const DeviceCall& call, JobEnd end, const PollHook& hook);
  /// Its end is looked for by a thread of the library's, which completes its work. Errors: no thread is left.
  Status watch(DeviceCall call);

  /// Bytes that the communicator takes on this rank's device, together with its other ranks there. Thread safe.
  std::uint64_t memory_bytes() const;
  /// Whether the communicator failed, and every launch is to end; then they do.
  bool has_failed();
  /// Launches end, those to come included. Waits for nothing.
  void abort();
  /// The communicator fails, and its launches end. The first error is given.
  Status fail(Status status);
  /// A failure that the device's context has met, told as the communicator's.
  Status check_health();
  FailureReporter& reporter() { return parts_.reporter; }
  ControlPlane& control() { return *parts_.membership.control; }
  /// Those that a launch may wait for: all others.
  std::vector<int> others() const;
  Team& team() { return world_->team(rank()); }
  /// Whether its launches may have to come behind those of `other`: both order all on one device, or these are of one
  /// stream.
  bool is_ordered_with(const DeviceSide& other, bool one_stream) const {
    return runtime_ == other.runtime_ &&
           (one_stream || (parts_.settings.launch_order && other.parts_.settings.launch_order));
  }
  bool is_of_communicator(const DeviceSide& other) const { return world_ == other.world_; }

 private:
  int rank() const { return parts_.membership.rank; }
  const std::atomic<bool>* failed() const { return &parts_.membership.control->failed(); }
  std::uint64_t limit_of(const CollectiveCall& call) const;
  Status check_processes() const;
  void log_device() const;
  Status check_stream(CallStream& stream) const;
  Status check_buffers(const CollectiveCall& call, bool on_stream) const;
  Status check_buffer(const void* buffer, const char* what, bool on_stream) const;
  Status await_ranks(const CollectiveCall& call, std::uint64_t sequence, const PollHook& hook);
  SetUpLimit set_up_limit(const CollectiveCall& call) const { return {failed(), Deadline::in(limit_of(call))}; }
  Status open(PreparedDevicePlan& plan, const CollectiveCall& call);
  Result<std::shared_ptr<DeviceBinding>> bind(PreparedDevicePlan& plan, const CollectiveCall& call);
  Status await_written(const DevicePlan& plan, const DeviceBinding* binding, const CollectiveCall& call) const;
  Result<Deposit> deposit_of(PreparedDevicePlan& plan, const CollectiveCall& call, std::uint64_t sequence,
                             const PollHook& hook);
  Status fail_captured(const DeviceCall& call, JobEnd end);
  Status linger(const DeviceCall& call, Status failure);
  bool uses(const CollectiveCall& call, Buffer buffer) const;
  static Result<bool> has_blocks_on_device(const CollectiveCall& call);
  static Result<bool> is_on_device(const void* buffer);

  const DeviceSideParts parts_;
  std::atomic<bool> armed_{false};
  std::mutex announcing_;
  std::shared_ptr<DeviceRuntime> runtime_;
  std::shared_ptr<DeviceWorld> world_;
  std::atomic<bool> announced_{false};  ///< the two are there, for good
  std::atomic<Team*> team_{nullptr};    ///< once connected
  cuda::OwnedStream stream_;            ///< of calls without one
  std::unordered_map<Problem, PreparedDevicePlan, ProblemHash> plans_;
  std::string wish_;  ///< of all plans
  std::shared_ptr<const DeviceBlock> scratch_;
  std::unique_ptr<LaunchWatch> watch_;  ///< null after `end`
};

}  // namespace tutti
