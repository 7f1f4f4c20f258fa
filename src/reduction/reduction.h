// The reduction room's face: folds of several operands into several destinations, in one sweep over memory.
//
//     sources   s0 ─┐                      ┌─► d0
//               s1 ─┼─ ((s0 ∘ s1) ∘ s2) ─┼─► d1     element by element, left to right
//               s2 ─┘      [ ÷ ranks ]     └─► …
//
// What a fold promises:
//   * Integers wrap. float32 and float64 take one IEEE operation (nearest even) per source, in order. Floats of 8 and 16
//     bits are folded in float32 and rounded once, to nearest even.
//   * What is too large for float8_e4m3, which has no infinity, becomes NaN; for all other floats it is infinite.
//   * Complex numbers are pairs of floats. Their product is (ac − bd) + (ad + bc)i, each operation rounded.
//   * Truth values and logical operators take 0 for false and all else for true, and give 0 or 1.
//   * min and max give NaN where an operand is NaN, and take −0 to be less than +0.
//   * Every NaN that a fold or a conversion writes is the quiet, positive one without payload. So all operators commute
//     bit for bit, and a result has the same bits on every instruction set. Plain copies keep the bits they find.
//   * Results do not depend on alignment, on the number of destinations, or on the processor.
// All of it assumes the default floating point environment (nearest even, subnormals not flushed, no traps), and may raise
// any of its flags.
#pragma once

#include <cstddef>
#include <cstdint>

#include "include/tutti/tutti.h"

namespace tutti {

/// Something that a fold reads: `count` consecutive elements. Any alignment. Not owned.
struct FoldSource {
  const void* data;
};

/// Folds of fewer bytes bypass no cache: what it takes to order the stores at the end would not be repaid.
inline constexpr std::uint64_t least_streamed = 4096;

/// Something that a fold writes: `count` consecutive elements. Any alignment. Not owned.
///
/// streaming   asks for stores that bypass the caches: for large destinations that nobody reads soon, or that another core
///             reads. A hint; when the fold returns, its streaming stores are ordered before any later store of this
///             thread.
struct FoldDestination {
  void* data;
  bool streaming = false;
};

/// One fold. A POD of borrowed pointers; nothing is kept after the call.
///
/// sources        at least one; one alone is a copy or a conversion. Sources may be equal or overlap each other.
/// destinations   at least one. A destination may be the same memory as a source only exactly (same address:
///                accumulation in place); otherwise destinations overlap neither sources nor each other.
/// count          elements of the fold's kind (fold_kind, src/tables/operators.h); 0 does nothing.
/// divide_by      0 or 1: nothing. Else, for sums, the folded value is divided by it before it is rounded and written,
///                which makes the sum of as many ranks their average: integers round towards zero, floats to nearest
///                even. Folds of other operators take 0 only.
struct FoldArguments {
  const FoldSource* sources;
  const FoldDestination* destinations;
  std::uint32_t source_count;
  std::uint32_t destination_count;
  std::uint64_t count;
  std::uint64_t divide_by = 0;
};

/// A fold of one type and one operator for this processor. Thread safe, allocates nothing, never fails.
using FoldFunction = void (*)(const FoldArguments&);

/// The fold of a type by an operator, to be resolved once (per plan), so that a step costs one indirect call.
/// TUTTI_AVG is TUTTI_SUM: the step that touches an element last sets divide_by. It counts elements of its kind's type, of
/// which one of `type` may have several. Returns nullptr where the operator does not apply to the type. Thread safe.
FoldFunction find_fold(tutti_type type, tutti_op op);

/// Copies `count` bytes of its one source to every destination, bits unchanged: what verbs without an operator call, for
/// every type. divide_by is ignored. Thread safe.
FoldFunction find_copy();

}  // namespace tutti
