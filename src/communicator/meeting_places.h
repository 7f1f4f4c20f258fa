// The forms in which ranks are told where to meet, each turned into a Meeting; rank 0 opens it where it is its part.
#pragma once

#include "src/communicator/graph.h"
#include "src/communicator/rendezvous.h"

namespace tutti {

/// Opens or finds the meeting that `request` names, for the rank at `place` (at least two ranks). Blocks only in the
/// caller's bootstrap and the system's resolver. Errors: as join.
Result<Meeting> open_meeting(const JoinRequest& request, const RankAndSize& place);

/// Settings.interfaces as listen_on wants them.
std::string interface_list(const Settings& settings);

}  // namespace tutti
