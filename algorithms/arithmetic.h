// Arithmetic that several algorithms share: positions on rings and in trees. Pure.
#pragma once

#include <cstdint>

namespace tutti {

/// x mod p in 0 … p−1, for negative x too.
constexpr std::uint32_t wrap(int x, int p) { return static_cast<std::uint32_t>(((x % p) + p) % p); }

/// ⌈log₂ p⌉, 0 for p = 1.
constexpr int log2_ceil(int p) {
  int h = 0;
  while ((std::int64_t{1} << h) < p) ++h;
  return h;
}

}  // namespace tutti
