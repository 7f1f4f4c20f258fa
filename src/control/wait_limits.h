// How long a wait of the control plane lasts, and what ends it early.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>

#include "src/base/clock.h"
#include "src/base/poll_hook.h"
#include "src/base/status.h"

namespace tutti {

/// A deadline, two flags and the caller's poll hook, which every wait for a new communicator honours. A value.
struct WaitLimits {
  Deadline deadline;
  const std::atomic<bool>* interrupted = nullptr;  ///< true: the creation is given up; looked at every 10 ms
  PollHook hook = {};                              ///< of the thread that waits; empty on a thread of the library's
  const std::atomic<bool>* failed = nullptr;       ///< true: so has the communicator that is being split; see above

  /// Success while the wait may go on; TUTTI_ABORTED where it is to end. Calls the hook.
  Status check() const {
    // Relaxed: the flags carry no data that is read here, and a later look sees them.
    const auto set = [](const std::atomic<bool>* flag) { return flag != nullptr && flag->load(std::memory_order_relaxed); };
    if (set(interrupted)) return Status(TUTTI_ABORTED, "The creation was given up");
    if (set(failed)) return Status(TUTTI_ABORTED, "The communicator that is being split has failed");
    if (hook.ends_wait()) return Status(TUTTI_ABORTED, "The creation was ended by the caller's poll hook");
    return {};
  }
  /// How long to sleep before looking at everything again, in milliseconds, at most `most`.
  int slice_ms(int most = 100) const {
    const bool flagged = interrupted != nullptr || failed != nullptr;
    const int slice = std::min(most, hook.poll != nullptr ? 1 : flagged ? 10 : most);
    const std::uint64_t left = deadline.left_ns();
    if (left >= static_cast<std::uint64_t>(slice) * 1'000'000u) return slice;
    return static_cast<int>(left / 1'000'000u) + 1;
  }
};

}  // namespace tutti
