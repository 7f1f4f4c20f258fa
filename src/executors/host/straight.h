// Calls in which nothing is left to decide: one pass, steps that can go in single file (lowering.h), and every message too
// short to be offered or granted. All small messages are such calls, and a part of their time is what is not looked at.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/schedule/ir.h"

namespace tutti {

struct Layout;
struct Lowered;

/// A program's steps in the order they run, with what every call of the plan has in common worked out: what remains is to
/// wait, to fold and to hand over. Plain data.
struct Straight {
  static constexpr std::uint32_t in_memory = UINT32_MAX;
  struct Operand {
    std::uint32_t link = in_memory;  ///< index into Program::links, or
    std::uint32_t buffer = 0;        ///< in memory: input, output or scratch, as Place counts them
  };
  struct Move {
    std::uint64_t bytes = 0;      ///< of its message, not 0
    std::uint64_t divide_by = 0;  ///< as FoldArguments::divide_by
    std::uint32_t operand = 0;    ///< its first in `operands`: sources, then destinations
    std::uint32_t sources = 0;
    std::uint32_t destinations = 0;  ///< without those that are only there to be offered
    std::uint32_t piece = 0;         ///< its first in `counts`
    std::uint32_t pieces = 0;
    std::uint32_t offset = 0;  ///< its first in `offsets`
  };
  std::vector<Move> moves;
  std::vector<Operand> operands;
  std::vector<std::uint64_t> counts;   ///< per piece what the fold counts: elements, or bytes where it copies
  std::vector<std::uint64_t> offsets;  ///< per move [piece][operand]: bytes from the buffer's or the message's beginning
};

/// lowered: with an order in single file. layout: of the call's only pass. Pure.
Straight straighten(const Problem& problem, const Lowered& lowered, const Layout& layout);

}  // namespace tutti
