// How an executor waits.
#pragma once

#include <atomic>
#include <cstdint>

namespace tutti {

/// Whoever runs an executor: makes the world move while it waits.
class Agent {
 public:
  virtual ~Agent() = default;
  /// Moves what only moves when asked (sockets).
  virtual void progress() = 0;
  /// Nothing could move, `rounds` times in a row (from 1). Pauses, yields or sleeps. Makes progress after that, so that
  /// what came meanwhile is there when the caller looks again. A round that only spins does so where `polls`: some link
  /// that is waited for moves only when asked. False: give up.
  virtual bool idle(std::uint32_t rounds, bool polls) = 0;
  /// Whether it waits so that other ranks may have its core; not where that is its caller's, who computes meanwhile.
  virtual bool shares_core() const = 0;
  /// Whether another thread waits to use what this one's links share with its own. Costs a load.
  bool contended() const {
    // Relaxed: a hint, which is looked at again and again.
    return wanted_ != nullptr && wanted_->load(std::memory_order_relaxed) != 0;
  }
  /// Lets those in; returns when they are through. No link is in the middle of an operation meanwhile. False: give up.
  virtual bool give_way() { return true; }

 protected:
  Agent() = default;
  /// wanted: so many such threads; outlives it.
  explicit Agent(const std::atomic<std::uint32_t>& wanted) : wanted_(&wanted) {}

 private:
  const std::atomic<std::uint32_t>* wanted_ = nullptr;
};

}  // namespace tutti
