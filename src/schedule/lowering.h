// What an executor may leave out of a program, because only some ways of carrying messages need it.
#pragma once

#include <cstdint>
#include <vector>

#include "src/schedule/ir.h"

namespace tutti {

/// For every operand of the program: 1 where it is a scratch destination that no step ever reads, so that it only serves as
/// memory that a peer may pull a message from; else 0. Where a step's messages all go by slot, such a destination need not
/// be written; out of place its single source may be offered instead, as the input is never overwritten. The program is
/// well-formed. Pure; time proportional to the program.
std::vector<std::uint8_t> only_offered(const Plan& plan, int rank, const Program& program);

}  // namespace tutti
