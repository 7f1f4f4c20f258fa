// Whether a communicator may be used, its first error, and the words for a peer that is missed.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "src/base/status.h"
#include "src/control/control.h"

namespace tutti {

/// What a communicator's collectives and transfers share of how it fails and ends. Thread safe.
class FailureState {
 public:
  /// How long whoever meets a broken link looks for a reason: the control plane hears of a death at about the same time.
  static constexpr std::uint64_t culprit_ns = 300'000'000;

  /// control: outlives this object.
  explicit FailureState(ControlPlane& control) : control_(control), failed_(control.failed()), rank_(control.rank()) {}

  /// The communicator's, as the control plane has it now.
  std::string name() const { return control_.name(); }

  /// legal() as far as it is a success; for whoever asks it again otherwise.
  bool legal_now() const {
    // Acquire: pairs with whoever fails the communicator. Relaxed: see legal.
    return !failed_.load(std::memory_order_acquire) && !finalizing_.load(std::memory_order_relaxed);
  }
  /// Success while operations may begin; the first error of a failed communicator, TUTTI_INVALID_USAGE once finalize has.
  Status legal() const;
  /// Finalize begins: nothing is legal from now on. Whether this call is the first.
  bool begin_finalize() {
    // Relaxed: what is admitted or has its turn meanwhile is waited for; see legal.
    return !finalizing_.exchange(true, std::memory_order_relaxed);
  }

  /// Whether it has begun. Relaxed: a state, no data behind it.
  bool is_finalizing() const { return finalizing_.load(std::memory_order_relaxed); }

  /// The first error, success if there is none.
  Status first_error() const;
  /// Records an error as the communicator's, tells the peers, and gives the first error there was.
  Status fail(Error error) { return fail(Status(std::move(error))); }
  /// As above, without memory too. Throws nothing.
  Status fail(const Status& status) noexcept;
  /// As above, since the caller's hook ended a wait. during: such as "for a transfer".
  Status fail_by_hook(const char* during) noexcept;
  /// first_error() from now on: the first error, with the peers that may still write into memory of the caller's.
  void quarantine(const Status& first);

  /// A member to blame, as far as it is known.
  Guilty guilty(int rank) const { return control_.member(rank).guilty(); }
  /// Likewise, with its last completed operation.
  Guilty guilty(const PeerReport& report) const;
  /// Asks what a peer does, or every other rank where `peer` is negative, and returns at once. Gone before the control
  /// plane is.
  std::unique_ptr<ControlPlane::Inquiry> inquire(int peer, std::uint64_t ns) const;
  /// The error of a peer that is missed, as far as its report gives a reason. Either the two have called different things,
  /// or the peer left. The control plane itself tells of a death, after those that know more of it.
  std::optional<Error> loss_of(const PeerReport& peer) const;
  /// The error of two ranks that called different things, as far as both are known to have got. where: as mismatch_between;
  /// by itself, the communicator.
  std::optional<Error> mismatch_with(const PeerReport& peer, const std::string& where) const;
  std::optional<Error> mismatch_with(const PeerReport& peer) const;
  /// The error of a link to `peer` that broke for want of something here, as `why` says (transport.h, `failure`); nothing
  /// where it broke otherwise.
  std::optional<Error> own_shortage(int peer, std::string_view why) const;
  /// The error of a link that broke between ranks that live.
  Error cut(tutti_status status, Guilty to_blame, int peer, std::string_view why) const;

 private:
  ControlPlane& control_;
  const std::atomic<bool>& failed_;  ///< the control plane's
  std::atomic<bool> finalizing_{false};
  const int rank_;
  mutable std::mutex quarantine_mutex_;
  Status quarantine_;  ///< see quarantine
};

}  // namespace tutti
