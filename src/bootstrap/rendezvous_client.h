// From strangers to a control graph: the introduction at the server, and the connections among neighbours.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/base/authenticated_acceptor.h"
#include "src/bootstrap/rendezvous_server.h"
#include "src/bootstrap/unique_id.h"
#include "src/control/control.h"
#include "src/control/wait_limits.h"

namespace tutti {

/// Purpose of handshakes between neighbours.
inline constexpr const char* kControlPurpose = "tutti control 2";

/// Where the server is found.
struct RendezvousPoint {
  /// Called again and again until the server is reached: its identity as far as it is known now (it may change: a file that
  /// an earlier job left behind is replaced). Errors end the wait.
  std::function<Result<std::optional<UniqueIdContents>>()> find;
  std::string where;               ///< "tcp://host:4242", for sentences
  int holder = 0;                  ///< the rank whose process holds the server, -1: unknown
  ServerId server = 0;             ///< the server, where this rank's process holds it and this rank speaks for it
  std::function<void()> clean_up;  ///< removes what a dead server left; may be empty
  /// The server listened before anybody could know of it, as that of an id: who is refused there comes too late for good.
  bool listened_first = false;

  /// To be called where the creation failed on this rank: the server tells the others why. Waits for that, except after an
  /// abort. Where there is no memory for it the server ends. Throws nothing.
  void abandon(const Status& failure, const Member& self, const WaitLimits& wait_limits) const;
};

/// To be called on a rank that cannot take part, before it has said who it is: leaves its sentence at the server, which
/// tells the others. Where this process speaks for the server, as RendezvousPoint::abandon. Else for as long as reaching
/// the server takes, 3 s at most; a tenth of a second after an abort. Throws nothing.
void leave_notice(const RendezvousPoint& point, const Member& self, int ranks, const Status& failure,
                  const WaitLimits& wait_limits);

/// The error of `self` as others read it: with its author, and an abort is news to them.
Error for_others(const Status& status, const Member& self);
/// A failure of `self` alone, as all read it, itself included: its sentence says whose it is.
Status named(const Status& failure, const Member& self);

/// The connection to the server, and whose process that is in.
struct ServerLink {
  FrameChannel channel;  ///< closed where there is no server
  ServerId number = 0;   ///< its own word, by which a rank of the server's process finds it
  Guilty holder;         ///< rank -1: unknown

  /// That this process died.
  Status dead(const std::string& where) const;
};

/// What the server told, and the connection to it, which stays until this rank is ready.
struct Introduced {
  Key key{};  ///< the rendezvous's
  std::array<unsigned char, kNonceBytes> nonce{};
  std::vector<Introduction> neighbours;
  ServerLink server;
};

/// Reaches the server, says who this rank is, waits for the introduction, and meanwhile keeps strangers out of `acceptor`.
/// Errors: TUTTI_INVALID_ARGUMENT (wrong key, and what the server objects to), TUTTI_TIMEOUT, TUTTI_REMOTE_ERROR,
/// TUTTI_ABORTED by `wait_limits`.
Result<Introduced> introduce(const RendezvousPoint& point, const Introduction& self, int ranks, Acceptor& acceptor,
                             const WaitLimits& wait_limits);

/// Connects with all neighbours: the lower rank of two calls, the higher one answers. Gives `acceptor` its key. `server`
/// may be closed. Otherwise what it tells of others' failures ends the wait. Returns once every neighbour is linked to
/// `control`. A failure is reported there. Errors: as introduce.
Status connect_neighbours(ControlPlane& control, Acceptor& acceptor, const std::vector<Introduction>& peers, const Key& key,
                          ServerLink& server, const WaitLimits& wait_limits);

/// Why a neighbour's addresses refuse `self` for so long, `caller` being what they say: it has died, or none of them leads
/// from here to it.
Error refused_by(const Introduction& peer, const Member& self, const std::string& connector);

}  // namespace tutti
