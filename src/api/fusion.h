// Calls of a group that are one operation: small all-reduces go as one message, and broadcasts with different roots as one
// all_gather_v.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "src/communicator/collective_call.h"

namespace tutti {

/// How many of the first calls are one operation; 1 where nothing is to be fused. All ranks find the same, as they make
/// such calls alike. calls: collectives of one communicator, on one stream, that follow each other there; not empty.
std::size_t fusible(std::span<const CollectiveCall* const> calls);

/// That operation, of at least two calls that `fusible` found. rank: this one, of so many.
CollectiveCall fused(std::span<const CollectiveCall* const> calls, int rank, int ranks);

}  // namespace tutti
