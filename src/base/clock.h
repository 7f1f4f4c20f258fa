// Time as the library counts it: nanoseconds of CLOCK_MONOTONIC, and deadlines as points on it.
#pragma once

#include <time.h>

#include <cstdint>

namespace tutti {

constexpr std::uint64_t kMs = 1'000'000;          ///< a millisecond in nanoseconds
constexpr std::uint64_t kSecond = 1'000'000'000;  ///< a second in nanoseconds

/// Nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share.
inline std::uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(t.tv_nsec);
}

/// A point in time after which a wait gives up.
struct Deadline {
  std::uint64_t at_ns = UINT64_MAX;     ///< UINT64_MAX: never
  std::uint64_t limit_ns = UINT64_MAX;  ///< how long it was when it was set, for the error's text

  static Deadline in(std::uint64_t ns) {
    const std::uint64_t now = now_ns();
    return {ns > UINT64_MAX - now ? UINT64_MAX : now + ns, ns};
  }
  bool passed() const { return at_ns != UINT64_MAX && now_ns() >= at_ns; }
  /// Nanoseconds left, 0 where it has passed.
  std::uint64_t left_ns() const {
    if (at_ns == UINT64_MAX) return UINT64_MAX;
    const std::uint64_t now = now_ns();
    return now >= at_ns ? 0 : at_ns - now;
  }
};

}  // namespace tutti
