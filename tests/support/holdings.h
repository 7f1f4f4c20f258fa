// What a process holds of the system: threads and descriptors.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <ostream>

namespace tutti::test {

struct Holdings {
  std::ptrdiff_t threads = 0;
  std::ptrdiff_t descriptors = 0;

  static Holdings now() {
    const auto entries = [](const char* folder) { return std::distance(std::filesystem::directory_iterator(folder), {}); };
    return {entries("/proc/self/task"), entries("/proc/self/fd")};
  }
  bool operator==(const Holdings&) const = default;
  bool within(const Holdings& most) const { return threads <= most.threads && descriptors <= most.descriptors; }
  friend std::ostream& operator<<(std::ostream& out, const Holdings& held) {
    return out << held.threads << " threads and " << held.descriptors << " descriptors";
  }
};

/// Whether this process soon holds no more than that. The library's own threads close what they serve a moment after the
/// call that made it needless has returned.
inline testing::AssertionResult holds_no_more_than(const Holdings& most,
                                                   std::chrono::milliseconds soon = std::chrono::seconds(5)) {
  const auto over = std::chrono::steady_clock::now() + soon;
  // One look decides: those threads may let somebody in between two, for a moment.
  for (Holdings held = Holdings::now(); !held.within(most); held = Holdings::now()) {
    if (std::chrono::steady_clock::now() >= over) return testing::AssertionFailure() << held << " instead of " << most;
    ::usleep(2'000);
  }
  return testing::AssertionSuccess();
}

}  // namespace tutti::test
