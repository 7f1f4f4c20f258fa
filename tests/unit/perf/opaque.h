// Opaque element types.
#pragma once

#include "tutti/tutti.h"

namespace tutti::perf {

/// The type of elements of `bytes` bytes.
constexpr tutti_type opaque(int bytes) { return static_cast<tutti_type>(TUTTI_OPAQUE + bytes); }

}  // namespace tutti::perf
