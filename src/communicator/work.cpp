#include "src/communicator/work.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <thread>
#include <utility>

#include "src/base/clock.h"

namespace tutti {
namespace {

/// One thread for all callbacks of the process: users' functions never run inside a call, nor with a lock held.
class Notifier {
 public:
  static Notifier& instance() {
    // Never destroyed: a callback may be under way while the process exits.
    static Notifier* const notifier = new Notifier;
    return *notifier;
  }
  void post(std::function<void()> fn) {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(fn));
    }
    posted_.notify_one();
  }

 private:
  Notifier() {
    std::thread([this] { run(); }).detach();
  }
  void run() {
    for (;;) {
      std::function<void()> fn;
      {
        std::unique_lock lock(mutex_);
        posted_.wait(lock, [this] { return !waiting_.empty(); });
        fn = std::move(waiting_.front());
        waiting_.pop_front();
      }
      fn();
    }
  }
  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<std::function<void()>> waiting_;
};

}  // namespace

void Work::start(std::uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  info_.sequence = sequence;
  info_.start_ns = now_ns();
}

void Work::complete(Status status) {
  std::vector<Callback> callbacks;
  const tutti_status code = status.code();
  {
    const std::lock_guard lock(mutex_);
    if (status_) return;
    status_ = std::move(status);
    info_.end_ns = now_ns();
    callbacks.swap(callbacks_);
  }
  ended_.notify_all();
  for (Callback& fn : callbacks) Notifier::instance().post([fn = std::move(fn), code] { fn(code); });
}

void Work::set_received(std::int32_t source, std::uint64_t count) {
  const std::lock_guard lock(mutex_);
  info_.source = source;
  info_.received_count = count;
}

std::optional<Status> Work::test() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

std::optional<Status> Work::wait(std::uint64_t timeout_ns) const {
  std::unique_lock lock(mutex_);
  constexpr std::uint64_t longest_ns = std::uint64_t{1} << 60;  // keeps the addition below within range
  ended_.wait_for(lock, std::chrono::nanoseconds(std::min(timeout_ns, longest_ns)), [this] { return status_.has_value(); });
  return status_;
}

Work::Info Work::info() const {
  const std::lock_guard lock(mutex_);
  return info_;
}

void Work::on_complete(Callback fn) {
  tutti_status code;
  {
    const std::lock_guard lock(mutex_);
    if (!status_) {
      callbacks_.push_back(std::move(fn));
      return;
    }
    code = status_->code();
  }
  Notifier::instance().post([fn = std::move(fn), code] { fn(code); });
}

}  // namespace tutti
