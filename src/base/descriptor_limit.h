// How many descriptors this process may have.
#pragma once

#include <cstdint>

#include "src/base/status.h"
#include "src/base/unique_fd.h"

namespace tutti {

/// Raises this process's soft limit of open files to its hard one: peers' connections need some for each pair.
void raise_descriptor_limit();

/// OK where this process may have `least` descriptors more, once that limit is raised; newest: the one it got last. Else
/// TUTTI_SYSTEM_ERROR (EMFILE) with both numbers and the remedy.
Status check_descriptors_left(const UniqueFd& newest, std::uint64_t least);

}  // namespace tutti
