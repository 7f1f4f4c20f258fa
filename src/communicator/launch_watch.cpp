#include "src/communicator/launch_watch.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "src/base/background_thread.h"
#include "src/base/clock.h"
#include "src/base/exception_boundary.h"

namespace tutti {
namespace {

/// Between two looks at launches: soon at first, as most end soon.
constexpr std::uint64_t shortest_nap_ns = 5'000;
constexpr std::uint64_t longest_nap_ns = kMs;
/// Between two looks at the context's health.
constexpr std::uint64_t health_period_ns = 20 * kMs;
/// How long a launch may take to end once its communicator has failed.
constexpr std::uint64_t longest_end_ns = kSecond;

}  // namespace

LaunchWatch::~LaunchWatch() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Status LaunchWatch::add(DeviceCall call) {
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) {
    auto thread = background_thread("tutti launches", [this] { run(); });
    if (!thread.ok()) return thread.status();
    thread_ = std::move(thread).value();
  }
  const bool captured = call.sequence == UINT64_MAX;
  new_.push_back(
      {std::move(call), false, false, PeerInquiry(side_.reporter(), side_.control(), true), std::this_thread::get_id()});
  new_.back().inquiry.begin();
  if (captured) ++graphs_;
  changed_.notify_all();
  return {};
}

bool LaunchWatch::holds_graphs() {
  const std::lock_guard lock(mutex_);
  return graphs_ != 0;
}

void LaunchWatch::run() {
  std::unique_lock lock(mutex_);
  for (std::uint64_t nap = shortest_nap_ns;;) {
    if (!new_.empty()) nap = shortest_nap_ns;
    watched_.splice(watched_.end(), new_);
    const bool only_graphs =
        std::all_of(watched_.begin(), watched_.end(), [](const Watched& each) { return each.is_captured(); });
    if (closing_ && only_graphs) break;
    if (watched_.empty()) {
      changed_.wait(lock, [this] { return closing_ || !new_.empty(); });
      continue;
    }
    lock.unlock();
    const std::uint64_t now = now_ns();
    if (side_.has_failed() && failed_since_ns_ == 0) failed_since_ns_ = now;
    std::size_t gone = 0;
    for (auto each = watched_.begin(); each != watched_.end();) {
      const bool over = each->is_captured() ? look_at_captured(*each) : look(*each, now);
      gone += over && each->is_captured() ? 1 : 0;
      if (over) nap = shortest_nap_ns;
      each = over ? watched_.erase(each) : std::next(each);
    }
    if (now >= next_health_ns_ && failed_since_ns_ == 0) {
      next_health_ns_ = now + health_period_ns;
      static_cast<void>(side_.check_health());
    }
    lock.lock();
    graphs_ -= gone;
    nap = only_graphs ? longest_nap_ns : std::min(2 * nap, longest_nap_ns);
    changed_.wait_for(lock, std::chrono::nanoseconds(nap), [this] { return closing_ || !new_.empty(); });
  }
  watched_.clear();
}

/// Whether it is over. What was stopped is left for the next time: a call of the same launch that says why may have ended
/// after this look at it. So is what has ended before a call that came first on its stream: works end in that order.
bool LaunchWatch::look(Watched& watched, std::uint64_t now) {
  DeviceCall& call = watched.call;
  if (!watched.started && call.flight->begun(call.job)) {
    watched.started = true;
    if (call.work != nullptr) call.work->start(call.sequence);
  }
  const JobEnd end = call.flight->end(call.job);
  if (end == JobEnd::aborted && !std::exchange(watched.stopped, true)) return false;
  if (end != JobEnd::under_way) {
    if (!is_next(watched)) return false;
    finish(watched, catching([&] { return side_.outcome(call, end, {}); }));
    return true;
  }
  if (failed_since_ns_ != 0) {
    if (now - failed_since_ns_ < longest_end_ns || !is_next(watched)) return false;
    finish(watched, side_.control().first_error());
    return true;
  }
  // What it finds fails the communicator, which this thread sees the next time.
  if (watched.started) {
    static_cast<void>(catching([&]() -> Status {
      watched.inquiry.look(now - call.issued_ns, call.call, call.sequence, [this] { return side_.others(); });
      return {};
    }));
  }
  return false;
}

/// Whether all that was called before it on its stream is over.
bool LaunchWatch::is_next(const Watched& watched) const {
  for (const Watched& each : watched_) {
    if (&each == &watched) break;
    if (!each.is_captured() && each.stream() == watched.stream()) return false;
  }
  return true;
}

bool LaunchWatch::look_at_captured(Watched& watched) {
  const DeviceCall& call = watched.call;
  if (call.flight->is_idle()) return true;
  const JobEnd end = call.flight->end(call.job);
  if (end == JobEnd::under_way || end == JobEnd::completed || failed_since_ns_ != 0) return false;
  if (end == JobEnd::aborted && !std::exchange(watched.stopped, true)) return false;
  static_cast<void>(catching([&] { return side_.outcome(call, end, {}); }));
  return false;
}

void LaunchWatch::finish(Watched& watched, Status status) {
  if (watched.call.work == nullptr) return;
  if (!watched.started) watched.call.work->start(watched.call.sequence);
  watched.call.flight.reset();
  watched.call.work->complete(std::move(status));
}

}  // namespace tutti
