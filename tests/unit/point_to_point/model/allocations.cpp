// In the place of the C++ library's operators: one allocation can fail. Apart from what calls them, as the compiler would
// take the pairs apart otherwise.
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "tests/unit/point_to_point/model/world.h"

namespace tutti {

long allocations_left = -1;

}  // namespace tutti

void* operator new(std::size_t bytes) {
  if (tutti::allocations_left >= 0 && tutti::allocations_left-- == 0) throw std::bad_alloc();
  void* const memory = std::malloc(std::max<std::size_t>(bytes, 1));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
