#include "src/control/control.h"

#include <unistd.h>

#include <numeric>

#include "src/control/control_impl.h"

namespace tutti {

Result<std::unique_ptr<ControlPlane>> ControlPlane::make(const Options& options) {
  auto mesh = Mesh::make(options.ranks);
  if (!mesh) return mesh.status();
  std::vector<int> in_mesh(static_cast<std::size_t>(options.ranks));
  std::iota(in_mesh.begin(), in_mesh.end(), 0);
  return over(
      std::make_unique<Impl>(std::move(mesh).value(), options, std::move(in_mesh), 0, std::make_unique<ActivityBoard>()));
}

Result<std::unique_ptr<ControlPlane>> ControlPlane::make_part(ControlPlane& parent, const Options& options,
                                                              std::span<const int> members, std::uint64_t context,
                                                              std::unique_ptr<ActivityBoard> board, Routed routed) {
  Impl& whole = *parent.impl_;
  if (whole.in_child()) return whole.child_error();
  std::vector<int> in_mesh;
  for (const int member : members) in_mesh.push_back(whole.in_mesh_[static_cast<std::size_t>(member)]);
  auto impl = std::make_unique<Impl>(whole.mesh_, options, std::move(in_mesh), context, std::move(board));
  if (routed == Routed::yes) impl->route_by(whole, members);
  return over(std::move(impl));
}

Result<std::unique_ptr<ControlPlane>> ControlPlane::over(std::unique_ptr<Impl> impl) {
  // Before the mesh knows it: from then on our destructor takes care of it.
  std::unique_ptr<ControlPlane> plane(new ControlPlane(std::move(impl)));
  if (Status status = plane->impl_->start(); !status) return status;
  return plane;
}

ControlPlane::ControlPlane(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

ControlPlane::~ControlPlane() {
  if (impl_->in_child()) {
    // The thread does not exist here, and it may have held the lock when the process was forked.
    static_cast<void>(impl_.release());
    return;
  }
  impl_->leave();
}

int ControlPlane::rank() const { return impl_->options_.rank; }
int ControlPlane::ranks() const { return impl_->options_.ranks; }

std::string ControlPlane::name() const {
  if (impl_->in_child()) return impl_->options_.name;
  const std::lock_guard lock(impl_->mutex_);
  return impl_->name_;
}

void ControlPlane::set_name(std::string name) {
  if (impl_->in_child()) return;
  const std::lock_guard lock(impl_->mutex_);
  impl_->name_ = std::move(name);
}

const std::atomic<bool>& ControlPlane::failed() const { return impl_->failed_; }
ActivityBoard& ControlPlane::board() { return *impl_->board_; }

Status ControlPlane::first_error() const {
  if (impl_->in_child()) return impl_->child_error();
  const std::lock_guard lock(impl_->mutex_);
  return impl_->first_error_;
}

void ControlPlane::report(Error error) { report(Status(std::move(error))); }

void ControlPlane::report(const Status& failure) noexcept {
  if (!impl_->in_child()) impl_->report(failure);
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

std::vector<int> ControlPlane::connected() const { return impl_->in_child() ? std::vector<int>() : impl_->connected(); }

Status ControlPlane::await_connections(std::span<const int> ranks, const WaitLimits& wait_limits) {
  return impl_->in_child() ? impl_->child_error() : impl_->await_connections(ranks, wait_limits);
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
