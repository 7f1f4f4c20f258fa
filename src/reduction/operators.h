// Reduction operators, written once for host and device: what they do to two elements, in the type they are folded in.
//
// All commute bit for bit once NaNs are made canonical (see elements.h): the last step of a fold does that.
#pragma once

#include <cstdint>
#include <type_traits>

#include "src/reduction/elements.h"

namespace tutti {

/// a + b; integers wrap.
struct Sum {
  template <typename T>
  TUTTI_HOST_DEVICE T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    } else {
      return a + b;
    }
  }
};

/// a · b; integers wrap. Complex numbers by the formula of products and sums, so that infinite ones may give NaN.
struct Prod {
  template <typename T>
  TUTTI_HOST_DEVICE T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    } else if constexpr (std::is_floating_point_v<T>) {
      return a * b;
    } else {
      return {a.real * b.real - a.imaginary * b.imaginary, a.real * b.imaginary + a.imaginary * b.real};
    }
  }
};

/// a + b, where operands may have been multiplied first (a kernel does so as it loads them); complex numbers too.
struct PreMulSum {
  template <typename T>
  TUTTI_HOST_DEVICE T operator()(T a, T b) const {
    if constexpr (std::is_arithmetic_v<T>) {
      return Sum()(a, b);
    } else {
      return {a.real + b.real, a.imaginary + b.imaginary};
    }
  }
};

/// The smaller; NaN where an operand is NaN; −0 is smaller than +0 (IEEE 754-2019's minimum).
struct Min {
  template <typename T>
  TUTTI_HOST_DEVICE T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (a != a || b != b) return quiet_nan<T>();
      if (a == b) {  // either, except for zeros: the negative one, if there is one
        using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
        return bits_as<T>(static_cast<Bits>(bits_as<Bits>(a) | bits_as<Bits>(b)));
      }
    }
    return a < b ? a : b;
  }
};

/// The larger; NaN where an operand is NaN; +0 is larger than −0 (IEEE 754-2019's maximum).
struct Max {
  template <typename T>
  TUTTI_HOST_DEVICE T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return -Min()(-a, -b);
    } else {
      return a > b ? a : b;
    }
  }
};

/// Bit by bit, of unsigned integers.
struct BitwiseAnd {
  template <typename T>
  TUTTI_HOST_DEVICE T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct BitwiseOr {
  template <typename T>
  TUTTI_HOST_DEVICE T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct BitwiseXor {
  template <typename T>
  TUTTI_HOST_DEVICE T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};

/// Of unsigned integers, of which 0 is false and any other true: 0 or 1.
struct LogicalAnd {
  template <typename T>
  TUTTI_HOST_DEVICE T operator()(T a, T b) const {
    return static_cast<T>(a != 0 && b != 0);
  }
};
struct LogicalOr {
  template <typename T>
  TUTTI_HOST_DEVICE T operator()(T a, T b) const {
    return static_cast<T>(a != 0 || b != 0);
  }
};
struct LogicalXor {
  template <typename T>
  TUTTI_HOST_DEVICE T operator()(T a, T b) const {
    return static_cast<T>((a != 0) != (b != 0));
  }
};

/// Whether an operator takes operands bit by bit.
template <typename Op>
inline constexpr bool kIsBitwise = kIsOneOf<Op, BitwiseAnd, BitwiseOr, BitwiseXor>;
/// Whether it takes them for true or false.
template <typename Op>
inline constexpr bool kIsLogical = kIsOneOf<Op, LogicalAnd, LogicalOr, LogicalXor>;

/// Division of a sum by a number of ranks: integers round towards zero, floats to nearest even.
struct Divide {
  std::uint64_t by;

  template <typename T>
  TUTTI_HOST_DEVICE T operator()(T sum) const {
    if constexpr (std::is_floating_point_v<T>) {
      return sum / static_cast<T>(by);
    } else if constexpr (std::is_signed_v<T>) {
      // The magnitude as an unsigned number exists for the least integer too.
      const std::uint64_t value = static_cast<std::uint64_t>(static_cast<std::int64_t>(sum));
      const std::uint64_t quotient = (sum < 0 ? 0 - value : value) / by;
      return static_cast<T>(sum < 0 ? 0 - quotient : quotient);
    } else {
      return static_cast<T>(sum / by);
    }
  }
};

}  // namespace tutti
