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
inline constexpr const char* kControlPurpose = "tutti control 1";

/// Where the root is found.
struct Meeting {
  /// Called again and again until the root is reached: its identity as far as it is known now (it may change: a file that
  /// an earlier job left behind is replaced). Errors end the wait.
  std::function<Result<std::optional<Identity>>()> find;
  std::string where;               ///< "tcp://host:4242", for sentences
  int holder = 0;                  ///< the rank whose process holds the root, -1: unknown
  /// Called where the creation failed, with what others may hear of it: it reaches a root of this process, and what a dead
  /// root left is removed. May be empty.
  std::function<void(const Error& error, const Patience& patience)> abandon;
};

/// The connection to the root, and whose process that is in.
struct RootLink {
  Channel channel;  ///< closed where there is no root
  Guilty holder;    ///< rank -1: unknown

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
/// `control`. On failure the caller reports it. Errors: as introduce.
Status connect_neighbours(ControlPlane& control, Door& door, const std::vector<Introduction>& peers, const Key& key,
                          RootLink& root, const Patience& patience);

/// The door at which a rank's lower neighbours knock.
Door control_door(Anteroom::Contents contents, const Key& key, int rank);

}  // namespace tutti
