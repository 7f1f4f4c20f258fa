#include "src/communicator/queue.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace tutti {

Queue::Queue() : thread_([this] { run(); }) {}

Queue::~Queue() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Queue::post(std::function<Status()> operation) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(operation));
    ++posted_;
  }
  changed_.notify_all();
}

Status Queue::wait(std::uint64_t timeout_ns) {
  std::unique_lock lock(mutex_);
  const std::uint64_t until = posted_;
  const auto reached = [&] { return done_ >= until; };
  constexpr std::uint64_t longest_ns = std::uint64_t{1} << 60;  // keeps the addition within the clock's range
  const std::uint64_t limit = timeout_ns == 0 ? longest_ns : std::min(timeout_ns, longest_ns);
  if (!changed_.wait_for(lock, std::chrono::nanoseconds(limit), reached)) {
    return Status(TUTTI_IN_PROGRESS, "the queue still has operations under way");
  }
  Status first = std::exchange(first_error_, {});
  const std::vector<std::shared_ptr<Work>> tracked = std::exchange(tracked_, {});
  lock.unlock();
  for (const auto& work : tracked) {
    const auto status = work->wait(limit);
    if (!status) return Status(TUTTI_IN_PROGRESS, "the queue still has transfers under way");
    if (first.ok()) first = *status;
  }
  return first;
}

void Queue::track(std::shared_ptr<Work> work) {
  const std::lock_guard lock(mutex_);
  std::erase_if(tracked_, [](const std::shared_ptr<Work>& w) {
    const auto status = w->test();
    return status && status->ok();
  });
  tracked_.push_back(std::move(work));
}

void Queue::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return closing_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    std::function<Status()> operation = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    Status status = operation();
    operation = nullptr;
    lock.lock();
    if (!status.ok() && first_error_.ok()) first_error_ = std::move(status);
    ++done_;
    changed_.notify_all();
  }
}

}  // namespace tutti
