// How a rank becomes a member: from an address, an id or a bootstrap to a key, a member table and a control plane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "include/tutti/tutti.h"
#include "src/base/handshake.h"
#include "src/base/poll_hook.h"
#include "src/base/settings.h"
#include "src/base/status.h"
#include "src/bootstrap/launcher_environment.h"
#include "src/bootstrap/rendezvous_server.h"
#include "src/bootstrap/resolve.h"
#include "src/control/control.h"
#include "src/control/wait_limits.h"

namespace tutti {

/// What one rank is told and holds once it has joined.
struct Membership {
  int rank = -1;
  int ranks = 0;
  Key key{};                    ///< the communicator's: its connections prove that they know it
  std::vector<Member> members;  ///< by rank
  std::unique_ptr<ControlPlane> control;
  // Of one that was split off.
  std::uint64_t context = 0;   ///< a number that its ranks share, and no other communicator over their connections has
  std::vector<int> in_parent;  ///< by rank: its rank in the communicator that was split
};

/// Makes what this rank tells all others (its transports' descriptors), once key, rank and size are known.
using MakeBlob =
    std::function<Result<std::vector<std::byte>>(std::span<const unsigned char, kKeyBytes> key, int rank, int ranks)>;

/// What a rank wants to join. Exactly one of address, id and bootstrap is given.
struct JoinRequest {
  std::string address;                         ///< "tcp://…", "file://…", "env://", "id:…"
  const tutti_unique_id* id = nullptr;         ///< valid during the call
  const tutti_bootstrap* bootstrap = nullptr;  ///< valid during the call
  int rank = -1;                               ///< -1: the launcher's (address only)
  int ranks = -1;                              ///< likewise
  int global = -1;                             ///< see Member
  std::string name = "world";                  ///< the communicator's, for sentences
  std::string settings_line;                   ///< what the log is to tell of its settings; see log_lines.h
  Settings settings;                           ///< interfaces, ports, secret, timeouts
  WaitLimits wait_limits;                      ///< deadline, abort, the caller's hook
  Status so_far;  ///< what keeps this rank from joining already: the others are told, and it is the outcome
  MakeBlob blob;  ///< may be empty
  EnvironmentLookup environment = process_environment();  ///< where env:// looks
  Resolver resolver = look_up;                            ///< who knows the addresses of hosts
};

/// Joins. Collective over the ranks; blocks until all are members, an error, or `wait_limits` ends it. Every error reaches
/// all ranks that can be reached. Errors: TUTTI_INVALID_ARGUMENT (address, rank, size, key), TUTTI_TIMEOUT (who is
/// missing), TUTTI_REMOTE_ERROR (who died), TUTTI_SYSTEM_ERROR, TUTTI_ABORTED.
Result<Membership> join(const JoinRequest& request);

/// Rank and size as join would take them, without joining: known from the start of a non-blocking creation.
struct RankAndSize {
  int rank = -1;
  int ranks = -1;
};
Result<RankAndSize> place_of(const JoinRequest& request);

/// A unique id and the rendezvous of those who will use it, on a thread of this process. Movable.
class UniqueIdRendezvous {
 public:
  /// Errors: TUTTI_SYSTEM_ERROR, TUTTI_INVALID_ARGUMENT (interfaces).
  static Result<UniqueIdRendezvous> open(const Settings& settings, ReusePolicy reuse_policy = ReusePolicy::kNever);
  UniqueIdRendezvous(UniqueIdRendezvous&& other) noexcept : id_(other.id_), server_(other.release()) {}
  UniqueIdRendezvous& operator=(UniqueIdRendezvous&&) = delete;
  /// Ends the rendezvous, unless it has ended or was released. Needs no memory.
  ~UniqueIdRendezvous();

  const tutti_unique_id& id() const { return id_; }
  /// From now on it goes on until all have met or the process ends.
  std::uint64_t release() { return std::exchange(server_, 0); }

 private:
  explicit UniqueIdRendezvous(const tutti_unique_id& id) : id_(id) {}
  tutti_unique_id id_;
  std::uint64_t server_ = 0;
};

/// The id of one that was released.
Result<tutti_unique_id> make_unique_id(const Settings& settings);

/// What a rank brings to a communicator that is made from another one, its parent.
struct PartRequest {
  Status so_far;  ///< as JoinRequest's
  std::string name;
  Settings settings;
  WaitLimits wait_limits;
  PollHook hook;                ///< what is made asks it
  int global = -1;              ///< see Member; -1: what it is in the parent
  std::vector<std::byte> blob;  ///< what this rank tells all others: their Member::blob
};

/// To a split.
struct SplitRequest : PartRequest {
  int color = 0;                         ///< negative: no group
  int key = 0;                           ///< order within the group, then parent's rank
  std::uint64_t operation = UINT64_MAX;  ///< its number among the parent's; UINT64_MAX: none
  std::uint64_t history = 0;             ///< hash of the parent's operations up to it
};

/// Splits. Collective over the parent's ranks, by one exchange over its control plane, which the child's shares. Neighbours
/// of the child that have no connection yet make one. NULL for a rank without a group. The child's key is derived from the
/// parent's. Errors as join; one before the groups exist fails the parent as well.
Result<std::unique_ptr<Membership>> split(ControlPlane& parent, const Key& parent_key, const SplitRequest& request);

/// To a communicator of members that are known.
struct MembersRequest : PartRequest {
  std::vector<int> members;   ///< ranks of the parent, each once, by their new rank; this rank among them
  std::uint64_t tag = 0;      ///< the caller's, by which several of the same members are told apart
  std::uint64_t attempt = 0;  ///< how many of the same members and tag this rank has made before
};

/// Makes a communicator of the members alone; other ranks of the parent do not call, but pass frames on. Errors as join;
/// TUTTI_ABORTED where the parent fails. The parent stays sound.
Result<std::unique_ptr<Membership>> join_members(ControlPlane& parent, const Key& parent_key,
                                                 const MembersRequest& request);

}  // namespace tutti
