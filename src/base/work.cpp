#include "src/base/work.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "src/base/background_thread.h"
#include "src/base/clock.h"
#include "src/base/exception_boundary.h"
#include "src/base/per_process.h"
#include "src/base/saturating.h"

namespace tutti {
namespace {

/// One thread for all callbacks of the process: users' functions never run inside a call, nor with a lock held.
class Notifier {
 public:
  /// This process's: a forked child has the parent's object, but not its thread. Never destroyed, since a callback may be
  /// under way while the process exits. Errors: TUTTI_SYSTEM_ERROR where its thread cannot start; the next call tries
  /// again.
  static Result<Notifier*> instance() {
    static constinit PerProcess<Notifier> process;
    Notifier& self = process.get();
    if (Status status = self.start(); !status.ok()) return status;
    return &self;
  }
  void post(std::list<Work::Call> calls) noexcept {
    {
      const std::lock_guard lock(mutex_);
      waiting_.splice(waiting_.end(), calls);
    }
    posted_.notify_one();
  }

 private:
  Status start() {
    const std::lock_guard lock(mutex_);
    if (running_) return {};
    auto thread = background_thread("tutti callbacks", [this] { run(); });
    if (!thread.ok()) return thread.status();
    thread->detach();
    running_ = true;
    return {};
  }
  void run() {
    for (;;) {
      std::list<Work::Call> next;
      {
        std::unique_lock lock(mutex_);
        posted_.wait(lock, [this] { return !waiting_.empty(); });
        next.splice(next.end(), waiting_, waiting_.begin());
      }
      // What a user's function throws ends here: it must not end the process, nor the callbacks after it.
      static_cast<void>(catching([&call = next.front()]() -> Status {
        call.fn(call.code);
        return {};
      }));
    }
  }
  std::mutex mutex_;
  std::condition_variable posted_;
  std::list<Work::Call> waiting_;
  bool running_ = false;
};

}  // namespace

void Work::issue(std::uint64_t limit_ns, std::shared_ptr<void> hold) {
  const std::lock_guard lock(mutex_);
  limit_ns_ = limit_ns;
  issued_ = true;
  hold_ = std::move(hold);
}

void Work::set_helper(std::weak_ptr<Helper> helper) {
  const std::lock_guard lock(mutex_);
  helper_ = std::move(helper);
}

void Work::tie(const std::shared_ptr<Work>& leader, std::vector<std::shared_ptr<Work>> followers) {
  for (const auto& follower : followers) {
    const std::lock_guard lock(follower->mutex_);
    follower->leader_ = leader;  // a weak one: the leader has them, and may never be issued
    follower->issued_ = true;
  }
  const std::lock_guard lock(leader->mutex_);
  leader->followers_ = std::move(followers);
}

/// Asks whoever can run it, or what it ends with.
void Work::help() const {
  std::shared_ptr<Helper> helper;
  std::shared_ptr<const Work> leader;
  {
    const std::lock_guard lock(mutex_);
    if (status_) return;
    helper = helper_.lock();
    leader = leader_.lock();
  }
  if (leader != nullptr) return leader->help();
  if (helper != nullptr) helper->help(*this);
}

/// Ends with a leader that has come to `status`.
void Work::end_with(const Info& leader, const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    info_ = leader;
  }
  complete(status);
}

void Work::start(std::uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  info_.sequence = sequence;
  info_.start_ns = now_ns();
}

void Work::complete(Status status) {
  std::list<Call> callbacks, notices;
  std::shared_ptr<void> hold;  // let go of last: whoever waits for that may free what the callbacks' owner sees
  const tutti_status code = status.code();
  {
    std::unique_lock lock(mutex_);
    if (status_ || ending_) return;
    if (!followers_.empty()) {
      ending_ = true;
      const auto followers = std::exchange(followers_, {});
      const Info info = info_;
      lock.unlock();  // their owners' notices are called
      for (const auto& follower : followers) follower->end_with(info, status);
      lock.lock();
    }
    status_ = std::move(status);
    info_.end_ns = now_ns();
    // Release: what the operation wrote is seen by whoever sees that it is over.
    over_.store(true, std::memory_order_release);
    callbacks.swap(callbacks_);
    notices.swap(notices_);
    hold.swap(hold_);
  }
  ended_.notify_all();
  for (const Call& notice : notices) notice.fn(code);
  if (callbacks.empty()) return;
  // Its thread runs since on_complete; only a forked child would have to start another, and has no works of the parent's.
  const auto notifier = Notifier::instance();
  if (!notifier.ok()) return;
  for (Call& call : callbacks) call.code = code;
  (*notifier)->post(std::move(callbacks));
}

void Work::set_received(std::int32_t source, std::uint64_t count) {
  const std::lock_guard lock(mutex_);
  info_.source = source;
  info_.received_count = count;
}

std::optional<Status> Work::test() const {
  if (!over()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return status_;
}

void Work::set_algorithm(std::string_view name) {
  const std::lock_guard lock(mutex_);
  const std::size_t length = std::min(name.size(), info_.algorithm.size() - 1);
  info_.algorithm = {};
  std::copy_n(name.begin(), length, info_.algorithm.begin());
}

Status Work::cancel() {
  std::shared_ptr<void> hold;  // while it is held, what it is of is there
  {
    const std::lock_guard lock(mutex_);
    if (status_) return {};
    if (canceller_ == nullptr) {
      return Status(
          TUTTI_INVALID_USAGE,
          std::string(*description_.kind != '\0' ? description_.kind : "a group, or a call of the caller's own,") +
              " cannot be taken back",
          "Cancel sends and receives; tutti_comm_abort ends all that a communicator does.");
    }
    // Relaxed: see is_cancelled.
    cancelled_.store(true, std::memory_order_relaxed);
    hold = hold_;
  }
  if (hold != nullptr) canceller_->cancel(*this);
  return {};
}

/// How much longer a wait since called_ns may last.
std::uint64_t Work::left_ns(std::uint64_t timeout_ns, std::uint64_t called_ns) const {
  const std::lock_guard lock(mutex_);
  if (timeout_ns == 0 && issued_ && (info_.start_ns == 0 || limit_ns_ == 0)) return UINT64_MAX;
  const std::uint64_t from = timeout_ns == 0 && info_.start_ns != 0 ? info_.start_ns : called_ns;
  const std::uint64_t limit = timeout_ns != 0 ? timeout_ns : saturating_sum(limit_ns_, grace_ns);
  const std::uint64_t waited = now_ns() - from;
  return waited >= limit ? 0 : limit - waited;
}

std::optional<Status> Work::sleep(std::uint64_t ns) const {
  constexpr std::uint64_t longest_ns = std::uint64_t{1} << 60;  // keeps the addition below within the clock's range
  std::unique_lock lock(mutex_);
  ended_.wait_for(lock, std::chrono::nanoseconds(std::min(ns, longest_ns)), [this] { return status_.has_value(); });
  return status_;
}

std::optional<Status> Work::wait(std::uint64_t timeout_ns) const {
  constexpr std::uint64_t look_again_ns = 1'000'000'000;  // a start meanwhile moves the deadline
  const std::uint64_t called_ns = now_ns();
  // What runs here cannot be left before it ends.
  if (is_unlimited(timeout_ns) && hook_.poll == nullptr) help();
  for (;;) {
    if (auto status = test()) return status;
    const std::uint64_t left = left_ns(timeout_ns, called_ns);
    if (left == 0) return std::nullopt;
    if (auto status = sleep(hook_.slice_ns(std::min(left, look_again_ns)))) return status;
    if (hook_.ends_wait()) return ended_by_hook();
  }
}

Work::Info Work::info() const {
  std::shared_ptr<const Work> leader;
  {
    const std::lock_guard lock(mutex_);
    if (!status_) leader = leader_.lock();
    if (leader == nullptr) return info_;
  }
  Info info = leader->info();
  info.end_ns = 0;  // its own comes first
  return info;
}

void Work::notify(Callback fn) {
  std::list<Call> call;
  call.push_back({std::move(fn)});
  tutti_status code = TUTTI_IN_PROGRESS;
  {
    const std::lock_guard lock(mutex_);
    if (!status_) {
      notices_.splice(notices_.end(), call);
      return;
    }
    code = status_->code();
  }
  call.front().fn(code);
}

Status Work::on_complete(Callback fn) {
  const auto notifier = Notifier::instance();
  if (!notifier.ok()) return notifier.status();
  std::list<Call> call;
  call.push_back({std::move(fn)});
  {
    const std::lock_guard lock(mutex_);
    if (!status_) {
      callbacks_.splice(callbacks_.end(), call);
      return {};
    }
    call.front().code = status_->code();
  }
  (*notifier)->post(std::move(call));
  return {};
}

}  // namespace tutti
