// What folds must give, computed the slow way: one element at a time, 16-bit floats by arithmetic on doubles.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "include/tutti/tutti.h"

namespace tutti::reference {

/// How the bits of a 16-bit float are to be read.
struct Layout {
  int fraction_bits;
  int bias;
};
inline constexpr Layout kFloat16 = {10, 15};
inline constexpr Layout kBFloat16 = {7, 127};

/// The value of a 16-bit float, exactly. NaN for any NaN.
inline double value_of(std::uint16_t bits, Layout layout) {
  const int exponent_bits = 15 - layout.fraction_bits;
  const int exponent = (bits >> layout.fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << layout.fraction_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  const double one = exponent == 0 ? 0.0 : 1.0;
  return sign * std::ldexp(one + std::ldexp(fraction, -layout.fraction_bits), std::max(exponent, 1) - layout.bias);
}

/// The 16-bit float nearest to `value`, ties to even; NaN is 0x7e00 or 0x7fc0.
inline std::uint16_t bits_of(double value, Layout layout) {
  const int exponent_bits = 15 - layout.fraction_bits;
  const int largest = (1 << exponent_bits) - 1;
  if (std::isnan(value))
    return static_cast<std::uint16_t>((largest << layout.fraction_bits) | (1 << (layout.fraction_bits - 1)));
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  int exponent = std::isinf(magnitude) ? largest : std::max(std::ilogb(magnitude), 1 - layout.bias);
  if (exponent + layout.bias >= largest) return static_cast<std::uint16_t>(sign | (largest << layout.fraction_bits));
  // In units of the last place: the current rounding mode is to nearest even.
  double units = std::nearbyint(std::ldexp(magnitude, layout.fraction_bits - exponent));
  if (units == std::ldexp(1.0, layout.fraction_bits + 1)) {
    units /= 2;
    ++exponent;
  }
  const int fraction = static_cast<int>(units);
  const int implicit = 1 << layout.fraction_bits;
  const int biased = fraction >= implicit ? exponent + layout.bias : 0;
  return static_cast<std::uint16_t>(sign | (biased << layout.fraction_bits) | (fraction & (implicit - 1)));
}

template <typename T>
T quiet(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) return std::numeric_limits<T>::quiet_NaN();
  }
  return value;
}

template <typename T>
T least(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
    if (a == 0 && b == 0) return std::signbit(a) ? a : b;
  }
  return b < a ? b : a;
}

template <typename T>
T greatest(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
    if (a == 0 && b == 0) return std::signbit(a) ? b : a;
  }
  return b > a ? b : a;
}

/// One application of an operator, in the type that elements are folded in.
template <typename T>
T apply(tutti_op op, T a, T b) {
  if (op == TUTTI_MIN) return least(a, b);
  if (op == TUTTI_MAX) return greatest(a, b);
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    const auto x = static_cast<std::uint64_t>(static_cast<Unsigned>(a));
    const auto y = static_cast<std::uint64_t>(static_cast<Unsigned>(b));
    return static_cast<T>(static_cast<Unsigned>(op == TUTTI_PROD ? x * y : x + y));
  } else {
    return op == TUTTI_PROD ? a * b : a + b;
  }
}

/// A sum divided by a number of ranks.
template <typename T>
T divided(T sum, std::uint64_t by) {
  if constexpr (std::is_floating_point_v<T>) {
    return sum / static_cast<T>(by);
  } else {
    __extension__ using Big = __int128;
    return static_cast<T>(static_cast<Big>(sum) / static_cast<Big>(by));
  }
}

}  // namespace tutti::reference
