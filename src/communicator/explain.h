// How a call is told to other ranks, whose errors name it.
#pragma once

#include <array>
#include <cstdint>

#include "src/communicator/communicator.h"

namespace tutti {

/// What the activity board tells of a call: `detail` of what was called.
std::array<std::uint64_t, 4> pack_call(const CollectiveCall& call);
/// The same of a split.
std::array<std::uint64_t, 4> pack_split();

}  // namespace tutti
