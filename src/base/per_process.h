// What a process has once, and a process forked from it anew.
#pragma once

#include <unistd.h>

#include <atomic>
#include <memory>

namespace tutti {

/// One T for each process, made when it is first asked for. A forked child gets one of its own: in the parent's, threads
/// are noted that do not exist there, and what guards it may have been locked at the fork. Never destroyed, as threads of
/// the program may outlive static destructors. Thread safe; to be constant-initialised.
template <typename T>
class PerProcess {
 public:
  constexpr PerProcess() = default;
  PerProcess(const PerProcess&) = delete;
  PerProcess& operator=(const PerProcess&) = delete;

  T& get() {
    // Acquire: pairs with the release below, after which the other thread's T is whole.
    Owned* there = current_.load(std::memory_order_acquire);
    while (there == nullptr || there->pid != ::getpid()) {
      auto fresh = std::make_unique<Owned>();
      // Release: whoever loads it sees a whole T. Acquire: another thread's may be there now.
      if (current_.compare_exchange_strong(there, fresh.get(), std::memory_order_acq_rel, std::memory_order_acquire)) {
        return fresh.release()->value;
      }
    }
    return there->value;
  }

  /// The same where it has been asked for, else NULL. Takes no memory.
  T* made() {
    Owned* const there = current_.load(std::memory_order_acquire);  // acquire: as above
    return there != nullptr && there->pid == ::getpid() ? &there->value : nullptr;
  }

 private:
  struct Owned {
    const int pid = ::getpid();
    T value;
  };
  std::atomic<Owned*> current_{nullptr};
};

}  // namespace tutti
