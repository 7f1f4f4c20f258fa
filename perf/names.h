// The names of element types and operators on the command line and in reports.
#pragma once

#include <string>
#include <vector>

#include "perf/buffers.h"
#include "tutti/tutti.h"

namespace tutti::perf {

template <class Value>
struct Name {
  Value value;
  const char* name;
  const char* alias;  ///< nccl-tests' name where it differs, else NULL
};

/// Every type that data can be made for, and every operator, in the order of `all`.
const std::vector<Name<tutti_type>>& type_names();
const std::vector<Name<tutti_op>>& op_names();

/// The name of a type or operator in reports ("float32", "sum"). Thread safe.
const char* name_of(tutti_type type);
const char* name_of(tutti_op op);
const char* name_of(MemoryKind memory);

/// What `given` stands for: one type or operator by either name, or all of them for "all". Empty where it is unknown.
std::vector<tutti_type> types_named(const std::string& given);
std::vector<tutti_op> ops_named(const std::string& given);

/// Names and aliases and "all", for --help and refusals.
std::vector<std::string> all_type_names();
std::vector<std::string> all_op_names();

}  // namespace tutti::perf
