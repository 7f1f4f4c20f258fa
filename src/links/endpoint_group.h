// A rank's endpoints of one class of traffic, and whose turn it is to use them.
//
// A communicator that was not split has them to itself, and nothing is locked. Those that are split off use the same ones,
// by any threads and in any order. So a thread then takes turns:
//
//     turn ── moves data ──┐ pauses, yields or naps ┌── moves data ── its end
//                          └ gives the endpoints back and takes them again
//
// No wait for a peer holds them. Whoever waits for them therefore waits for others to move data, and no more. So there is
// no order in which communicators must be used.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "include/tutti/transport.h"
#include "src/base/no_cancellation.h"

namespace tutti {

/// One end of a transport, opened. Closed with the object.
class OpenEndpoint {
 public:
  OpenEndpoint(const tutti_transport* transport, tutti_endpoint* handle) : transport_(transport), handle_(handle) {
    properties_.size = sizeof properties_;
    transport->properties(handle, &properties_);
  }
  OpenEndpoint(OpenEndpoint&& other) noexcept
      : transport_(other.transport_), handle_(std::exchange(other.handle_, nullptr)), properties_(other.properties_) {}
  OpenEndpoint& operator=(OpenEndpoint&&) = delete;
  ~OpenEndpoint() {
    if (handle_ != nullptr) transport_->close(handle_);
  }
  const tutti_transport* transport() const { return transport_; }
  tutti_endpoint* handle() const { return handle_; }
  const tutti_endpoint_properties& properties() const { return properties_; }

 private:
  const tutti_transport* transport_;
  tutti_endpoint* handle_;
  tutti_endpoint_properties properties_{};
};

/// A mutex whose holder can tell that others want it. They get it in the order in which they came. Thread safe.
class HandedMutex {
 public:
  /// Whether it is the caller's now.
  bool try_lock() {
    // Relaxed: courtesy, on which nothing else depends. Acquire: pairs with unlock.
    return wanted_.load(std::memory_order_relaxed) == 0 && !held_.exchange(true, std::memory_order_acquire);
  }
  /// Waits at most ns; whether it is the caller's. No cancellation point.
  bool lock_for(std::uint64_t ns);
  void unlock();
  /// So many wait for it. To be looked at without order: who looks too early looks again.
  const std::atomic<std::uint32_t>& wanted() const { return wanted_; }

 private:
  /// One that waits, on its thread's stack.
  struct Waiting {
    std::condition_variable changed;
    bool has_it = false;
    Waiting* next = nullptr;
  };
  void enqueue(Waiting& waiting);
  void dequeue(Waiting& waiting);

  std::atomic<bool> held_{false};
  std::atomic<std::uint32_t> wanted_{0};  ///< in the queue
  std::mutex mutex_;                      ///< guards what follows
  Waiting* first_ = nullptr;
};

/// What communicators that share endpoints share of one class of traffic.
class EndpointGroup {
 public:
  /// In the order of the set's transports. Used within a turn.
  std::vector<OpenEndpoint> endpoints;
  /// Waiters that have asked peers to wake them. Likewise.
  std::uint32_t sleepers = 0;

  /// From now on turns exclude each other. Nobody is within one, and who begins one later knows of this call.
  void share() { is_shared_.store(true, std::memory_order_relaxed); }  // relaxed: see is_shared
  bool is_shared() const {
    // Relaxed: what orders the call of share before a turn orders this, too.
    return is_shared_.load(std::memory_order_relaxed);
  }
  HandedMutex& mutex() { return mutex_; }

 private:
  std::atomic<bool> is_shared_{false};
  HandedMutex mutex_;
};

/// A turn of a thread that waits for nothing within it. No cancellation point. See EndpointTurn for the others.
class EndpointVisit {
 public:
  explicit EndpointVisit(EndpointGroup& group);
  ~EndpointVisit() {
    if (group_ != nullptr) group_->mutex().unlock();
  }
  EndpointVisit(const EndpointVisit&) = delete;
  EndpointVisit& operator=(const EndpointVisit&) = delete;

 private:
  const NoCancellation whole_;
  EndpointGroup* group_;  ///< null: it is not shared
};

}  // namespace tutti
