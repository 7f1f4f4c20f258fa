// The verifier's first look: whether a program is well-formed, so that everything after it may index without asking.
#pragma once

#include <cstdint>
#include <vector>

#include "src/schedule/verifier.h"

namespace tutti {

/// Plans of more ranks are refused.
constexpr std::int32_t most_ranks = 65536;

/// Checks what does not depend on a rank: the problem, the shape, and that a proof is within the limits.
Fault check_plan(const Plan& plan, std::size_t programs, const VerifyLimits& limits);

/// How a program uses one of its links.
struct LinkUse {
  std::uint32_t lane = UINT32_MAX;  ///< UINT32_MAX where no step uses it
  std::uint32_t messages = 0;       ///< in a pass
};

/// Checks one rank's program: indices, ranges, flags, directions, one lane per link, operands of one shape, no chunk
/// written twice by a step or read by it at another place of the message. uses receives one entry per link of the program.
/// The plan has been checked.
Fault check_program(const Plan& plan, int rank, const Program& program, std::vector<LinkUse>& uses);

/// Largest pass distance of the dependencies.
std::uint64_t largest_distance(const Program& program);

}  // namespace tutti
