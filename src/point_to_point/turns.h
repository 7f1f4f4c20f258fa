// How threads that wait for transfers share the engine: one makes progress for all, the others sleep meanwhile.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "src/base/no_cancellation.h"

namespace tutti {

/// A mutex that is tried rather than waited for. A store gives it back, which costs a short transfer less than another
/// atomic exchange.
class TriedMutex {
 public:
  /// Whether it is the caller's now.
  bool try_lock() {
    // Relaxed: courtesy, on which nothing else depends. Acquire: pairs with unlock.
    return wanted_.load(std::memory_order_relaxed) == 0 && !held_.exchange(true, std::memory_order_acquire);
  }
  /// For whoever cannot do without. Its holder is within one turn, naps included, and nobody else gets it meanwhile.
  /// Sleeps, as the holder may be of a lower priority on the same core. No cancellation point: destructors lock it.
  void lock() {
    const NoCancellation whole;
    wanted_.fetch_add(1, std::memory_order_relaxed);  // relaxed: see try_lock
    // Acquire: pairs with unlock.
    while (held_.exchange(true, std::memory_order_acquire)) std::this_thread::sleep_for(std::chrono::microseconds(50));
    wanted_.fetch_sub(1, std::memory_order_relaxed);  // relaxed: see try_lock
  }
  void unlock() { held_.store(false, std::memory_order_release); }  // release: what the holder did is seen by the next

 private:
  std::atomic<bool> held_{false};
  std::atomic<std::uint32_t> wanted_{0};
};

/// Threads that sleep while another makes progress for all. Thread safe.
class Followers {
 public:
  /// Whether some thread may sleep. One that comes at this moment may be missed.
  bool any() const { return count_.load(std::memory_order_relaxed) != 0; }  // relaxed: see follow
  /// Sleeps unless `over()`, until wake or for a millisecond, which bounds what a missed wake-up costs.
  template <typename Over>
  void follow(const Over& over) {
    std::unique_lock lock(mutex_);
    // Relaxed: what it is not ordered with is a wake-up that is missed; see above.
    count_.fetch_add(1, std::memory_order_relaxed);
    if (!over()) changed_.wait_for(lock, std::chrono::milliseconds(1));
    count_.fetch_sub(1, std::memory_order_relaxed);
  }
  /// The leader stops, or some transfer has ended.
  void wake() {
    if (!any()) return;
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  }

 private:
  std::atomic<std::uint32_t> count_{0};
  std::mutex mutex_;  ///< guards nothing but the sleep on changed_
  std::condition_variable changed_;
};

}  // namespace tutti
