// The loops' unit of work where there is no vector: one element. Also the definition that the vectors must agree with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "src/reduction/elements.h"
#include "src/reduction/operators.h"

namespace tutti {

/// Values of one element of type T, held in the type that it is folded in. The interface that sweeps work through; see
/// lanes-inl.h for the vectors' one. Pointers have any alignment.
template <typename T>
struct ScalarLanes {
  using Element = T;
  using Value = Wide<T>;
  static constexpr std::size_t kCount = 1;  ///< elements of a Value
  static constexpr bool kPartial = false;   ///< whether fewer elements than kCount can be loaded and stored

  static Value load(const std::uint8_t* from) {
    T value;
    std::memcpy(&value, from, sizeof(value));
    return widen(value);
  }
  static void store(std::uint8_t* to, Value value) {
    const T element = narrow<T>(value);
    std::memcpy(to, &element, sizeof(element));
  }
  static void stream(std::uint8_t* to, Value value) { store(to, value); }

  /// Between loads and the first combine, and back after the last. Scalars need neither.
  template <typename Op>
  static Value prepare(Value value) {
    return value;
  }
  template <typename Op>
  static Value restore(Value value) {
    return value;
  }
  template <typename Op>
  static Value combine(Value a, Value b) {
    return Op()(a, b);
  }
  static Value canonicalize(Value value) { return canonical(value); }

  /// Divides by a number of ranks, above 1. Canonical.
  struct Divider {
    explicit Divider(std::uint64_t by) : divide{by} {}
    Value operator()(Value value) const { return canonical(divide(value)); }
    Divide divide;
  };
};

}  // namespace tutti
