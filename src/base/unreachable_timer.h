// How long something has been missing.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tutti {

/// Adds up the time for which something was missing, as far as somebody looked: of a long time between two looks, in which
/// it may have come unnoticed, only a part counts. Not thread safe.
class UnreachableTimer {
 public:
  /// At `now` (of now_ns) it is missing, or there. Returns the nanoseconds for which it was missing altogether; the first
  /// look only begins.
  std::uint64_t look(std::uint64_t now, bool missing) {
    constexpr std::uint64_t longest = 100'000'000;
    if (missing && looked_ns_ != 0) missing_ns_ += std::min(now - looked_ns_, longest);
    looked_ns_ = now;
    return missing_ns_;
  }

 private:
  std::uint64_t looked_ns_ = 0;
  std::uint64_t missing_ns_ = 0;
};

}  // namespace tutti
