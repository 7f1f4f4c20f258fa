#include "src/communicator/turns.h"

#include <chrono>

namespace tutti {

bool Turns::wait(std::uint64_t ticket, std::uint64_t ns) {
  if (reached(ticket)) return true;
  std::unique_lock lock(mutex_);
  // Sequentially consistent, with the two accesses in pass: this is written before serving_ is read, there serving_ is
  // written before this is read, so either the passer sees a sleeper or the sleeper sees the new turn.
  waiting_.fetch_add(1, std::memory_order_seq_cst);
  const bool mine = changed_.wait_for(lock, std::chrono::nanoseconds(ns),
                                      [&] { return serving_.load(std::memory_order_seq_cst) == ticket; });
  // Relaxed: a passer that still counts this one only wakes nobody.
  waiting_.fetch_sub(1, std::memory_order_relaxed);
  return mine;
}

void Turns::pass() noexcept {
  // Sequentially consistent: see wait. It releases what this operation wrote, too. Only the holder writes the word.
  serving_.store(serving_.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
  if (waiting_.load(std::memory_order_seq_cst) == 0) return;
  // Under the lock, so that a sleeper that has looked but not slept yet is not missed.
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

}  // namespace tutti
