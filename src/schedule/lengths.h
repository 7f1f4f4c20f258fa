// The verifier's last look at an irregular plan: whether both ends of everything know how long it is.
#pragma once

#include <cstdint>
#include <span>

#include "src/schedule/verifier.h"

namespace tutti {

/// Which blocks of an irregular problem are as long as each other whatever the call: those of equal numbers. A block has
/// one, by who gives it and who gets it, in the input that it comes from and in each output that it goes to.
std::uint64_t length_number(const Problem& problem, Buffer buffer, int rank, std::uint32_t block);

/// Checks that each step has an operand in the input or the output. All of these have blocks of one length, place by place.
/// So has what lies in the scratch, and both ends of each message take it to be as long. So the programs are right for
/// every division where they are for equal blocks. The problem is irregular, and the programs are proved otherwise:
/// messages pair up.
Fault check_lengths(const Plan& plan, std::span<const Program> programs);

}  // namespace tutti
