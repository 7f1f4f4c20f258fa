// How long a wait of the control plane lasts, and what ends it early.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>

#include "src/base/clock.h"
#include "src/base/status.h"

namespace tutti {

/// A deadline, an abort flag and the caller's poll hook, which every wait of the communicator honours. A value.
struct Patience {
  Deadline deadline;
  const std::atomic<bool>* interrupted = nullptr;  ///< true: stop waiting (abort); looked at every 10 ms
  int (*poll)(void* ctx) = nullptr;                ///< tutti_config.poll: called every millisecond, non-zero: stop waiting
  void* poll_ctx = nullptr;

  /// Success while the wait may go on; TUTTI_ABORTED where the caller wants it to end. Calls the hook.
  Status check() const {
    // Relaxed: the flag carries no data, and a later look sees it.
    if (interrupted != nullptr && interrupted->load(std::memory_order_relaxed)) {
      return Status(TUTTI_ABORTED, "The wait was ended by an abort of this communicator");
    }
    if (poll != nullptr && poll(poll_ctx) != 0) return Status(TUTTI_ABORTED, "The wait was ended by the caller's poll hook");
    return {};
  }
  /// How long to sleep before looking at everything again, in milliseconds, at most `most`.
  int slice_ms(int most = 100) const {
    const int slice = std::min(most, poll != nullptr ? 1 : interrupted != nullptr ? 10 : most);
    const std::uint64_t left = deadline.left_ns();
    if (left >= static_cast<std::uint64_t>(slice) * 1'000'000u) return slice;
    return static_cast<int>(left / 1'000'000u) + 1;
  }
};

/// "30 s", "1.5 s", "200 ms", "20 us": a span of time as errors tell it, never as 0 of a unit that is too coarse.
inline std::string duration_text(std::uint64_t ns) {
  if (ns < 1'000) return std::to_string(ns) + " ns";
  if (ns < 1'000'000) return std::to_string(ns / 1'000) + " us";
  const std::uint64_t ms = ns / 1'000'000u;
  if (ms < 1000 || ms % 100 != 0) return std::to_string(ms) + " ms";
  const std::string whole = std::to_string(ms / 1000);
  return ms % 1000 == 0 ? whole + " s" : whole + "." + std::to_string(ms % 1000 / 100) + " s";
}

}  // namespace tutti
