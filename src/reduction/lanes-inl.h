// The loops' unit of work on a vector instruction set: one vector, or two of float32 for the narrow floats. Included once
// per instruction set by sweep-inl.h, which has the guard; never for the scalar fallback.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "hwy/highway.h"
#include "src/reduction/elements.h"
#include "src/reduction/operators.h"

HWY_BEFORE_NAMESPACE();
namespace tutti {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
using VectorOf = hn::Vec<D>;

// ---- Memory ----------------------------------------------------------------------------------------------------------

/// Vectors of any lane type are loaded and stored as bytes: no alignment is asked for, and none is promised.
template <class D>
HWY_INLINE VectorOf<D> load_bytes(D d, const std::uint8_t* from) {
  return hn::BitCast(d, hn::LoadU(hn::Repartition<std::uint8_t, D>(), from));
}

template <class D, class V>
HWY_INLINE void store_bytes(D, V value, std::uint8_t* to) {
  const hn::Repartition<std::uint8_t, D> d8;
  hn::StoreU(hn::BitCast(d8, value), d8, to);
}

/// A store around the caches; `to` is aligned to the vector's size. Vectors of 8 bytes, which have no such store, are
/// stored as usual.
template <class D, class V>
HWY_INLINE void stream_bytes(D, V value, std::uint8_t* to) {
  const hn::Repartition<std::uint8_t, D> d8;
  if constexpr (hn::MaxLanes(d8) < 16) {
    hn::StoreU(hn::BitCast(d8, value), d8, to);
  } else {
    hn::Stream(hn::BitCast(d8, value), d8, to);
  }
}

template <typename Word>
HWY_INLINE std::uint64_t load_word(const std::uint8_t* from) {
  Word word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

template <typename Word>
HWY_INLINE void store_word(std::uint8_t* to, std::uint64_t value) {
  const Word word = static_cast<Word>(value);
  std::memcpy(to, &word, sizeof(word));
}

/// 1 to 8 bytes as the low bytes of a word, zeros above: two loads that may overlap, never a byte outside.
HWY_INLINE std::uint64_t load_short(const std::uint8_t* from, std::size_t bytes) {
  if (bytes == 8) return load_word<std::uint64_t>(from);
  if (bytes >= 4) return load_word<std::uint32_t>(from) | (load_word<std::uint32_t>(from + bytes - 4) << (8 * (bytes - 4)));
  if (bytes >= 2) return load_word<std::uint16_t>(from) | (load_word<std::uint16_t>(from + bytes - 2) << (8 * (bytes - 2)));
  return *from;
}

HWY_INLINE void store_short(std::uint8_t* to, std::uint64_t value, std::size_t bytes) {
  if (bytes == 8) {
    store_word<std::uint64_t>(to, value);
  } else if (bytes >= 4) {
    store_word<std::uint32_t>(to, value);
    store_word<std::uint32_t>(to + bytes - 4, value >> (8 * (bytes - 4)));
  } else if (bytes >= 2) {
    store_word<std::uint16_t>(to, value);
    store_word<std::uint16_t>(to + bytes - 2, value >> (8 * (bytes - 2)));
  } else {
    *to = static_cast<std::uint8_t>(value);
  }
}

/// 0 to 16 bytes as the first of a vector of 16; the others repeat them or are zero. D has 16 bytes, or 8 for as many.
template <class D>
HWY_INLINE VectorOf<D> load_some(D d, const std::uint8_t* from, std::size_t bytes) {
  const hn::Repartition<std::uint64_t, D> d64;
  if (bytes == 0) return hn::Zero(d);
  if constexpr (hn::MaxLanes(d64) == 1) return hn::BitCast(d, hn::Set(d64, load_short(from, bytes)));
  if (bytes == 16) return load_bytes(d, from);
  if (bytes <= 8) return hn::BitCast(d, hn::Set(d64, load_short(from, bytes)));
  const auto low = hn::Set(d64, load_word<std::uint64_t>(from));
  const auto high = hn::Set(d64, load_word<std::uint64_t>(from + bytes - 8) >> (8 * (16 - bytes)));
  return hn::BitCast(d, hn::InterleaveLower(d64, low, high));
}

template <class D, class V>
HWY_INLINE void store_some(D, V value, std::uint8_t* to, std::size_t bytes) {
  const hn::Repartition<std::uint64_t, D> d64;
  if (bytes == 0) return;
  const auto words = hn::BitCast(d64, value);
  const std::uint64_t low = hn::GetLane(words);
  if constexpr (hn::MaxLanes(d64) == 1) return store_short(to, low, bytes);
  if (bytes == 16) return store_bytes(d64, words, to);
  if (bytes <= 8) return store_short(to, low, bytes);
  const std::uint64_t high = hn::GetLane(hn::UpperHalf(hn::Half<decltype(d64)>(), words));
  // The upper word first: where they overlap, the lower one then writes what belongs there.
  store_word<std::uint64_t>(to + bytes - 8, high << (8 * (16 - bytes)));
  store_word<std::uint64_t>(to, low);
}

// ---- Operators -------------------------------------------------------------------------------------------------------

/// operators.h's functors on vectors. Max of floats is Min of negated ones, see prepare below.
template <class V>
HWY_INLINE V combine_vectors(Sum, V a, V b) {
  return hn::Add(a, b);
}

/// The low 8 bits of products of bytes, of which no instruction set has an instruction: even and odd bytes apart.
template <class V>
HWY_INLINE V multiply_bytes(V a, V b) {
  const hn::DFromV<V> d;
  const hn::Repartition<std::uint16_t, decltype(d)> d16;
  const auto a16 = hn::BitCast(d16, a);
  const auto b16 = hn::BitCast(d16, b);
  const auto upper = hn::Set(d16, 0xff00);
  const auto even = hn::Mul(a16, b16);
  const auto odd = hn::Mul(hn::ShiftRight<8>(a16), hn::And(b16, upper));
  return hn::BitCast(d, hn::Or(hn::AndNot(upper, even), odd));
}

template <class V>
HWY_INLINE V combine_vectors(Prod, V a, V b) {
  if constexpr (sizeof(hn::LaneType<V>) == 1) {
    return multiply_bytes(a, b);
  } else {
    return hn::Mul(a, b);
  }
}

/// Where one operand is NaN, instructions for min give an operand that depends on the set, but at least one of the two
/// orders gives NaN; for zeros of both signs at least one gives −0; else both give the same. "Or" picks just that.
template <class V>
HWY_INLINE V combine_vectors(Min, V a, V b) {
  if constexpr (hwy::IsFloat<hn::LaneType<V>>()) {
    return hn::Or(hn::Min(a, b), hn::Min(b, a));
  } else {
    return hn::Min(a, b);
  }
}

template <class V>
HWY_INLINE V combine_vectors(Max, V a, V b) {
  if constexpr (hwy::IsFloat<hn::LaneType<V>>()) {
    return combine_vectors(Min(), a, b);
  } else {
    return hn::Max(a, b);
  }
}

template <class V>
HWY_INLINE V combine_vectors(BitwiseAnd, V a, V b) {
  return hn::And(a, b);
}
template <class V>
HWY_INLINE V combine_vectors(BitwiseOr, V a, V b) {
  return hn::Or(a, b);
}
template <class V>
HWY_INLINE V combine_vectors(BitwiseXor, V a, V b) {
  return hn::Xor(a, b);
}

/// Logical operators work on zeros and ones, see prepared_for below.
template <class V>
HWY_INLINE V combine_vectors(LogicalAnd, V a, V b) {
  return hn::And(a, b);
}
template <class V>
HWY_INLINE V combine_vectors(LogicalOr, V a, V b) {
  return hn::Or(a, b);
}
template <class V>
HWY_INLINE V combine_vectors(LogicalXor, V a, V b) {
  return hn::Xor(a, b);
}

template <class Op, class V>
HWY_INLINE V negated_for(V value) {
  if constexpr (hwy::IsSame<Op, Max>() && hwy::IsFloat<hn::LaneType<V>>()) {
    return hn::Neg(value);
  } else {
    return value;
  }
}

/// An operand as combine_vectors takes it.
template <class Op, class V>
HWY_INLINE V prepared_for(V value) {
  if constexpr (kIsLogical<Op>) {
    const hn::DFromV<V> d;
    return hn::IfThenZeroElse(hn::Eq(value, hn::Zero(d)), hn::Set(d, 1));
  } else {
    return negated_for<Op>(value);
  }
}

template <class V>
HWY_INLINE V canonical_vector(V value) {
  if constexpr (hwy::IsFloat<hn::LaneType<V>>()) {
    const hn::DFromV<V> d;
    return hn::IfThenElse(hn::Eq(value, value), value, hn::Set(d, quiet_nan<hn::LaneType<V>>()));
  } else {
    return value;
  }
}

// ---- Division --------------------------------------------------------------------------------------------------------

/// The upper halves of the products of lanes of 16 or 64 bits.
template <class V>
HWY_INLINE V multiply_high(V a, V b) {
  const hn::DFromV<V> d;
  if constexpr (sizeof(hn::LaneType<V>) == 2) {
    return hn::MulHigh(a, b);
  } else {
    const hn::RepartitionToNarrow<decltype(d)> d32;
    const auto low_half = hn::Set(d, 0xffffffffu);
    const auto a_low = hn::BitCast(d32, a);
    const auto b_low = hn::BitCast(d32, b);
    const auto a_high = hn::BitCast(d32, hn::ShiftRight<32>(a));
    const auto b_high = hn::BitCast(d32, hn::ShiftRight<32>(b));
    const auto cross = hn::Add(hn::MulEven(a_high, b_low), hn::ShiftRight<32>(hn::MulEven(a_low, b_low)));
    const auto middle = hn::Add(hn::MulEven(a_low, b_high), hn::And(cross, low_half));
    return hn::Add(hn::Add(hn::MulEven(a_high, b_high), hn::ShiftRight<32>(cross)), hn::ShiftRight<32>(middle));
  }
}

__extension__ using DoubleWord = unsigned __int128;

/// The least power of two that is >= by, as its logarithm.
inline int log_above(std::uint64_t by) { return by <= 1 ? 0 : 64 - __builtin_clzll(by - 1); }

/// Unsigned division by one divisor above 1, by multiplication with its reciprocal. kMagnitude: of numbers that are at most
/// 2^(bits - 1), as magnitudes of signed ones are; their reciprocal rounded up fits a lane and is exact (Granlund &
/// Montgomery, "Division by invariant integers using multiplication", 1994, theorem 4.2, and for the greatest number too,
/// as what rounding up adds is less than `by`).
///
/// Lanes of 16 and 64 bits; for all of their numbers a reciprocal of one bit more than the lane (their figure 4.1).
template <typename T, bool kMagnitude>
class UnsignedDivider {
  static constexpr int kBits = 8 * sizeof(T);
  static_assert(kBits == 16 || kBits == 64);

 public:
  explicit UnsignedDivider(std::uint64_t by) {
    if (by > std::numeric_limits<T>::max()) return;  // more than any lane: multiplier 0 gives quotient 0
    shift_ = log_above(by) - 1;
    const DoubleWord power = static_cast<DoubleWord>(1) << log_above(by);
    if constexpr (kMagnitude) {
      multiplier_ = static_cast<T>(((power << (kBits - 1)) + by - 1) / by);
    } else {
      multiplier_ = static_cast<T>(((power - by) << kBits) / by + 1);
    }
  }
  template <class V>
  HWY_INLINE V operator()(V value) const {
    const V high = multiply_high(value, hn::Set(hn::DFromV<V>(), multiplier_));
    if constexpr (kMagnitude) return hn::ShiftRightSame(high, shift_);
    return hn::ShiftRightSame(hn::Add(high, hn::ShiftRight<1>(hn::Sub(value, high))), shift_);
  }

 private:
  T multiplier_ = 0;
  int shift_ = kBits - 1;
};

/// Lanes of 32 bits; for all of their numbers the reciprocal is rounded down and the number counted one more where that is
/// exact, else up: Robison, "N-bit unsigned division via N-bit multiply-add" (2005).
template <bool kMagnitude>
class UnsignedDivider<std::uint32_t, kMagnitude> {
 public:
  explicit UnsignedDivider(std::uint64_t by) {
    if (by >> 32 != 0) return;  // more than any lane: multiplier 0 gives quotient 0
    shift_ = kMagnitude ? log_above(by) - 1 : 63 - __builtin_clzll(by);
    const DoubleWord power = static_cast<DoubleWord>(1) << (32 + shift_);
    const auto down = static_cast<std::uint64_t>((power - 1) / by);
    const bool rounds_down = !kMagnitude && power - static_cast<DoubleWord>(down) * by <= std::uint64_t{1} << shift_;
    multiplier_ = static_cast<std::uint32_t>(rounds_down ? down : down + 1);
    addend_ = rounds_down ? multiplier_ : 0;
  }
  template <class V>
  HWY_INLINE V operator()(V value) const {
    const hn::DFromV<V> d;
    const hn::RepartitionToWide<decltype(d)> d64;
    const auto multiplier = hn::Set(d, multiplier_);
    auto even = hn::MulEven(value, multiplier);
    auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(d64, value))), multiplier);
    if constexpr (!kMagnitude) {
      even = hn::Add(even, hn::Set(d64, addend_));
      odd = hn::Add(odd, hn::Set(d64, addend_));
    }
    return hn::OddEven(hn::BitCast(d, hn::ShiftRightSame(odd, shift_)),
                       hn::BitCast(d, hn::ShiftRightSame(even, 32 + shift_)));
  }

 private:
  std::uint32_t multiplier_ = 0;
  std::uint64_t addend_ = 0;
  int shift_ = 0;
};

/// Bytes, in lanes of 16 bits, where the reciprocal rounded up is exact: value · by < 2^16.
template <bool kMagnitude>
class UnsignedDivider<std::uint8_t, kMagnitude> {
 public:
  explicit UnsignedDivider(std::uint64_t by)
      : multiplier_(by > 255 ? std::uint16_t{0} : static_cast<std::uint16_t>((65536 + by - 1) / by)) {}
  template <class V>
  HWY_INLINE V operator()(V value) const {
    const hn::DFromV<V> d;
    const hn::Repartition<std::uint16_t, decltype(d)> d16;
    const auto multiplier = hn::Set(d16, multiplier_);
    const auto both = hn::BitCast(d16, value);
    const auto even = hn::MulHigh(hn::And(both, hn::Set(d16, 0x00ff)), multiplier);
    const auto odd = hn::MulHigh(hn::And(both, hn::Set(d16, 0xff00)), multiplier);  // its quotient in the upper byte
    return hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, even));
  }

 private:
  std::uint16_t multiplier_;
};

/// Division of a vector of T by a number of ranks above 1: operators.h's Divide, NaNs made canonical.
template <typename T, bool kIsFloat = std::is_floating_point_v<T>>
class VectorDivider {
 public:
  explicit VectorDivider(std::uint64_t by) : divide_(by) {}
  template <class V>
  HWY_INLINE V operator()(V value) const {
    const hn::DFromV<V> d;
    const hn::RebindToUnsigned<decltype(d)> du;
    if constexpr (std::is_signed_v<T>) {
      const V quotient = hn::BitCast(d, divide_(hn::BitCast(du, hn::Abs(value))));
      return hn::IfThenElse(hn::Lt(value, hn::Zero(d)), hn::Neg(quotient), quotient);
    } else {
      return divide_(value);
    }
  }

 private:
  UnsignedDivider<std::make_unsigned_t<T>, std::is_signed_v<T>> divide_;
};

/// A number of ranks that floats are divided by. The quotient of a NaN is any NaN.
template <typename T>
struct FloatDivisor {
  explicit FloatDivisor(std::uint64_t by)
      : number(static_cast<T>(by)), reciprocal(T{1} / static_cast<T>(by)), power_of_two((by & (by - 1)) == 0) {}
  template <class V>
  HWY_INLINE V divide(V value) const {
    const hn::DFromV<V> d;
    // A power of two has an exact reciprocal: product and quotient are the same number, rounded once.
    return power_of_two ? hn::Mul(value, hn::Set(d, reciprocal)) : hn::Div(value, hn::Set(d, number));
  }

  T number;
  T reciprocal;
  bool power_of_two;
};

/// Whether no number is subnormal or a NaN.
template <class V>
HWY_INLINE bool all_normal_or_zero(V value) {
  const hn::DFromV<V> d;
  const V least = hn::Set(d, std::numeric_limits<hn::LaneType<V>>::min());
  return hn::AllTrue(d, hn::Or(hn::Ge(hn::Abs(value), least), hn::Eq(value, hn::Zero(d))));
}
#if HWY_TARGET <= HWY_AVX3  // and what is above it; sets other than x86's have greater numbers
/// What fpclass is asked for.
inline constexpr int kNaNOrSubnormal = 0xa1;
HWY_INLINE bool all_normal_or_zero(hn::Vec512<float> value) {
  return _mm512_fpclass_ps_mask(value.raw, kNaNOrSubnormal) == 0;
}
HWY_INLINE bool all_normal_or_zero(hn::Vec512<double> value) {
  return _mm512_fpclass_pd_mask(value.raw, kNaNOrSubnormal) == 0;
}
#endif

#if HWY_ARCH_X86
/// Whether this thread takes subnormal results, or operands, for zero.
inline bool flushes_subnormals() { return (_mm_getcsr() & 0x8040) != 0; }
#else
inline bool flushes_subnormals() {
  volatile float least = std::numeric_limits<float>::min();
  return least / 2 == 0;
}
#endif

/// Floats by multiplication with the reciprocal r and a correction, where the set multiplies and adds with one rounding.
/// Both roundings of q = value · r leave it less than 2 units of its last place off, so value - q · by, a whole number of
/// such units, is exact for by < 2^20, and what is added to q is off by less than 2^-22 of one (float32; less in float64).
/// A quotient that is no subnormal number does not lie halfway between two neighbours, since `value` would need more bits
/// than it has; so it lies 1/(2 by) of a unit or more from there, and the sum is rounded as it is. Subnormal ones may lie
/// halfway: then, and for NaNs, it is divided, and so are all where subnormal numbers, as `excess` may be one, count as
/// zero. A sum of zero is right, as what lies halfway between zero and its neighbour is rounded to it. (The correction is
/// Markstein's, "Computation of elementary functions on the IBM RISC System/6000 processor", 1990.)
template <typename T>
class VectorDivider<T, true> {
 public:
  explicit VectorDivider(std::uint64_t by)
      : divisor_(by),
        corrects_(HWY_NATIVE_FMA != 0 && by < (std::uint64_t{1} << 20) && !divisor_.power_of_two && !flushes_subnormals()) {
  }
  template <class V>
  HWY_INLINE V operator()(V value) const {
    if (corrects_) {
      const hn::DFromV<V> d;
      const V reciprocal = hn::Set(d, divisor_.reciprocal);
      const V near = hn::Mul(value, reciprocal);
      const V excess = hn::MulSub(near, hn::Set(d, divisor_.number), value);
      const V quotient = hn::NegMulAdd(excess, reciprocal, near);  // in this order zeros keep their sign
      if (HWY_LIKELY(all_normal_or_zero(quotient))) return quotient;
    }
    return canonical_vector(divisor_.divide(value));
  }

 private:
  FloatDivisor<T> divisor_;
  bool corrects_;
};

// ---- Lanes of types that are folded in themselves ----------------------------------------------------------------------

/// ScalarLanes' interface (scalar_lanes.h) on vectors of at most kMaxBytes.
template <typename T, std::size_t kMaxBytes>
struct VectorLanes {
  using Element = T;
  using D = hn::CappedTag<T, kMaxBytes / sizeof(T)>;
  using Value = VectorOf<D>;
  using Divider = VectorDivider<T>;
  static constexpr std::size_t kCount = hn::MaxLanes(D());
  static constexpr bool kPartial = kCount * sizeof(T) == 16;

  static HWY_INLINE Value load(const std::uint8_t* from) { return load_bytes(D(), from); }
  static HWY_INLINE void store(std::uint8_t* to, Value value) { store_bytes(D(), value, to); }
  static HWY_INLINE void stream(std::uint8_t* to, Value value) { stream_bytes(D(), value, to); }

  /// Of vectors of 16 bytes only: the first `count` <= kCount elements; the others are unspecified numbers.
  static HWY_INLINE Value load_first(const std::uint8_t* from, std::size_t count) {
    return load_some(D(), from, count * sizeof(T));
  }
  static HWY_INLINE void store_first(std::uint8_t* to, Value value, std::size_t count) {
    store_some(D(), value, to, count * sizeof(T));
  }

  template <class Op>
  static HWY_INLINE Value prepare(Value value) {
    return prepared_for<Op>(value);
  }
  template <class Op>
  static HWY_INLINE Value restore(Value value) {
    return negated_for<Op>(value);
  }
  template <class Op>
  static HWY_INLINE Value combine(Value a, Value b) {
    return combine_vectors(Op(), a, b);
  }
  static HWY_INLINE Value canonicalize(Value value) { return canonical_vector(value); }
};

/// Of lanes whose operands are combined as they were loaded, and stored as they were combined.
struct UnpreparedLanes {
  template <class Op, class Value>
  static HWY_INLINE Value prepare(Value value) {
    return value;
  }
  template <class Op, class Value>
  static HWY_INLINE Value restore(Value value) {
    return value;
  }
};

/// The same for products of complex numbers, whose parts take turns in a vector.
template <typename Part, std::size_t kMaxBytes>
struct ComplexLanes : UnpreparedLanes {
  using Element = Complex<Part>;
  using D = hn::CappedTag<Part, kMaxBytes / sizeof(Part)>;
  using Value = VectorOf<D>;
  static constexpr std::size_t kCount = hn::MaxLanes(D()) / 2;
  static constexpr bool kPartial = kCount * sizeof(Element) == 16;

  static HWY_INLINE Value load(const std::uint8_t* from) { return load_bytes(D(), from); }
  static HWY_INLINE void store(std::uint8_t* to, Value value) { store_bytes(D(), value, to); }
  static HWY_INLINE void stream(std::uint8_t* to, Value value) { stream_bytes(D(), value, to); }
  static HWY_INLINE Value load_first(const std::uint8_t* from, std::size_t count) {
    return load_some(D(), from, count * sizeof(Element));
  }
  static HWY_INLINE void store_first(std::uint8_t* to, Value value, std::size_t count) {
    store_some(D(), value, to, count * sizeof(Element));
  }

  template <class Op>
  static HWY_INLINE Value combine(Value a, Value b) {
    static_assert(std::is_same_v<Op, Prod>);
    const Value real = hn::Mul(hn::DupEven(a), b);                         // ac, ad
    const Value imaginary = hn::Mul(hn::DupOdd(a), hn::Reverse2(D(), b));  // bd, bc
    return hn::OddEven(hn::Add(real, imaginary), hn::Sub(real, imaginary));
  }
  static HWY_INLINE Value canonicalize(Value value) { return canonical_vector(value); }
};

// ---- Lanes of narrow floats ------------------------------------------------------------------------------------------

/// Two vectors of float32.
template <class V>
struct Pair {
  V first;
  V second;
};

/// A NaN is looked for in both vectors at once; there is seldom one.
template <class V>
HWY_INLINE Pair<V> canonical_pair(Pair<V> value) {
  const V either = hn::Add(value.first, value.second);
  if (HWY_LIKELY(hn::AllTrue(hn::DFromV<V>(), hn::Eq(either, either)))) return value;
  return {canonical_vector(value.first), canonical_vector(value.second)};
}

/// Two vectors of float32 that lie one behind the other.
template <class D32>
HWY_INLINE Pair<VectorOf<D32>> load_in_order(D32 d, const std::uint8_t* from) {
  return {load_bytes(d, from), load_bytes(d, from + 4 * hn::MaxLanes(d))};
}
template <class D32>
HWY_INLINE void store_in_order(D32 d, Pair<VectorOf<D32>> value, std::uint8_t* to) {
  store_bytes(d, value.first, to);
  store_bytes(d, value.second, to + 4 * hn::MaxLanes(d));
}

/// The processor's own conversion to bfloat16, for vectors of V if kKnown.
template <class V>
struct BFloat16Conversion {
  static constexpr bool kKnown = false;
};

#if HWY_TARGET <= HWY_AVX3
/// AVX512-BF16's, which the sets of Highway 1.0 do not include.
template <>
struct BFloat16Conversion<hn::Vec512<float>> {
  using V = hn::Vec512<float>;
  static constexpr bool kKnown = true;
  static inline const bool there = __builtin_cpu_supports("avx512bf16");

  /// Whether it gives what is asked for here: it is there, and none is a NaN, whose payload it keeps, or subnormal, which
  /// it takes for zero.
  static HWY_INLINE bool suits(Pair<V> value) {
    // In general registers: moved there, masks cost less than put together where they are (Zen 5: .91 of the time).
    return there && (_mm512_fpclass_ps_mask(value.first.raw, kNaNOrSubnormal) |
                     _mm512_fpclass_ps_mask(value.second.raw, kNaNOrSubnormal)) == 0;
  }
  /// Puts the second vector's numbers behind the first's, and then in turns. An instruction by its name, since compilers
  /// know it in functions of another set only.
  static HWY_INLINE hn::Vec512<std::uint16_t> narrow(Pair<V> value) {
    alignas(64) static constexpr std::uint16_t kInTurns[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                               21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                               11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    __m512i halves;
    asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(halves) : "v"(value.second.raw), "v"(value.first.raw));
    return hn::Vec512<std::uint16_t>{_mm512_permutexvar_epi16(_mm512_load_si512(kInTurns), halves)};
  }
};
#endif

/// bfloat16 <-> float32. The pair holds the even and the odd elements, so that neither way needs to cross lanes.
template <class D32>
struct BFloat16Format {
  using V = VectorOf<D32>;
  using D16 = hn::Repartition<std::uint16_t, D32>;
  using Bits = D16;
  using DU32 = hn::RebindToUnsigned<D32>;

  static HWY_INLINE Pair<V> widen(VectorOf<D16> narrow) {
    const DU32 du;
    const auto both = hn::BitCast(du, narrow);
    return {hn::BitCast(D32(), hn::ShiftLeft<16>(both)), hn::BitCast(D32(), hn::And(both, hn::Set(du, 0xffff0000u)))};
  }
  /// To nearest even; NaNs become canonical.
  static HWY_INLINE VectorOf<D16> narrow(Pair<V> value) {
    using Processor = BFloat16Conversion<V>;
    if constexpr (Processor::kKnown) {
      if (HWY_LIKELY(Processor::suits(value))) return Processor::narrow(value);
    }
    return rounded(canonical_pair(value));
  }
  static HWY_INLINE Pair<V> load_narrow(const std::uint8_t* from) { return widen(load_bytes(D16(), from)); }
  /// Between the pair and its elements in order, for vectors of 16 bytes.
  static HWY_INLINE Pair<V> from_order(Pair<V> ordered) {
    return {hn::ConcatEven(D32(), ordered.second, ordered.first), hn::ConcatOdd(D32(), ordered.second, ordered.first)};
  }
  static HWY_INLINE Pair<V> to_order(Pair<V> value) {
    return {hn::InterleaveLower(D32(), value.first, value.second), hn::InterleaveUpper(D32(), value.first, value.second)};
  }

 private:
  /// Of canonical values only: the rounding carries into no NaN. In 16-bit lanes: up where the lower half is above one half
  /// of the last place, or just that and the last place odd.
  static HWY_INLINE VectorOf<D16> rounded(Pair<V> value) {
    const DU32 du;
    const D16 d16;
    const auto even = hn::BitCast(du, value.first);
    const auto odd = hn::BitCast(du, value.second);
    const auto upper = hn::OddEven(hn::BitCast(d16, odd), hn::BitCast(d16, hn::ShiftRight<16>(even)));
    const auto lower = hn::OddEven(hn::BitCast(d16, hn::ShiftLeft<16>(odd)), hn::BitCast(d16, even));
    const auto sticky = hn::Or(lower, hn::And(upper, hn::Set(d16, 1)));
    const auto up = hn::Gt(sticky, hn::Set(d16, 0x8000));
    return hn::IfThenElse(up, hn::Add(upper, hn::Set(d16, 1)), upper);
  }
};

/// Whether the instruction set converts float16 itself: exact one way, to nearest even with subnormals the other way.
inline constexpr bool kConvertsFloat16 = HWY_TARGET <= HWY_AVX2;  // and what is above it

/// float16 <-> float32. The pair holds the elements in order.
template <class D32>
struct Float16Format {
  using V = VectorOf<D32>;
  using D16 = hn::Repartition<std::uint16_t, D32>;
  using Bits = D16;
  using DHalf = hn::Half<D16>;
  using DU32 = hn::RebindToUnsigned<D32>;

  static HWY_INLINE Pair<V> widen(VectorOf<D16> narrow) {
    return {widen_half(hn::LowerHalf(DHalf(), narrow)), widen_half(hn::UpperHalf(DHalf(), narrow))};
  }
  /// To nearest even; NaNs become canonical.
  static HWY_INLINE VectorOf<D16> narrow(Pair<V> value) {
    const Pair<V> numbers = canonical_pair(value);
    return hn::Combine(D16(), narrow_half(numbers.second), narrow_half(numbers.first));
  }
  static HWY_INLINE Pair<V> load_narrow(const std::uint8_t* from) {
    // Halves of their own: conversions read memory faster than they take a vector apart.
    return {widen_half(load_bytes(DHalf(), from)), widen_half(load_bytes(DHalf(), from + 2 * hn::MaxLanes(D32())))};
  }
  static HWY_INLINE Pair<V> from_order(Pair<V> ordered) { return ordered; }
  static HWY_INLINE Pair<V> to_order(Pair<V> value) { return value; }

  static HWY_INLINE V widen_half(VectorOf<DHalf> narrow) {
    if constexpr (kConvertsFloat16) {
      return hn::PromoteTo(D32(), hn::BitCast(hn::Rebind<hwy::float16_t, D32>(), narrow));
    } else {
      return widen_by_integers(hn::PromoteTo(DU32(), narrow));
    }
  }

 private:
  static HWY_INLINE VectorOf<DHalf> narrow_half(V value) {
    if constexpr (kConvertsFloat16) {
      return hn::BitCast(DHalf(), hn::DemoteTo(hn::Rebind<hwy::float16_t, D32>(), value));
    } else {
      // The value fits 16 bits as an unsigned number; the signed one of the same low half is what DemoteTo keeps whole.
      const hn::RebindToSigned<D32> di;
      const auto bits = hn::BitCast(di, narrow_by_integers(hn::BitCast(DU32(), value)));
      const auto extended = hn::ShiftRight<16>(hn::ShiftLeft<16>(bits));
      return hn::BitCast(DHalf(), hn::DemoteTo(hn::Rebind<std::int16_t, D32>(), extended));
    }
  }
  /// elements.h's widen, with selections for its branches.
  static V widen_by_integers(VectorOf<DU32> narrow) {
    const DU32 du;
    const auto bias = hn::Set(du, 0x38000000u);
    const auto sign = hn::ShiftLeft<16>(hn::And(narrow, hn::Set(du, 0x8000u)));
    const auto magnitude = hn::ShiftLeft<13>(hn::And(narrow, hn::Set(du, 0x7fffu)));
    const auto exponent = hn::And(magnitude, hn::Set(du, 0x0f800000u));
    const auto normal = hn::Add(magnitude, bias);
    const auto special = hn::Add(normal, bias);
    const auto shifted = hn::BitCast(D32(), hn::Add(normal, hn::Set(du, 0x00800000u)));
    const auto subnormal = hn::BitCast(du, hn::Sub(shifted, hn::BitCast(D32(), hn::Set(du, 0x38800000u))));
    const auto finite = hn::IfThenElse(hn::Eq(exponent, hn::Zero(du)), subnormal, normal);
    const auto wide = hn::IfThenElse(hn::Eq(exponent, hn::Set(du, 0x0f800000u)), special, finite);
    return hn::BitCast(D32(), hn::Or(sign, wide));
  }
  /// elements.h's narrow of canonical values, with selections for its branches.
  static VectorOf<DU32> narrow_by_integers(VectorOf<DU32> bits) {
    const DU32 du;
    const hn::RebindToSigned<D32> di;  // magnitudes compare alike as signed numbers, which every set can
    const auto sign = hn::And(bits, hn::Set(du, 0x80000000u));
    const auto magnitude = hn::Xor(bits, sign);
    const auto ordered = hn::BitCast(di, magnitude);
    const auto infinite = hn::RebindMask(du, hn::Gt(ordered, hn::Set(di, 0x477fffff)));
    const auto nan = hn::RebindMask(du, hn::Gt(ordered, hn::Set(di, 0x7f800000)));
    const auto tiny = hn::RebindMask(du, hn::Lt(ordered, hn::Set(di, 0x38800000)));
    const auto special = hn::IfThenElse(nan, hn::Set(du, 0x7e00u), hn::Set(du, 0x7c00u));
    const auto half = hn::Set(D32(), 0.5f);
    const auto subnormal = hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(D32(), magnitude), half)), hn::Set(du, 0x3f000000u));
    const auto last_place = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1));
    const auto rounding = hn::Set(du, 0xfffu - 0x38000000u);  // the change of bias with it; wraps
    const auto normal = hn::ShiftRight<13>(hn::Add(hn::Add(magnitude, rounding), last_place));
    const auto finite = hn::IfThenElse(tiny, subnormal, normal);
    return hn::Or(hn::IfThenElse(infinite, special, finite), hn::ShiftRight<16>(sign));
  }
};

/// An 8-bit float T <-> float32. The pair holds the elements in order.
template <class D32, typename T>
struct Float8Format {
  using V = VectorOf<D32>;
  using Narrow = Float8Layout<T>;
  using Bits = hn::CappedTag<std::uint8_t, 2 * hn::MaxLanes(D32())>;
  using DHalf = hn::Half<Bits>;
  using D16 = hn::Rebind<std::uint16_t, D32>;
  using DU32 = hn::RebindToUnsigned<D32>;

  static HWY_INLINE Pair<V> widen(VectorOf<Bits> narrow) {
    return {widen_half(hn::LowerHalf(DHalf(), narrow)), widen_half(hn::UpperHalf(DHalf(), narrow))};
  }
  /// To nearest even; NaNs become canonical.
  static HWY_INLINE VectorOf<Bits> narrow(Pair<V> value) {
    const Pair<V> numbers = canonical_pair(value);
    return hn::Combine(Bits(), narrow_half(numbers.second), narrow_half(numbers.first));
  }
  static HWY_INLINE Pair<V> load_narrow(const std::uint8_t* from) {
    return {widen_half(load_bytes(DHalf(), from)), widen_half(load_bytes(DHalf(), from + hn::MaxLanes(DHalf())))};
  }
  static HWY_INLINE Pair<V> from_order(Pair<V> ordered) { return ordered; }
  static HWY_INLINE Pair<V> to_order(Pair<V> value) { return value; }

 private:
  /// elements.h's widen, with a selection for its branch.
  static HWY_INLINE V widen_half(VectorOf<DHalf> narrow) {
    const D16 d16;
    const auto bits = hn::PromoteTo(d16, narrow);
    if constexpr (std::is_same_v<T, Float8E5M2>) {
      return Float16Format<D32>::widen_half(hn::ShiftLeft<8>(bits));
    } else {
      const auto sign = hn::ShiftLeft<8>(hn::And(bits, hn::Set(d16, 0x80)));
      const auto magnitude = hn::ShiftLeft<7>(hn::And(bits, hn::Set(d16, 0x7f)));
      const V value = hn::Mul(Float16Format<D32>::widen_half(hn::Or(sign, magnitude)), hn::Set(D32(), 256.0f));
      return hn::IfThenElse(hn::Gt(hn::Abs(value), hn::Set(D32(), 448.0f)), hn::Set(D32(), quiet_nan<float>()), value);
    }
  }
  /// elements.h's narrow_to_8_bits, with selections for its branches.
  static HWY_INLINE VectorOf<DHalf> narrow_half(V value) {
    constexpr int kDropped = 23 - Narrow::kFraction;
    constexpr std::uint32_t kMagic = Narrow::kLeastNormal + (static_cast<std::uint32_t>(kDropped) << 23);
    constexpr std::uint32_t kRounding = (1u << (kDropped - 1)) - 1 - (Narrow::kLeastNormal - (1u << 23));  // wraps
    const DU32 du;
    const hn::RebindToSigned<D32> di;  // magnitudes compare alike as signed numbers, which every set can
    const auto bits = hn::BitCast(du, value);
    const auto sign = hn::And(bits, hn::Set(du, 0x80000000u));
    const auto magnitude = hn::Xor(bits, sign);
    const auto ordered = hn::BitCast(di, magnitude);
    const auto last_place = hn::And(hn::ShiftRight<kDropped>(magnitude), hn::Set(du, 1));
    const auto normal = hn::ShiftRight<kDropped>(hn::Add(hn::Add(magnitude, hn::Set(du, kRounding)), last_place));
    const auto bounded = hn::Min(hn::BitCast(di, normal), hn::Set(di, Narrow::kOverflow));
    const V shifted = hn::Add(hn::BitCast(D32(), magnitude), hn::BitCast(D32(), hn::Set(du, kMagic)));
    const auto subnormal = hn::Sub(hn::BitCast(di, shifted), hn::Set(di, static_cast<std::int32_t>(kMagic)));
    const auto tiny = hn::Lt(ordered, hn::Set(di, static_cast<std::int32_t>(Narrow::kLeastNormal)));
    const auto number = hn::IfThenElse(tiny, subnormal, bounded);
    const auto with_sign = hn::Or(number, hn::BitCast(di, hn::ShiftRight<24>(sign)));
    auto nan = hn::Gt(ordered, hn::Set(di, 0x7f800000));
    if constexpr (Narrow::kOverflow == Narrow::kNaN) nan = hn::Or(nan, hn::Eq(number, hn::Set(di, Narrow::kNaN)));
    return hn::DemoteTo(DHalf(), hn::IfThenElse(nan, hn::Set(di, Narrow::kNaN), with_sign));
  }
};
template <class D32>
using Float8E4M3Format = Float8Format<D32, Float8E4M3>;
template <class D32>
using Float8E5M2Format = Float8Format<D32, Float8E5M2>;

/// The sum, by the units that multiply: those that add are busy with conversions (Zen 4: .9 of the time).
template <class V>
HWY_INLINE V sum_beside_conversions(V a, V b) {
  if constexpr (HWY_NATIVE_FMA) {
    return hn::MulAdd(a, hn::Set(hn::DFromV<V>(), 1.0f), b);
  } else {
    return hn::Add(a, b);
  }
}

/// ScalarLanes' interface for a narrow float, in pairs of float32 vectors of at most kMaxBytes.
template <typename T, template <class> class Format, std::size_t kMaxBytes>
struct NarrowLanes {
  using Element = T;
  using D32 = hn::CappedTag<float, kMaxBytes / sizeof(float)>;
  using F = Format<D32>;
  using V = VectorOf<D32>;
  using Value = Pair<V>;
  static constexpr std::size_t kCount = 2 * hn::MaxLanes(D32());
  static constexpr bool kPartial = kCount == 8;

  /// Divides: there is enough to do beside that, and nothing else that the dividing unit would do.
  class Divider {
   public:
    explicit Divider(std::uint64_t by) : divisor_(by) {}
    HWY_INLINE Value operator()(Value value) const { return {divisor_.divide(value.first), divisor_.divide(value.second)}; }

   private:
    FloatDivisor<float> divisor_;
  };

  static HWY_INLINE Value load(const std::uint8_t* from) { return F::load_narrow(from); }
  static HWY_INLINE void store(std::uint8_t* to, Value value) { store_bytes(typename F::Bits(), F::narrow(value), to); }
  static HWY_INLINE void stream(std::uint8_t* to, Value value) { stream_bytes(typename F::Bits(), F::narrow(value), to); }

  static HWY_INLINE Value load_first(const std::uint8_t* from, std::size_t count) {
    return F::widen(load_some(typename F::Bits(), from, sizeof(T) * count));
  }
  static HWY_INLINE void store_first(std::uint8_t* to, Value value, std::size_t count) {
    store_some(typename F::Bits(), F::narrow(value), to, sizeof(T) * count);
  }

  template <class Op>
  static HWY_INLINE Value prepare(Value value) {
    return {negated_for<Op>(value.first), negated_for<Op>(value.second)};
  }
  template <class Op>
  static HWY_INLINE Value restore(Value value) {
    return prepare<Op>(value);
  }
  template <class Op>
  static HWY_INLINE Value combine(Value a, Value b) {
    if constexpr (std::is_same_v<Op, Sum>) {
      return {sum_beside_conversions(a.first, b.first), sum_beside_conversions(a.second, b.second)};
    } else {
      return {combine_vectors(Op(), a.first, b.first), combine_vectors(Op(), a.second, b.second)};
    }
  }
  static HWY_INLINE Value canonicalize(Value value) { return value; }  ///< what stores do
};

/// A narrow float's bits as a signed integer: the sign, the greatest that is no NaN, and the NaN that folds write.
template <typename T>
struct NarrowBits {
  using Lane = std::int8_t;
  static constexpr unsigned kSign = 0x80;
  static constexpr Lane kGreatest = Float8Layout<T>::kGreatest;
  static constexpr Lane kQuiet = Float8Layout<T>::kNaN;
};
template <>
struct NarrowBits<Float16> {
  using Lane = std::int16_t;
  static constexpr unsigned kSign = 0x8000;
  static constexpr Lane kGreatest = 0x7c00;
  static constexpr Lane kQuiet = 0x7e00;
};
template <>
struct NarrowBits<BFloat16> {
  using Lane = std::int16_t;
  static constexpr unsigned kSign = 0x8000;
  static constexpr Lane kGreatest = 0x7f80;
  static constexpr Lane kQuiet = 0x7fc0;
};
/// ScalarLanes' interface for the smaller or larger of narrow floats: on their bits, so that
/// nothing is widened.
///
/// Bits of sign and magnitude order as signed integers do while a number is positive, and as unsigned ones backwards where
/// all are negative. So the smaller of any numbers is the signed least if that is positive, else the unsigned greatest;
/// the larger is the signed greatest if that is positive, else the unsigned least. There was a positive NaN if the signed
/// greatest is one, and a negative NaN if the unsigned greatest is one.
template <typename T, std::size_t kMaxBytes>
struct ExtremeLanes {
  using Element = T;
  using Bits = NarrowBits<T>;
  using Lane = typename Bits::Lane;
  using D = hn::CappedTag<Lane, kMaxBytes / sizeof(T)>;
  using V = VectorOf<D>;
  struct Value {
    V least;     ///< for the smaller one: signed; for the larger one: unsigned
    V greatest;  ///< signed
    V unsigned_greatest;
  };
  static constexpr std::size_t kCount = hn::MaxLanes(D());
  static constexpr bool kPartial = kCount * sizeof(T) == 16;

  static HWY_INLINE Value load(const std::uint8_t* from) { return same(load_bytes(D(), from)); }
  static HWY_INLINE void store(std::uint8_t* to, Value value) { store_bytes(D(), value.least, to); }
  static HWY_INLINE void stream(std::uint8_t* to, Value value) { stream_bytes(D(), value.least, to); }
  static HWY_INLINE Value load_first(const std::uint8_t* from, std::size_t count) {
    return same(load_some(D(), from, sizeof(T) * count));
  }
  static HWY_INLINE void store_first(std::uint8_t* to, Value value, std::size_t count) {
    store_some(D(), value.least, to, sizeof(T) * count);
  }
  template <class Op>
  static HWY_INLINE Value prepare(Value value) {
    return value;
  }
  template <class Op>
  static HWY_INLINE Value combine(Value a, Value b) {
    const V least = std::is_same_v<Op, Min> ? hn::Min(a.least, b.least)
                                            : hn::BitCast(D(), hn::Min(as_unsigned(a.least), as_unsigned(b.least)));
    return {least, hn::Max(a.greatest, b.greatest),
            hn::BitCast(D(), hn::Max(as_unsigned(a.unsigned_greatest), as_unsigned(b.unsigned_greatest)))};
  }
  /// The number or the NaN that folds write, in all three.
  template <class Op>
  static HWY_INLINE Value restore(Value value) {
    const hn::RebindToUnsigned<D> du;
    const V number = std::is_same_v<Op, Min> ? hn::IfNegativeThenElse(value.least, value.unsigned_greatest, value.least)
                                             : hn::IfNegativeThenElse(value.greatest, value.least, value.greatest);
    constexpr auto kMostNegative = static_cast<std::make_unsigned_t<Lane>>(Bits::kSign | Bits::kGreatest);
    const auto positive = hn::Gt(value.greatest, hn::Set(D(), Bits::kGreatest));
    const auto negative = hn::Gt(as_unsigned(value.unsigned_greatest), hn::Set(du, kMostNegative));
    return same(hn::IfThenElse(hn::Or(positive, hn::RebindMask(D(), negative)), hn::Set(D(), Bits::kQuiet), number));
  }
  static HWY_INLINE Value canonicalize(Value value) { return value; }

 private:
  static HWY_INLINE Value same(V bits) { return {bits, bits, bits}; }
  static HWY_INLINE auto as_unsigned(V bits) { return hn::BitCast(hn::RebindToUnsigned<D>(), bits); }
};

/// ScalarLanes' interface for sums of an 8-bit float T, of two operands or of any number. An instruction makes float32 of
/// float16 and back; what remains is done in lanes of 16 and 8 bits, for even and odd bytes apart:
///
///     E5M2  s eeeee ff    = the upper half of a float16
///     E4M3  s eeee fff    = float16 s 0 eeee fff 0000000, times 2^8
///
/// Sums are multiples of the least number, so none is rounded below the normal ones. (Quotients would be.) A float16 has
/// seven bits more than E4M3 and eight more than E5M2. So a sum of two is exact in it, or its smaller operand changes no
/// bit that is kept: rounding it twice rounds right. Sums of more operands are first rounded to odd, which remembers that
/// they were not exact (Boldo & Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
template <typename T, std::size_t kMaxBytes, bool kTwo>
struct Float8SumLanes : UnpreparedLanes {
  using Element = T;
  using D = hn::CappedTag<std::uint8_t, kMaxBytes>;
  using D16 = hn::Repartition<std::uint16_t, D>;
  using DHalf = hn::Half<D16>;
  using D32 = hn::Repartition<float, D>;
  using DFloat16 = hn::Rebind<hwy::float16_t, D32>;
  using V = VectorOf<D32>;
  using Words = VectorOf<D16>;
  struct Value {
    Pair<V> even;
    Pair<V> odd;
    VectorOf<D> greatest;  ///< of E4M3: the operands' greatest magnitude, as bits; their NaN is no float16's
  };
  static constexpr std::size_t kCount = hn::MaxLanes(D());
  static constexpr bool kPartial = kCount == 16;

  static HWY_INLINE Value load(const std::uint8_t* from) { return widen(load_bytes(D(), from)); }
  static HWY_INLINE void store(std::uint8_t* to, Value value) { store_bytes(D(), narrow(value), to); }
  static HWY_INLINE void stream(std::uint8_t* to, Value value) { stream_bytes(D(), narrow(value), to); }
  static HWY_INLINE Value load_first(const std::uint8_t* from, std::size_t count) {
    return widen(load_some(D(), from, count));
  }
  static HWY_INLINE void store_first(std::uint8_t* to, Value value, std::size_t count) {
    store_some(D(), narrow(value), to, count);
  }
  template <class Op>
  static HWY_INLINE Value combine(Value a, Value b) {
    static_assert(std::is_same_v<Op, Sum>);
    return {sum(a.even, b.even), sum(a.odd, b.odd), hn::Max(a.greatest, b.greatest)};
  }
  static HWY_INLINE Value canonicalize(Value value) { return value; }  ///< what stores do

 private:
  static constexpr bool kIsE4M3 = std::is_same_v<T, Float8E4M3>;
  using Narrow = Float8Layout<T>;

  static HWY_INLINE Pair<V> sum(Pair<V> a, Pair<V> b) {
    return {sum_beside_conversions(a.first, b.first), sum_beside_conversions(a.second, b.second)};
  }

  static HWY_INLINE Value widen(VectorOf<D> bytes) {
    const auto odd = hn::BitCast(D16(), bytes);
    const auto even = hn::ShiftLeft<8>(odd);
    return {widen_words(kIsE4M3 ? as_float16(even) : even), widen_words(as_float16(odd)),
            hn::And(bytes, hn::Set(D(), 0x7f))};
  }
  /// The words' upper bytes; for E5M2 the lower ones only have to go.
  static HWY_INLINE Words as_float16(Words words) {
    if constexpr (kIsE4M3) {
      const hn::RebindToSigned<D16> di;
      words = hn::BitCast(D16(), hn::ShiftRight<1>(hn::BitCast(di, words)));
    }
    return hn::And(words, hn::Set(D16(), kIsE4M3 ? 0xbf80 : 0xff00));
  }
  static HWY_INLINE Pair<V> widen_words(Words words) {
    const auto half = [](VectorOf<DHalf> bits) { return hn::PromoteTo(D32(), hn::BitCast(DFloat16(), bits)); };
    return {half(hn::LowerHalf(DHalf(), words)), half(hn::UpperHalf(DHalf(), words))};
  }

  static HWY_INLINE VectorOf<D> narrow(Value value) {
    const Words even = rounded(value.even);
    const Words odd = rounded(value.odd);
    const auto sevens = hn::Set(D(), 0x7f);
    const auto nan = hn::Set(D(), static_cast<std::uint8_t>(Narrow::kNaN));
    const auto signs = upper_bytes(even, odd);
    if constexpr (kIsE4M3) {
      // One bit to the left the magnitudes are in the upper bytes; what is larger is a NaN.
      const auto bounded = [](Words words) { return hn::Min(hn::ShiftLeft<1>(words), hn::Set(D16(), 0x7fff)); };
      const auto magnitudes = upper_bytes(bounded(even), bounded(odd));
      const auto is_nan = hn::Eq(hn::Max(magnitudes, value.greatest), nan);
      return hn::IfThenElse(is_nan, nan, hn::Or(magnitudes, hn::AndNot(sevens, signs)));
    } else {
      const hn::RebindToSigned<D> di;
      const auto is_nan = hn::Gt(hn::BitCast(di, hn::And(signs, sevens)), hn::Set(di, Narrow::kGreatest));
      return hn::IfThenElse(hn::RebindMask(D(), is_nan), nan, signs);
    }
  }
  static HWY_INLINE VectorOf<D> upper_bytes(Words even, Words odd) {
    return hn::OddEven(hn::BitCast(D(), odd), hn::BitCast(D(), hn::ShiftRight<8>(even)));
  }
  /// As float16, rounded to the bits that are kept, to nearest even.
  static HWY_INLINE Words rounded(Pair<V> value) {
    constexpr int kDropped = 10 - Narrow::kFraction;
    const auto half = [](V x) { return hn::BitCast(DHalf(), hn::DemoteTo(DFloat16(), to_odd(x))); };
    const Words words = hn::Combine(D16(), half(value.second), half(value.first));
    const Words last_place = hn::And(hn::ShiftRight<kDropped>(words), hn::Set(D16(), 1));
    return hn::Add(hn::Add(words, hn::Set(D16(), (1 << (kDropped - 1)) - 1)), last_place);
  }
  /// What a float16 has no room for makes its last place odd.
  static HWY_INLINE V to_odd(V value) {
    if constexpr (kTwo) return value;
    const hn::RebindToUnsigned<D32> du;
    const auto dropped = hn::Set(du, 0x1fff);
    const auto bits = hn::BitCast(du, value);
    const auto sticky = hn::Add(hn::And(bits, dropped), dropped);
    return hn::BitCast(D32(), hn::AndNot(dropped, hn::Or(bits, sticky)));
  }
};

template <typename T, std::size_t kMaxBytes>
struct LanesFor {
  using Type = VectorLanes<T, kMaxBytes>;
};
template <std::size_t kMaxBytes>
struct LanesFor<Float16, kMaxBytes> {
  using Type = NarrowLanes<Float16, Float16Format, kMaxBytes>;
};
template <std::size_t kMaxBytes>
struct LanesFor<BFloat16, kMaxBytes> {
  using Type = NarrowLanes<BFloat16, BFloat16Format, kMaxBytes>;
};
template <std::size_t kMaxBytes>
struct LanesFor<Float8E4M3, kMaxBytes> {
  using Type = NarrowLanes<Float8E4M3, Float8E4M3Format, kMaxBytes>;
};
template <std::size_t kMaxBytes>
struct LanesFor<Float8E5M2, kMaxBytes> {
  using Type = NarrowLanes<Float8E5M2, Float8E5M2Format, kMaxBytes>;
};
template <typename Part, std::size_t kMaxBytes>
struct LanesFor<Complex<Part>, kMaxBytes> {
  using Type = ComplexLanes<Part, kMaxBytes>;
};

/// The widest lanes of this instruction set, and those of 16 bytes for what is shorter: by any operator...
template <typename T>
using AnyLanes = typename LanesFor<T, 64>::Type;
template <typename T>
using ShortAnyLanes = typename LanesFor<T, 16>::Type;

/// ... and by one, which may do better.
template <class Op>
inline constexpr bool kCompares = std::is_same_v<Op, Min> || std::is_same_v<Op, Max>;
template <typename T, class Op>
inline constexpr bool kSumsFloat8 = kWidens<T> && sizeof(T) == 1 && std::is_same_v<Op, Sum> && kConvertsFloat16;
template <typename T, class Op, std::size_t kMaxBytes, bool kTwo>
using LanesOf = std::conditional_t<
    kWidens<T> && kCompares<Op>, ExtremeLanes<T, kMaxBytes>,
    std::conditional_t<kSumsFloat8<T, Op>, Float8SumLanes<T, kMaxBytes, kTwo>, typename LanesFor<T, kMaxBytes>::Type>>;
template <typename T, class Op, bool kTwo = false>
using WideLanes = LanesOf<T, Op, 64, kTwo>;
template <typename T, class Op, bool kTwo = false>
using ShortLanes = LanesOf<T, Op, 16, kTwo>;

}  // namespace HWY_NAMESPACE
}  // namespace tutti
HWY_AFTER_NAMESPACE();
