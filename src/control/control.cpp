#include "src/control/control.h"

#include <unistd.h>

#include <cstdlib>
#include <set>

#include "src/base/made_once.h"
#include "src/base/per_process.h"
#include "src/control/control_impl.h"

namespace tutti {

namespace {

// The control planes of this process that are still in use, for the goodbye at exit.
struct Live {
  std::mutex mutex;
  std::set<ControlPlane::Impl*> planes;
};
constinit PerProcess<Live> process_live;

Live& live() { return process_live.get(); }

void take_leave_at_exit() {
  // A thread that holds the mutex may have ended with the program's exit: try, do not wait.
  const std::unique_lock lock(live().mutex, std::try_to_lock);
  if (!lock) return;
  for (ControlPlane::Impl* plane : live().planes) plane->farewell();
}

void remember(ControlPlane::Impl* plane) {
  static constinit MadeOnce<int> registered;
  registered.get([] { return std::atexit(take_leave_at_exit); });
  const std::lock_guard lock(live().mutex);
  live().planes.insert(plane);
}

void forget(ControlPlane::Impl* plane) {
  const std::lock_guard lock(live().mutex);
  live().planes.erase(plane);
}

}  // namespace

Result<std::unique_ptr<ControlPlane>> ControlPlane::make(const Options& options) {
  // All that may fail for want of memory comes before the watcher, or within the care of our destructor, which ends it.
  std::unique_ptr<ControlPlane> plane(new ControlPlane(std::make_unique<Impl>(options)));
  if (Status status = plane->impl_->start(); !status) return status;
  return plane;
}

ControlPlane::ControlPlane(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) { remember(impl_.get()); }

ControlPlane::~ControlPlane() {
  if (impl_->in_child()) {
    // The watcher does not exist here, and it may have held the lock when the process was forked.
    static_cast<void>(impl_.release());
    return;
  }
  impl_->leave();
  forget(impl_.get());
}

int ControlPlane::rank() const { return impl_->options_.rank; }
int ControlPlane::ranks() const { return impl_->options_.ranks; }
const std::atomic<bool>& ControlPlane::failed() const { return impl_->failed_; }
ActivityBoard& ControlPlane::board() { return impl_->board_; }

Status ControlPlane::first_error() const {
  if (impl_->in_child()) return impl_->child_error();
  const std::lock_guard lock(impl_->mutex_);
  return impl_->first_error_;
}

void ControlPlane::report(Error error) { report(Status(std::move(error))); }

void ControlPlane::report(const Status& failure) noexcept {
  if (!impl_->in_child()) impl_->report(failure);
}

void ControlPlane::on_failure(OnFailure callback) {
  if (!impl_->in_child()) impl_->set_callback(std::move(callback));
}

Error ControlPlane::death_of(const PeerReport& peer, const std::string& how) const { return impl_->death_of(peer, how); }

Error ControlPlane::leave_of(const PeerReport& peer) const { return impl_->leave_of(peer); }

std::vector<PeerReport> ControlPlane::survey(std::span<const int> ranks, const WaitLimits& wait_limits) {
  return impl_->survey(ranks, wait_limits);
}

std::unique_ptr<ControlPlane::Inquiry> ControlPlane::inquire(std::span<const int> ranks, Deadline deadline) {
  return std::make_unique<Impl::Survey>(*impl_, ranks, deadline);
}

PeerReport ControlPlane::query(int rank, const WaitLimits& wait_limits) {
  return survey(std::span(&rank, 1), wait_limits).front();
}

void ControlPlane::set_members(std::vector<Member> members) { impl_->set_members(std::move(members)); }

std::vector<Member> ControlPlane::members() const {
  const std::lock_guard lock(impl_->mutex_);
  return impl_->members_;
}

Member ControlPlane::member(int rank) const {
  const std::lock_guard lock(impl_->mutex_);
  return impl_->member_locked(rank);
}

Result<std::vector<std::vector<std::byte>>> ControlPlane::allgather(std::span<const std::byte> mine,
                                                                    const WaitLimits& wait_limits, const Purpose& purpose) {
  if (impl_->in_child()) return impl_->child_error();
  return impl_->allgather(mine, wait_limits, purpose);
}

void ControlPlane::add_link(UniqueFd fd, const Member& about) {
  if (!impl_->in_child()) impl_->add_link(std::move(fd), about);
}

void ControlPlane::leave() {
  if (!impl_->in_child()) impl_->leave();
}

bool ControlPlane::Impl::in_child() const { return ::getpid() != pid_; }

Status ControlPlane::Impl::child_error() const {
  return Status(TUTTI_INVALID_USAGE,
                "This process is a fork of process " + std::to_string(pid_) + ", to which communicator \"" + options_.name +
                    "\" belongs",
                "Create a communicator of its own in the child");
}

}  // namespace tutti
