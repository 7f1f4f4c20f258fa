// How a rank waits: the Agent that executors and link opening ask when nothing moves.
//
//     spin (a core for every rank)  →  yield  →  nap on the endpoints' events, from 1 to 20 ms at a time
//     (beside computing, as a queue's operations are: nap at once)
//
// Naps are bounded because a wake-up may be lost (transport.h) and because failure, deadline and the caller's poll hook
// are looked at between them; so every wait ends by itself, whatever the peers do.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <utility>

#include "include/tutti/transport.h"
#include "src/base/clock.h"
#include "src/base/poll_hook.h"
#include "src/base/settings.h"
#include "src/executors/host/agent.h"

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

/// Why a waiter gave up.
enum class GaveUp { not_yet, failed, deadline, hook };

/// What bounds a wait, besides its deadline. Shared by the waiters of a communicator.
struct WaitPolicy {
  bool spins = true;                          ///< every rank of this machine has a core
  const std::atomic<bool>* failed = nullptr;  ///< set by another thread: the communicator has failed or was aborted
};

/// Somebody who wants to know of waits that last.
class WaitObserver {
 public:
  virtual ~WaitObserver() = default;
  /// The wait has lasted for waited_ns. False: give up as `failed`. Must not wait for anything: nothing moves meanwhile.
  virtual bool still_waiting(std::uint64_t waited_ns) = 0;
};

/// What sets one waiter of a communicator apart from the other.
struct WaiterOptions {
  bool shared = false;  ///< other threads post to whoever waits here, so it never naps longer than a millisecond
  bool tells = false;   ///< peers look for its messages while it runs, and hear when it leaves its core to others
};

/// Waits for one operation at a time on a set of endpoints. Used by one thread at a time.
class Waiter : public Agent {
 public:
  Waiter(std::span<OpenEndpoint> endpoints, const WaitPolicy& policy, WaiterOptions options)
      : endpoints_(endpoints), policy_(policy), options_(options) {}

  /// Starts a wait of at most timeout_ns, counted from its first idle round: a call that never waits reads no clock.
  /// beside: the caller computes meanwhile, so it naps at once, whatever the policy.
  /// concern, where given, is asked at each look at the clock; it must live until the wait is over.
  /// hook: asked at least each millisecond; empty on a thread that is not the caller's.
  void begin(std::uint64_t timeout_ns, WaitObserver* concern = nullptr, bool beside = false, const PollHook& hook = {});
  /// As begin, with all as it was begun last but the time.
  void begin_again(std::uint64_t timeout_ns) {
    timeout_ns_ = timeout_ns;
    if (waited_) [[unlikely]]
      begin(timeout_ns, concern_, beside_, PollHook(hook_));
  }
  void progress() override;
  bool idle(std::uint32_t rounds, bool polls) override;
  /// Spins where idle(rounds, polls) would do no more than that; false: that has more to do.
  bool spin(std::uint32_t rounds, bool polls);
  /// Where ranks share cores, hands this one over, so that whoever is waited for may have it; false: it does not, or did so
  /// for a quarter of a millisecond. since_ns: when it began, kept between calls; 0 at first.
  bool yield_briefly(std::uint64_t& since_ns);
  bool shares_core() const override { return !policy_.spins && !beside_; }
  GaveUp gave_up() const { return gave_up_; }
  /// For whoever waits for something else within this wait: asks the caller's hook, and remembers if it ends the wait.
  /// Empty without one.
  PollHook hook() { return hook_.poll != nullptr ? PollHook{&Waiter::poll, this} : PollHook(); }

 private:
  bool may_go_on(std::uint64_t now);
  static int poll(void* self);
  /// Yields, and remembers whom to.
  void yield_core(std::uint64_t now);
  /// Where its habit is to tell.
  void set_yielding(bool yielding);
  void nap(std::uint64_t idle_for);
  void arm(bool sleeping);

  std::span<OpenEndpoint> endpoints_;
  const WaitPolicy& policy_;
  const WaiterOptions options_;
  WaitObserver* concern_ = nullptr;
  PollHook hook_;
  bool hook_ended_ = false;
  std::uint64_t timeout_ns_ = 0;
  std::uint64_t begun_ns_ = 0;
  std::uint64_t idle_since_ns_ = 0;
  std::uint64_t next_poll_ns_ = 0;
  std::uint64_t lost_ns_ = 0;        ///< what yields that took long cost lately, for each of all yields
  std::uint64_t naps_until_ns_ = 0;  ///< naps take the place of yields until then, as these were dear
  std::uint64_t nap_period_ns_ = 0;  ///< for how long
  bool beside_ = false;
  bool armed_ = false;   ///< peers were asked to wake us
  bool waited_ = false;  ///< more than by spinning, since it was begun
  GaveUp gave_up_ = GaveUp::not_yet;
};

}  // namespace tutti
