// The forms in which ranks are told where to meet, each turned into a Meeting; rank 0 opens it where it is its part.
#pragma once

#include "src/communicator/graph.h"
#include "src/communicator/rendezvous.h"

namespace tutti {

/// Opens or finds the meeting that `request` names, for the rank at `place` (at least two ranks). so_far: what has failed on
/// this rank already; it is returned, once those have been told who can be. Blocks in the caller's bootstrap, the system's
/// resolver and on a secret that comes through a pipe. Errors: as join.
Result<Meeting> open_meeting(const JoinRequest& request, const RankAndSize& place, const Status& so_far);

/// Settings.interfaces as listen_on wants them.
std::string interface_list(const Settings& settings);

}  // namespace tutti
