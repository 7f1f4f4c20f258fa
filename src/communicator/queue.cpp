#include "src/communicator/queue.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <vector>

#include "src/base/background_thread.h"
#include "src/base/clock.h"
#include "src/base/no_cancellation.h"

namespace tutti {

/// What the queue's thread and those that wait share.
struct Queue::State final : Work::Helper {
  /// Posted, or tracked: without an operation.
  struct Item {
    std::shared_ptr<const Work> work;
    Operation operation;
    Runner runner = Runner::own_thread;
    bool may_be_taken_over() const { return operation == nullptr || runner == Runner::any_thread; }
  };

  /// A hook, and the numbers of the first and the last item that it belongs to.
  struct Asked {
    PollHook hook;
    std::uint64_t first;
    std::uint64_t last;
  };

  /// An item that failed.
  struct Failure {
    std::uint64_t number;
    Status status;
  };

  struct Waiting;

  void run();
  void close();
  void help(const Work& work) override;
  void append(Item item);
  void drop_ended();
  void run_next(bool beside, std::unique_lock<std::mutex>& lock);
  void take_over(std::uint64_t until, std::unique_lock<std::mutex>& lock);
  bool hook_ends_wait(std::uint64_t until, std::unique_lock<std::mutex>& lock) const;
  Status wait(std::uint64_t timeout_ns);
  std::uint64_t end() const { return first_ + items_.size(); }

  std::mutex mutex_;  ///< guards what follows
  std::condition_variable changed_;
  std::deque<Item> items_;    ///< that no wait has seen the end of, in order; those at its front that ended are dropped
  std::uint64_t first_ = 0;   ///< number of items_.front()
  std::vector<Asked> hooks_;  ///< theirs, each once, so that a wait need not look at all items
  /// Of those dropped that failed, in order: the first one that no wait has told of, and all that waits may tell that are
  /// under way.
  std::deque<Failure> failures_;
  std::uint64_t told_ = 0;  ///< waits have told of failures before it
  std::size_t waits_ = 0;   ///< under way
  std::uint64_t next_ = 0;  ///< number of the first that nobody has come to
  bool running_ = false;    ///< somebody runs the one before it
  bool closing_ = false;
};

Result<std::unique_ptr<Queue>> Queue::make() {
  std::unique_ptr<Queue> self(new Queue(std::make_shared<State>()));
  auto thread = background_thread("tutti queue", [state = self->state_.get()] { state->run(); });
  if (!thread.ok()) return thread.status();
  self->thread_ = std::move(thread).value();
  return self;
}

Queue::~Queue() {
  state_->close();
  if (thread_.joinable()) thread_.join();
  // What is left are transfers, which end by their own deadlines, and what a thread that waits has taken over.
  constexpr std::uint64_t second = 1'000'000'000;
  for (const State::Item& item : state_->items_) {
    while (!item.work->sleep(second)) {
    }
  }
}

void Queue::post(Operation operation, Runner runner, std::shared_ptr<Work> work, const std::function<void()>& enter) {
  work->set_helper(state_);
  const std::lock_guard lock(state_->mutex_);
  state_->append({std::move(work), std::move(operation), runner});
  enter();
  state_->changed_.notify_all();
}

void Queue::track(std::shared_ptr<const Work> work) {
  const std::lock_guard lock(state_->mutex_);
  state_->append({std::move(work), nullptr});
}

Status Queue::wait(std::uint64_t timeout_ns) { return state_->wait(timeout_ns); }

void Queue::State::close() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
}

/// Called with the lock held, as append. Transfers are dropped even before anybody has come to them: nobody runs them here.
void Queue::State::drop_ended() {
  for (; !items_.empty() && (first_ < next_ || items_.front().operation == nullptr); ++first_, items_.pop_front()) {
    const auto status = items_.front().work->test();
    if (!status) break;
    // A wait that begins later covers all of them, and tells the first.
    if (!status->ok() && (failures_.empty() || waits_ != 0)) failures_.push_back({first_, *status});
  }
  next_ = std::max(next_, first_);
  std::erase_if(hooks_, [this](const Asked& asked) { return asked.last < first_; });
}

void Queue::State::append(Item item) {
  drop_ended();
  const std::uint64_t number = end();
  const PollHook& hook = item.work->hook();
  auto asked = std::find_if(hooks_.begin(), hooks_.end(), [&](const Asked& other) { return other.hook == hook; });
  if (hook.poll != nullptr && asked == hooks_.end()) asked = hooks_.insert(asked, {hook, number, number});
  items_.push_back(std::move(item));
  if (asked != hooks_.end()) asked->last = number;
}

/// Runs the next item, if it is not one that is only tracked. Releases the lock meanwhile.
void Queue::State::run_next(bool beside, std::unique_lock<std::mutex>& lock) {
  Operation operation = std::move(items_[next_ - first_].operation);
  ++next_;
  if (operation == nullptr) return;
  running_ = true;
  lock.unlock();
  operation(beside);
  operation = nullptr;
  lock.lock();
  running_ = false;
}

/// Runs items before number `until` in this thread, as long as nobody else runs any.
void Queue::State::take_over(std::uint64_t until, std::unique_lock<std::mutex>& lock) {
  const NoCancellation whole;
  if (running_) return;
  while (next_ < until && items_[next_ - first_].may_be_taken_over()) run_next(false, lock);
  // The queue's own thread slept on while somebody ran.
  if (closing_ || next_ < end()) changed_.notify_all();
}

void Queue::State::help(const Work& work) {
  std::unique_lock lock(mutex_);
  const auto item =
      std::find_if(items_.rbegin(), items_.rend(), [&](const Item& each) { return each.work.get() == &work; });
  if (item == items_.rend()) return;
  take_over(first_ + static_cast<std::uint64_t>(items_.rend() - item), lock);
}

/// Asks the hooks of items before number `until`. Releases the lock meanwhile.
bool Queue::State::hook_ends_wait(std::uint64_t until, std::unique_lock<std::mutex>& lock) const {
  if (hooks_.empty()) return false;
  const std::vector<Asked> hooks = hooks_;
  lock.unlock();
  const bool ended = std::any_of(hooks.begin(), hooks.end(),
                                 [until](const Asked& asked) { return asked.first < until && asked.hook.ends_wait(); });
  lock.lock();
  return ended;
}

/// A wait under way. Ends with the lock held, as it begins, also where an exception of a hook's ends it.
struct Queue::State::Waiting {
  Waiting(State& of, std::unique_lock<std::mutex>& its) : state(of), lock(its) { ++state.waits_; }
  ~Waiting() {
    if (!lock.owns_lock()) lock.lock();
    if (--state.waits_ != 0) return;
    std::deque<Failure>& failures = state.failures_;
    while (!failures.empty() && failures.front().number < state.told_) failures.pop_front();
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  State& state;
  std::unique_lock<std::mutex>& lock;
};

Status Queue::State::wait(std::uint64_t timeout_ns) {
  const Deadline deadline = timeout_ns == 0 ? Deadline() : Deadline::in(timeout_ns);
  std::unique_lock lock(mutex_);
  const Waiting waiting(*this, lock);
  const std::uint64_t until = end();
  const std::uint64_t told = told_;
  // What runs here cannot be left before it ends.
  if (is_unlimited(timeout_ns) && hooks_.empty()) take_over(until, lock);
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

void Queue::State::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !running_ && (closing_ || next_ < end()); });
    if (next_ == end()) return;
    run_next(true, lock);
  }
}

}  // namespace tutti
