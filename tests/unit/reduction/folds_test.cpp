// Every fold, on every instruction set that this processor has, against the reference: bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "src/reduction/targets.h"
// The instruction sets' header comes second: targets.h says which there are.
#include "hwy/highway.h"
#include "hwy/targets.h"
#include "src/reduction/reduction.h"
#include "src/tables/element_types.h"
#include "src/tables/names.h"
#include "src/tables/operators.h"
#include "tests/unit/reduction/reference.h"

#if HWY_ARCH_X86
#include <xmmintrin.h>
#endif

namespace tutti {
namespace {

/// The types that have folds of their own, complex ones apart.
std::vector<tutti_type> folded_types() {
  std::vector<tutti_type> types;
  for (const ElementTypeInfo& row : element_types) {
    if (row.kind != ElementKind::boolean && row.kind != ElementKind::complex) types.push_back(row.type);
  }
  return types;
}

/// The operators by which such a type has one.
std::vector<tutti_op> ops_of(tutti_type type) {
  std::vector<tutti_op> ops;
  for (const OperatorInfo& row : operators) {
    if (fold_kind(type, row.op).type == type) ops.push_back(row.op);
  }
  return ops;
}

const std::vector<tutti_type> narrow_types = {TUTTI_FLOAT16, TUTTI_BFLOAT16, TUTTI_FLOAT8_E4M3, TUTTI_FLOAT8_E5M2};

bool is_narrow(tutti_type type) { return std::find(narrow_types.begin(), narrow_types.end(), type) != narrow_types.end(); }

/// Runs the folds of one instruction set for as long as it lives.
class OnTarget {
 public:
  explicit OnTarget(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  ~OnTarget() {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  OnTarget(const OnTarget&) = delete;
  OnTarget& operator=(const OnTarget&) = delete;
};

/// The sets that were compiled and that this processor has, the scalar fallback among them.
std::vector<std::int64_t> all_targets() {
  std::vector<std::int64_t> targets;
  for (std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (target != HWY_SCALAR && target != HWY_EMU128) targets.push_back(target);
  }
  targets.push_back(HWY_SCALAR);
  return targets;
}

/// Calls fn with a zero of the type that elements are folded in.
template <typename Fn>
auto with_wide_type(tutti_type type, Fn&& fn) {
  return visit_type(type, [&]<typename T>(std::type_identity<T>) {
    if constexpr (std::is_arithmetic_v<T>) {
      return fn(T{});
    } else {
      return fn(float{});
    }
  });
}

reference::Layout layout_of(tutti_type type) {
  if (type == TUTTI_FLOAT8_E4M3) return reference::kFloat8E4M3;
  if (type == TUTTI_FLOAT8_E5M2) return reference::kFloat8E5M2;
  return type == TUTTI_FLOAT16 ? reference::kFloat16 : reference::kBFloat16;
}

template <typename T>
T read(tutti_type type, const std::uint8_t* from, std::size_t index) {
  if (is_narrow(type)) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, from + element_bytes(type) * index, element_bytes(type));
    return static_cast<T>(reference::value_of(bits, layout_of(type)));
  }
  T value;
  std::memcpy(&value, from + sizeof(T) * index, sizeof(T));
  return value;
}

template <typename T>
void write(tutti_type type, T value, std::uint8_t* to, std::size_t index) {
  if (is_narrow(type)) {
    const std::uint16_t bits = reference::bits_of(static_cast<double>(value), layout_of(type));
    std::memcpy(to + element_bytes(type) * index, &bits, element_bytes(type));
  } else {
    value = reference::quiet(value);
    std::memcpy(to + sizeof(T) * index, &value, sizeof(T));
  }
}

/// Elements that find faults: any bits, small numbers, zeros of both signs, NaNs, infinities, subnormals, extremes.
std::vector<std::uint8_t> elements(tutti_type type, std::size_t count, std::mt19937_64& random) {
  std::vector<std::uint8_t> bytes(count * element_bytes(type));
  with_wide_type(type, [&](auto zero) {
    using T = decltype(zero);
    using Limits = std::numeric_limits<T>;
    const std::array<T, 8> special = {T{0},
                                      static_cast<T>(-T{0}),
                                      Limits::max(),
                                      Limits::lowest(),
                                      Limits::min(),
                                      Limits::infinity(),
                                      static_cast<T>(0 - Limits::infinity()),
                                      Limits::quiet_NaN()};
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t dice = random();
      if (dice % 4 == 0) {  // any bits
        const std::uint64_t any = random();
        std::memcpy(&bytes[i * element_bytes(type)], &any, element_bytes(type));
      } else if (dice % 16 == 1) {
        write(type, special[(dice >> 8) % special.size()], bytes.data(), i);
      } else if (dice % 16 == 2) {
        write(type, static_cast<T>(static_cast<T>((dice >> 8) % 2000) * Limits::denorm_min()), bytes.data(), i);
      } else {
        write(type, static_cast<T>(static_cast<T>((dice >> 8) % 201) - static_cast<T>(100)), bytes.data(), i);
      }
    }
  });
  return bytes;
}

/// `bytes` at `offset` from a cache line, with nothing behind them: reading further is an error that ASan sees.
class Placed {
 public:
  Placed(const std::vector<std::uint8_t>& bytes, std::size_t offset) : Placed(bytes.size(), offset) {
    if (!bytes.empty()) std::memcpy(data(), bytes.data(), bytes.size());
  }
  Placed(std::size_t size, std::size_t offset)
      : block_(static_cast<std::uint8_t*>(::operator new(size + offset, std::align_val_t{64}))),
        offset_(offset),
        size_(size) {
    std::memset(block_.get(), kCanary, size + offset);
  }
  std::uint8_t* data() { return block_.get() + offset_; }
  /// Whether nobody wrote in front of the bytes, or behind the first `used` of them.
  bool intact(std::size_t used) const {
    for (std::size_t i = 0; i < offset_; ++i) {
      if (block_.get()[i] != kCanary) return false;
    }
    for (std::size_t i = used; i < size_; ++i) {
      if (block_.get()[offset_ + i] != kCanary) return false;
    }
    return true;
  }

 private:
  static constexpr std::uint8_t kCanary = 0xa5;
  struct Free {
    void operator()(std::uint8_t* block) const { ::operator delete(block, std::align_val_t{64}); }
  };
  std::unique_ptr<std::uint8_t, Free> block_;
  std::size_t offset_;
  std::size_t size_;
};

struct Case {
  tutti_type type;
  tutti_op op;
  std::size_t sources;
  std::size_t destinations;
  std::size_t count;
  std::uint64_t divide_by = 0;
  std::uint64_t seed = 0;
  bool streaming = false;
  int in_place = -1;  ///< the source that destination 0 is
};

std::string text(const Case& c, std::int64_t target) {
  return std::string(hwy::TargetName(target)) + " type " + std::to_string(c.type) + " op " + std::to_string(c.op) +
         " sources " + std::to_string(c.sources) + " destinations " + std::to_string(c.destinations) + " count " +
         std::to_string(c.count) + " divide_by " + std::to_string(c.divide_by) + (c.streaming ? " streaming" : "") +
         " in place " + std::to_string(c.in_place);
}

/// What `c` gives.
std::vector<std::uint8_t> expected(const Case& c, const std::vector<std::vector<std::uint8_t>>& sources) {
  if (c.sources == 1 && c.divide_by <= 1) return sources[0];  // a copy, which keeps the bits
  std::vector<std::uint8_t> out(c.count * element_bytes(c.type));
  with_wide_type(c.type, [&](auto zero) {
    using T = decltype(zero);
    for (std::size_t i = 0; i < c.count; ++i) {
      T total = read<T>(c.type, sources[0].data(), i);
      for (std::size_t s = 1; s < sources.size(); ++s) {
        total = reference::apply(c.op, total, read<T>(c.type, sources[s].data(), i));
      }
      if (c.divide_by > 1) total = reference::divided(total, c.divide_by);
      write(c.type, total, out.data(), i);
    }
  });
  return out;
}

/// Runs `c` on one instruction set over copies of `sources` and compares every destination with what is expected.
void check_on(std::int64_t target, const Case& c, const std::vector<std::vector<std::uint8_t>>& sources,
              const std::vector<std::uint8_t>& right) {
  std::mt19937_64 random(c.seed);
  std::vector<Placed> from, to;
  std::vector<FoldSource> fold_sources;
  std::vector<FoldDestination> fold_destinations;
  for (std::size_t s = 0; s < sources.size(); ++s) {
    from.emplace_back(sources[s], random() % 2 == 0 ? 0 : random() % 64);
    fold_sources.push_back({from.back().data()});
  }
  constexpr std::size_t kBehind = 80;
  const std::size_t bytes = c.count * element_bytes(c.type);
  for (std::size_t d = 0; d < c.destinations; ++d) {
    to.emplace_back(bytes + (random() % 2 == 0 ? kBehind : 0), random() % 2 == 0 ? 0 : random() % 64);
    fold_destinations.push_back({to.back().data(), c.streaming && random() % 4 != 0});
  }
  if (c.in_place >= 0) fold_destinations[0].data = from[static_cast<std::size_t>(c.in_place)].data();
  FoldArguments arguments{fold_sources.data(),
                          fold_destinations.data(),
                          static_cast<std::uint32_t>(fold_sources.size()),
                          static_cast<std::uint32_t>(fold_destinations.size()),
                          c.count,
                          c.divide_by};
  OnTarget on(target);
  find_fold(c.type, c.op)(arguments);
  for (std::size_t d = 0; d < to.size(); ++d) {
    ASSERT_TRUE(right.empty() || std::memcmp(fold_destinations[d].data, right.data(), right.size()) == 0)
        << text(c, target) << ": destination " << d << " is wrong";
    const bool placed = c.in_place < 0 || d != 0;
    ASSERT_TRUE(!placed || to[d].intact(right.size())) << text(c, target) << ": wrote outside destination " << d;
  }
}

void check(const Case& c) {
  std::mt19937_64 random(c.seed * 7919 + 17);
  std::vector<std::vector<std::uint8_t>> sources;
  for (std::size_t n = 0; n < c.sources; ++n) sources.push_back(elements(c.type, c.count, random));
  const auto right = expected(c, sources);
  static const std::vector<std::int64_t> targets = all_targets();
  for (std::int64_t target : targets) {
    ASSERT_NO_FATAL_FAILURE(check_on(target, c, sources, right));
  }
}

/// A case of every shape; what else may vary follows from `seed`.
Case make_case(tutti_type type, tutti_op op, std::size_t sources, std::size_t destinations, std::size_t count,
               std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Case c{.type = type, .op = op, .sources = sources, .destinations = destinations, .count = count, .seed = seed};
  if (op == TUTTI_AVG) c.divide_by = random() % 3 == 0 ? sources : 1 + random() % 1000;
  if (random() % 3 == 0) c.in_place = static_cast<int>(random() % sources);
  c.streaming = random() % 4 == 0;
  return c;
}

class EveryType : public testing::TestWithParam<tutti_type> {};

TEST_P(EveryType, FoldsShortMessagesOfEveryShapeAlikeOnEveryInstructionSet) {
  std::uint64_t seed = static_cast<std::uint64_t>(GetParam()) << 32;
  for (tutti_op op : ops_of(GetParam())) {
    for (std::size_t sources = 1; sources <= 9; ++sources) {
      for (std::size_t destinations = 1; destinations <= 3; ++destinations) {
        for (std::size_t count = 0; count <= 130; count += sources <= 2 ? 1 : 1 + seed % 13) {
          ASSERT_NO_FATAL_FAILURE(check(make_case(GetParam(), op, sources, destinations, count, ++seed)));
        }
      }
    }
  }
}

TEST_P(EveryType, FoldsLongMessagesAlikeOnEveryInstructionSet) {
  std::uint64_t seed = static_cast<std::uint64_t>(GetParam()) << 40;
  for (tutti_op op : ops_of(GetParam())) {
    for (std::size_t count : {1000u, 4095u, 4096u, 8193u, 20011u}) {
      for (std::size_t sources : {1u, 2u, 3u, 5u}) {
        for (std::size_t destinations : {1u, 2u}) {
          ASSERT_NO_FATAL_FAILURE(check(make_case(GetParam(), op, sources, destinations, count, ++seed)));
        }
      }
    }
  }
}

TEST_P(EveryType, FoldsManySourcesIntoMoreDestinationsThanBitsInAWord) {
  for (tutti_op op : ops_of(GetParam())) {
    for (const std::size_t sources : {33u, 64u, 65u}) {
      for (const bool streaming : {true, false}) {
        Case c = make_case(GetParam(), op, sources, 67, 4111, 99);
        c.streaming = streaming;
        ASSERT_NO_FATAL_FAILURE(check(c));
      }
    }
  }
}

TEST_P(EveryType, StreamsToEveryAlignmentOfTheDestination) {
  for (std::uint64_t seed = 0; seed < 64; ++seed) {
    for (tutti_op op : {TUTTI_SUM, TUTTI_MIN, TUTTI_AVG}) {
      Case c = make_case(GetParam(), op, 1 + seed % 3, 1 + seed % 2, 4096 + seed, seed + 1000);
      c.streaming = true;
      ASSERT_NO_FATAL_FAILURE(check(c));
    }
  }
}

std::string type_name(const testing::TestParamInfo<tutti_type>& info) { return text_of(info.param); }
INSTANTIATE_TEST_SUITE_P(All, EveryType, testing::ValuesIn(folded_types()), type_name);

/// Sums one source on an instruction set, and divides.
template <typename T>
std::vector<T> divided_on(tutti_type type, std::int64_t target, const std::vector<T>& in, std::uint64_t by) {
  std::vector<T> out(in.size());
  const FoldSource source{in.data()};
  const FoldDestination destination{out.data()};
  OnTarget on(target);
  find_fold(type, TUTTI_SUM)({&source, &destination, 1, 1, in.size(), by});
  return out;
}

class EveryTarget : public testing::TestWithParam<std::int64_t> {};

/// Calls fn with a zero of the narrow type's bits.
template <typename Fn>
void with_bits(tutti_type type, Fn&& fn) {
  if (element_bytes(type) == 1) {
    fn(std::uint8_t{});
  } else {
    fn(std::uint16_t{});
  }
}

template <typename Bits>
std::vector<Bits> all_bits() {
  std::vector<Bits> all(std::size_t{1} << 8 * sizeof(Bits));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Bits>(i);
  return all;
}

/// Values of a narrow type, each beside others: all pairs of 8-bit ones, and each 16-bit one with some.
template <typename Bits>
void pair_up(std::vector<Bits>& a, std::vector<Bits>& b) {
  std::mt19937 random(5);
  const std::vector<Bits> all = all_bits<Bits>();
  const std::size_t partners = sizeof(Bits) == 1 ? all.size() : 24;
  for (const Bits bits : all) {
    for (std::size_t n = 0; n < partners; ++n) {
      a.push_back(bits);
      b.push_back(sizeof(Bits) == 1 ? static_cast<Bits>(n) : static_cast<Bits>(random()));
    }
  }
}

// Sums lie between values, and on the midpoints of close ones; products have as many digits as both factors: so all values
// are widened, and each way of rounding is met.
TEST_P(EveryTarget, RoundsSumsAndProductsOfAllNarrowValues) {
  for (tutti_type type : narrow_types) {
    with_bits(type, [&](auto zero) {
      using Bits = decltype(zero);
      std::vector<Bits> a, b;
      pair_up(a, b);
      for (const tutti_op op : {TUTTI_SUM, TUTTI_PROD}) {
        std::vector<Bits> folded(a.size());
        const FoldSource sources[] = {{a.data()}, {b.data()}};
        const FoldDestination destination{folded.data()};
        {
          const OnTarget on(GetParam());
          find_fold(type, op)({sources, &destination, 2, 1, a.size()});
        }
        for (std::size_t i = 0; i < a.size(); ++i) {
          const float result = reference::apply(op, static_cast<float>(reference::value_of(a[i], layout_of(type))),
                                                static_cast<float>(reference::value_of(b[i], layout_of(type))));
          ASSERT_EQ(folded[i], reference::bits_of(static_cast<double>(result), layout_of(type)))
              << "type " << type << " op " << op << " of " << int{a[i]} << " and " << int{b[i]};
        }
      }
    });
  }
}

// A sum of more than two is not exact in what two of them fit: all pairs, and beside them numbers that tip the scales.
TEST_P(EveryTarget, RoundsSumsOfSeveral8BitFloatsOnce) {
  for (const tutti_type type : {TUTTI_FLOAT8_E4M3, TUTTI_FLOAT8_E5M2}) {
    std::vector<std::uint8_t> a, b;
    pair_up(a, b);
    for (const std::uint8_t more : {0x00, 0x80, 0x01, 0x81, 0x07, 0x23, 0xa4, 0x39, 0xb8, 0x7b, 0x7c, 0xfc, 0x7e, 0xff}) {
      for (const std::uint32_t operands : {3u, 4u, 7u}) {
        const std::vector<std::uint8_t> others(a.size(), more);
        std::vector<FoldSource> sources = {{a.data()}, {b.data()}};
        sources.resize(operands, {others.data()});
        std::vector<std::uint8_t> folded(a.size());
        const FoldDestination destination{folded.data()};
        {
          const OnTarget on(GetParam());
          find_fold(type, TUTTI_SUM)({sources.data(), &destination, operands, 1, a.size()});
        }
        for (std::size_t i = 0; i < a.size(); ++i) {
          const auto value = [&](std::uint8_t bits) {
            return static_cast<float>(reference::value_of(bits, layout_of(type)));
          };
          float sum = value(a[i]) + value(b[i]);
          for (std::uint32_t s = 2; s < operands; ++s) sum += value(more);
          ASSERT_EQ(folded[i], reference::bits_of(static_cast<double>(sum), layout_of(type)))
              << "type " << type << ": " << int{a[i]} << " + " << int{b[i]} << " + " << operands - 2 << " times "
              << int{more};
        }
      }
    }
  }
}

// Quotients have digits without end, and get below what has a place.
TEST_P(EveryTarget, RoundsQuotientsOfAllNarrowValues) {
  for (tutti_type type : narrow_types) {
    with_bits(type, [&](auto zero) {
      using Bits = decltype(zero);
      const std::vector<Bits> all = all_bits<Bits>();
      for (const std::uint64_t by : {2u, 3u, 5u, 7u, 8u, 1000u}) {
        const auto quotients = divided_on<Bits>(type, GetParam(), all, by);
        for (std::size_t i = 0; i < all.size(); ++i) {
          const float value = static_cast<float>(reference::value_of(all[i], layout_of(type)));
          ASSERT_EQ(quotients[i], reference::bits_of(static_cast<double>(reference::divided(value, by)), layout_of(type)))
              << "type " << type << ": " << value << " / " << by;
        }
      }
    });
  }
}

template <typename T>
void check_division(tutti_type type, std::int64_t target, const std::vector<T>& values, std::uint64_t by) {
  const auto quotients = divided_on<T>(type, target, values, by);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(quotients[i], reference::divided(values[i], by)) << values[i] << " / " << by;
  }
}

/// Values at which reciprocals go wrong: around multiples of the divisor, powers of two, and the extremes.
template <typename T>
std::vector<T> dividends(std::uint64_t by) {
  std::mt19937_64 random(by);
  std::vector<T> values;
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t any = random() >> (random() % 64);
    const std::uint64_t multiple = any / by * by;
    for (std::uint64_t v :
         {any, 0 - any, multiple, multiple - 1, multiple + 1, 0 - multiple, std::uint64_t{1} << (i % 64)}) {
      values.push_back(static_cast<T>(v));
    }
  }
  values.insert(values.end(), {std::numeric_limits<T>::max(), std::numeric_limits<T>::min(), T{0}});
  return values;
}

/// Numbers of ranks whose reciprocals differ in kind: all small ones, powers of two and their neighbours, others of any
/// size.
std::vector<std::uint64_t> divisors() {
  std::mt19937_64 random(11);
  std::vector<std::uint64_t> divisors;
  for (std::uint64_t by = 2; by <= 300; ++by) divisors.push_back(by);
  for (int bit = 8; bit < 64; ++bit) {
    for (std::uint64_t d : {0ull, 1ull, ~0ull}) divisors.push_back((std::uint64_t{1} << bit) + d);
    divisors.push_back(random() >> (bit - 8) | 2);
  }
  divisors.push_back(~std::uint64_t{0});
  return divisors;
}

TEST_P(EveryTarget, DividesIntegersExactlyByAnyNumber) {
  for (std::uint64_t by : divisors()) {
    ASSERT_NO_FATAL_FAILURE(check_division(TUTTI_INT8, GetParam(), dividends<std::int8_t>(by), by));
    ASSERT_NO_FATAL_FAILURE(check_division(TUTTI_UINT8, GetParam(), dividends<std::uint8_t>(by), by));
    ASSERT_NO_FATAL_FAILURE(check_division(TUTTI_INT16, GetParam(), dividends<std::int16_t>(by), by));
    ASSERT_NO_FATAL_FAILURE(check_division(TUTTI_UINT16, GetParam(), dividends<std::uint16_t>(by), by));
    ASSERT_NO_FATAL_FAILURE(check_division(TUTTI_INT32, GetParam(), dividends<std::int32_t>(by), by));
    ASSERT_NO_FATAL_FAILURE(check_division(TUTTI_UINT32, GetParam(), dividends<std::uint32_t>(by), by));
    ASSERT_NO_FATAL_FAILURE(check_division(TUTTI_INT64, GetParam(), dividends<std::int64_t>(by), by));
    ASSERT_NO_FATAL_FAILURE(check_division(TUTTI_UINT64, GetParam(), dividends<std::uint64_t>(by), by));
  }
}

/// Floats whose quotient by `by` is hard to round: numbers next to `by` times what lies halfway between two neighbours, of
/// any magnitude; those around where quotients become subnormal, and lie halfway there; and what is no number.
template <typename T>
std::vector<T> hard_dividends(std::uint64_t by) {
  using Limits = std::numeric_limits<T>;
  std::mt19937_64 random(by);
  std::vector<T> values = {T{0},          -T{0},         Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(),
                           Limits::max(), Limits::min(), Limits::lowest(),   Limits::denorm_min()};
  const T border = Limits::min() * static_cast<T>(by);
  values.insert(values.end(), {border, std::nextafter(border, T{0}), std::nextafter(border, Limits::max())});
  for (int i = 0; i < 20; ++i) {
    values.push_back(static_cast<T>(2 * (random() % 100'000) + 1) * static_cast<T>(by) * Limits::denorm_min() / 2);
  }
  for (int i = 0; i < 400; ++i) {
    const std::uint64_t significand = random() >> (64 - Limits::digits) | std::uint64_t{1} << (Limits::digits - 1);
    const auto middle = (static_cast<long double>(significand) + 0.5L) * static_cast<long double>(by);
    const int range = Limits::max_exponent - Limits::min_exponent + Limits::digits;
    const int exponent = i % 2 == 0 ? -static_cast<int>(random() % 40)
                                    : static_cast<int>(random() % static_cast<unsigned>(range)) + Limits::min_exponent - 60;
    const T near = static_cast<T>(std::min(std::ldexp(middle, exponent), static_cast<long double>(Limits::max())));
    for (T value : {near, std::nextafter(near, T{0}), std::nextafter(near, Limits::infinity())}) {
      values.insert(values.end(), {value, -value});
    }
  }
  return values;
}

template <typename T>
void check_float_division(tutti_type type, std::int64_t target, std::uint64_t by) {
  std::vector<T> values = hard_dividends<T>(by);
  // Twice: among numbers that call for the slow way, and where vectors hold none.
  for (int round = 0; round < 2; ++round) {
    const auto quotients = divided_on<T>(type, target, values, by);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const T right = reference::quiet(reference::divided(values[i], by));
      ASSERT_EQ(std::memcmp(&quotients[i], &right, sizeof(T)), 0) << values[i] << " / " << by << ": " << quotients[i];
    }
    std::erase_if(values, [by](T value) {
      const T quotient = reference::divided(value, by);
      return !std::isfinite(value) || (quotient != 0 && std::fabs(quotient) < std::numeric_limits<T>::min());
    });
    values.push_back(-T{0});
  }
}

#if HWY_ARCH_X86
/// Subnormal numbers count as zero in this thread, as programs linked with -ffast-math have it.
struct Flushing {
  Flushing() { _mm_setcsr(before | 0x8040); }
  ~Flushing() { _mm_setcsr(before); }
  const unsigned before = _mm_getcsr();
};

TEST_P(EveryTarget, DividesFloatsAsTheProcessorDoesWhereItFlushesSubnormals) {
  for (std::uint64_t by : {3u, 6u, 7u, 100u, 1000u}) {
    std::vector<float> values = hard_dividends<float>(by);
    for (std::uint32_t bits = 0x00800000; bits < 0x0d000000; bits += 0x3fff1) values.push_back(std::bit_cast<float>(bits));
    const Flushing flushing;
    const auto quotients = divided_on<float>(TUTTI_FLOAT32, GetParam(), values, by);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float right = reference::quiet(reference::divided(values[i], by));
      ASSERT_EQ(std::memcmp(&quotients[i], &right, sizeof right), 0) << values[i] << " / " << by << ": " << quotients[i];
    }
  }
}
#endif

TEST_P(EveryTarget, DividesFloatsAsTheProcessorDoes) {
  for (std::uint64_t by : divisors()) {
    ASSERT_NO_FATAL_FAILURE(check_float_division<float>(TUTTI_FLOAT32, GetParam(), by));
    ASSERT_NO_FATAL_FAILURE(check_float_division<double>(TUTTI_FLOAT64, GetParam(), by));
  }
}

/// Three bfloat16s each whose sum, in float32, is as near as can be to `by` times what lies halfway between two bfloat16s.
struct HardSums {
  explicit HardSums(std::uint64_t by) {
    std::mt19937_64 random(by);
    for (int i = 0; i < 300; ++i) {
      const auto bits = static_cast<std::uint16_t>((i % 10 == 0 ? 1u : 0x1000u) + random() % 0x3000u);
      const double halfway = (value_of(bits) + value_of(static_cast<std::uint16_t>(bits + 1))) / 2;
      const auto product = static_cast<float>(halfway * static_cast<double>(by));
      for (float sum : {product, std::nextafter(product, 0.0f), std::nextafter(product, 1e38f)}) add(sum);
    }
  }
  static double value_of(std::uint16_t bits) { return reference::value_of(bits, reference::kBFloat16); }
  void add(float sum) {
    float left = sum;
    for (auto& part : parts) {  // eight of its bits each, from above
      part.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(left) >> 16));
      left -= static_cast<float>(value_of(part.back()));
    }
  }
  float sum(std::size_t i) const {
    const auto part = [&](std::size_t s) { return static_cast<float>(value_of(parts[s][i])); };
    return part(0) + part(1) + part(2);
  }
  std::array<std::vector<std::uint16_t>, 3> parts;
};

TEST_P(EveryTarget, AveragesBFloat16sAsDivisionAndRoundingDo) {
  OnTarget on(GetParam());
  for (std::uint64_t by : divisors()) {
    const HardSums hard(by);
    std::vector<std::uint16_t> averages(hard.parts[0].size());
    const std::array<FoldSource, 3> sources{FoldSource{hard.parts[0].data()}, FoldSource{hard.parts[1].data()},
                                            FoldSource{hard.parts[2].data()}};
    const FoldDestination destination{averages.data()};
    find_fold(TUTTI_BFLOAT16, TUTTI_SUM)({sources.data(), &destination, 3, 1, averages.size(), by});
    for (std::size_t i = 0; i < averages.size(); ++i) {
      const auto right = static_cast<double>(reference::divided(hard.sum(i), by));
      ASSERT_EQ(averages[i], reference::bits_of(right, reference::kBFloat16)) << hard.sum(i) << " / " << by;
    }
  }
}

template <typename Bits>
void check_extremes(tutti_type type, std::int64_t target, Bits bits) {
  const std::vector<Bits> all = all_bits<Bits>();
  const std::vector<Bits> one(all.size(), bits);
  std::vector<Bits> out(all.size());
  const FoldSource sources[] = {{all.data()}, {one.data()}};
  const FoldDestination destination{out.data()};
  for (tutti_op op : {TUTTI_MIN, TUTTI_MAX}) {
    {
      OnTarget on(target);
      find_fold(type, op)({sources, &destination, 2, 1, all.size()});
    }
    const double other = reference::value_of(bits, layout_of(type));
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double value = reference::value_of(all[i], layout_of(type));
      ASSERT_EQ(out[i], reference::bits_of(reference::apply(op, value, other), layout_of(type)))
          << "type " << type << " op " << op << " of " << i << " and " << unsigned{bits};
    }
  }
}

TEST_P(EveryTarget, FindsTheSmallerAndTheLargerOfNarrowFloatsAmongAll) {
  for (tutti_type type : narrow_types) {
    with_bits(type, [&](auto zero) {
      using Bits = decltype(zero);
      if constexpr (sizeof(Bits) == 1) {
        for (const Bits bits : all_bits<Bits>()) ASSERT_NO_FATAL_FAILURE(check_extremes<Bits>(type, GetParam(), bits));
      } else {
        for (unsigned bits : {0x0000u, 0x8000u, 0x0001u, 0x8001u, 0x3c00u, 0xbc01u, 0x7bffu, 0xfc00u, 0x7c00u, 0x7c01u,
                              0x7f80u, 0xff80u, 0xff81u, 0x7fffu, 0xffffu}) {
          ASSERT_NO_FATAL_FAILURE(check_extremes<Bits>(type, GetParam(), static_cast<Bits>(bits)));
        }
      }
    });
  }
}

TEST_P(EveryTarget, GivesTheSameBitsInEitherOrderOfTwoOperands) {
  std::mt19937_64 random(3);
  std::vector<tutti_type> floats = narrow_types;
  floats.insert(floats.end(), {TUTTI_FLOAT32, TUTTI_FLOAT64});
  for (tutti_type type : floats) {
    const std::size_t count = 10000;
    const auto a = elements(type, count, random);
    const auto b = elements(type, count, random);
    for (tutti_op op : {TUTTI_SUM, TUTTI_PROD, TUTTI_MIN, TUTTI_MAX}) {
      std::vector<std::uint8_t> one(a.size()), other(a.size());
      const FoldSource forth[] = {{a.data()}, {b.data()}};
      const FoldSource back[] = {{b.data()}, {a.data()}};
      const FoldDestination to_one{one.data()}, to_other{other.data()};
      OnTarget on(GetParam());
      find_fold(type, op)({forth, &to_one, 2, 1, count});
      find_fold(type, op)({back, &to_other, 2, 1, count});
      EXPECT_EQ(one, other) << "type " << type << " op " << op;
    }
  }
}

std::string target_name(const testing::TestParamInfo<std::int64_t>& info) { return hwy::TargetName(info.param); }
INSTANTIATE_TEST_SUITE_P(All, EveryTarget, testing::ValuesIn(all_targets()), target_name);

TEST(Copy, KeepsTheBitsOfNaNs) {
  const std::array<std::uint32_t, 3> in = {0x7f800001u, 0xffc12345u, 0x7fc00000u};
  for (std::uint32_t destinations : {1u, 2u}) {
    std::array<std::uint32_t, 3> out[2] = {};
    const FoldSource source{in.data()};
    const FoldDestination to[] = {{out[0].data()}, {out[1].data()}};
    find_fold(TUTTI_FLOAT32, TUTTI_MAX)({&source, to, 1, destinations, 3});
    for (std::uint32_t d = 0; d < destinations; ++d) EXPECT_EQ(out[d], in);
  }
}

TEST(Copy, CopiesBytesToEveryDestination) {
  for (std::size_t bytes : {1u, 15u, 16u, 17u, 4099u, 70001u}) {
    std::vector<std::uint8_t> in(bytes), out[3];
    for (std::size_t i = 0; i < bytes; ++i) in[i] = static_cast<std::uint8_t>(i * 37);
    for (auto& o : out) o.resize(bytes);
    const FoldSource source{in.data()};
    const FoldDestination to[] = {{out[0].data()}, {out[1].data()}, {out[2].data(), true}};
    find_copy()({&source, to, 1, 3, bytes});
    for (const auto& o : out) EXPECT_EQ(o, in);
    // To cached memory alone, one of the places being where it lies already.
    for (auto& o : out) std::fill(o.begin(), o.end(), std::uint8_t{0});
    const FoldDestination cached[] = {{out[0].data()}, {in.data()}, {out[1].data()}};
    find_copy()({&source, cached, 1, 3, bytes});
    EXPECT_EQ(out[0], in);
    EXPECT_EQ(out[1], in);
  }
}

TEST(Fold, OfNothingTouchesNothing) {
  const FoldSource source{nullptr};
  const FoldDestination destination{nullptr};
  for (const ElementTypeInfo& type : element_types) {
    for (const OperatorInfo& op : operators) {
      const FoldFunction fold = find_fold(type.type, op.op);
      ASSERT_EQ(fold != nullptr, applies_to(op.op, type.type)) << type.name << " " << op.name;
      if (fold != nullptr) fold({&source, &destination, 1, 1, 0, 7});
    }
  }
  find_copy()({&source, &destination, 1, 1, 0});
}

TEST(Fold, IsAbsentForTypesAndOperatorsThatDoNotGoTogether) {
  EXPECT_EQ(find_fold(static_cast<tutti_type>(TUTTI_OPAQUE + 3), TUTTI_SUM), nullptr);
  EXPECT_EQ(find_fold(TUTTI_COMPLEX64, TUTTI_MAX), nullptr);
  EXPECT_EQ(find_fold(TUTTI_FLOAT32, TUTTI_BITWISE_AND), nullptr);
  EXPECT_EQ(find_fold(TUTTI_BOOL, TUTTI_AVG), nullptr);
}

/// A fold of complex numbers, of any bits and of those that floats treat in ways of their own.
template <typename Part>
struct ComplexCase {
  ComplexCase(std::size_t source_count, std::size_t elements, std::uint64_t seed) : count(elements) {
    using Limits = std::numeric_limits<Part>;
    const std::array<Part, 7> special = {Part{0},       -Part{0},      Limits::infinity(), -Limits::infinity(),
                                         Limits::min(), Limits::max(), Limits::quiet_NaN()};
    std::mt19937_64 random(seed);
    for (std::size_t s = 0; s < source_count; ++s) {
      auto& parts = sources.emplace_back(2 * elements);
      for (Part& part : parts) {
        part = static_cast<Part>(static_cast<std::int64_t>(random() % 2001) - 1000) / Part{7};
        if (random() % 8 == 0) part = special[random() % special.size()];
      }
    }
  }
  std::vector<Part> product() const {
    std::vector<Part> total = sources[0];
    for (std::size_t s = 1; s < sources.size(); ++s) {
      for (std::size_t i = 0; i < 2 * count; i += 2) {
        // Volatile: each operation is rounded, whatever the compiler may fuse.
        const Part a = total[i], b = total[i + 1], c = sources[s][i], d = sources[s][i + 1];
        const volatile Part ac = a * c, bd = b * d, ad = a * d, bc = b * c;
        total[i] = ac - bd;
        total[i + 1] = ad + bc;
      }
    }
    if (sources.size() > 1) std::transform(total.begin(), total.end(), total.begin(), reference::quiet<Part>);
    return total;
  }

  std::size_t count;
  std::vector<std::vector<Part>> sources;
};

template <typename Part>
void check_products(tutti_type type, std::int64_t target) {
  for (std::size_t sources = 1; sources <= 5; ++sources) {
    for (const std::size_t count : {1u, 2u, 3u, 4u, 5u, 7u, 8u, 9u, 15u, 16u, 17u, 33u, 100u, 1023u, 5000u}) {
      ComplexCase<Part> of(sources, count, 1000 * sources + count);
      const std::vector<Part> right = of.product();
      std::vector<FoldSource> from;
      for (const auto& source : of.sources) from.push_back({source.data()});
      std::vector<Part> one(2 * count), other(2 * count + 1);
      const FoldDestination to[] = {{one.data(), count % 2 == 0}, {other.data() + 1}};
      const OnTarget on(target);
      for (std::uint32_t destinations : {1u, 2u}) {
        find_fold(type, TUTTI_PROD)({from.data(), to, static_cast<std::uint32_t>(sources), destinations, count});
        ASSERT_EQ(std::memcmp(one.data(), right.data(), 2 * count * sizeof(Part)), 0)
            << count << " elements, " << sources << " sources";
      }
      ASSERT_EQ(std::memcmp(other.data() + 1, right.data(), 2 * count * sizeof(Part)), 0);
      const FoldDestination in_place{of.sources.back().data()};
      find_fold(type, TUTTI_PROD)({from.data(), &in_place, static_cast<std::uint32_t>(sources), 1, count});
      ASSERT_EQ(std::memcmp(of.sources.back().data(), right.data(), 2 * count * sizeof(Part)), 0);
    }
  }
}

TEST_P(EveryTarget, MultipliesComplexNumbersByTheFormula) {
  ASSERT_NO_FATAL_FAILURE(check_products<float>(TUTTI_COMPLEX64, GetParam()));
  ASSERT_NO_FATAL_FAILURE(check_products<double>(TUTTI_COMPLEX128, GetParam()));
}

}  // namespace
}  // namespace tutti
