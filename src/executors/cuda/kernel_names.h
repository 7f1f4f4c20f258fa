// Which kernel runs a plan.
#pragma once

#include <string>

#include "src/schedule/problem.h"

namespace tutti {

/// The module's name for it: "copy", or "fold float32 sum", by the problem's fold_kind (src/tables/operators.h). Pure.
std::string kernel_name(const Problem& problem);

}  // namespace tutti
