#include "src/communicator/outstanding.h"

#include <chrono>

namespace tutti {

std::shared_ptr<void> Outstanding::hold() const {
  {
    const std::lock_guard lock(count_->mutex);
    if (count_->closed) return nullptr;
    ++count_->held;
  }
  // Where there is no memory for the pointer its deleter is called all the same, which takes the count back.
  return std::shared_ptr<void>(count_.get(), [count = count_](void*) {
    const std::lock_guard lock(count->mutex);
    if (--count->held == 0) count->zero.notify_all();
  });
}

void Outstanding::close() const {
  const std::lock_guard lock(count_->mutex);
  count_->closed = true;
}

bool Outstanding::wait(std::uint64_t ns) const {
  std::unique_lock lock(count_->mutex);
  return count_->zero.wait_for(lock, std::chrono::nanoseconds(ns), [this] { return count_->held == 0; });
}

}  // namespace tutti
