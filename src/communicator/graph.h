// From strangers to a control graph: the introduction at the root, and the connections among neighbours.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/communicator/anteroom.h"
#include "src/communicator/control.h"
#include "src/communicator/door.h"
#include "src/communicator/identity.h"
#include "src/communicator/patience.h"
#include "src/communicator/root.h"

namespace tutti {

/// Purpose of handshakes between neighbours.
inline constexpr const char* kControlPurpose = "tutti control 2";

/// Where the root is found.
struct Meeting {
  /// Called again and again until the root is reached: its identity as far as it is known now (it may change: a file that
  /// an earlier job left behind is replaced). Errors end the wait.
  std::function<Result<std::optional<Identity>>()> find;
  std::string where;               ///< "tcp://host:4242", for sentences
  int holder = 0;                  ///< the rank whose process holds the root, -1: unknown
  RootNumber root = 0;             ///< the root, where this rank's process holds it and this rank speaks for it
  std::function<void()> clean_up;  ///< removes what a dead root left; may be empty
  /// The root listened before anybody could know of it, as that of an id: who is refused there comes too late for good.
  bool listened_first = false;

  /// To be called where the creation failed on this rank: the root tells the others why. Waits for that, except after an
  /// abort. Where there is no memory for it the root ends. Throws nothing.
  void abandon(const Status& failure, const Member& self, const Patience& patience) const;
};

/// To be called on a rank that cannot take part, before it has said who it is: leaves its sentence at the root, which tells
/// the others. Where this process speaks for the root, as Meeting::abandon. Else for as long as reaching the root takes, 3
/// s at most; a tenth of a second after an abort. Throws nothing.
void leave_notice(const Meeting& meeting, const Member& self, int ranks, const Status& failure, const Patience& patience);

/// The error of `self` as others read it: with its author, and an abort is news to them.
Error for_others(const Status& status, const Member& self);
/// A failure of `self` alone, as all read it, itself included: its sentence says whose it is.
Status named(const Status& failure, const Member& self);

/// The connection to the root, and whose process that is in.
struct RootLink {
  Channel channel;        ///< closed where there is no root
  RootNumber number = 0;  ///< its own word, by which a rank of the root's process finds it
  Guilty holder;          ///< rank -1: unknown

  /// That this process died.
  Status dead(const std::string& where) const;
};

/// What the root told, and the connection to it, which stays until this rank is ready.
struct Introduced {
  Key key{};  ///< the meeting's
  std::array<unsigned char, kNonceBytes> nonce{};
  std::vector<Introduction> neighbours;
  RootLink root;
};

/// Reaches the root, says who this rank is, waits for the introduction, and meanwhile keeps the anteroom clear. Errors:
/// TUTTI_INVALID_ARGUMENT (wrong key, and what the root objects to), TUTTI_TIMEOUT, TUTTI_REMOTE_ERROR, TUTTI_ABORTED by
/// `patience`.
Result<Introduced> introduce(const Meeting& meeting, const Introduction& self, int ranks, Anteroom& anteroom,
                             const Patience& patience);

/// Connects with all neighbours: the lower rank of two calls, the higher one answers at its door. `root` may be
/// closed; otherwise what it tells of others' failures ends the wait. Returns once every neighbour is linked to
/// `control`. A failure is reported there. Errors: as introduce.
Status connect_neighbours(ControlPlane& control, Door& door, const std::vector<Introduction>& peers, const Key& key,
                          RootLink& root, const Patience& patience);

/// Why a neighbour's addresses refuse `self` for so long, `caller` being what they say: it has died, or none of them leads
/// from here to it.
Error refused_by(const Introduction& peer, const Member& self, const std::string& caller);

/// The door at which a rank's lower neighbours knock.
Door control_door(Anteroom::Contents contents, const Key& key, int rank);

}  // namespace tutti
