#include "src/communicator/queue.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/background_thread.h"
#include "src/base/clock.h"

namespace tutti {

Result<std::unique_ptr<Queue>> Queue::make() {
  std::unique_ptr<Queue> self(new Queue);
  auto thread = background_thread("tutti queue", [queue = self.get()] { queue->run(); });
  if (!thread.ok()) return thread.status();
  self->thread_ = std::move(thread).value();
  return self;
}

Queue::~Queue() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  // What is left are transfers, which end by their own deadlines.
  constexpr std::uint64_t second = 1'000'000'000;
  for (const Item& item : items_) {
    while (!item.work->sleep(second)) {
    }
  }
}

/// Under the lock, as append.
void Queue::drop_ended() {
  for (; first_ < next_; ++first_, items_.pop_front()) {
    const auto status = items_.front().work->test();
    if (!status) return;
    if (status->ok() || !failure_.ok()) continue;
    failure_ = *status;
    failed_ = first_;
  }
}

void Queue::append(Item item) {
  drop_ended();
  items_.push_back(std::move(item));
}

void Queue::post(std::function<void()> operation, std::shared_ptr<const Work> work, const std::function<void()>& enter) {
  const std::lock_guard lock(mutex_);
  append({std::move(work), std::move(operation)});
  enter();
  changed_.notify_all();
}

void Queue::track(std::shared_ptr<const Work> work) {
  const std::lock_guard lock(mutex_);
  append({std::move(work), nullptr});
  changed_.notify_all();
}

Status Queue::wait(std::uint64_t timeout_ns) {
  const Deadline deadline = timeout_ns == 0 ? Deadline() : Deadline::in(timeout_ns);
  std::vector<std::shared_ptr<const Work>> works;
  std::vector<Hook> hooks;
  Status first;
  std::uint64_t until = 0;
  {
    const std::lock_guard lock(mutex_);
    drop_ended();
    first = failure_;
    for (const Item& item : items_) {
      works.push_back(item.work);
      const Hook& hook = item.work->hook();
      if (hook.poll != nullptr && std::find(hooks.begin(), hooks.end(), hook) == hooks.end()) hooks.push_back(hook);
    }
    until = first_ + items_.size();
  }
  for (const auto& work : works) {
    std::optional<Status> status;
    while (!(status = work->sleep(hooks.empty() ? deadline.left_ns() : hooks[0].slice_ns(deadline.left_ns())))) {
      if (deadline.passed()) return Status(TUTTI_IN_PROGRESS, "the queue still has operations under way");
      if (std::any_of(hooks.begin(), hooks.end(), [](const Hook& hook) { return hook.ends_wait(); }))
        return ended_by_hook();
    }
    if (first.ok()) first = *status;
  }
  const std::lock_guard lock(mutex_);
  for (; first_ < until && !items_.empty(); ++first_) items_.pop_front();
  next_ = std::max(next_, first_);  // the thread need not look at transfers that have ended
  if (failed_ < until) failure_ = Status();
  return first;
}

void Queue::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return closing_ || next_ < first_ + items_.size(); });
    if (next_ == first_ + items_.size()) return;
    std::function<void()> operation = std::move(items_[next_ - first_].operation);
    ++next_;
    if (operation == nullptr) continue;  // tracked
    lock.unlock();
    operation();
    operation = nullptr;
    lock.lock();
  }
}

}  // namespace tutti
