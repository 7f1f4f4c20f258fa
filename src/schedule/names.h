// Names of collectives as text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/schedule/problem.h"

namespace tutti {

/// The collective of that name; nothing where there is none.
std::optional<Collective> collective_of(std::string_view name);
/// The names that there are.
std::vector<std::string> collective_names();

}  // namespace tutti
