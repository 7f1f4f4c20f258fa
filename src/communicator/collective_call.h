// A collective, as a verb asks for it.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "include/tutti/tutti.h"
#include "src/schedule/problem.h"

namespace tutti {

/// What a collective does, whatever its buffers.
struct CallShape {
  Collective collective = Collective::all_reduce;
  std::uint64_t count = 0;
  tutti_type type = TUTTI_FLOAT32;
  tutti_op op = TUTTI_SUM;
  int root = 0;
  bool operator==(const CallShape&) const = default;
};

/// One collective, as a verb asks for it.
struct CollectiveCall : CallShape {
  const void* send = nullptr;
  void* recv = nullptr;
  std::uint64_t timeout_ns = 0;  ///< 0: the communicator's
  bool beside = false;           ///< runs beside its caller's computing, which may want the core
  bool on_device = false;        ///< its processor is a device
  bool finalizes = false;        ///< the barrier of finalize, which errors call by that name
  std::string name;
  std::string algorithm;

  /// What the activity board tells other ranks of it, whose errors name it: `detail` of what was called.
  std::array<std::uint64_t, 3> detail() const {
    return {static_cast<std::uint64_t>(type) << 32 | static_cast<std::uint32_t>(op),
            static_cast<std::uint64_t>(on_device ? 1 : 0) << 32 | static_cast<std::uint32_t>(root), count};
  }
};

}  // namespace tutti
