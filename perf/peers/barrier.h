// Where the ranks of a contender meet before and after what is timed: the tool's own barrier, the same for all contenders.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace tutti::perf {

/// A barrier in a file that the ranks map. Not thread safe: one thread a rank.
class Barrier {
 public:
  Barrier() = default;
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;
  ~Barrier();

  /// Maps `path`, which any rank may be the first to make. `oversubscribed`: more ranks than CPUs. Returns "" or a
  /// sentence.
  std::string open(const std::string& path, int ranks, bool oversubscribed);

  /// How to wait: kKeen leaves as early as it can; kQuiet naps, so as not to disturb ranks that still work.
  enum class Wait { kKeen, kQuiet };

  /// Waits until all ranks have come. False after 100 s.
  bool arrive_and_wait(Wait wait);

 private:
  struct Shared {
    std::atomic<uint32_t> arrived;
    std::atomic<uint32_t> generation;
  };
  void pause(Wait wait, uint64_t turn) const;

  Shared* shared_ = nullptr;
  uint32_t ranks_ = 0;
  bool oversubscribed_ = false;
};

}  // namespace tutti::perf
