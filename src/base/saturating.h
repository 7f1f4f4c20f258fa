// Bytes of counts, and limits, that anybody may have given: they end at the greatest number there is, and do not begin
// again at 0.
#pragma once

#include <cstdint>

#include "src/tables/element_types.h"

namespace tutti {

/// a * b, or UINT64_MAX where that is more.
constexpr std::uint64_t saturating_product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/// a + b, or UINT64_MAX where that is more.
constexpr std::uint64_t saturating_sum(std::uint64_t a, std::uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

/// Bytes of `count` elements.
constexpr std::uint64_t bytes_of(std::uint64_t count, tutti_type type) {
  return saturating_product(count, element_bytes(type));
}

}  // namespace tutti
