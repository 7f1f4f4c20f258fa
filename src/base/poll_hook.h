// The caller's poll hook. Only waits in threads of the caller's carry it: the library's threads ask nobody.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/base/status.h"

namespace tutti {

/// tutti_config.poll: called about every millisecond within every wait, and by creations and splits at least once. A value;
/// empty where there is none.
struct PollHook {
  int (*poll)(void*) = nullptr;
  void* ctx = nullptr;

  friend bool operator==(const PollHook&, const PollHook&) = default;
  /// Whether the caller wants the wait to end. Called with no lock held.
  bool ends_wait() const { return poll != nullptr && poll(ctx) != 0; }
  /// How long to sleep, of `most`, before the hook is due again.
  std::uint64_t slice_ns(std::uint64_t most) const {
    constexpr std::uint64_t millisecond = 1'000'000;
    return poll != nullptr ? std::min(most, millisecond) : most;
  }
};

/// What a wait answers that its hook ended; what was waited for goes on.
inline Status ended_by_hook() {
  return Status(TUTTI_ABORTED, "the wait was ended by the caller's poll hook; what it waited for goes on",
                "Abort the communicator if it should end, too.");
}

}  // namespace tutti
