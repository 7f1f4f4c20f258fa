// Which type an element is folded in, and the way there and back. Usable in host and in device code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "src/tables/element_types.h"

#if defined(__CUDACC__)
#define TUTTI_HOST_DEVICE __host__ __device__
#elif defined(__CUDA__)  // clang without NVIDIA's headers
#define TUTTI_HOST_DEVICE __attribute__((host)) __attribute__((device))
#else
#define TUTTI_HOST_DEVICE
#endif

namespace tutti {

/// The bits of `from` as a To of the same size. std::bit_cast that device code may call too.
template <typename To, typename From>
TUTTI_HOST_DEVICE inline To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From) && std::is_trivially_copyable_v<To> && std::is_trivially_copyable_v<From>);
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));  // which device code of every compiler has
  return to;
}

/// Whether T is one of a list of types.
template <typename T, typename... Listed>
inline constexpr bool kIsOneOf = (std::is_same_v<T, Listed> || ...);

/// The type that elements of type T are folded in: float for the 8- and 16-bit floats, T itself for the others.
template <typename T>
using Wide = std::conditional_t<kIsOneOf<T, Float16, BFloat16, Float8E4M3, Float8E5M2>, float, T>;

/// Whether T is folded in another type than itself, so that the two element formats differ.
template <typename T>
inline constexpr bool kWidens = !std::is_same_v<T, Wide<T>>;

/// The NaN that folds write: quiet, positive, without payload. From its bits, since device code has no numeric_limits.
template <typename T>
TUTTI_HOST_DEVICE inline T quiet_nan() {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>);
  if constexpr (sizeof(T) == 4) {
    return bits_as<T>(std::uint32_t{0x7fc00000u});
  } else {
    return bits_as<T>(std::uint64_t{0x7ff8000000000000u});
  }
}

/// `value`, any NaN replaced by the one that folds write: quiet, positive, without payload.
template <typename T>
TUTTI_HOST_DEVICE inline T canonical(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return value == value ? value : quiet_nan<T>();
  } else if constexpr (kIsOneOf<T, Complex<float>, Complex<double>>) {
    return T{canonical(value.real), canonical(value.imaginary)};
  } else {
    return value;
  }
}

/// The value of `narrow` in float32, exactly; a NaN keeps its payload.
TUTTI_HOST_DEVICE inline float widen(BFloat16 narrow) {
  return bits_as<float>(static_cast<std::uint32_t>(narrow.bits) << 16);
}

/// The value of `narrow` in float32, exactly; a NaN keeps its payload.
TUTTI_HOST_DEVICE inline float widen(Float16 narrow) {
  const std::uint32_t sign = static_cast<std::uint32_t>(narrow.bits & 0x8000u) << 16;
  const std::uint32_t magnitude = static_cast<std::uint32_t>(narrow.bits & 0x7fffu) << 13;
  const std::uint32_t exponent = magnitude & 0x0f800000u;
  std::uint32_t wide = magnitude + 0x38000000u;  // from bias 15 to bias 127
  if (exponent == 0x0f800000u) {
    wide += 0x38000000u;  // infinity and NaN have the largest exponent of either format
  } else if (exponent == 0) {
    // Subnormal: as if it had an implicit one, which the subtraction takes away again and so normalises.
    wide = bits_as<std::uint32_t>(bits_as<float>(wide + 0x00800000u) - bits_as<float>(0x38800000u));
  }
  return bits_as<float>(sign | wide);
}

/// The upper half of a float16.
TUTTI_HOST_DEVICE inline float widen(Float8E5M2 narrow) {
  return widen(Float16{static_cast<std::uint16_t>(narrow.bits << 8)});
}

/// As a float16 whose exponent is 8 too small; a NaN is one of that sign.
TUTTI_HOST_DEVICE inline float widen(Float8E4M3 narrow) {
  const unsigned sign = narrow.bits & 0x80u;
  const unsigned magnitude = narrow.bits & 0x7fu;
  if (magnitude == 0x7fu) return bits_as<float>(static_cast<std::uint32_t>(sign << 24) | 0x7fc00000u);
  return widen(Float16{static_cast<std::uint16_t>(sign << 8 | magnitude << 7)}) * 256.0f;
}

template <typename T>
TUTTI_HOST_DEVICE inline T widen(T value) {
  return value;
}

/// An 8-bit float's bits without the sign, and how they lie below a float32.
template <typename T>
struct Float8Layout;
template <>
struct Float8Layout<Float8E4M3> {
  static constexpr int kFraction = 3;                         ///< bits
  static constexpr std::uint32_t kLeastNormal = 0x3c800000u;  ///< 2^-6 as a float32
  static constexpr std::uint32_t kOverflow = 0x7fu;  ///< what is above the largest number: NaN, for want of infinity
  static constexpr std::uint32_t kGreatest = 0x7eu;  ///< that is no NaN
  static constexpr std::uint32_t kNaN = 0x7fu;       ///< that folds write
};
template <>
struct Float8Layout<Float8E5M2> {
  static constexpr int kFraction = 2;
  static constexpr std::uint32_t kLeastNormal = 0x38800000u;  ///< 2^-14
  static constexpr std::uint32_t kOverflow = 0x7cu;           ///< infinity
  static constexpr std::uint32_t kGreatest = 0x7cu;
  static constexpr std::uint32_t kNaN = 0x7eu;
};

/// `wide`, which is canonical, as an 8-bit float's bits, rounded to nearest even.
template <typename T>
TUTTI_HOST_DEVICE inline std::uint8_t narrow_to_8_bits(float wide) {
  using Narrow = Float8Layout<T>;
  constexpr int kDropped = 23 - Narrow::kFraction;
  const std::uint32_t bits = bits_as<std::uint32_t>(wide);
  const std::uint32_t sign = bits & 0x80000000u;
  const std::uint32_t magnitude = bits ^ sign;
  std::uint32_t rounded;
  if (magnitude > 0x7f800000u) {
    rounded = Narrow::kNaN;
  } else if (magnitude < Narrow::kLeastNormal) {
    // As for float16: adding a number whose last place is the last that is kept rounds to it.
    constexpr std::uint32_t kMagic = Narrow::kLeastNormal + (static_cast<std::uint32_t>(kDropped) << 23);
    rounded = bits_as<std::uint32_t>(bits_as<float>(magnitude) + bits_as<float>(kMagic)) - kMagic;
  } else {
    constexpr std::uint32_t kBias = Narrow::kLeastNormal - (1u << 23);
    constexpr std::uint32_t kHalf = (1u << (kDropped - 1)) - 1;
    rounded = (magnitude - kBias + kHalf + ((magnitude >> kDropped) & 1u)) >> kDropped;
    if (rounded > Narrow::kOverflow) rounded = Narrow::kOverflow;
  }
  return static_cast<std::uint8_t>(rounded == Narrow::kNaN ? rounded : rounded | sign >> 24);
}

/// `wide` in the element type T: rounded to nearest even, overflow to infinity (E4M3 has none: to NaN), subnormals kept,
/// NaN canonical.
template <typename T>
TUTTI_HOST_DEVICE inline T narrow(Wide<T> wide) {
  if constexpr (!kWidens<T>) {
    return wide;
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    const std::uint32_t bits = bits_as<std::uint32_t>(canonical(wide));
    return BFloat16{static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
  } else if constexpr (sizeof(T) == 1) {
    return T{narrow_to_8_bits<T>(canonical(wide))};
  } else {
    std::uint32_t bits = bits_as<std::uint32_t>(canonical(wide));
    const std::uint32_t sign = bits & 0x80000000u;
    bits ^= sign;
    std::uint32_t rounded;
    if (bits >= 0x47800000u) {  // 2^16 and more, infinity, NaN
      rounded = bits > 0x7f800000u ? 0x7e00u : 0x7c00u;
    } else if (bits < 0x38800000u) {
      // Subnormal: adding 1/2 moves the last place that is kept to the last place of the sum, which the addition rounds.
      rounded = bits_as<std::uint32_t>(bits_as<float>(bits) + 0.5f) - 0x3f000000u;
    } else {
      rounded = (bits - 0x38000000u + 0xfffu + ((bits >> 13) & 1u)) >> 13;
    }
    return Float16{static_cast<std::uint16_t>(rounded | (sign >> 16))};
  }
}

}  // namespace tutti
