// Sizes of element types.
#pragma once

#include <cstddef>

#include "include/tutti/tutti.h"

namespace tutti {

/// Bytes of one element, 0 for a type that does not exist.
constexpr std::size_t element_bytes(tutti_type type) {
  switch (type) {
    case TUTTI_INT8:
    case TUTTI_UINT8:
    case TUTTI_FLOAT8_E4M3:
    case TUTTI_FLOAT8_E5M2:
    case TUTTI_BOOL:
      return 1;
    case TUTTI_FLOAT16:
    case TUTTI_BFLOAT16:
    case TUTTI_INT16:
    case TUTTI_UINT16:
      return 2;
    case TUTTI_INT32:
    case TUTTI_UINT32:
    case TUTTI_FLOAT32:
      return 4;
    case TUTTI_INT64:
    case TUTTI_UINT64:
    case TUTTI_FLOAT64:
    case TUTTI_COMPLEX64:
      return 8;
    case TUTTI_COMPLEX128:
      return 16;
    default:
      return type > TUTTI_OPAQUE ? static_cast<std::size_t>(type) - TUTTI_OPAQUE : 0;
  }
}

}  // namespace tutti
