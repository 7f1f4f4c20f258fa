// The control plane of one rank: who is alive, the first error on every rank, out-of-band exchange, who does what.
//
// Ranks are joined by a graph: authenticated connections to the ranks at distance ±2^k, so that anything reaches anybody
// in log2(n) hops and a few deaths leave it in one piece. One thread sleeps on all of them (mesh.h), and on those of the
// communicators that were split off, which share them. It
//   - notices a neighbour's death: its connections close without a goodbye, its process ends, or it is silent too long; it
//     then compares what both have called, as a mismatch is the cause of what follows;
//   - floods the first error of the communicator to every rank, each passing on only the first one that it hears;
//   - answers questions about what this rank is doing, and passes on those for others.
// With one rank there is no thread and no connection.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/base/unique_fd.h"
#include "src/control/activity.h"
#include "src/control/members.h"
#include "src/control/wait_limits.h"

namespace tutti {

/// What is known of a rank when one asks.
struct PeerReport {
  enum class State {
    kUnknown,  ///< no answer within the time: stopped, or cut off
    kAlive,    ///< it answered
    kLeft,     ///< it took leave
    kDead,     ///< a neighbour saw it die
  };
  int rank = -1;
  State state = State::kUnknown;
  bool heard = false;  ///< whether anything is known of what it does
  Activity activity;   ///< as it answered; of one that did not, as its neighbours last knew, from its board or its word
};

/// The operation that an exchange is for, in its errors. A value.
struct Purpose {
  const char* kind = "";                 ///< "split"; empty: none that callers know of
  std::uint64_t operation = UINT64_MAX;  ///< its number
  std::uint64_t history = 0;             ///< hash of all that its rank has called, up to it; see activity.h
};

/// See the head of this file. Thread safe throughout; made, used and destroyed in one process: in a forked child every
/// call fails with TUTTI_INVALID_USAGE, and destruction does nothing to the parent.
class ControlPlane {
 public:
  struct Options {
    int rank = 0;
    int ranks = 1;
    std::string name = "world";                      ///< the communicator's, for sentences
    std::uint64_t idle_timeout_ns = 10'000'000'000;  ///< a neighbour that is silent this long is lost
  };
  /// A rank without links yet. Errors: TUTTI_SYSTEM_ERROR (no descriptor or thread left).
  static Result<std::unique_ptr<ControlPlane>> make(const Options& options);
  enum class Routed : bool { no, yes };
  /// One for some of the ranks of `parent`, which share its connections and its thread. It may outlive the parent.
  /// members: ranks of the parent, by their new rank. context: a number that they share, and no other plane has. board:
  /// this rank's. Connections with neighbours that the parent lacks are to be added. Where it is routed, what goes to these
  /// takes the parent's ways until set_members, by ranks that may be no members; the parent must live so long. Errors:
  /// TUTTI_INVALID_USAGE where the parent takes leave.
  static Result<std::unique_ptr<ControlPlane>> make_part(ControlPlane& parent, const Options& options,
                                                         std::span<const int> members, std::uint64_t context,
                                                         std::unique_ptr<ActivityBoard> board, Routed routed = Routed::no);
  /// Leaves, if that was not done.
  ~ControlPlane();
  ControlPlane(const ControlPlane&) = delete;
  ControlPlane& operator=(const ControlPlane&) = delete;

  int rank() const;
  int ranks() const;
  /// What sentences call the communicator: the options' name, until it is given another.
  std::string name() const;
  void set_name(std::string name);

  // ---- Failure.
  /// True from the moment the communicator has failed, here or anywhere; never becomes false again. An acquire load shows
  /// first_error(). For waits to poll.
  const std::atomic<bool>& failed() const;
  /// The first error that this rank heard of; success while there is none.
  Status first_error() const;
  /// Makes `error` the communicator's, unless it has one already, and floods it to all ranks. Never blocks.
  void report(Error error);
  /// As above, of a failure that was made in advance where there is no memory now: the watcher tells the peers once there
  /// is some. Throws nothing.
  void report(const Status& failure) noexcept;
  /// The error of a peer that this rank needed and that died or left, whatever a report's state says. TUTTI_MISMATCH where
  /// the two have called different things, else TUTTI_REMOTE_ERROR with what is known of its last operation.
  /// how: such as "its shm connection closed", for a death that the control plane does not know of.
  Error death_of(const PeerReport& peer, const std::string& how) const;
  Error leave_of(const PeerReport& peer) const;

  // ---- What ranks do.
  /// This rank's board; its executor writes it.
  ActivityBoard& board();
  /// Asks the given ranks what they do, all at once; answers in the same order. Takes at most until the deadline, and
  /// less if all answer or the patience ends; tells of those that do not what is known of them. Works in a failed
  /// communicator, too. Own rank allowed.
  std::vector<PeerReport> survey(std::span<const int> ranks, const WaitLimits& wait_limits);
  PeerReport query(int rank, const WaitLimits& wait_limits);

  /// Questions of a survey whose asker has other things to do meanwhile. Not thread safe, and gone before its ControlPlane
  /// is.
  class Inquiry {
   public:
    virtual ~Inquiry() = default;
    /// Whether there is nothing more to wait for: all have answered, or the deadline has passed. Never blocks for long. To
    /// be asked now and then: half the time over, it asks again by other ways.
    virtual bool over() = 0;
    /// What is known by now, as of a survey that ends.
    virtual std::vector<PeerReport> reports() = 0;
  };
  /// Asks as survey does, and returns at once.
  std::unique_ptr<Inquiry> inquire(std::span<const int> ranks, Deadline deadline);

  // ---- Members.
  /// Who takes part; member r at index r. To be called once there is a connection with each neighbour: one without is lost.
  void set_members(std::vector<Member> members);
  std::vector<Member> members() const;
  /// As far as it is known; otherwise a Member of which only the rank is set.
  Member member(int rank) const;

  // ---- Exchange.
  /// Everybody's bytes, by rank, in ceil(log2(n)) rounds. Collective, in the same order on all ranks; calls of several
  /// threads take turns. Fails with the communicator's first error, TUTTI_TIMEOUT (naming the ranks that have not
  /// called), TUTTI_MISMATCH where histories differ, TUTTI_ABORTED by `patience`; a failure other than by abort is reported
  /// to all. For a few KiB each.
  Result<std::vector<std::vector<std::byte>>> allgather(std::span<const std::byte> mine, const WaitLimits& wait_limits,
                                                        const Purpose& purpose = {});

  // ---- Life.
  /// Hands over an authenticated connection to neighbour `about.rank`, non-blocking.
  void add_link(UniqueFd fd, const Member& about);
  /// The ranks that a connection is open to, ascending.
  std::vector<int> connected() const;
  /// Waits until there is one to each of these neighbours, which another thread of this process is about to add. Errors:
  /// this communicator's first, TUTTI_TIMEOUT, TUTTI_ABORTED by `wait_limits`.
  Status await_connections(std::span<const int> ranks, const WaitLimits& wait_limits);
  /// Takes leave of the neighbours, who read "left" and not "died". The last one that shares the connections closes them,
  /// and stops the thread, within about 100 ms whatever the peers do. Logs a warning where a neighbour is known to have
  /// called something else and nobody has been told. Only failed(), first_error() and members remain usable. Idempotent.
  void leave();

  class Impl;

 private:
  explicit ControlPlane(std::unique_ptr<Impl> impl);
  static Result<std::unique_ptr<ControlPlane>> over(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti
