#include "src/reduction/scale.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "src/reduction/reduction.h"
#include "src/tables/element_types.h"

namespace tutti {

void scale(tutti_type type, const void* scalar, const void* from, void* to, std::size_t count) {
  const FoldFunction multiply = find_fold(type, TUTTI_PROD);
  const std::size_t element = element_bytes(type);
  // Folds take arrays: the scalar as often as fits into some of the nearest cache.
  alignas(64) std::array<std::byte, 4096> scalars;
  const std::size_t most = scalars.size() / element;
  for (std::size_t i = 0; i < std::min(most, count); ++i) std::memcpy(scalars.data() + i * element, scalar, element);
  for (std::size_t at = 0; at < count; at += most) {
    const std::size_t n = std::min(most, count - at);
    const FoldSource sources[] = {{static_cast<const std::byte*>(from) + at * element}, {scalars.data()}};
    const FoldDestination destination{static_cast<std::byte*>(to) + at * element};
    multiply({sources, &destination, 2, 1, n});
  }
}

}  // namespace tutti
