// The verifier's second look: whether lanes of one rank can disturb each other's memory.
#pragma once

#include "src/schedule/verifier.h"

namespace tutti {

/// Checks that any two steps of the rank that touch a chunk, one of them writing, are ordered by lane order and
/// dependencies of distance 0. That is enough: steps of different passes touch different memory or, in scratch, are ordered
/// by the depth rule. Input and output count as in place, which has every conflict that out of place has. The program is
/// well-formed.
Fault check_races(const Plan& plan, int rank, const Program& program, const VerifyLimits& limits);

}  // namespace tutti
