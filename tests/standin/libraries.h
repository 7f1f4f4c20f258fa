// Kernels that were loaded.
#pragma once

#include <cstddef>

namespace standin {

/// Libraries and kernels that are alive. With the lock.
std::size_t library_objects();

}  // namespace standin
