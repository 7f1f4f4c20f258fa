#include "src/reduction/scale.h"

#include <cstring>

#include "src/reduction/elements.h"
#include "src/reduction/operators.h"
#include "src/tables/element_types.h"

namespace tutti {
namespace {

template <typename T>
void scale_all(const void* scalar, const void* from, void* to, std::size_t count) {
  T factor;
  std::memcpy(&factor, scalar, sizeof factor);
  const auto* const source = static_cast<const std::byte*>(from);
  auto* const target = static_cast<std::byte*>(to);
  for (std::size_t i = 0; i < count; ++i) {
    T element;
    std::memcpy(&element, source + i * sizeof(T), sizeof(T));
    element = narrow<T>(canonical(Prod()(widen(element), widen(factor))));
    std::memcpy(target + i * sizeof(T), &element, sizeof(T));
  }
}

}  // namespace

void scale(tutti_type type, const void* scalar, const void* from, void* to, std::size_t count) {
  visit_type(type, [&]<typename T>(std::type_identity<T>) {
    if constexpr (!std::is_same_v<T, Bool>) scale_all<T>(scalar, from, to, count);
    return 0;
  });
}

}  // namespace tutti
