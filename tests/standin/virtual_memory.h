// Physical memory and reserved addresses.
#pragma once

#include <cstddef>

namespace standin {

/// Handles of physical memory and reserved addresses that are alive. With the lock.
std::size_t virtual_memory_objects();

}  // namespace standin
