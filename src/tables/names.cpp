#include "src/tables/names.h"

#include <charconv>

#include "src/tables/element_types.h"
#include "src/tables/operators.h"

namespace tutti {
namespace {

/// What `field` of the row of that name is.
template <typename Table, typename Row, typename Value>
std::optional<Value> value_in(const Table& table, std::string_view name, Value Row::* field) {
  for (const Row& row : table) {
    if (name == row.name) return row.*field;
  }
  return std::nullopt;
}

template <typename Table>
std::vector<std::string> names_in(const Table& table) {
  std::vector<std::string> names;
  for (const auto& row : table) names.emplace_back(row.name);
  return names;
}

std::string numbered(const char* what, int number) { return what + std::to_string(number); }

}  // namespace

std::string text_of(tutti_type type) {
  if (type > TUTTI_OPAQUE) return numbered("opaque", static_cast<int>(type) - TUTTI_OPAQUE);
  const std::string name = element_type_info(type).name;
  return !name.empty() ? name : numbered("type", static_cast<int>(type));
}

std::string text_of(tutti_op op) {
  if (op == user_operator) return "user-defined operator";
  const OperatorInfo* const row = operator_info(op);
  return row != nullptr ? row->name : numbered("op", static_cast<int>(op));
}

std::optional<tutti_type> type_of(std::string_view name) {
  constexpr std::string_view opaque = "opaque";
  constexpr int most_bytes = 1 << 20;
  if (!name.starts_with(opaque)) return value_in(element_types, name, &ElementTypeInfo::type);
  int bytes = 0;
  const char* end = name.data() + name.size();
  const auto [at, error] = std::from_chars(name.data() + opaque.size(), end, bytes);
  if (error != std::errc() || at != end || bytes < 1 || bytes > most_bytes) return std::nullopt;
  return static_cast<tutti_type>(TUTTI_OPAQUE + bytes);
}

std::optional<tutti_op> op_of(std::string_view name) { return value_in(operators, name, &OperatorInfo::op); }

std::optional<Collective> collective_of(std::string_view name) {
  for (const auto& [collective, info] : collectives) {
    if (name == info.name) return collective;
  }
  return std::nullopt;
}

std::optional<Collective> collective_of_v_variant(std::string_view name) {
  for (const auto& [collective, info] : collectives) {
    if (info.v_variant != nullptr && name == info.v_variant) return collective;
  }
  return std::nullopt;
}

std::vector<std::string> type_names() { return names_in(element_types); }
std::vector<std::string> op_names() { return names_in(operators); }
std::vector<std::string> collective_names() {
  std::vector<std::string> names;
  for (const CollectiveRow& row : collectives) names.emplace_back(row.info.name);
  return names;
}
std::vector<std::string> op_names_of(tutti_type type) {
  std::vector<std::string> names;
  for (const OperatorInfo& row : operators) {
    if (applies_to(row.op, type)) names.emplace_back(row.name);
  }
  return names;
}

std::string listing(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " and " : ", ";
    text += names[i];
  }
  return text;
}

}  // namespace tutti
