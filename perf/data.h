// The data of checked runs: every element of every rank's input follows from (seed, rank, index), so that any rank can
// compute what any result must be. Inputs are such that every order of folding gives the same bits.
#pragma once

#include <cstdint>
#include <string>

#include "src/tables/operators.h"
#include "tutti/tutti.h"

namespace tutti::perf {

/// Custom operators, as patterns and reports know them. nccl-tests' mulsum: a sum of each rank's operands times its scalar.
inline constexpr tutti_op kPreMulSum = static_cast<tutti_op>(least_custom_operator);
/// The user's own, on elements of any type as bytes: one that commutes and one that does not. See perf/user_operators.h.
inline constexpr tutti_op kUser = static_cast<tutti_op>(least_custom_operator + 1);
inline constexpr tutti_op kUserOrdered = static_cast<tutti_op>(least_custom_operator + 2);
constexpr bool is_custom(tutti_op op) { return op >= kPreMulSum && op <= kUserOrdered; }
constexpr bool is_users_own(tutti_op op) { return op == kUser || op == kUserOrdered; }
/// Bytes of the longest element that the user's own fold, as tutti_op_create_user says.
inline constexpr uint64_t kMostUserBytes = 1024;

/// What the inputs of one operation follow from.
struct Pattern {
  tutti_type type = TUTTI_FLOAT32;
  tutti_op op = TUTTI_SUM;
  bool reduces = false;  ///< without: elements are any bits at all, since they are only moved
  int ranks = 1;
  uint32_t seed = 0;
  int operands = 1;  ///< of each rank, in the fold

  /// Of the whole fold. A rank's are behind each other, rank 0's first.
  int all_operands() const { return ranks * operands; }
};

/// Writes elements [index, index + count) of an operand to `out`, which needs no alignment beyond the type's. Where ranks
/// have one each, it is rank `operand`'s input.
///
/// Integers: any value for sum, min, max and bitwise operators, any odd value for prod (a product that tells every factor),
/// a bounded one for avg. Logical operators and truth values: true so often that results are true and false by turns.
/// Floats and the parts of complex numbers: whole numbers whose sum over all operands is exact in the type, for prod signed
/// powers of two with a bounded exponent and one factor between 1 and 2. The user's own: any bytes, but that kUserOrdered's
/// factors are odd, so that no operand is lost in a product. Thread safe.
void fill_input(const Pattern& pattern, int operand, uint64_t index, uint64_t count, void* out);

/// Writes the element that a rank's operands are multiplied by, where pattern.op is kPreMulSum. Thread safe.
void fill_scalar(const Pattern& pattern, int rank, void* out);

/// Writes what elements [index, index + count) of all operands fold to: computed in 64-bit integers that wrap, or in
/// float64, where it is exact, and rounded to the type once (avg's quotient: to nearest even; integers: towards zero).
/// kUser: each byte's column is added up, then carried once. kUserOrdered: the maps are applied, none is composed.
/// pattern.reduces must be set. Thread safe.
void fill_folded(const Pattern& pattern, uint64_t index, uint64_t count, void* out);

/// The bits of the narrow float nearest to `value`, ties to even, infinity where it is too large; float8_e4m3 has none, and
/// gives NaN.
uint16_t to_float16(double value);
uint16_t to_bfloat16(double value);
uint8_t to_float8_e4m3(double value);
uint8_t to_float8_e5m2(double value);

/// An element as a number; of a complex one the real part. 64-bit integers lose bits there.
double as_number(tutti_type type, const void* element);
/// An element for an error's sentence; of an opaque one the first bytes, in base 16.
std::string as_text(tutti_type type, const void* element);

}  // namespace tutti::perf
