// Names of element types, operators and collectives as text: in plans, options, reports and errors.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/tables/collectives.h"

namespace tutti {

/// "float32", "opaque12", …; "type99" for a value that no type has.
std::string text_of(tutti_type type);
/// "sum", …; "op99" for a value that no operator has.
std::string text_of(tutti_op op);
/// And back; nothing where there is no such name.
std::optional<tutti_type> type_of(std::string_view name);
std::optional<tutti_op> op_of(std::string_view name);
std::optional<Collective> collective_of(std::string_view name);
/// The collective whose v-variant has the name; nothing where there is none.
std::optional<Collective> collective_of_v_variant(std::string_view name);
/// The names that there are, of types but the opaque ones.
std::vector<std::string> type_names();
std::vector<std::string> op_names();
std::vector<std::string> collective_names();
/// The names of the operators that combine elements of the type.
std::vector<std::string> op_names_of(tutti_type type);

/// "a, b and c".
std::string listing(const std::vector<std::string>& names);

}  // namespace tutti
