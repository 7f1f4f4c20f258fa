// Results that are best written past the caches: from which size on, on this processor.
//
// A result that stays in a core's own cache is written there; one that no cache will keep is written past them, which
// spares memory the reading of lines that are about to be overwritten. Between the two, the cache that cores share
// decides: where it is near (one core complex's) it beats memory; where it is a mesh away, or other guests of the machine
// fill it, it does not, whatever size it says it has. That no topology tells, so it is measured.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "topology/caches.h"

namespace tutti {

/// What of the answer is known without measuring. Bytes that a call touches: its operand and its result.
struct StreamingBounds {
  std::uint64_t never_below;  ///< they fit into what a core has to itself
  std::uint64_t always_from;  ///< more than one of the ranks that share a cache may count on of it
};

/// How many of `ranks` of one machine, which has so many CPUs, share a cache, where they are spread evenly. Pure; at
/// least 1.
std::uint64_t cache_sharers(const CacheSizes& sizes, std::uint64_t ranks, std::uint64_t cpus);

/// Pure. sharers: ranks that share the last cache, at least 1. Sizes that nobody knows count as usual ones; never_below <=
/// always_from.
StreamingBounds streaming_bounds(const CacheSizes& sizes, std::uint64_t sharers);

/// Whether memory beats the shared cache, told from several measurements. One says little where others share the cache: of
/// the first ones of two ranks, 7 in 24 found memory faster where it is not (Zen 4). The cache is believed at first, and
/// whoever is believed until the other has won some times in a row, apart from each other. Thread safe; never fails.
class NonTemporalTrials {
 public:
  static constexpr int kInARow = 4;
  static constexpr std::uint64_t kApartNs = 20'000'000;
  static constexpr std::uint64_t kAgainNs = 60'000'000'000;  ///< from one that bears out what is believed to the next

  /// memory_wins: measures. Called within this call where it is time to, by one thread at a time; others who ask meanwhile
  /// hear what is believed so far. now_ns: a clock's.
  template <typename Measure>
  bool memory_is_better(std::uint64_t now_ns, Measure&& memory_wins) {
    // Relaxed, both: they carry no data, and who hears of a measurement late answers as before it.
    if (now_ns >= next_ns_.load(std::memory_order_relaxed)) {
      const std::unique_lock lock(measuring_, std::try_to_lock);
      if (lock.owns_lock() && now_ns >= next_ns_.load(std::memory_order_relaxed)) note(now_ns, memory_wins());
    }
    return memory_.load(std::memory_order_relaxed);
  }

 private:
  void note(std::uint64_t now_ns, bool memory_won) {
    const bool believed = memory_.load(std::memory_order_relaxed);
    against_ = memory_won == believed ? 0 : against_ + 1;
    const bool convinced = against_ == kInARow;
    if (convinced) {
      memory_.store(memory_won, std::memory_order_relaxed);
      against_ = 0;
    }
    next_ns_.store(now_ns + (against_ == 0 ? kAgainNs : kApartNs), std::memory_order_relaxed);
  }

  std::mutex measuring_;  ///< guards against_
  int against_ = 0;       ///< measurements in a row against what is believed
  std::atomic<bool> memory_{false};
  std::atomic<std::uint64_t> next_ns_{0};
};

/// Whether a call that touches so many bytes had best write its result past the caches, where `ranks` of this machine make
/// such calls together. Where it is asked about bytes between the bounds it measures now and then, see NonTemporalTrials: a
/// few milliseconds, and 4 times the L2 cache in memory for that long. Where that memory cannot be had, no. Thread safe;
/// never fails.
bool use_non_temporal(std::uint64_t touched, std::uint64_t ranks);

}  // namespace tutti
