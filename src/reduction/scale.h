// Operands times a number, before they are folded.
#pragma once

#include <cstddef>

#include "include/tutti/tutti.h"

namespace tutti {

/// Each of `count` elements at `from` times `scalar`, an element of the same type, rounded to it; integers wrap. `to` may
/// be `from`. Any alignment. type: of integers, floats or complex numbers. Thread safe.
void scale(tutti_type type, const void* scalar, const void* from, void* to, std::size_t count);

}  // namespace tutti
