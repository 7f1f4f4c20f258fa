// A send or a receive, as a verb asks for it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "include/tutti/tutti.h"

namespace tutti {

/// A send or a receive, as a verb asks for it. The memory belongs to it until its work has completed.
struct Transfer {
  bool sends = false;
  tutti_type type = TUTTI_UINT8;
  std::byte* memory = nullptr;  ///< only read where it sends
  std::uint64_t bytes = 0;
  std::uint64_t element = 1;  ///< bytes of one element of the type
  int peer = -1;              ///< TUTTI_ANY_SOURCE for a receive from anybody
  std::uint64_t tag = 0;
  std::uint64_t timeout_ns = 0;
  bool soft = false;  ///< where its limit passes before it has met its match, it alone ends
  std::uint64_t user_tag = 0;
};

}  // namespace tutti
