#include "perf/names.h"

#include <algorithm>
#include <iterator>

#include "perf/data.h"
#include "src/tables/element_types.h"
#include "src/tables/names.h"
#include "src/tables/operators.h"

namespace tutti::perf {
namespace {

struct CustomName {
  tutti_op op;
  const char* name;
};
constexpr CustomName kCustomNames[] = {{kPreMulSum, "mulsum"}, {kUser, "user"}, {kUserOrdered, "user_ordered"}};

}  // namespace

std::vector<tutti_type> types_named(const std::string& given) {
  std::vector<tutti_type> types;
  for (const ElementTypeInfo& row : element_types) {
    const bool alias = row.alias != nullptr && given == row.alias;
    if (given == "all" || given == row.name || alias) types.push_back(row.type);
  }
  if (const auto type = type_of(given); type && is_opaque(*type)) types.push_back(*type);
  return types;
}

std::vector<tutti_op> ops_named(const std::string& given) {
  std::vector<tutti_op> ops;
  for (const OperatorInfo& row : operators) {
    if (given == "all" || given == row.name) ops.push_back(row.op);
  }
  for (const CustomName& row : kCustomNames) {
    if (given == "all" || given == row.name) ops.push_back(row.op);
  }
  return ops;
}

std::string text_of_op(tutti_op op) {
  const auto* const row = std::ranges::find(kCustomNames, op, &CustomName::op);
  return row != std::end(kCustomNames) ? row->name : text_of(op);
}

bool folds(tutti_op op, tutti_type type) {
  if (is_users_own(op)) return element_bytes(type) <= kMostUserBytes;
  return op == kPreMulSum ? can_be_scaled(type) : applies_to(op, type);
}

std::vector<std::string> all_type_names() {
  std::vector<std::string> all;
  for (const ElementTypeInfo& row : element_types) {
    all.emplace_back(row.name);
    if (row.alias != nullptr) all.emplace_back(row.alias);
  }
  all.emplace_back("opaqueN");
  all.emplace_back("all");
  return all;
}

std::vector<std::string> all_op_names() {
  std::vector<std::string> all = op_names();
  for (const CustomName& row : kCustomNames) all.emplace_back(row.name);
  all.emplace_back("all");
  return all;
}

const char* name_of(MemoryKind memory) {
  switch (memory) {
    case MemoryKind::registered:
      return "registered";
    case MemoryKind::cuda:
      return "cuda";
    default:
      return "host";
  }
}

}  // namespace tutti::perf
