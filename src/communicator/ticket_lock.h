// The order of entry: operations of one communicator run in the order in which they were entered, whoever runs them.
//
// A ticket is taken where the call enters (on a queue: in one step with its place there), and redeemed where it runs.
// Between two tickets of one queue and two of one communicator there can be no circle, since each was taken at one
// moment in time; so the operation with the oldest ticket can always run, and every wait for a turn ends.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace tutti {

/// Thread safe. Every ticket taken is passed once, unless nobody redeems any later one (a failed communicator).
class TicketLock {
 public:
  /// The next place in the order. One atomic addition.
  std::uint64_t take() noexcept {
    // Relaxed: the number alone counts; what an operation needs to know of earlier ones comes with its turn.
    return taken_.fetch_add(1, std::memory_order_relaxed);
  }
  /// A turn at once where nobody has one or waits for one; it is passed as one that was waited for. One atomic exchange.
  bool try_take() noexcept {
    // Acquire: as reached. The tickets taken equal those passed only where all have passed, since neither ever falls.
    std::uint64_t passed = serving_.load(std::memory_order_acquire);
    // Relaxed: as take.
    return taken_.compare_exchange_strong(passed, passed + 1, std::memory_order_relaxed);
  }
  /// Whether everything before `ticket` has passed.
  bool is_served(std::uint64_t ticket) const noexcept {
    // Acquire: pairs with pass, so that this operation sees what the one before wrote.
    return serving_.load(std::memory_order_acquire) == ticket;
  }
  /// Waits at most ns (and .1 ms) for the turn of `ticket`; whether it has come.
  bool wait(std::uint64_t ticket, std::uint64_t ns);
  /// Ends the turn under way; only its holder calls it.
  void release() noexcept {
    // Release: whoever has the next turn sees what this operation wrote. Only the holder writes the word.
    serving_.store(serving_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    // Relaxed: see wait.
    if (waiting_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      wake();
  }

 private:
  void wake() noexcept;

  std::atomic<std::uint64_t> taken_{0};
  std::atomic<std::uint64_t> serving_{0};
  std::atomic<std::uint32_t> waiting_{0};
  std::mutex mutex_;  ///< guards nothing but the sleep on changed_
  std::condition_variable changed_;
};

/// A turn that has come; passes it on when it ends.
class TurnGuard {
 public:
  explicit TurnGuard(TicketLock& turns) : ticket_lock_(turns) {}
  ~TurnGuard() { ticket_lock_.release(); }
  TurnGuard(const TurnGuard&) = delete;
  TurnGuard& operator=(const TurnGuard&) = delete;

 private:
  TicketLock& ticket_lock_;
};

}  // namespace tutti
