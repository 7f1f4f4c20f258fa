#include "src/communicator/queue.h"

#include <algorithm>
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

/// Called with the lock held, as append. Transfers are dropped even before the thread has come to them: it does not run
/// them.
void Queue::drop_ended() {
  for (; !items_.empty() && (first_ < next_ || items_.front().operation == nullptr); ++first_, items_.pop_front()) {
    const auto status = items_.front().work->test();
    if (!status) break;
    // A wait that begins later covers all of them, and tells the first.
    if (!status->ok() && (failures_.empty() || waits_ != 0)) failures_.push_back({first_, *status});
  }
  next_ = std::max(next_, first_);
  std::erase_if(hooks_, [this](const Asked& asked) { return asked.last < first_; });
}

void Queue::append(Item item) {
  drop_ended();
  const std::uint64_t number = first_ + items_.size();
  const PollHook& hook = item.work->hook();
  auto asked = std::find_if(hooks_.begin(), hooks_.end(), [&](const Asked& other) { return other.hook == hook; });
  if (hook.poll != nullptr && asked == hooks_.end()) asked = hooks_.insert(asked, {hook, number, number});
  items_.push_back(std::move(item));
  if (asked != hooks_.end()) asked->last = number;
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
}

/// Asks the hooks of items before number `until`. Releases the lock meanwhile.
bool Queue::hook_ends_wait(std::uint64_t until, std::unique_lock<std::mutex>& lock) const {
  if (hooks_.empty()) return false;
  const std::vector<Asked> hooks = hooks_;
  lock.unlock();
  const bool ended = std::any_of(hooks.begin(), hooks.end(),
                                 [until](const Asked& asked) { return asked.first < until && asked.hook.ends_wait(); });
  lock.lock();
  return ended;
}

/// A wait under way. Ends with the lock held, as it begins, also where an exception of a hook's ends it.
struct Queue::Waiting {
  Waiting(Queue& of, std::unique_lock<std::mutex>& its) : queue(of), lock(its) { ++queue.waits_; }
  ~Waiting() {
    if (!lock.owns_lock()) lock.lock();
    if (--queue.waits_ != 0) return;
    std::deque<Failure>& failures = queue.failures_;
    while (!failures.empty() && failures.front().number < queue.told_) failures.pop_front();
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  Queue& queue;
  std::unique_lock<std::mutex>& lock;
};

Status Queue::wait(std::uint64_t timeout_ns) {
  const Deadline deadline = timeout_ns == 0 ? Deadline() : Deadline::in(timeout_ns);
  std::unique_lock lock(mutex_);
  const Waiting waiting(*this, lock);
  const std::uint64_t until = first_ + items_.size();
  const std::uint64_t told = told_;
  for (;;) {
    drop_ended();
    if (first_ >= until) break;
    if (deadline.passed()) return Status(TUTTI_IN_PROGRESS, "the queue still has operations under way");
    // The last item first: mostly all others have ended by then, and none of them woke this thread.
    const Item& last = items_[until - 1 - first_];
    const std::shared_ptr<const Work> work = last.work->over() ? items_.front().work : last.work;
    const std::uint64_t left = deadline.left_ns();
    const std::uint64_t slice = hooks_.empty() ? left : hooks_[0].hook.slice_ns(left);
    lock.unlock();
    const bool over = work->sleep(slice).has_value();
    lock.lock();
    if (!over && hook_ends_wait(until, lock)) return ended_by_hook();
  }
  const auto failure = std::partition_point(failures_.begin(), failures_.end(),
                                            [told](const Failure& other) { return other.number < told; });
  if (failure == failures_.end() || failure->number >= until) return {};
  told_ = std::max(told_, until);
  return failure->status;
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
