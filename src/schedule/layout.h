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
  /// Per step where the problem is irregular, else empty: what its messages' fingerprints have besides. It tells counts of
  /// more than a window apart, whose single messages are equally long; of others it is 0.
  std::vector<std::uint64_t> tags;
};

/// Passes that are laid out alike, up to the next stretch's first.
struct Stretch {
  std::uint64_t first = 0;
  Layout layout;
};

/// The layouts of a plan for one strand of one rank's program, whose passes they count. Plain data, shared by all calls of
/// the plan, or where the problem is irregular one call's.
struct Layouts {
  Layout full;  ///< of every pass but the last
  Layout last;
  std::vector<Stretch> stretches;  ///< in the place of both where the problem is irregular; from pass 0 on
  std::uint64_t passes = 0;
  std::array<std::uint64_t, 3> begin{};   ///< bytes to the first pass in input, output and scratch
  std::array<std::uint64_t, 3> stride{};  ///< from one pass to the next there
  std::uint32_t copies = 1;               ///< of the scratch: passes under way use them in turn
  std::array<std::uint64_t, 2> bytes{};   ///< of input and output
  std::array<std::uint64_t, 2> span{};    ///< from the first to the last of them: more where blocks lie apart
  std::uint64_t longest_message = 0;

  const Layout& at(std::uint64_t pass) const {
    if (stretches.empty()) [[likely]]
      return pass + 1 == passes ? last : full;
    std::size_t s = stretches.size() - 1;
    while (stretches[s].first > pass) --s;
    return stretches[s].layout;
  }
};
/// Where everything lies in calls of a plan. strand: below plan.strands. Pure.
Layouts lay_out(const Plan& plan, int rank, const Program& program, std::uint32_t strand = 0);

/// One rank's blocks in a call of an irregular problem: as many as blocks_of says, anywhere in memory. Counts are of the
/// problem's elements. Not owned.
struct IrregularBuffers {
  std::span<const tutti_block> input;
  std::span<const tutti_block> output;
};
/// The lowest address of a buffer's blocks that are not empty, from which its pieces' offsets count; nullptr: all are
/// empty.
std::byte* lowest(std::span<const tutti_block> blocks);
/// The step's first operand in the input or the output, whose blocks say how long its messages are; nullptr: it has none.
const Operand* block_operand(const Program& program, const Step& step);
/// Whether blocks may have counts of their own: each of its steps moves blocks of the input or of the output. So both ends
/// of a message know how long it is. Pure.
bool can_be_irregular(const Program& program);
/// Where everything lies in one call of an irregular problem's plan. It has one strand, and its program can be irregular.
/// Memory of `out` is used again.
///
/// The proof of a plan holds for every division. A step of a pass that is beyond its block's end is skipped on both sides
/// of its message. What is left keeps the order of each lane and link, and waits for nothing that it did not wait for
/// before.
void lay_out_irregular(const Plan& plan, const Program& program, const IrregularBuffers& buffers, Layouts& out);

/// log2 of the bytes of what the problem's fold counts: elements of its kind (fold_kind). Copies and
/// user-defined operators count bytes.
std::uint32_t unit_shift(const Problem& problem);

/// Bytes of scratch that a run of the plan needs, for all its strands.
std::uint64_t scratch_bytes(const Plan& plan);

}  // namespace tutti
