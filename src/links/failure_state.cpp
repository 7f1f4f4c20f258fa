#include "src/links/failure_state.h"

#include <fmt/format.h>

#include <span>
#include <utility>
#include <vector>

#include "src/base/exception_boundary.h"
#include "src/control/mismatch.h"
#include "src/links/transport_loader.h"

namespace tutti {
namespace {

/// What became of a rank, after what it called.
std::string fate_of(const PeerReport& report) {
  return report.state == PeerReport::State::kLeft ? "left" : report.state == PeerReport::State::kDead ? "died" : "";
}

}  // namespace

Status FailureState::legal() const {
  if (legal_now()) [[likely]]
    return {};
  if (Status failed = first_error(); !failed.ok()) return failed;
  // Relaxed: who calls while finalize begins may be told either; admission and the turn decide.
  if (!finalizing_.load(std::memory_order_relaxed)) return {};
  return Status(TUTTI_INVALID_USAGE, fmt::format("\"{}\" has been finalized", name()),
                "Only tutti_comm_destroy may follow.");
}

Status FailureState::first_error() const {
  // Acquire: pairs with whoever fails the communicator.
  if (!failed_.load(std::memory_order_acquire)) return {};
  {
    const std::lock_guard lock(quarantine_mutex_);
    if (!quarantine_.ok()) return quarantine_;
  }
  return control_.first_error();
}

Status FailureState::fail(const Status& status) noexcept {
  control_.report(status);
  // One that has left keeps no errors; what failed has failed all the same.
  Status first = control_.first_error();
  return first.ok() ? status : first;
}

Status FailureState::fail_by_hook(const char* during) noexcept {
  return fail(catching([&] {
    Error error;
    error.status = TUTTI_ABORTED;
    error.guilty = {guilty(rank_)};
    error.message = fmt::format("\"{}\": the poll hook of rank {} ended the wait {}", name(), rank_, during);
    return Status(std::move(error));
  }));
}

void FailureState::quarantine(const Status& first) {
  const std::lock_guard lock(quarantine_mutex_);
  quarantine_ = first;
}

Guilty FailureState::guilty(const PeerReport& report) const {
  return guilty_of(control_.member(report.rank), report.activity);
}

std::unique_ptr<ControlPlane::Inquiry> FailureState::inquire(int peer, std::uint64_t ns) const {
  if (peer >= 0) return control_.inquire(std::span(&peer, 1), Deadline::in(ns));
  std::vector<int> others;
  for (int rank = 0; rank < control_.ranks(); ++rank) {
    if (rank != rank_) others.push_back(rank);
  }
  return control_.inquire(others, Deadline::in(ns));
}

std::optional<Error> FailureState::loss_of(const PeerReport& peer) const {
  if (auto mismatch = mismatch_with(peer)) return mismatch;
  if (peer.state != PeerReport::State::kLeft) return std::nullopt;
  return control_.leave_of(peer);
}

std::optional<Error> FailureState::mismatch_with(const PeerReport& peer, const std::string& where) const {
  return mismatch_between(where, {control_.member(rank_), control_.board().read()},
                          {control_.member(peer.rank), peer.activity}, fate_of(peer));
}

std::optional<Error> FailureState::mismatch_with(const PeerReport& peer) const {
  return mismatch_with(peer, fmt::format("\"{}\"", name()));
}

std::optional<Error> FailureState::own_shortage(int peer, std::string_view why) const {
  if (!read_why(why).own) return std::nullopt;
  return cut(TUTTI_SYSTEM_ERROR, guilty_of(control_.member(rank_), control_.board().read()), peer, why);
}

Error FailureState::cut(tutti_status status, Guilty to_blame, int peer, std::string_view why) const {
  const Member& self = control_.member(rank_);
  const TransportWhy said = read_why(why);
  Error error;
  error.status = status;
  error.message = fmt::format("the link between {} and {} of \"{}\" broke: {}", self.text(), control_.member(peer).text(),
                              name(), said.told_of(self.text()));
  error.remedy = !said.remedy.empty()
                     ? said.remedy
                     : fmt::format("See what rank {} says, and the limits of its process (`ulimit -n`)", to_blame.rank);
  error.guilty.push_back(std::move(to_blame));
  return error;
}

}  // namespace tutti
