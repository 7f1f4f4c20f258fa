// What executors derive from a plan and one rank's program before any call: what may be left out or done early, and where
// operands lie. Plain data, whatever memory the executor works on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/schedule/ir.h"
#include "src/schedule/lowering.h"

namespace tutti {

/// A program as an executor runs it: what may be left out of it and what may be done early is worked out once.
struct Lowered {
  Program program;
  std::vector<std::uint8_t> only_offered;       ///< per operand
  std::vector<std::vector<Receive>> receives;   ///< per link
  std::vector<std::uint32_t> sequential_order;  ///< see there; empty: its lanes need each other's company
  bool shares_cores = false;                    ///< there are more ranks than cores
  std::vector<std::uint8_t> same_core;          ///< per link: its peer shares our core; empty: nobody is known to
  std::size_t on_core = 0;                      ///< ranks that do
  std::uint32_t most_operands = 0;              ///< of a step
};
/// How a machine's ranks have its cores.
struct Cores {
  bool shared = false;                      ///< there are more ranks than cores
  std::span<const std::int32_t> core = {};  ///< View::core
};
/// What an executor needs of a program. program_of: the peers', see receives() and sequential_order(). Pure.
Lowered lower(const Plan& plan, int rank, Program program, const ProgramOf& program_of, const Cores& cores = {});

/// Where a program's operands lie in one window: bytes from their buffer's beginning in the first pass, or from their
/// message's. What no call changes is worked out once, so that a step costs an addition.
struct Layout {
  struct Piece {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };
  std::vector<std::uint64_t> message_bytes;  ///< per step
  std::vector<std::uint32_t> first_piece;    ///< per operand, and one past the last one's
  std::vector<Piece> pieces;                 ///< one for each block of an operand's range, the empty ones too
};

/// The layouts of a plan for one strand of one rank's program, whose passes they count. Plain data, shared by all calls of
/// the plan.
struct Layouts {
  Layout full;  ///< of every pass but the last
  Layout last;
  std::uint64_t passes = 0;
  std::array<std::uint64_t, 3> begin{};   ///< bytes to the first pass in input, output and scratch
  std::array<std::uint64_t, 3> stride{};  ///< from one pass to the next there
  std::uint32_t copies = 1;               ///< of the scratch: passes under way use them in turn
  std::array<std::uint64_t, 2> bytes{};   ///< of input and output
  std::uint64_t longest_message = 0;
};
/// Where everything lies in calls of a plan. strand: below plan.strands. Pure.
Layouts lay_out(const Plan& plan, int rank, const Program& program, std::uint32_t strand = 0);

/// log2 of the bytes of what the problem's fold counts: elements of its kind (fold_kind), or bytes where it copies.
std::uint32_t unit_shift(const Problem& problem);

/// Bytes of scratch that a run of the plan needs, for all its strands.
std::uint64_t scratch_bytes(const Plan& plan);

}  // namespace tutti
