#include "src/communicator/ticket_lock.h"

#include <algorithm>
#include <chrono>

namespace tutti {
namespace {

/// The first sleep of a wait: by its end every store that was under way when it began has long been seen.
constexpr std::uint64_t first_sleep_ns = 100'000;

}  // namespace

bool TicketLock::wait(std::uint64_t ticket, std::uint64_t ns) {
  if (is_served(ticket)) return true;
  std::unique_lock lock(mutex_);
  // Relaxed: with pass this is a race in which the passer may see nobody wait while its own store is not seen here yet.
  // Ruling it out would cost every operation a full barrier in pass; instead the first sleep is short, after which that
  // store is there, and whoever passes later sees this.
  waiting_.fetch_add(1, std::memory_order_relaxed);
  const auto came = [&] { return is_served(ticket); };
  const bool mine = changed_.wait_for(lock, std::chrono::nanoseconds(std::min(ns, first_sleep_ns)), came) ||
                    changed_.wait_for(lock, std::chrono::nanoseconds(ns), came);
  // Relaxed: a passer that still counts this one only wakes nobody.
  waiting_.fetch_sub(1, std::memory_order_relaxed);
  return mine;
}

void TicketLock::wake() noexcept {
  // Under the lock, so that a sleeper that has looked but not slept yet is not missed.
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

}  // namespace tutti
