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
/// What it reads of the scratch was written with that length, and both ends of each message take it to be as long. A block
/// of the scratch that has several lengths in turn is always touched whole, as where its chunks begin depends on its
/// length.
///
/// Executors take the length of all that a step touches from that operand (block_operand). So the programs are right for
/// every division where they are for equal blocks. The problem is irregular, and the programs are proved otherwise:
/// messages pair up, and a step that reads scratch waits for its last writer.
Fault check_lengths(const Plan& plan, std::span<const Program> programs);

}  // namespace tutti
