// The problem: what must be equal on every rank for a collective to make sense, and the shape of its buffers.
#pragma once

#include <cstdint>

#include "include/tutti/tutti.h"
#include "src/tables/collectives.h"

namespace tutti {

/// What runs a collective. The state of its links lies in that processor's memory, so both ends of a link have to agree.
enum class Processor : std::uint8_t { cpu, cuda };

/// Everything that selection and algorithms may look at. Equal on every rank, or it is a mismatch.
struct Problem {
  Collective collective = Collective::all_reduce;
  tutti_type type = TUTTI_FLOAT32;
  tutti_op op = TUTTI_SUM;
  std::int32_t root = 0;
  std::int32_t ranks = 1;
  std::uint64_t count = 0;  ///< elements of one block, as the API counts; bytes of opaque ones
  Processor processor = Processor::cpu;
  /// Whether blocks have counts of their own, which the plan does not know: v-variants. `count` is then one that ranks
  /// agree on, for the choice of an algorithm alone.
  bool irregular = false;
  /// Whether each element of a result is one fold of all ranks' operands, in rank order. All algorithms that fold so give
  /// the same bits, and round once: reproducible sums, accumulate, several operands a rank.
  bool one_fold = false;
  /// Operands that each rank folds: blocks of its input, where that has one otherwise. Those of rank 0 come first.
  std::uint32_t local_operands = 1;
  /// Whether a kernel multiplies the operands as it reads them; `op` is then TUTTI_SUM. On the host that is done before.
  bool pre_mul = false;
  std::uint32_t opaque = 0;  ///< bytes of an opaque element, where `type` is then TUTTI_UINT8; 0: it is none

  bool operator==(const Problem&) const = default;
};

/// "all_reduce", "all_gather_v", …; static.
constexpr const char* kind_of(const Problem& problem) {
  const CollectiveInfo& info = info_of(problem.collective);
  return problem.irregular ? info.v_variant : info.name;
}

/// Where ranks have several operands: the most of all ranks.
inline constexpr std::uint32_t most_total_operands = 4096;
/// Operands of one fold, of all ranks.
constexpr std::uint32_t total_operands(const Problem& problem) {
  return static_cast<std::uint32_t>(problem.ranks) * problem.local_operands;
}
/// What the last touch divides by: the operands, for an average; 0 for every other operator.
constexpr std::uint64_t divisor(const Problem& problem) {
  return problem.op == TUTTI_AVG && reduces(problem.collective) ? total_operands(problem) : 0;
}
/// Whether ranks may have several operands each.
constexpr bool takes_several_operands(Collective collective) {
  return reduces(collective) && !info_of(collective).has_send_blocks();
}

/// The three buffers that a step may touch.
enum class Buffer : std::uint8_t { input, output, scratch };

/// Blocks of the input or output of `rank`: one, one per local operand, or one per rank. 0: the rank has no such buffer, as
/// a reduce's output off the root. Scratch blocks are the plan's.
std::uint32_t blocks_of(const Problem& problem, Buffer buffer, int rank);

/// In place is an alias: block `input_block` of the input is block `output_block` of the output, and, where `all` is set,
/// every further input block b is output block b. `any` is false where the rank lacks one of the two.
struct Alias {
  bool any = false;
  bool all = false;
  std::uint32_t input_block = 0;
  std::uint32_t output_block = 0;
};
Alias in_place_alias(const Problem& problem, int rank);

}  // namespace tutti
