// What words of the command line stand for: element types, operators, kinds of memory.
#pragma once

#include <string>
#include <vector>

#include "perf/buffers.h"
#include "tutti/tutti.h"

namespace tutti::perf {

/// The name of a kind of memory in reports. Thread safe.
const char* name_of(MemoryKind memory);

/// What `given` stands for: one supported type or operator, by its own name or nccl-tests', or all of them for "all". Empty
/// where it is unknown. Opaque types, as "opaque5", are not among all.
std::vector<tutti_type> types_named(const std::string& given);
std::vector<tutti_op> ops_named(const std::string& given);

/// An operator's name, also of one of perf/data.h.
std::string text_of_op(tutti_op op);
/// Whether it folds such elements.
bool folds(tutti_op op, tutti_type type);

/// Names and aliases and "all", for --help and refusals.
std::vector<std::string> all_type_names();
std::vector<std::string> all_op_names();

}  // namespace tutti::perf
