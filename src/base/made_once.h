// What a library makes when it is first asked for, and then keeps.
#pragma once

#include <atomic>
#include <mutex>

#include "src/base/per_process.h"

namespace tutti {

/// A T that is made by whoever asks first, and kept for the process and those forked from it. A function's static does the
/// same, but a fork while one thread makes it leaves the child a guard that nobody will ever open. Here the child makes its
/// own. Never destroyed, as threads of the program may outlive static destructors. Thread safe; to be constant-initialised.
template <typename T>
class MadeOnce {
 public:
  constexpr MadeOnce() = default;
  MadeOnce(const MadeOnce&) = delete;
  MadeOnce& operator=(const MadeOnce&) = delete;

  /// make: gives the T. Called within this call, by one thread of the process; others wait for it. What it throws goes on
  /// to the caller, and the next one who asks tries again.
  template <typename Make>
  T& get(Make make) {
    return got([&] { return new T(make()); });
  }
  /// The same by T's own constructor.
  T& get() {
    return got([] { return new T(); });
  }

 private:
  template <typename Allocate>
  T& got(Allocate allocate) {
    // Acquire: pairs with the release below, after which the T is whole.
    if (T* const there = made_.load(std::memory_order_acquire)) return *there;
    const std::lock_guard lock(making_.get());
    // Relaxed: who stored it held the lock, or did so before the fork.
    if (T* const there = made_.load(std::memory_order_relaxed)) return *there;
    T* const fresh = allocate();
    made_.store(fresh, std::memory_order_release);
    return *fresh;
  }

  PerProcess<std::mutex> making_;
  std::atomic<T*> made_{nullptr};
};

}  // namespace tutti
