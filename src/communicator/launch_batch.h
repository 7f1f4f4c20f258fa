// Calls on CUDA streams that one thread makes together: when each is issued, and which share a launch.
#pragma once

#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "src/base/poll_hook.h"
#include "src/base/status.h"
#include "src/communicator/device_side.h"

namespace tutti {

/// Stream calls that a thread makes together, of any communicators. One thread may hold several ranks of a team. So none of
/// the calls is waited for before all are issued, unless `admits` holds others back. Nor is any launched before it has to
/// be, so that calls of one communicator share a launch.
class LaunchBatch {
 public:
  void add(DeviceSide& side, DeviceCall call) { issued_.push_back({&side, std::move(call)}); }
  void add_captured(DeviceSide& side, DeviceCall call, Deposit deposit, cuda::GraphHandle graph) {
    captured_.push_back({&side, std::move(call), std::move(deposit), graph});
  }
  /// Calls are tried in rounds.
  void begin_round() { held_.clear(); }
  /// Whether a call may be issued now. It is held back where what its stream has of another communicator is not launched
  /// yet: it could be launched before that, and so overtake it. Whatever of its rank or its stream comes behind it in the
  /// round is held back, too.
  bool admits(const DeviceSide& side, const CallStream& stream);
  /// Waits a little for what holds calls back, once a round has issued none. Errors: as DeviceSide::wait_a_little.
  Status await_progress(const PollHook& hook);
  /// Waits until all are launched. Their outcomes are in their works from then on, also of those that failed; the first
  /// failure is given. hook: asked meanwhile.
  Status end(const PollHook& hook);

 private:
  struct Issued {
    DeviceSide* side;
    DeviceCall call;
  };
  struct Captured {
    DeviceSide* side;
    DeviceCall call;
    Deposit deposit;
    cuda::GraphHandle graph;
  };
  struct Held {
    const DeviceSide* side;
    cuda::StreamHandle stream;
    std::size_t by;  ///< which of those that are issued; SIZE_MAX: one that is held back itself
  };
  /// refused: gets the teams of which a launch was.
  Status launch_captured(std::set<Team*>& refused);
  static std::vector<Captured*> next_operation(const std::vector<Captured*>& left);
  static std::vector<Deposit> deposits_of(const std::vector<Captured*>& calls);
  static bool can_join(const std::vector<Captured*>& launch, const std::vector<Captured*>& operation);
  static Status capture_together(const std::vector<Captured*>& calls);

  std::vector<Issued> issued_;
  std::vector<Held> held_;
  std::vector<Captured> captured_;
};

}  // namespace tutti
