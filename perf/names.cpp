#include "perf/names.h"

namespace tutti::perf {
namespace {

template <class Value>
const char* name_in(const std::vector<Name<Value>>& names, Value value) {
  for (const Name<Value>& name : names) {
    if (name.value == value) return name.name;
  }
  return "unknown";
}

template <class Value>
std::vector<Value> values_in(const std::vector<Name<Value>>& names, const std::string& given) {
  std::vector<Value> values;
  for (const Name<Value>& name : names) {
    const bool alias = name.alias != nullptr && given == name.alias;
    if (given == "all" || given == name.name || alias) values.push_back(name.value);
  }
  return values;
}

template <class Value>
std::vector<std::string> spellings(const std::vector<Name<Value>>& names) {
  std::vector<std::string> all;
  for (const Name<Value>& name : names) {
    all.emplace_back(name.name);
    if (name.alias != nullptr) all.emplace_back(name.alias);
  }
  all.emplace_back("all");
  return all;
}

}  // namespace

const std::vector<Name<tutti_type>>& type_names() {
  static const std::vector<Name<tutti_type>> names = {
      {TUTTI_INT8, "int8", nullptr},       {TUTTI_UINT8, "uint8", nullptr},       {TUTTI_INT32, "int32", nullptr},
      {TUTTI_UINT32, "uint32", nullptr},   {TUTTI_INT64, "int64", nullptr},       {TUTTI_UINT64, "uint64", nullptr},
      {TUTTI_FLOAT16, "float16", "half"},  {TUTTI_BFLOAT16, "bfloat16", nullptr}, {TUTTI_FLOAT32, "float32", "float"},
      {TUTTI_FLOAT64, "float64", "double"}};
  return names;
}

const std::vector<Name<tutti_op>>& op_names() {
  static const std::vector<Name<tutti_op>> names = {{TUTTI_SUM, "sum", nullptr},
                                                    {TUTTI_PROD, "prod", nullptr},
                                                    {TUTTI_MIN, "min", nullptr},
                                                    {TUTTI_MAX, "max", nullptr},
                                                    {TUTTI_AVG, "avg", nullptr}};
  return names;
}

const char* name_of(tutti_type type) { return name_in(type_names(), type); }
const char* name_of(tutti_op op) { return name_in(op_names(), op); }

std::vector<tutti_type> types_named(const std::string& given) { return values_in(type_names(), given); }
std::vector<tutti_op> ops_named(const std::string& given) { return values_in(op_names(), given); }

std::vector<std::string> all_type_names() { return spellings(type_names()); }
std::vector<std::string> all_op_names() { return spellings(op_names()); }

const char* name_of(MemoryKind memory) { return memory == MemoryKind::registered ? "registered" : "host"; }

}  // namespace tutti::perf
