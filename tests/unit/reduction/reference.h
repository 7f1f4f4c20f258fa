// What folds must give, computed the slow way: one element at a time, narrow floats by arithmetic on doubles.
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

/// How the bits of a narrow float are to be read.
struct Layout {
  int bits;
  int fraction_bits;
  int bias;
  bool has_infinity;  ///< else the greatest bits alone are NaN

  int sign() const { return 1 << (bits - 1); }
  int largest_exponent() const { return (1 << (bits - 1 - fraction_bits)) - 1; }
  int nan() const { return has_infinity ? (largest_exponent() << fraction_bits) | (1 << (fraction_bits - 1)) : sign() - 1; }
  /// The least magnitude that is no number.
  int above() const { return has_infinity ? largest_exponent() << fraction_bits : sign() - 1; }
};
inline constexpr Layout kFloat16 = {16, 10, 15, true};
inline constexpr Layout kBFloat16 = {16, 7, 127, true};
inline constexpr Layout kFloat8E4M3 = {8, 3, 7, false};
inline constexpr Layout kFloat8E5M2 = {8, 2, 15, true};

/// The value of a narrow float, exactly. NaN for any NaN.
inline double value_of(unsigned bits, Layout layout) {
  const int magnitude = static_cast<int>(bits) & (layout.sign() - 1);
  const double sign = (static_cast<int>(bits) & layout.sign()) != 0 ? -1.0 : 1.0;
  if (magnitude >= layout.above()) {
    return layout.has_infinity && magnitude == layout.above() ? sign * std::numeric_limits<double>::infinity()
                                                              : std::numeric_limits<double>::quiet_NaN();
  }
  const int exponent = magnitude >> layout.fraction_bits;
  const int fraction = magnitude & ((1 << layout.fraction_bits) - 1);
  const double one = exponent == 0 ? 0.0 : 1.0;
  return sign * std::ldexp(one + std::ldexp(fraction, -layout.fraction_bits), std::max(exponent, 1) - layout.bias);
}

/// The narrow float nearest to `value`, ties to even; NaN is 0x7e00, 0x7fc0, 0x7f or 0x7e. What is too large is infinite,
/// or NaN where nothing is.
inline std::uint16_t bits_of(double value, Layout layout) {
  if (std::isnan(value)) return static_cast<std::uint16_t>(layout.nan());
  const int sign = std::signbit(value) ? layout.sign() : 0;
  const double magnitude = std::fabs(value);
  const auto overflow = static_cast<std::uint16_t>(layout.has_infinity ? sign | layout.above() : layout.nan());
  if (magnitude == 0) return static_cast<std::uint16_t>(sign);
  if (std::isinf(magnitude) || std::ilogb(magnitude) > layout.largest_exponent() - layout.bias) return overflow;
  const int exponent = std::max(std::ilogb(magnitude), 1 - layout.bias);
  // In units of the last place: the current rounding mode is to nearest even. A carry runs into the exponent.
  const int units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, layout.fraction_bits - exponent)));
  const int bits = ((exponent + layout.bias - 1) << layout.fraction_bits) + units;
  return bits >= layout.above() ? overflow : static_cast<std::uint16_t>(sign | bits);
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
    switch (op) {
      case TUTTI_BITWISE_AND:
        return static_cast<T>(x & y);
      case TUTTI_BITWISE_OR:
        return static_cast<T>(x | y);
      case TUTTI_BITWISE_XOR:
        return static_cast<T>(x ^ y);
      case TUTTI_LOGICAL_AND:
        return static_cast<T>(x != 0 && y != 0 ? 1 : 0);
      case TUTTI_LOGICAL_OR:
        return static_cast<T>(x != 0 || y != 0 ? 1 : 0);
      case TUTTI_LOGICAL_XOR:
        return static_cast<T>((x != 0) != (y != 0) ? 1 : 0);
      default:
        return static_cast<T>(static_cast<Unsigned>(op == TUTTI_PROD ? x * y : x + y));
    }
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
