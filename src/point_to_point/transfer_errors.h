// The sentences of transfers that fail. Pure but for what is known of the members.
#pragma once

#include <string_view>

#include "src/base/status.h"
#include "src/links/failure_state.h"
#include "src/point_to_point/active_transfer.h"
#include "src/point_to_point/wire.h"

namespace tutti {

/// A receive has met a message that it cannot take. rank: whose receive it is. message: what `source` sent.
Error unfit_message(const FailureState& failures, int rank, const Transfer& receive, int source, const Trailer& message);
/// A transfer's deadline has passed. rank: whose transfer it is.
Error missed_deadline(const FailureState& failures, int rank, const ActiveTransfer& active);
/// A transfer was taken back by its caller. rank: whose transfer it is.
Error cancelled(const FailureState& failures, int rank, const Transfer& transfer);
/// The link with a peer broke, and the peer's report gives no reason. why: the transport's.
Error lost_peer(const FailureState& failures, int peer, std::string_view why);

}  // namespace tutti
