// The algorithms of this folder, one declaration each; registry.cpp lists them.
#pragma once

#include "algorithms/algorithm.h"

namespace tutti {

/// For algorithms that take any problem of their collective.
inline bool always_fits(const Problem&, const View&) { return true; }

extern const Algorithm flat_all_reduce;
extern const Algorithm ring_all_reduce;

}  // namespace tutti
