#include "src/schedule/names.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace tutti {
namespace {

template <typename Value>
struct Name {
  Value value;
  std::string_view text;
};

constexpr std::array<Name<tutti_type>, 17> types = {{{TUTTI_INT8, "int8"},
                                                     {TUTTI_UINT8, "uint8"},
                                                     {TUTTI_INT32, "int32"},
                                                     {TUTTI_UINT32, "uint32"},
                                                     {TUTTI_INT64, "int64"},
                                                     {TUTTI_UINT64, "uint64"},
                                                     {TUTTI_FLOAT16, "float16"},
                                                     {TUTTI_FLOAT32, "float32"},
                                                     {TUTTI_FLOAT64, "float64"},
                                                     {TUTTI_BFLOAT16, "bfloat16"},
                                                     {TUTTI_FLOAT8_E4M3, "float8_e4m3"},
                                                     {TUTTI_FLOAT8_E5M2, "float8_e5m2"},
                                                     {TUTTI_BOOL, "bool"},
                                                     {TUTTI_INT16, "int16"},
                                                     {TUTTI_UINT16, "uint16"},
                                                     {TUTTI_COMPLEX64, "complex64"},
                                                     {TUTTI_COMPLEX128, "complex128"}}};

constexpr std::array<Name<tutti_op>, 11> ops = {{{TUTTI_SUM, "sum"},
                                                 {TUTTI_PROD, "prod"},
                                                 {TUTTI_MAX, "max"},
                                                 {TUTTI_MIN, "min"},
                                                 {TUTTI_AVG, "avg"},
                                                 {TUTTI_BITWISE_AND, "bitwise_and"},
                                                 {TUTTI_BITWISE_OR, "bitwise_or"},
                                                 {TUTTI_BITWISE_XOR, "bitwise_xor"},
                                                 {TUTTI_LOGICAL_AND, "logical_and"},
                                                 {TUTTI_LOGICAL_OR, "logical_or"},
                                                 {TUTTI_LOGICAL_XOR, "logical_xor"}}};

template <typename Table, typename Value>
std::string text_in(const Table& table, Value value, const char* other) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const auto& name) { return name.value == value; });
  return found != table.end() ? std::string(found->text) : other + std::to_string(static_cast<int>(value));
}

template <typename Value, typename Table>
std::optional<Value> value_in(const Table& table, std::string_view text) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const auto& name) { return name.text == text; });
  if (found == table.end()) return std::nullopt;
  return found->value;
}

template <typename Table>
std::vector<std::string> texts_of(const Table& table) {
  std::vector<std::string> texts;
  for (const auto& name : table) texts.emplace_back(name.text);
  return texts;
}

}  // namespace

std::string text_of(tutti_type type) {
  if (type > TUTTI_OPAQUE) return "opaque" + std::to_string(static_cast<int>(type) - TUTTI_OPAQUE);
  return text_in(types, type, "type");
}

std::string text_of(tutti_op op) { return text_in(ops, op, "op"); }

std::optional<tutti_type> type_of(std::string_view name) {
  constexpr std::string_view opaque = "opaque";
  constexpr int most_bytes = 1 << 20;
  if (!name.starts_with(opaque)) return value_in<tutti_type>(types, name);
  int bytes = 0;
  const char* end = name.data() + name.size();
  const auto [at, error] = std::from_chars(name.data() + opaque.size(), end, bytes);
  if (error != std::errc() || at != end || bytes < 1 || bytes > most_bytes) return std::nullopt;
  return static_cast<tutti_type>(TUTTI_OPAQUE + bytes);
}

std::optional<tutti_op> op_of(std::string_view name) { return value_in<tutti_op>(ops, name); }

std::optional<Collective> collective_of(std::string_view name) {
  for (int c = 0; c < collective_count; ++c) {
    if (name == name_of(static_cast<Collective>(c))) return static_cast<Collective>(c);
  }
  return std::nullopt;
}

std::vector<std::string> type_names() { return texts_of(types); }

std::vector<std::string> op_names() { return texts_of(ops); }

std::vector<std::string> collective_names() {
  std::vector<std::string> names;
  for (int c = 0; c < collective_count; ++c) names.emplace_back(name_of(static_cast<Collective>(c)));
  return names;
}

}  // namespace tutti
