// The table of reduction operators: an operator's name, the elements that it combines, and the fold that does so.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>

#include "include/tutti/tutti.h"
#include "src/tables/element_types.h"

namespace tutti {

/// A set of kinds of elements.
struct ElementKinds {
  constexpr ElementKinds(std::initializer_list<ElementKind> kinds) {
    for (const ElementKind kind : kinds) bits = static_cast<std::uint8_t>(bits | 1u << static_cast<unsigned>(kind));
  }
  constexpr bool contain(ElementKind kind) const { return (bits >> static_cast<unsigned>(kind) & 1u) != 0; }

  std::uint8_t bits = 0;
};

/// One row. Text is static.
struct OperatorInfo {
  tutti_op op = TUTTI_OP_LIMIT;
  const char* name = "";
  ElementKinds combines;  ///< kinds of elements
};

namespace operators_detail {
using enum ElementKind;
inline constexpr ElementKinds all = {signed_integer, unsigned_integer, floating, boolean, complex};
inline constexpr ElementKinds ordered = {signed_integer, unsigned_integer, floating, boolean};
inline constexpr ElementKinds averaged = {signed_integer, unsigned_integer, floating, complex};
inline constexpr ElementKinds of_bits = {signed_integer, unsigned_integer, boolean};
}  // namespace operators_detail

/// Every operator.
inline constexpr std::array<OperatorInfo, 11> operators = {{
    {TUTTI_SUM, "sum", operators_detail::all},
    {TUTTI_PROD, "prod", operators_detail::all},
    {TUTTI_MAX, "max", operators_detail::ordered},
    {TUTTI_MIN, "min", operators_detail::ordered},
    {TUTTI_AVG, "avg", operators_detail::averaged},
    {TUTTI_BITWISE_AND, "bitwise_and", operators_detail::of_bits},
    {TUTTI_BITWISE_OR, "bitwise_or", operators_detail::of_bits},
    {TUTTI_BITWISE_XOR, "bitwise_xor", operators_detail::of_bits},
    {TUTTI_LOGICAL_AND, "logical_and", operators_detail::of_bits},
    {TUTTI_LOGICAL_OR, "logical_or", operators_detail::of_bits},
    {TUTTI_LOGICAL_XOR, "logical_xor", operators_detail::of_bits},
}};

/// Every user-defined operator, as plans know it: what it does is the call's. The value is nobody's in calls. There custom
/// operators, user-defined or not, have those from `least_custom_operator` on.
inline constexpr tutti_op user_operator = static_cast<tutti_op>(255);
inline constexpr std::int32_t least_custom_operator = 256;

/// The row of an operator; nullptr for a value that no operator has.
constexpr const OperatorInfo* operator_info(tutti_op op) {
  const auto* const row = std::ranges::find(operators, op, &OperatorInfo::op);
  return row != operators.end() ? row : nullptr;
}

/// Whether the operator combines elements of the type; nothing combines opaque ones.
constexpr bool applies_to(tutti_op op, tutti_type type) {
  const OperatorInfo* const row = operator_info(op);
  const ElementTypeInfo info = element_type_info(type);
  return row != nullptr && info.size != 0 && row->combines.contain(info.kind);
}

/// What combines elements: numbers of a type, by an operator. Calls of several types share one. A sum of complex numbers is
/// one of twice as many floats.
struct FoldKind {
  tutti_type type = TUTTI_TYPE_LIMIT;
  tutti_op op = TUTTI_OP_LIMIT;

  constexpr bool operator==(const FoldKind&) const = default;
};

namespace operators_detail {

/// Truth values are bytes that are zero or not. Their sum and their greatest is "or", their product and their least "and".
constexpr FoldKind fold_of_booleans(tutti_op op) {
  switch (op) {
    case TUTTI_SUM:
    case TUTTI_MAX:
    case TUTTI_BITWISE_OR:
    case TUTTI_LOGICAL_OR:
      return {TUTTI_UINT8, TUTTI_LOGICAL_OR};
    case TUTTI_BITWISE_XOR:
    case TUTTI_LOGICAL_XOR:
      return {TUTTI_UINT8, TUTTI_LOGICAL_XOR};
    default:
      return {TUTTI_UINT8, TUTTI_LOGICAL_AND};
  }
}

constexpr tutti_type unsigned_of(std::size_t bytes) {
  const auto* const row = std::ranges::find_if(element_types, [bytes](const ElementTypeInfo& each) {
    return each.kind == ElementKind::unsigned_integer && each.size == bytes;
  });
  return row->type;
}

}  // namespace operators_detail

/// Whether the operator adds or multiplies, so that it rounds floats. Others choose one of their operands.
constexpr bool is_arithmetic(tutti_op op) { return op == TUTTI_SUM || op == TUTTI_PROD || op == TUTTI_AVG; }

/// Whether the bits of a fold of several operands depend on their order and grouping: on which of them are rounded.
constexpr bool depends_on_order(const FoldKind& fold) {
  const ElementKind kind = element_type_info(fold.type).kind;
  return is_arithmetic(fold.op) && (kind == ElementKind::floating || kind == ElementKind::complex);
}

/// The fold of a type by an operator that combines it. An average's is the sum's: the last touch divides.
constexpr FoldKind fold_kind(tutti_type type, tutti_op op) {
  if (!applies_to(op, type)) return {};
  const ElementTypeInfo row = element_type_info(type);
  if (row.kind == ElementKind::boolean) return operators_detail::fold_of_booleans(op);
  if (op == TUTTI_AVG) op = TUTTI_SUM;
  if (row.kind == ElementKind::complex && op == TUTTI_SUM)
    return {type == TUTTI_COMPLEX64 ? TUTTI_FLOAT32 : TUTTI_FLOAT64, TUTTI_SUM};
  switch (op) {
    case TUTTI_BITWISE_AND:
    case TUTTI_BITWISE_OR:
    case TUTTI_BITWISE_XOR:
      return {TUTTI_UINT8, op};
    case TUTTI_LOGICAL_AND:
    case TUTTI_LOGICAL_OR:
    case TUTTI_LOGICAL_XOR:
      return {operators_detail::unsigned_of(row.size), op};
    default:
      return {type, op};
  }
}

/// Whether elements can be multiplied by one of their type, as pre-multiplied sums do.
constexpr bool can_be_scaled(tutti_type type) {
  return !is_opaque(type) && element_type_info(type).kind != ElementKind::boolean;
}
/// Whether sums of them can be folded in float32 and rounded once.
constexpr bool accumulates_in_float32(tutti_type type) {
  const ElementTypeInfo row = element_type_info(type);
  return row.kind == ElementKind::floating && row.size <= sizeof(float);
}

/// What a pre-multiplied sum scales and adds: integers of either kind wrap alike.
constexpr tutti_type scaled_type(tutti_type type) {
  const ElementTypeInfo row = element_type_info(type);
  return row.kind == ElementKind::signed_integer ? operators_detail::unsigned_of(row.size) : type;
}

/// Whether the bits of a result may depend on the order of its operands. Of a user-defined operator nobody knows.
constexpr bool may_depend_on_order(tutti_type type, tutti_op op) {
  return op == user_operator || depends_on_order(fold_kind(type, op));
}

}  // namespace tutti
