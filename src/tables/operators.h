// The table of reduction operators: an operator's name and whether verbs take it.
#pragma once

#include <algorithm>
#include <array>

#include "include/tutti/tutti.h"

namespace tutti {

/// One row. Text is static.
struct OperatorInfo {
  tutti_op op = TUTTI_OP_LIMIT;
  const char* name = "";
  bool supported = false;  ///< whether verbs take it
};

/// Every operator.
inline constexpr std::array<OperatorInfo, 11> operators = {{
    {TUTTI_SUM, "sum", true},
    {TUTTI_PROD, "prod", true},
    {TUTTI_MAX, "max", true},
    {TUTTI_MIN, "min", true},
    {TUTTI_AVG, "avg", true},
    {TUTTI_BITWISE_AND, "bitwise_and", false},
    {TUTTI_BITWISE_OR, "bitwise_or", false},
    {TUTTI_BITWISE_XOR, "bitwise_xor", false},
    {TUTTI_LOGICAL_AND, "logical_and", false},
    {TUTTI_LOGICAL_OR, "logical_or", false},
    {TUTTI_LOGICAL_XOR, "logical_xor", false},
}};

/// The supported rows, in the table's order.
inline constexpr auto supported_operators = [] {
  constexpr auto supported = [](const OperatorInfo& row) { return row.supported; };
  std::array<OperatorInfo, std::ranges::count_if(operators, supported)> rows;
  std::ranges::copy_if(operators, rows.begin(), supported);
  return rows;
}();

/// The row of an operator; nullptr for a value that no operator has.
constexpr const OperatorInfo* operator_info(tutti_op op) {
  const auto* const row = std::ranges::find(operators, op, &OperatorInfo::op);
  return row != operators.end() ? row : nullptr;
}

}  // namespace tutti
