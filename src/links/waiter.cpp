#include "src/links/waiter.h"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <array>

#include "src/base/pause.h"

namespace tutti {
namespace {

constexpr std::uint64_t microsecond = 1'000;
constexpr std::uint64_t millisecond = 1'000'000;
/// Rounds of spinning between two looks at the clock, the failure flag and the endpoints.
constexpr std::uint32_t rounds_per_look = 64;
/// A rank with a core of its own spins this long for a peer, then yields, which costs little where the core is free and
/// saves a time slice where somebody else wants it; one without a core yields from the start.
constexpr std::uint64_t spin_for = 50 * microsecond;
/// A rank that shares its core naps after this: by then whoever it waits for is computing, not passing messages.
constexpr std::uint64_t yield_for = 100 * microsecond;
constexpr std::uint64_t yield_with_core_for = 4 * millisecond;
/// A nap lasts this part of the wait so far, from one millisecond to longest_nap: that late a failure may be seen.
constexpr std::uint64_t nap_share = 32;
constexpr std::uint64_t longest_nap = 20 * millisecond;
/// A yield that takes so long gave the core to somebody who does not wait for messages, and who gives it back when a time
/// slice is over: 3 to 4 ms on most systems. (Ranks that are busy with messages of megabytes take as long where they are
/// many to a core; then naps are no better than yields, and no worse until messages are short again.) Where such yields
/// cost 150 us for each of all yields, naps take their place for a while, since who is woken has the core within tens of
/// microseconds. A process of the lowest priority, 3 ms in 70 yields, costs 43.
constexpr std::uint64_t long_yield = 2 * millisecond;
constexpr std::uint64_t dear_yields = 150 * microsecond;
constexpr std::uint64_t yields_remembered = 64;
constexpr std::uint64_t shortest_truce = 100 * millisecond;
constexpr std::uint64_t longest_truce = 400 * millisecond;
/// Between asking to be woken and the last look: a peer that had looked before may have a message in its store buffer.
constexpr std::uint32_t pauses_before_last_look = 16;

}  // namespace

void Waiter::begin(std::uint64_t timeout_ns, WaitObserver* concern, bool beside, const PollHook& hook) {
  beside_ = beside;
  hook_ = hook;
  hook_ended_ = false;
  timeout_ns_ = timeout_ns;
  concern_ = concern;
  begun_ns_ = idle_since_ns_ = 0;
  waited_ = false;
  is_fresh_ = true;
  gave_up_ = GaveUp::not_yet;
}

Waiter::~Waiter() {
  if (!armed_) return;
  const EndpointVisit visit(group_);
  arm(false);
}

bool Waiter::take(std::uint64_t most_ns) {
  if (!group_.mutex().lock_for(most_ns)) return false;
  holds_ = true;
  whole_.emplace();
  return true;
}

bool Waiter::take() {
  while (!take(millisecond / 2)) {
    waited_ = true;
    const std::uint64_t now = now_ns();
    if (begun_ns_ == 0) begun_ns_ = now;
    if (!may_go_on(now)) return false;
  }
  return true;
}

void Waiter::give_back() {
  holds_ = false;
  whole_.reset();
  group_.mutex().unlock();
}

bool Waiter::give_way() {
  leave();
  return enter();
}

void Waiter::progress() {
  for (OpenEndpoint& endpoint : group_.endpoints) static_cast<void>(endpoint.transport()->progress(endpoint.handle()));
}

bool Waiter::spin(std::uint32_t rounds, bool polls) {
  if (!policy_.spins || beside_ || rounds % rounds_per_look == 0 || contended()) return false;
  if (polls) {
    progress();
  } else {
    pause_core();
  }
  return true;
}

bool Waiter::yield_briefly(std::uint64_t& since_ns) {
  if (!shares_core()) return false;
  const std::uint64_t now = now_ns();
  if (since_ns == 0) since_ns = now;
  if (now - since_ns >= millisecond / 4 || now < naps_until_ns_) return false;
  leave();
  yield_core(now);
  return enter();
}

void Waiter::yield_core(std::uint64_t now) {
  set_yielding(true);
  sched_yield();
  set_yielding(false);
  const std::uint64_t after = now_ns();
  const std::uint64_t lost = after - now < long_yield ? 0 : after - now;
  lost_ns_ = lost_ns_ - lost_ns_ / yields_remembered + lost / yields_remembered;
  if (lost == 0 || lost_ns_ < dear_yields) return;
  const bool again = after - naps_until_ns_ < longest_truce;
  nap_period_ns_ = again ? std::min(2 * nap_period_ns_, longest_truce) : shortest_truce;
  naps_until_ns_ = after + nap_period_ns_;
}

bool Waiter::idle(std::uint32_t rounds, bool polls) {
  if (spin(rounds, polls)) return true;
  waited_ = true;
  const bool spins = policy_.spins && !beside_;
  const std::uint64_t now = now_ns();
  if (begun_ns_ == 0) begun_ns_ = now;
  if (std::exchange(is_fresh_, false)) arm(false);
  // A round counter that starts anew says that something moved meanwhile.
  if (idle_since_ns_ == 0 || rounds <= rounds_per_look) idle_since_ns_ = now;
  leave();
  if (!may_go_on(now) || !enter()) return false;  // others' code, with nothing held
  const std::uint64_t idle_for = now - idle_since_ns_;
  const std::uint64_t spin = spins ? spin_for : 0;
  // Beside computing it naps at once: who wakes gets the core soon, who yields gets it back when the computing thread's
  // time slice is over, some milliseconds later.
  const std::uint64_t yield = beside_ ? 0 : spins ? yield_with_core_for : yield_for;
  if (idle_for < spin) {
    arm(false);
    pause_core();
  } else if (idle_for < spin + yield && now >= naps_until_ns_) {
    leave();
    yield_core(now);
    if (!enter()) return false;
  } else if (!nap(idle_for)) {
    return false;
  }
  progress();
  return true;
}

bool Waiter::may_go_on(std::uint64_t now) {
  // Acquire: whoever set the flag wrote the error first, and the caller reads it next.
  if (policy_.failed != nullptr && policy_.failed->load(std::memory_order_acquire)) {
    gave_up_ = GaveUp::failed;
  } else if (now - begun_ns_ >= timeout_ns_) {
    gave_up_ = GaveUp::deadline;
  } else if (hook_.poll != nullptr && now >= next_poll_ns_) {
    next_poll_ns_ = now + millisecond / 2;
    if (hook().ends_wait()) gave_up_ = GaveUp::hook;
  }
  const bool concerned = gave_up_ == GaveUp::not_yet && concern_ != nullptr;
  if (concerned && !concern_->still_waiting(now - begun_ns_)) gave_up_ = GaveUp::failed;
  return gave_up_ == GaveUp::not_yet;
}

int Waiter::poll(void* self) {
  Waiter& waiter = *static_cast<Waiter*>(self);
  waiter.waited_ = true;
  return (waiter.hook_ended_ = waiter.hook_ended_ || waiter.hook_.ends_wait()) ? 1 : 0;
}

void Waiter::arm(bool sleeping) {
  if (!sleeping && !armed_) return;
  if (!sleeping) --group_.sleepers;
  if (sleeping && !armed_) ++group_.sleepers;
  armed_ = sleeping;
  if (!sleeping && group_.sleepers != 0) return;  // others still want to be woken
  for (OpenEndpoint& endpoint : group_.endpoints) endpoint.transport()->arm(endpoint.handle(), sleeping ? 1 : 0);
}

void Waiter::set_yielding(bool yielding) {
  if (!options_.tells) return;
  for (const OpenEndpoint& endpoint : group_.endpoints) {
    std::uint32_t* const word = endpoint.properties().yielding;
    // Release: whoever sees it sees what was sent before.
    if (word != nullptr) std::atomic_ref(*word).store(yielding ? 1 : 0, std::memory_order_release);
  }
}

bool Waiter::nap(std::uint64_t idle_for) {
  // Peers are asked to wake us one round before the nap, so that the caller looks once more in between: what came
  // before the asking shows there. What still slips through costs the nap's bound.
  const bool looked = armed_;
  arm(true);  // the second time: who rang meanwhile, and was heard by a look at a part of what we wait for, rings again
  if (!looked) {
    for (std::uint32_t i = 0; i < pauses_before_last_look; ++i) pause_core();
    return true;
  }
  std::array<pollfd, 8> events;
  nfds_t count = 0;
  for (OpenEndpoint& endpoint : group_.endpoints) {
    const int fd = endpoint.transport()->event_fd(endpoint.handle());
    if (fd >= 0 && count < events.size()) events[count++] = {fd, POLLIN, 0};
  }
  // A wake-up that is lost, or that another thread takes, costs no more than a part of what was waited already; and who
  // waits for minutes takes no core.
  const bool brief = options_.shared || group_.is_shared() || hook_.poll != nullptr;
  const std::uint64_t most = brief ? millisecond : std::clamp(idle_for / nap_share, millisecond, longest_nap);
  leave();
  set_yielding(true);
  static_cast<void>(::poll(events.data(), count, static_cast<int>(most / millisecond)));
  set_yielding(false);
  if (!enter()) return false;
  arm(false);
  return true;
}

}  // namespace tutti
