#include "src/links/endpoint_group.h"

#include <chrono>

namespace tutti {

void HandedMutex::enqueue(Waiting& waiting) {
  Waiting** last = &first_;
  while (*last != nullptr) last = &(*last)->next;
  *last = &waiting;
  // Sequentially consistent, with unlock: either that sees this one, or the look that follows here sees it free.
  wanted_.fetch_add(1, std::memory_order_seq_cst);
}

void HandedMutex::dequeue(Waiting& waiting) {
  Waiting** at = &first_;
  while (*at != &waiting) at = &(*at)->next;
  *at = waiting.next;
  wanted_.fetch_sub(1, std::memory_order_relaxed);  // relaxed: who still counts it looks at the queue next
}

bool HandedMutex::lock_for(std::uint64_t ns) {
  if (try_lock()) return true;
  if (ns == 0) return false;
  const NoCancellation whole;
  Waiting self;
  std::unique_lock lock(mutex_);
  enqueue(self);
  // Sequentially consistent: see enqueue. That includes acquire, which pairs with unlock. Those before this one get it
  // from whoever unlocks.
  if (first_ == &self && !held_.exchange(true, std::memory_order_seq_cst)) {
    dequeue(self);
    return true;
  }
  if (!self.changed.wait_for(lock, std::chrono::nanoseconds(ns), [&self] { return self.has_it; })) dequeue(self);
  return self.has_it;
}

void HandedMutex::unlock() {
  // Sequentially consistent: see enqueue. That includes release: what the holder did is seen by the next.
  held_.store(false, std::memory_order_seq_cst);
  if (wanted_.load(std::memory_order_seq_cst) == 0) return;
  const std::lock_guard lock(mutex_);
  // Relaxed: of those that wait nobody takes it in another way, and the lock orders what the holder did.
  if (first_ == nullptr || held_.exchange(true, std::memory_order_relaxed)) return;
  Waiting& next = *first_;
  dequeue(next);
  next.has_it = true;
  next.changed.notify_one();  // within the lock: afterwards it may be gone
}

EndpointVisit::EndpointVisit(EndpointGroup& group) : group_(group.is_shared() ? &group : nullptr) {
  constexpr std::uint64_t second = 1'000'000'000;
  while (group_ != nullptr && !group_->mutex().lock_for(second)) {
  }
}

}  // namespace tutti
