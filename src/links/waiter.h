// How a rank waits: the Agent that executors and link opening ask when nothing moves.
//
//     spin (a core for every rank)  →  yield  →  nap on the endpoints' events, from 1 to 20 ms at a time
//     (beside computing, as a queue's operations are: nap at once)
//
// Where communicators share endpoints, a waiter gives them back while it pauses, and takes them again before it goes on.
//
// Naps are bounded because a wake-up may be lost (transport.h) and because failure, deadline and the caller's poll hook
// are looked at between them; so every wait ends by itself, whatever the peers do.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "src/base/clock.h"
#include "src/base/no_cancellation.h"
#include "src/base/poll_hook.h"
#include "src/executors/host/agent.h"
#include "src/links/endpoint_group.h"

namespace tutti {

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

/// Waits for one operation at a time on a group of endpoints, and takes turns for it where others use them, too
/// (EndpointTurn). Used by one thread at a time. The group outlives it.
class Waiter : public Agent {
 public:
  Waiter(EndpointGroup& group, const WaitPolicy& policy, WaiterOptions options)
      : Agent(group.mutex().wanted()), group_(group), policy_(policy), options_(options) {}
  ~Waiter() override;
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

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

  // What follows is done within a turn. Only `enter` is not, and `gave_up` and `hook` need none.

  /// Begins a turn, as soon as others are through with theirs, at most most_ns from now; false: they are not.
  bool enter(std::uint64_t most_ns) { return !group_.is_shared() || take(most_ns); }
  /// Likewise, but within the wait that was begun: they move data meanwhile, and wait for nobody. False: gave_up() says
  /// why.
  bool enter() { return !group_.is_shared() || take(); }
  /// Whether it is in a turn, as far as there are any.
  bool in_turn() const { return holds_ || !group_.is_shared(); }
  /// Ends the turn; the endpoints are others' from here on. Once more does nothing.
  void leave() {
    if (holds_) [[unlikely]]
      give_back();
  }
  void progress() override;
  bool idle(std::uint32_t rounds, bool polls) override;
  bool give_way() override;
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
  bool take(std::uint64_t most_ns);
  bool take();
  void give_back();
  bool may_go_on(std::uint64_t now);
  static int poll(void* self);
  /// Yields, and remembers whom to.
  void yield_core(std::uint64_t now);
  /// Where its habit is to tell.
  void set_yielding(bool yielding);
  /// False: its turn did not come again.
  bool nap(std::uint64_t idle_for);
  void arm(bool sleeping);

  EndpointGroup& group_;
  const WaitPolicy& policy_;
  const WaiterOptions options_;
  WaitObserver* concern_ = nullptr;
  PollHook hook_;
  bool hook_ended_ = false;
  std::uint64_t timeout_ns_ = UINT64_MAX;  ///< none before it was begun
  std::uint64_t begun_ns_ = 0;
  std::uint64_t idle_since_ns_ = 0;
  std::uint64_t next_poll_ns_ = 0;
  std::uint64_t lost_ns_ = 0;        ///< what yields that took long cost lately, for each of all yields
  std::uint64_t naps_until_ns_ = 0;  ///< naps take the place of yields until then, as these were dear
  std::uint64_t nap_period_ns_ = 0;  ///< for how long
  bool beside_ = false;
  bool armed_ = false;    ///< peers were asked to wake us
  bool waited_ = false;   ///< more than by spinning, since it was begun
  bool is_fresh_ = true;  ///< nothing was idle since it was begun
  bool holds_ = false;    ///< the group's mutex
  /// While it does: a cancellation in the middle of a transport's work would spoil it for the other communicators.
  std::optional<NoCancellation> whole_;
  GaveUp gave_up_ = GaveUp::not_yet;
};

/// A turn of a thread that waits within it, by that waiter only. Where nobody shares the endpoints it costs a look.
class EndpointTurn {
 public:
  /// One within the wait that was begun.
  explicit EndpointTurn(Waiter& waiter) : waiter_(waiter), begun_(waiter.enter()) {}
  /// A turn that is to begin within most_ns; false: it has not.
  EndpointTurn(Waiter& waiter, std::uint64_t most_ns) : waiter_(waiter), begun_(waiter.enter(most_ns)) {}
  ~EndpointTurn() { waiter_.leave(); }
  EndpointTurn(const EndpointTurn&) = delete;
  EndpointTurn& operator=(const EndpointTurn&) = delete;
  explicit operator bool() const { return begun_; }

 private:
  Waiter& waiter_;
  const bool begun_;
};

}  // namespace tutti
