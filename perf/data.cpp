#include "perf/data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <optional>
#include <span>

#include "src/tables/element_types.h"

namespace tutti::perf {
namespace {

// Elements are made in blocks of 64-bit integers or float64 that stay in the first cache.
constexpr uint64_t kBlock = 512;
// Those of the user's own operators are as many as have so many bytes.
constexpr uint64_t kUserBytes = 4 * kMostUserBytes;

// A full-avalanche 32-bit mix (Wellons' "lowbias32"): 32-bit multiplications, so that compilers can use vectors.
inline uint32_t mix(uint32_t h) {
  h ^= h >> 16;
  h *= 0x7feb352du;
  h ^= h >> 15;
  h *= 0x846ca68bu;
  h ^= h >> 16;
  return h;
}

// A stream of random words, one for each index.
class Words {
 public:
  Words(uint32_t seed, uint32_t stream) : base_(mix(seed * 0x9e3779b9u + mix(stream + 1))) {}
  uint32_t operator[](uint64_t index) const {
    return mix((static_cast<uint32_t>(index) * 0x9e3779b1u) ^ (static_cast<uint32_t>(index >> 32) * 0xc2b2ae3du) ^ base_);
  }

 private:
  uint32_t base_;
};

constexpr uint32_t kHighWords = 0x40000000u;    // the upper halves of 64-bit elements
constexpr uint32_t kCommonWords = 0x80000000u;  // what all ranks agree on about an index

struct Traits {
  int bits;
  bool is_float;
  bool is_signed;
  double exact;  // whole numbers up to here are elements of the type
};

ElementKind kind_of(tutti_type type) { return element_type_info(type).kind; }

Traits traits(tutti_type type) {
  const ElementTypeInfo row = element_type_info(type);
  const bool is_float = row.kind == ElementKind::floating;
  // Folds of integers are compared as float64 has them.
  const double exact = std::ldexp(1.0, std::min(row.digits, 53)) - (is_float || row.digits > 53 ? 0 : 1);
  return {8 * row.size, is_float, row.kind != ElementKind::unsigned_integer, exact};
}

// Values whose sum over all operands never leaves `exact`: each is within `amplitude`, and of more operands than there
// is room for only one in `stride` is not zero.
struct Bound {
  uint32_t amplitude;
  uint32_t stride;
};

// The rank's operands are multiplied by it.
int scalar_of(const Pattern& pattern, int rank) { return pattern.op == kPreMulSum ? 1 + rank % 2 : 1; }

Bound sum_bound(const Traits& type, const Pattern& pattern) {
  const int most = pattern.all_operands() * (pattern.op == kPreMulSum ? 2 : 1);
  const double each = type.exact / most;
  if (each >= 1) return {static_cast<uint32_t>(std::min(each, 1073741823.0)), 1};
  return {1, static_cast<uint32_t>(std::ceil(most / type.exact))};
}

// A whole number in [-amplitude, amplitude], or in [0, amplitude], by scaling a random word.
inline int64_t bounded(uint32_t word, uint32_t amplitude, bool is_signed) {
  const uint64_t values = is_signed ? 2 * uint64_t{amplitude} + 1 : uint64_t{amplitude} + 1;
  const int64_t value = static_cast<int64_t>((word * values) >> 32);
  return is_signed ? value - int64_t{amplitude} : value;
}

template <class Wide>
void bounded_inputs(const Pattern& pattern, const Traits& type, Bound bound, int operand, uint64_t index, uint64_t n,
                    Wide* out) {
  const Words words(pattern.seed, static_cast<uint32_t>(operand));
  for (uint64_t k = 0; k < n; ++k) {
    const uint64_t i = index + k;
    const bool zero = bound.stride > 1 && (i + static_cast<uint64_t>(operand)) % bound.stride != 0;
    out[k] = zero ? Wide{0} : static_cast<Wide>(bounded(words[i], bound.amplitude, type.is_signed));
  }
}

// Truth values fold as logical operators do.
tutti_op op_of(const Pattern& pattern) {
  if (kind_of(pattern.type) != ElementKind::boolean) return pattern.op;
  switch (pattern.op) {
    case TUTTI_SUM:
    case TUTTI_MAX:
    case TUTTI_BITWISE_OR:
      return TUTTI_LOGICAL_OR;
    case TUTTI_PROD:
    case TUTTI_MIN:
    case TUTTI_BITWISE_AND:
      return TUTTI_LOGICAL_AND;
    case TUTTI_BITWISE_XOR:
      return TUTTI_LOGICAL_XOR;
    default:
      return pattern.op;
  }
}

bool is_logical(tutti_op op) { return op == TUTTI_LOGICAL_AND || op == TUTTI_LOGICAL_OR || op == TUTTI_LOGICAL_XOR; }

// Whether a random word is true: so often that what a logical operator makes of all operands is true and false by turns.
bool is_true(tutti_op op, uint32_t word, int operands) {
  const uint64_t choices = op == TUTTI_LOGICAL_XOR ? 2 : static_cast<uint64_t>(std::max(operands, 2));
  const bool first = (word * choices) >> 32 == 0;
  return op == TUTTI_LOGICAL_AND ? !first : first;
}

uint64_t raw_bits(const Words& low, const Words& high, int bits, uint64_t i) {
  return bits == 64 ? (uint64_t{high[i]} << 32) | low[i] : low[i];
}

// Integers as 64-bit ones: sign- or zero-extended, so that they compare as themselves.
void wide_inputs(const Pattern& pattern, int operand, uint64_t index, uint64_t n, uint64_t* out) {
  const Traits type = traits(pattern.type);
  if (pattern.op == TUTTI_AVG) {
    bounded_inputs(pattern, type, sum_bound(type, pattern), operand, index, n, out);
    return;
  }
  const Words low(pattern.seed, static_cast<uint32_t>(operand));
  const Words high(pattern.seed, static_cast<uint32_t>(operand) | kHighWords);
  const tutti_op op = op_of(pattern);
  if (is_logical(op)) {
    const bool is_bool = kind_of(pattern.type) == ElementKind::boolean;
    for (uint64_t k = 0; k < n; ++k) {
      // Low bits, which the choice does not follow from.
      const uint64_t any =
          is_bool ? 1 : (raw_bits(low, high, type.bits, index + k) & ((uint64_t{1} << type.bits / 2) - 1)) | 1;
      out[k] = is_true(op, low[index + k], pattern.all_operands()) ? any : 0;
    }
    return;
  }
  const int shift = 64 - type.bits;
  const uint64_t odd = pattern.op == TUTTI_PROD ? 1 : 0;
  for (uint64_t k = 0; k < n; ++k) {
    const uint64_t top = (raw_bits(low, high, type.bits, index + k) | odd) << shift;
    out[k] = type.is_signed ? static_cast<uint64_t>(static_cast<int64_t>(top) >> shift) : top >> shift;
  }
}

// Signed powers of two: of every index at most 12 operands have an exponent of +-1 and one has a fraction of three
// bits, so that no order of multiplying leaves float16's or bfloat16's exact range. Floats of 8 bits have fewer of both.
void power_inputs(const Pattern& pattern, int operand, uint64_t index, uint64_t n, double* out) {
  const Words own(pattern.seed, static_cast<uint32_t>(operand));
  const Words common(pattern.seed, kCommonWords);
  const uint32_t operands = static_cast<uint32_t>(pattern.all_operands());
  const uint32_t most = pattern.type == TUTTI_FLOAT8_E4M3 ? 6 : 12;
  const uint32_t stride = (operands + most - 1) / most;
  const uint32_t fractions = pattern.type == TUTTI_FLOAT8_E5M2 ? 6 : 7;  // a mask of eighths
  constexpr double kPowers[] = {0.5, 1, 2, 1};
  for (uint64_t k = 0; k < n; ++k) {
    const uint32_t word = own[index + k];
    const uint32_t shared = common[index + k];
    const bool scaled = stride == 1 || (shared + static_cast<uint32_t>(operand)) % stride == 0;
    double value = scaled ? kPowers[(word >> 1) & 3] : 1.0;
    // Scaling a random word picks the operand without a division.
    if ((uint64_t{shared} * operands) >> 32 == static_cast<uint32_t>(operand)) value *= 1 + (shared & fractions) / 8.0;
    out[k] = (word & 1) != 0 ? -value : value;
  }
}

void wide_inputs(const Pattern& pattern, int operand, uint64_t index, uint64_t n, double* out) {
  const Traits type = traits(pattern.type);
  if (pattern.op == TUTTI_PROD) {
    power_inputs(pattern, operand, index, n, out);
    return;
  }
  const bool folds_exactly = pattern.op == TUTTI_MIN || pattern.op == TUTTI_MAX;
  const Bound widest = {static_cast<uint32_t>(std::min(type.exact, 1073741823.0)), 1};
  bounded_inputs(pattern, type, folds_exactly ? widest : sum_bound(type, pattern), operand, index, n, out);
}

// Products of complex numbers: real ones, as above, but of one operand for each index. That one's parts are not zero, and
// so no order of multiplying gives a zero of another sign. Parts take turns.
void complex_inputs(const Pattern& pattern, int operand, uint64_t index, uint64_t n, double* out) {
  const Words common(pattern.seed, kCommonWords);
  double real[kBlock];
  power_inputs(pattern, operand, index, n, real);
  for (uint64_t k = 0; k < n; ++k) {
    const uint32_t shared = common[index + k];
    const bool chosen =
        (uint64_t{shared} * static_cast<uint32_t>(pattern.all_operands())) >> 32 == static_cast<uint32_t>(operand);
    out[2 * k] = chosen ? std::copysign(1 + (shared & 7) / 8.0, real[k]) : real[k];
    out[2 * k + 1] = chosen ? 1 + (shared >> 3 & 7) / 8.0 : 0;
  }
}

template <class Wide, class Less>
void fold_into(tutti_op op, uint64_t n, const Wide* in, Wide* total, Less less) {
  for (uint64_t k = 0; k < n; ++k) {
    const Wide a = total[k];
    const Wide b = in[k];
    switch (op) {
      case TUTTI_PROD:
        total[k] = a * b;
        break;
      case TUTTI_MIN:
        total[k] = less(b, a) ? b : a;
        break;
      case TUTTI_MAX:
        total[k] = less(a, b) ? b : a;
        break;
      default:
        total[k] = a + b;
    }
  }
}

// Operators of bits and of truth values. Whether `op` is one.
bool fold_bits_into(tutti_op op, uint64_t n, const uint64_t* in, uint64_t* total) {
  const auto each = [&](auto fold) {
    for (uint64_t k = 0; k < n; ++k) total[k] = fold(total[k], in[k]);
    return true;
  };
  switch (op) {
    case TUTTI_BITWISE_AND:
      return each([](uint64_t a, uint64_t b) { return a & b; });
    case TUTTI_BITWISE_OR:
      return each([](uint64_t a, uint64_t b) { return a | b; });
    case TUTTI_BITWISE_XOR:
      return each([](uint64_t a, uint64_t b) { return a ^ b; });
    case TUTTI_LOGICAL_AND:
      return each([](uint64_t a, uint64_t b) { return uint64_t{a != 0 && b != 0}; });
    case TUTTI_LOGICAL_OR:
      return each([](uint64_t a, uint64_t b) { return uint64_t{a != 0 || b != 0}; });
    case TUTTI_LOGICAL_XOR:
      return each([](uint64_t a, uint64_t b) { return uint64_t{(a != 0) != (b != 0)}; });
    default:
      return false;
  }
}

void fold_into(const Pattern& pattern, uint64_t n, const uint64_t* in, uint64_t* total) {
  if (fold_bits_into(op_of(pattern), n, in, total)) return;
  if (traits(pattern.type).is_signed) {
    fold_into(pattern.op, n, in, total,
              [](uint64_t a, uint64_t b) { return static_cast<int64_t>(a) < static_cast<int64_t>(b); });
  } else {
    fold_into(pattern.op, n, in, total, [](uint64_t a, uint64_t b) { return a < b; });
  }
}

void fold_into(const Pattern& pattern, uint64_t n, const double* in, double* total) {
  fold_into(pattern.op, n, in, total, [](double a, double b) { return a < b; });
}

void divide(const Pattern& pattern, uint64_t n, uint64_t* total) {
  const int64_t operands = pattern.all_operands();
  // avg's inputs are bounded, so that unsigned sums fit a signed one too; / rounds towards zero.
  for (uint64_t k = 0; k < n; ++k) total[k] = static_cast<uint64_t>(static_cast<int64_t>(total[k]) / operands);
}

void divide(const Pattern& pattern, uint64_t n, double* total) {
  for (uint64_t k = 0; k < n; ++k) total[k] /= pattern.all_operands();
}

template <class Element, class Wide>
void cast_elements(const Wide* in, uint64_t n, std::byte* out) {
  for (uint64_t k = 0; k < n; ++k) {
    const Element element = static_cast<Element>(in[k]);
    std::memcpy(out + k * sizeof(Element), &element, sizeof(Element));
  }
}

// The low `bits` of each.
void low_bits(int bits, const uint64_t* in, uint64_t n, std::byte* out) {
  switch (bits) {
    case 8:
      return cast_elements<uint8_t>(in, n, out);
    case 16:
      return cast_elements<uint16_t>(in, n, out);
    case 32:
      return cast_elements<uint32_t>(in, n, out);
    default:
      return cast_elements<uint64_t>(in, n, out);
  }
}

void narrow(tutti_type type, const uint64_t* in, uint64_t n, std::byte* out) { low_bits(traits(type).bits, in, n, out); }

template <class Element>
Element element_of(double value) {
  if constexpr (std::is_same_v<Element, Float16>) {
    return {to_float16(value)};
  } else if constexpr (std::is_same_v<Element, BFloat16>) {
    return {to_bfloat16(value)};
  } else if constexpr (std::is_same_v<Element, Float8E4M3>) {
    return {to_float8_e4m3(value)};
  } else if constexpr (std::is_same_v<Element, Float8E5M2>) {
    return {to_float8_e5m2(value)};
  } else if constexpr (std::is_arithmetic_v<Element>) {
    return static_cast<Element>(value);
  } else {
    return {};  // its numbers are another type's
  }
}

void narrow(tutti_type type, const double* in, uint64_t n, std::byte* out) {
  visit_type(type, [&]<class Element>(std::type_identity<Element>) {
    for (uint64_t k = 0; k < n; ++k) {
      const Element element = element_of<Element>(in[k]);
      std::memcpy(out + k * sizeof(Element), &element, sizeof(Element));
    }
  });
}

tutti_type part_of(tutti_type type) { return type == TUTTI_COMPLEX64 ? TUTTI_FLOAT32 : TUTTI_FLOAT64; }

// What the elements of a pattern are several of.
struct Parts {
  Pattern pattern;
  uint64_t count;  // of an element
};

// Nothing where elements are made as they are. Opaque ones are bytes, and so is what the user's own operators fold. Complex
// numbers are pairs, but where they are multiplied.
std::optional<Parts> parts_of(const Pattern& pattern) {
  Parts parts = {pattern, 2};
  if (is_opaque(pattern.type) || (pattern.reduces && is_users_own(pattern.op))) {
    parts.pattern.type = TUTTI_UINT8;
    parts.pattern.reduces = false;
    parts.count = element_bytes(pattern.type);
    return parts;
  }
  const bool is_complex = kind_of(pattern.type) == ElementKind::complex;
  if (!is_complex || (pattern.reduces && pattern.op == TUTTI_PROD)) return std::nullopt;
  parts.pattern.type = part_of(pattern.type);
  return parts;
}

void moved_inputs(const Pattern& pattern, int operand, uint64_t index, uint64_t n, std::byte* out) {
  const int bits = traits(pattern.type).bits;
  const Words low(pattern.seed, static_cast<uint32_t>(operand));
  const Words high(pattern.seed, static_cast<uint32_t>(operand) | kHighWords);
  uint64_t words[kBlock];
  for (uint64_t k = 0; k < n; ++k) words[k] = raw_bits(low, high, bits, index + k);
  low_bits(bits, words, n, out);
}

// What is folded: an input, scaled.
template <class Wide>
void wide_operands(const Pattern& pattern, int operand, uint64_t index, uint64_t n, Wide* out) {
  wide_inputs(pattern, operand, index, n, out);
  const auto scalar = static_cast<Wide>(scalar_of(pattern, operand / pattern.operands));
  for (uint64_t k = 0; k < n; ++k) out[k] *= scalar;
}

template <class Wide>
void folded_inputs(const Pattern& pattern, uint64_t index, uint64_t n, std::byte* out) {
  Wide total[kBlock];
  Wide next[kBlock];
  wide_operands(pattern, 0, index, n, total);
  for (int operand = 1; operand < pattern.all_operands(); ++operand) {
    wide_operands(pattern, operand, index, n, next);
    fold_into(pattern, n, next, total);
  }
  if (pattern.op == TUTTI_AVG) divide(pattern, n, total);
  narrow(pattern.type, total, n, out);
}

template <class Wide>
void reduced_inputs(const Pattern& pattern, int operand, uint64_t index, uint64_t n, std::byte* out) {
  Wide values[kBlock];
  wide_inputs(pattern, operand, index, n, values);
  narrow(pattern.type, values, n, out);
}

void complex_input(const Pattern& pattern, int operand, uint64_t index, uint64_t n, std::byte* out) {
  double parts[2 * kBlock];
  complex_inputs(pattern, operand, index, n, parts);
  narrow(part_of(pattern.type), parts, 2 * n, out);
}

void complex_product(const Pattern& pattern, uint64_t index, uint64_t n, std::byte* out) {
  double total[2 * kBlock];
  double next[2 * kBlock];
  complex_inputs(pattern, 0, index, n, total);
  for (int operand = 1; operand < pattern.all_operands(); ++operand) {
    complex_inputs(pattern, operand, index, n, next);
    for (uint64_t k = 0; k < 2 * n; k += 2) {
      const double real = total[k] * next[k] - total[k + 1] * next[k + 1];
      total[k + 1] = total[k] * next[k + 1] + total[k + 1] * next[k];
      total[k] = real;
    }
  }
  narrow(part_of(pattern.type), total, 2 * n, out);
}

// Each byte is added up over all operands, and what its sum has more of is carried to the next.
void sum_of_numbers(const Pattern& pattern, uint64_t index, uint64_t n, std::byte* out) {
  const uint64_t size = element_bytes(pattern.type);
  uint8_t input[kUserBytes];
  uint32_t columns[kUserBytes] = {};
  for (int operand = 0; operand < pattern.all_operands(); ++operand) {
    fill_input(pattern, operand, index, n, input);
    for (uint64_t i = 0; i < n * size; ++i) columns[i] += input[i];
  }
  for (uint64_t k = 0; k < n * size; k += size) {
    uint32_t sum = 0;
    for (uint64_t i = k; i < k + size; ++i, sum >>= 8) {
      sum += columns[i];
      out[i] = static_cast<std::byte>(sum);
    }
  }
}

// The composed map's vector is what the maps make of 0, the last first; its factor is their product.
void composed_maps(const Pattern& pattern, uint64_t index, uint64_t n, std::byte* out) {
  const uint64_t size = element_bytes(pattern.type);
  uint8_t input[kUserBytes];
  uint32_t points[kUserBytes] = {};  // a byte's two numbers, 16 bits apart
  uint32_t factors[kUserBytes];
  std::fill_n(factors, n, 1u);
  for (int operand = pattern.all_operands() - 1; operand >= 0; --operand) {
    fill_input(pattern, operand, index, n, input);
    for (uint64_t k = 0; k < n; ++k) {
      const uint32_t factor = input[k * size] & 15u;
      factors[k] = factors[k] * factor % 16;
      for (uint64_t i = k * size; i < (k + 1) * size; ++i) {
        const uint32_t vector = (input[i] & 15u) | (uint32_t{input[i]} >> 4 << 16);
        points[i] = (factor * points[i] + vector) & 0x000f000fu;
      }
    }
  }
  for (uint64_t i = 0; i < n * size; ++i) out[i] = static_cast<std::byte>((points[i] & 15u) | (points[i] >> 12));
  for (uint64_t k = 0; k < n; ++k) out[k * size] = (out[k * size] & std::byte{0xf0}) | static_cast<std::byte>(factors[k]);
}

// fill makes `block` elements at a time.
template <class Fill>
void by_blocks(tutti_type type, uint64_t block, uint64_t index, uint64_t count, void* out, Fill fill) {
  std::byte* bytes = static_cast<std::byte*>(out);
  for (uint64_t done = 0; done < count; done += block) {
    fill(index + done, std::min(block, count - done), bytes + done * element_bytes(type));
  }
}

// Rounds to a format of `kFraction` fraction bits whose exponents begin at `kLowest` and end at `kHighest`: zero, what is
// below the normal numbers, and what is above them.
template <int kFraction, int kLowest, int kHighest>
uint16_t round_special(double value, uint16_t sign) {
  constexpr uint16_t kInfinity = static_cast<uint16_t>((kHighest - kLowest + 2) << kFraction);
  if (std::isnan(value)) return static_cast<uint16_t>(sign | kInfinity | (1 << (kFraction - 1)));
  const double magnitude = std::fabs(value);
  if (magnitude >= std::ldexp(1.0, kHighest + 1)) return static_cast<uint16_t>(sign | kInfinity);
  // Units of the last place below the normal numbers; nearbyint rounds ties to even. A carry gives the least normal one.
  return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(std::ldexp(magnitude, kFraction - kLowest))));
}

template <int kFraction, int kLowest, int kHighest>
uint16_t round_to(double value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  const uint16_t sign = static_cast<uint16_t>((bits >> 63) << 15);
  const int exponent = static_cast<int>((bits >> 52) & 0x7ff) - 1023;
  if (exponent < kLowest || exponent > kHighest) return round_special<kFraction, kLowest, kHighest>(value, sign);
  constexpr int kDropped = 52 - kFraction;
  const uint64_t magnitude = (static_cast<uint64_t>(exponent - kLowest + 1) << 52) | (bits & ((uint64_t{1} << 52) - 1));
  // Just under half of a unit of the last place, and the rest where that place is odd: ties go to even. A carry runs into
  // the exponent, at the end into infinity, as it should.
  const uint64_t half = (uint64_t{1} << (kDropped - 1)) - 1 + ((magnitude >> kDropped) & 1);
  return static_cast<uint16_t>(sign | static_cast<uint16_t>((magnitude + half) >> kDropped));
}

// Of a float whose bits but the sign are as long as `most`.
double from_bits(int bits, int most, int fraction, int lowest) {
  const int mantissa = bits & ((1 << fraction) - 1);
  const int exponent = (bits & most) >> fraction;
  const int special = (most >> fraction);
  const double sign = bits > most ? -1 : 1;
  if (exponent == special) return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(mantissa, lowest - fraction);
  return sign * std::ldexp(mantissa + (1 << fraction), lowest + exponent - 1 - fraction);
}

double number_of(Float16 element) { return from_bits(element.bits, 0x7fff, 10, -14); }
double number_of(BFloat16 element) { return from_bits(element.bits, 0x7fff, 7, -126); }
double number_of(Float8E5M2 element) { return from_bits(element.bits, 0x7f, 2, -14); }
double number_of(Float8E4M3 element) {
  const int magnitude = element.bits & 0x7f;
  if (magnitude == 0x7f) return std::numeric_limits<double>::quiet_NaN();
  const int exponent = magnitude >> 3;
  const double number = std::ldexp((magnitude & 7) + (exponent != 0 ? 8 : 0), std::max(exponent, 1) - 10);
  return element.bits > 0x7f ? -number : number;
}
double number_of(Bool element) { return element.byte; }
template <class Part>
double number_of(Complex<Part> element) {
  return static_cast<double>(element.real);
}
template <class Element>
double number_of(Element element) {
  return static_cast<double>(element);
}

}  // namespace

uint16_t to_float16(double value) { return round_to<10, -14, 15>(value); }
uint16_t to_bfloat16(double value) { return round_to<7, -126, 127>(value); }

uint8_t to_float8_e5m2(double value) {
  const unsigned bits = round_to<2, -14, 15>(value);
  return static_cast<uint8_t>((bits & 0x7fu) | (bits >> 8 & 0x80u));
}

uint8_t to_float8_e4m3(double value) {
  constexpr double kMost = 464;  // halfway between the largest number and what would be the next
  const double magnitude = std::fabs(value);
  if (!(magnitude <= kMost)) return 0x7f;
  const int sign = std::signbit(value) ? 0x80 : 0;
  const int exponent = magnitude == 0 ? -6 : std::max(std::ilogb(magnitude), -6);
  // Eighths of the power of two, or units below the normal numbers; ties to even. A carry runs into the exponent.
  const int eighths = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 3 - exponent)));
  return static_cast<uint8_t>(sign | (((exponent + 6) << 3) + eighths));
}

std::string as_text(tutti_type type, const void* element) {
  if (is_opaque(type)) {
    constexpr size_t kShown = 16;
    const std::span bytes(static_cast<const uint8_t*>(element), element_bytes(type));
    return fmt::format("{:02x}{}", fmt::join(bytes.first(std::min(bytes.size(), kShown)), ""),
                       bytes.size() > kShown ? "..." : "");
  }
  if (kind_of(type) != ElementKind::complex) return fmt::format("{}", as_number(type, element));
  const auto* const parts = static_cast<const std::byte*>(element);
  const tutti_type part = part_of(type);
  return fmt::format("({}, {})", as_number(part, parts), as_number(part, parts + tutti_type_size(part)));
}

double as_number(tutti_type type, const void* element) {
  return visit_type(type, [&]<class Element>(std::type_identity<Element>) {
    Element value;
    std::memcpy(&value, element, sizeof(value));
    return number_of(value);
  });
}

void fill_input(const Pattern& pattern, int operand, uint64_t index, uint64_t count, void* out) {
  if (const auto parts = parts_of(pattern)) {
    fill_input(parts->pattern, operand, parts->count * index, parts->count * count, out);
    if (!pattern.reduces || pattern.op != kUserOrdered) return;
    for (uint64_t k = 0; k < count; ++k) static_cast<std::byte*>(out)[k * parts->count] |= std::byte{1};
    return;
  }
  const bool is_float = traits(pattern.type).is_float;
  by_blocks(pattern.type, kBlock, index, count, out, [&](uint64_t from, uint64_t n, std::byte* bytes) {
    if (!pattern.reduces) return moved_inputs(pattern, operand, from, n, bytes);
    if (kind_of(pattern.type) == ElementKind::complex) return complex_input(pattern, operand, from, n, bytes);
    if (is_float) return reduced_inputs<double>(pattern, operand, from, n, bytes);
    reduced_inputs<uint64_t>(pattern, operand, from, n, bytes);
  });
}

void fill_scalar(const Pattern& pattern, int rank, void* out) {
  auto* const bytes = static_cast<std::byte*>(out);
  const bool is_complex = kind_of(pattern.type) == ElementKind::complex;
  const tutti_type part = is_complex ? part_of(pattern.type) : pattern.type;
  const double parts[] = {static_cast<double>(scalar_of(pattern, rank)), 0};
  const uint64_t whole = static_cast<uint64_t>(scalar_of(pattern, rank));
  if (is_complex || traits(part).is_float) return narrow(part, parts, is_complex ? 2 : 1, bytes);
  narrow(part, &whole, 1, bytes);
}

void fill_folded(const Pattern& pattern, uint64_t index, uint64_t count, void* out) {
  if (is_users_own(pattern.op)) {
    const uint64_t block = kUserBytes / element_bytes(pattern.type);
    return by_blocks(pattern.type, block, index, count, out, [&](uint64_t from, uint64_t n, std::byte* bytes) {
      pattern.op == kUser ? sum_of_numbers(pattern, from, n, bytes) : composed_maps(pattern, from, n, bytes);
    });
  }
  if (const auto parts = parts_of(pattern))
    return fill_folded(parts->pattern, parts->count * index, parts->count * count, out);
  const bool is_float = traits(pattern.type).is_float;
  by_blocks(pattern.type, kBlock, index, count, out, [&](uint64_t from, uint64_t n, std::byte* bytes) {
    if (kind_of(pattern.type) == ElementKind::complex) return complex_product(pattern, from, n, bytes);
    if (is_float) return folded_inputs<double>(pattern, from, n, bytes);
    folded_inputs<uint64_t>(pattern, from, n, bytes);
  });
}

}  // namespace tutti::perf
