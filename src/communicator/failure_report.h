// How a call is told to other ranks, whose errors name it.
#pragma once

#include <array>
#include <cstdint>

#include "src/communicator/communicator.h"

namespace tutti {

/// What the activity board tells of a call: `detail` of what was called.
std::array<std::uint64_t, 3> detail_of(const CollectiveCall& call);

}  // namespace tutti
