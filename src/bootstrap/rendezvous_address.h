// The forms in which ranks are told where to meet, each turned into a RendezvousPoint; rank 0 opens it where it is its
// part.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "src/base/socket.h"
#include "src/bootstrap/rendezvous.h"
#include "src/bootstrap/rendezvous_client.h"

namespace tutti {

/// Opens or finds the rendezvous that `request` names, for the rank at `place` (at least two ranks). so_far: what has
/// failed on this rank already, which is to be told at the rendezvous: a bootstrap tells it, and it is returned. Blocks in
/// the caller's bootstrap; waits for a host's address and for a secret that comes through a pipe within the request's
/// patience. Errors: as join.
Result<RendezvousPoint> open_rendezvous(const JoinRequest& request, const RankAndSize& place, const Status& so_far);

/// Whether ranks can be told to meet there, as far as the text and this machine's interfaces tell; no name is looked up.
/// Errors: TUTTI_INVALID_ARGUMENT.
Status check_address(std::string_view address);
/// The same of TUTTI_COMM_ID, which says where env:// leads and cannot say so again.
Status check_comm_id(std::string_view address);

/// The key that a secret of the settings makes, given or in a file; nothing where there is none. Waits for a file that is a
/// pipe. Errors: TUTTI_INVALID_ARGUMENT (a file that cannot be read, is empty or too long), TUTTI_TIMEOUT, TUTTI_ABORTED.
Result<std::optional<Key>> configured_key(const Settings& settings, const WaitLimits& wait_limits);

/// Settings.interfaces as listen_on wants them.
std::string interface_list(const Settings& settings);
/// Listens where the settings allow it. Errors as listen_on.
Result<Listener> listen_for(const Settings& settings);

}  // namespace tutti
