// The data of checked runs: exact in every order of folding, and told apart.
#include "perf/data.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <functional>
#include <limits>
#include <set>
#include <vector>

#include "perf/names.h"
#include "perf/user_operators.h"
#include "src/tables/element_types.h"
#include "src/tables/names.h"
#include "src/tables/operators.h"
#include "tests/unit/perf/opaque.h"

namespace tutti::perf {
namespace {

using Bytes = std::vector<std::byte>;

// An operator on single elements of the type itself, rounding after every step: an oracle that shares nothing with the
// wide arithmetic under test but as_number and the rounding to narrow floats, which have tests of their own.
template <class T>
T apply(tutti_op op, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (op == TUTTI_BITWISE_AND) return static_cast<T>(a & b);
    if (op == TUTTI_BITWISE_OR) return static_cast<T>(a | b);
    if (op == TUTTI_BITWISE_XOR) return static_cast<T>(a ^ b);
    if (op == TUTTI_LOGICAL_AND) return static_cast<T>(a != 0 && b != 0 ? 1 : 0);
    if (op == TUTTI_LOGICAL_OR) return static_cast<T>(a != 0 || b != 0 ? 1 : 0);
    if (op == TUTTI_LOGICAL_XOR) return static_cast<T>((a != 0) != (b != 0) ? 1 : 0);
  }
  // Unsigned arithmetic wraps where signed arithmetic would be undefined.
  using Wrapping = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;
  const Wrapping x = static_cast<Wrapping>(a);
  const Wrapping y = static_cast<Wrapping>(b);
  switch (op) {
    case TUTTI_PROD:
      return static_cast<T>(static_cast<Wrapping>(x * y));
    case TUTTI_MIN:
      return b < a ? b : a;
    case TUTTI_MAX:
      return a < b ? b : a;
    default:
      return static_cast<T>(static_cast<Wrapping>(x + y));
  }
}

template <class T>
Bytes combine_as(tutti_op op, const Bytes& a, const Bytes& b) {
  Bytes out(a.size());
  for (size_t i = 0; i < a.size(); i += sizeof(T)) {
    T x;
    T y;
    std::memcpy(&x, &a[i], sizeof(T));
    std::memcpy(&y, &b[i], sizeof(T));
    const T z = apply(op, x, y);
    std::memcpy(&out[i], &z, sizeof(T));
  }
  return out;
}

// The bits of a narrow float.
unsigned narrowed(tutti_type type, double value) {
  switch (type) {
    case TUTTI_FLOAT8_E4M3:
      return to_float8_e4m3(value);
    case TUTTI_FLOAT8_E5M2:
      return to_float8_e5m2(value);
    case TUTTI_FLOAT16:
      return to_float16(value);
    default:
      return to_bfloat16(value);
  }
}

Bytes combine_narrow(tutti_type type, tutti_op op, const Bytes& a, const Bytes& b) {
  Bytes out(a.size());
  const size_t size = tutti_type_size(type);
  for (size_t i = 0; i < a.size(); i += size) {
    const unsigned bits = narrowed(type, apply(op, as_number(type, &a[i]), as_number(type, &b[i])));
    std::memcpy(&out[i], &bits, size);
  }
  return out;
}

template <class Part>
Bytes multiply_complex(const Bytes& a, const Bytes& b) {
  Bytes out(a.size());
  for (size_t i = 0; i < a.size(); i += sizeof(std::complex<Part>)) {
    std::complex<Part> x, y;
    std::memcpy(&x, &a[i], sizeof x);
    std::memcpy(&y, &b[i], sizeof y);
    const std::complex<Part> z = x * y;
    std::memcpy(&out[i], &z, sizeof z);
  }
  return out;
}

// Truth values: the operator that does the same with bits.
tutti_op of_bits(tutti_op op) {
  if (op == TUTTI_SUM || op == TUTTI_MAX || op == TUTTI_LOGICAL_OR) return TUTTI_BITWISE_OR;
  if (op == TUTTI_PROD || op == TUTTI_MIN || op == TUTTI_LOGICAL_AND) return TUTTI_BITWISE_AND;
  return op == TUTTI_LOGICAL_XOR ? TUTTI_BITWISE_XOR : op;
}

Bytes combine(tutti_type type, tutti_op op, const Bytes& a, const Bytes& b) {
  return visit_type(type, [&]<class T>(std::type_identity<T>) {
    if constexpr (std::is_arithmetic_v<T>) {
      return combine_as<T>(op, a, b);
    } else if constexpr (std::is_same_v<T, Bool>) {
      return combine_as<uint8_t>(of_bits(op), a, b);
    } else if constexpr (std::is_same_v<T, Complex<float>>) {
      return op == TUTTI_PROD ? multiply_complex<float>(a, b) : combine_as<float>(op, a, b);
    } else if constexpr (std::is_same_v<T, Complex<double>>) {
      return op == TUTTI_PROD ? multiply_complex<double>(a, b) : combine_as<double>(op, a, b);
    } else {
      return combine_narrow(type, op, a, b);
    }
  });
}

template <class T>
void divide_as(Bytes& bytes, int ranks) {
  // Ranks may be more than T holds.
  using Integer = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
  using Divisor = std::conditional_t<std::is_integral_v<T>, Integer, T>;
  for (size_t i = 0; i < bytes.size(); i += sizeof(T)) {
    T x;
    std::memcpy(&x, &bytes[i], sizeof(T));
    x = static_cast<T>(x / static_cast<Divisor>(ranks));
    std::memcpy(&bytes[i], &x, sizeof(T));
  }
}

void divide_narrow(tutti_type type, Bytes& bytes, int ranks) {
  const size_t size = tutti_type_size(type);
  for (size_t i = 0; i < bytes.size(); i += size) {
    const unsigned bits = narrowed(type, as_number(type, &bytes[i]) / ranks);
    std::memcpy(&bytes[i], &bits, size);
  }
}

void divide(tutti_type type, Bytes& bytes, int ranks) {
  visit_type(type, [&]<class T>(std::type_identity<T>) {
    if constexpr (std::is_arithmetic_v<T>) {
      divide_as<T>(bytes, ranks);
    } else if constexpr (std::is_same_v<T, Complex<float>>) {
      divide_as<float>(bytes, ranks);
    } else if constexpr (std::is_same_v<T, Complex<double>>) {
      divide_as<double>(bytes, ranks);
    } else {
      divide_narrow(type, bytes, ranks);
    }
  });
}

Bytes input(const Pattern& pattern, int rank, uint64_t index, uint64_t count) {
  Bytes bytes(count * tutti_type_size(pattern.type));
  fill_input(pattern, rank, index, count, bytes.data());
  return bytes;
}

Bytes folded(const Pattern& pattern, uint64_t index, uint64_t count) {
  Bytes bytes(count * tutti_type_size(pattern.type));
  fill_folded(pattern, index, count, bytes.data());
  return bytes;
}

std::vector<Pattern> reducing_patterns(const std::vector<int>& rank_counts) {
  std::vector<Pattern> patterns;
  for (const ElementTypeInfo& type : element_types) {
    for (const OperatorInfo& op : operators) {
      if (!applies_to(op.op, type.type)) continue;
      for (const int ranks : rank_counts) patterns.push_back({type.type, op.op, true, ranks, 7});
    }
  }
  return patterns;
}

std::string text(const Pattern& pattern) {
  return text_of(pattern.type) + " " + text_of_op(pattern.op) + " of " + std::to_string(pattern.ranks);
}

constexpr uint64_t kCount = 700;  // more than one block of the generator

// Sums of scaled operands, by a plain sum of what each rank's scalar makes of its input.
TEST(Data, OfPreMultipliedSumsFoldsEachRanksInputTimesItsScalar) {
  for (const ElementTypeInfo& type : element_types) {
    if (!folds(kPreMulSum, type.type)) continue;
    for (const int ranks : {1, 2, 3, 9, 40}) {
      const Pattern pattern = {type.type, kPreMulSum, true, ranks, 7};
      const size_t size = tutti_type_size(type.type);
      Bytes total;
      bool differs = false;
      for (int rank = 0; rank < ranks; ++rank) {
        Bytes scalar(size), operand = input(pattern, rank, 5, kCount);
        fill_scalar(pattern, rank, scalar.data());
        EXPECT_EQ(as_number(type.type, scalar.data()), 1 + rank % 2);
        const Bytes as_given = operand;
        // Twice an operand is its sum with itself.
        if (rank % 2 == 1) operand = combine(type.type, TUTTI_SUM, as_given, as_given);
        differs = differs || operand != as_given;
        total = rank == 0 ? operand : combine(type.type, TUTTI_SUM, total, operand);
      }
      EXPECT_EQ(total, folded(pattern, 5, kCount)) << text_of(type.type) << " of " << ranks;
      EXPECT_EQ(differs, ranks > 1);
    }
  }
}

TEST(Data, FoldsToTheSameBitsInEveryOrder) {
  for (const Pattern& pattern : reducing_patterns({1, 2, 3, 9, 40, 300})) {
    const uint64_t count = pattern.ranks > 9 ? 100 : kCount;
    std::vector<Bytes> inputs;
    for (int rank = 0; rank < pattern.ranks; ++rank) inputs.push_back(input(pattern, rank, 5, count));
    const auto fold_op = [&](const Bytes& a, const Bytes& b) { return combine(pattern.type, pattern.op, a, b); };
    Bytes up = inputs.front();
    for (size_t r = 1; r < inputs.size(); ++r) up = fold_op(up, inputs[r]);
    Bytes down = inputs.back();
    for (size_t r = inputs.size() - 1; r-- > 0;) down = fold_op(inputs[r], down);
    std::vector<Bytes> tree = inputs;
    for (; tree.size() > 1; tree.resize((tree.size() + 1) / 2)) {
      for (size_t i = 0; 2 * i + 1 < tree.size(); ++i) tree[i] = fold_op(tree[2 * i], tree[2 * i + 1]);
      if (tree.size() % 2 == 1) tree[tree.size() / 2] = tree.back();
    }
    for (Bytes* result : {&up, &down, &tree[0]}) {
      if (pattern.op == TUTTI_AVG) divide(pattern.type, *result, pattern.ranks);
      EXPECT_EQ(*result, folded(pattern, 5, count)) << text(pattern);
    }
  }
}

TEST(Data, DoesNotDependOnHowItIsCutIntoPieces) {
  for (const Pattern& pattern : reducing_patterns({3})) {
    const uint64_t size = tutti_type_size(pattern.type);
    const uint64_t far = (uint64_t{1} << 32) - 300;  // indices above 2^32 too
    const Bytes whole = input(pattern, 2, far, kCount);
    const Bytes sums = folded(pattern, far, kCount);
    for (uint64_t at : {1u, 299u, 301u, 512u, 699u}) {
      const Bytes rest = input(pattern, 2, far + at, kCount - at);
      EXPECT_EQ(std::memcmp(rest.data(), whole.data() + at * size, rest.size()), 0) << text(pattern);
      const Bytes more = folded(pattern, far + at, kCount - at);
      EXPECT_EQ(std::memcmp(more.data(), sums.data() + at * size, more.size()), 0) << text(pattern);
    }
  }
}

// How many of 4096 elements must differ from others of the same pattern.
uint64_t least_differing(const Pattern& pattern) {
  if (!pattern.reduces) return 3800;
  const bool is_logical = pattern.op >= TUTTI_LOGICAL_AND && pattern.op <= TUTTI_LOGICAL_XOR;
  if (is_logical || pattern.type == TUTTI_BOOL) return 1200;
  if (pattern.op == TUTTI_PROD) return 2000;
  return element_type_info(pattern.type).digits < 7 ? 2800 : 3800;  // few whole numbers
}

// Elements that moved by one place, a power of two, or a block, or that belong to another rank or round, must show.
TEST(Data, DiffersBetweenPlacesRanksAndSeeds) {
  for (const bool reduces : {false, true}) {
    for (Pattern pattern : reducing_patterns({4})) {
      pattern.reduces = reduces;
      const Bytes own = input(pattern, 1, 0, 4096);
      const auto differs = [&](const Bytes& other) {
        uint64_t count = 0;
        const uint64_t size = tutti_type_size(pattern.type);
        for (uint64_t i = 0; i < 4096; ++i) count += std::memcmp(&own[i * size], &other[i * size], size) != 0 ? 1 : 0;
        return count;
      };
      const uint64_t most = least_differing(pattern);
      for (const uint64_t shift : {uint64_t{1}, uint64_t{2}, uint64_t{1024}, uint64_t{65536}, uint64_t{1} << 32}) {
        EXPECT_GT(differs(input(pattern, 1, shift, 4096)), most) << text(pattern) << " shifted by " << shift;
      }
      EXPECT_GT(differs(input(pattern, 2, 0, 4096)), most) << text(pattern);
      pattern.seed += 1;
      EXPECT_GT(differs(input(pattern, 1, 0, 4096)), most) << text(pattern);
    }
  }
}

TEST(Data, MovedElementsHoldEveryByteValue) {
  Pattern pattern;
  pattern.type = TUTTI_UINT8;
  std::set<std::byte> seen;
  for (const std::byte byte : input(pattern, 0, 0, 10000)) seen.insert(byte);
  EXPECT_EQ(seen.size(), 256u);
}

TEST(Data, OpaqueElementsAreTheBytesOfTheirPlaces) {
  for (const int size : {1, 5, 24, 1000}) {
    const auto bytes = static_cast<uint64_t>(size);
    Pattern pattern = {opaque(size), TUTTI_SUM, false, 3, 7};
    const Bytes whole = input(pattern, 2, 9, 20);
    EXPECT_EQ(whole.size(), 20 * bytes);
    EXPECT_EQ(input(pattern, 2, 14, 5), Bytes(&whole[5 * bytes], &whole[9 * bytes] + bytes));
    EXPECT_NE(input(pattern, 1, 9, 20), whole);
    pattern.seed = 8;
    EXPECT_NE(input(pattern, 2, 9, 20), whole);
  }
}

// A rank's input by an operator of the user's own, folded with those of the ranks before it.
Bytes with_lower(const Pattern& pattern, Bytes lower, const Bytes& higher) {
  size_t size = tutti_type_size(pattern.type);
  Bytes folded = higher;
  (pattern.op == kUser ? add_numbers : compose_maps)(&size, lower.data(), folded.data(), lower.size() / size);
  return folded;
}

TEST(Data, OfTheUsersOwnOperatorsFoldsWhatTheirFunctionsDo) {
  for (const tutti_op op : {kUser, kUserOrdered}) {
    for (const auto type : {TUTTI_INT8, TUTTI_FLOAT32, opaque(1), opaque(5), opaque(24), opaque(1000), opaque(1024)}) {
      for (const int ranks : {1, 2, 3, 9}) {
        const uint64_t count = 10'000 / tutti_type_size(type) + 4;  // several blocks of the referee's
        const Pattern pattern = {type, op, true, ranks, 7};
        const Bytes expected = folded(pattern, 5, count);
        Bytes up = input(pattern, 0, 5, count);
        for (int r = 1; r < ranks; ++r) up = with_lower(pattern, up, input(pattern, r, 5, count));
        EXPECT_EQ(up, expected) << text(pattern);
        Bytes down = input(pattern, ranks - 1, 5, count);
        for (int r = ranks - 2; r >= 0; --r) down = with_lower(pattern, input(pattern, r, 5, count), down);
        EXPECT_EQ(down, expected) << text(pattern);
        Bytes backwards = input(pattern, ranks - 1, 5, count);
        for (int r = ranks - 2; r >= 0; --r) backwards = with_lower(pattern, backwards, input(pattern, r, 5, count));
        EXPECT_EQ(backwards == expected, op == kUser || ranks == 1) << text(pattern);
        const size_t begin = 3 * tutti_type_size(type);
        EXPECT_EQ(folded(pattern, 8, count - 3), Bytes(expected.begin() + static_cast<ptrdiff_t>(begin), expected.end()));
      }
    }
  }
}

TEST(Data, OfTheUsersOwnOperatorsTellsElementsThatWereCutInTwo) {
  for (const tutti_op op : {kUser, kUserOrdered}) {
    const Pattern whole = {opaque(8), op, true, 3, 7}, halves = {opaque(4), op, true, 3, 7};
    Bytes parts = input(whole, 0, 0, kCount);
    for (int r = 1; r < 3; ++r) parts = with_lower(halves, parts, input(whole, r, 0, kCount));
    EXPECT_NE(parts, folded(whole, 0, kCount));
  }
}

TEST(Data, OfSeveralOperandsARankFoldsAsOfManyRanks) {
  for (Pattern pattern : reducing_patterns({6})) {
    const Bytes inputs = input(pattern, 4, 5, kCount), all = folded(pattern, 5, kCount);
    for (const int ranks : {1, 2, 3}) {
      pattern.ranks = ranks;
      pattern.operands = 6 / ranks;
      EXPECT_EQ(input(pattern, 4, 5, kCount), inputs) << text(pattern);
      EXPECT_EQ(folded(pattern, 5, kCount), all) << text(pattern);
    }
  }
  // One number scales all operands of a rank: of the second alone where each has three.
  const Pattern scaled = {TUTTI_INT32, kPreMulSum, true, 2, 7, 3};
  Bytes total = input(scaled, 0, 0, kCount);
  for (const int operand : {1, 2, 3, 3, 4, 4, 5, 5})
    total = combine(TUTTI_INT32, TUTTI_SUM, total, input(scaled, operand, 0, kCount));
  EXPECT_EQ(folded(scaled, 0, kCount), total);
}

TEST(Data, OpaqueElementsReadAsTheirFirstBytes) {
  const uint8_t bytes[17] = {0x01, 0xab};
  EXPECT_EQ(as_text(opaque(2), bytes), "01ab");
  EXPECT_EQ(as_text(opaque(17), bytes), "01ab0000000000000000000000000000...");
}

TEST(Data, AveragesAreNotAllWholeAndIntegersGoTowardsZero) {
  const Pattern ints = {TUTTI_INT8, TUTTI_AVG, true, 3, 1};
  const Bytes a = input(ints, 0, 0, 300);
  const Bytes b = input(ints, 1, 0, 300);
  const Bytes c = input(ints, 2, 0, 300);
  const Bytes average = folded(ints, 0, 300);
  int negative_with_rest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const int sum = static_cast<int8_t>(a[i]) + static_cast<int8_t>(b[i]) + static_cast<int8_t>(c[i]);
    EXPECT_LE(std::abs(sum), 127);
    EXPECT_EQ(static_cast<int8_t>(average[i]), sum / 3);
    negative_with_rest += sum < 0 && sum % 3 != 0 ? 1 : 0;
  }
  EXPECT_GT(negative_with_rest, 50);
}

template <uint16_t (*kRound)(double)>
void expect_nearest(tutti_type type) {
  for (uint32_t bits = 0; bits < 0x8000; ++bits) {
    const uint16_t element = static_cast<uint16_t>(bits);
    const uint16_t next = static_cast<uint16_t>(bits + 1);
    const double value = as_number(type, &element);
    if (std::isnan(value)) continue;
    ASSERT_EQ(kRound(value), element);
    ASSERT_EQ(kRound(-value), element | 0x8000);
    const double above = as_number(type, &next);
    if (!std::isfinite(above)) continue;
    const double middle = (value + above) / 2;
    ASSERT_EQ(kRound(middle), bits % 2 == 0 ? element : next) << middle;
    ASSERT_EQ(kRound(std::nextafter(middle, 0)), element) << middle;
    ASSERT_EQ(kRound(std::nextafter(middle, INFINITY)), next) << middle;
  }
  EXPECT_TRUE(std::isinf(as_number(type, std::vector<uint16_t>{kRound(1e300)}.data())));
  EXPECT_TRUE(std::isnan(as_number(type, std::vector<uint16_t>{kRound(std::nan(""))}.data())));
}

TEST(Data, RoundsToNearestEvenIn16Bits) {
  expect_nearest<to_float16>(TUTTI_FLOAT16);
  expect_nearest<to_bfloat16>(TUTTI_BFLOAT16);
  EXPECT_EQ(to_float16(65504), 0x7bff);
  EXPECT_EQ(to_float16(65519.99), 0x7bff);
  EXPECT_EQ(to_float16(65520), 0x7c00);
  EXPECT_EQ(to_float16(1.0), 0x3c00);
  EXPECT_EQ(to_bfloat16(1.0), 0x3f80);
  EXPECT_EQ(to_bfloat16(-2.0), 0xc000);
}

template <uint8_t (*kRound)(double)>
void expect_nearest_8(tutti_type type, unsigned numbers) {
  for (unsigned bits = 0; bits < numbers; ++bits) {
    const uint8_t element = static_cast<uint8_t>(bits);
    const uint8_t next = static_cast<uint8_t>(bits + 1);
    const double value = as_number(type, &element);
    ASSERT_EQ(kRound(value), element);
    ASSERT_EQ(kRound(-value), element | 0x80);
    if (bits + 1 == numbers) continue;
    const double middle = (value + as_number(type, &next)) / 2;
    ASSERT_EQ(kRound(middle), bits % 2 == 0 ? element : next) << middle;
    ASSERT_EQ(kRound(std::nextafter(middle, 0)), element) << middle;
    ASSERT_EQ(kRound(std::nextafter(middle, INFINITY)), next) << middle;
  }
}

TEST(Data, RoundsToNearestEvenIn8Bits) {
  expect_nearest_8<to_float8_e4m3>(TUTTI_FLOAT8_E4M3, 0x7f);
  expect_nearest_8<to_float8_e5m2>(TUTTI_FLOAT8_E5M2, 0x7c);
  EXPECT_EQ(to_float8_e4m3(448), 0x7e);
  EXPECT_EQ(to_float8_e4m3(464), 0x7e);
  EXPECT_EQ(to_float8_e4m3(464.01), 0x7f);
  EXPECT_EQ(to_float8_e4m3(-INFINITY), 0x7f);
  EXPECT_EQ(to_float8_e4m3(1.0), 0x38);
  EXPECT_EQ(to_float8_e5m2(57344), 0x7b);
  EXPECT_EQ(to_float8_e5m2(61440), 0x7c);
  EXPECT_EQ(to_float8_e5m2(-1e9), 0xfc);
  EXPECT_EQ(to_float8_e5m2(1.0), 0x3c);
  const uint8_t nan = 0xff;
  EXPECT_TRUE(std::isnan(as_number(TUTTI_FLOAT8_E4M3, &nan)));
  EXPECT_TRUE(std::isnan(as_number(TUTTI_FLOAT8_E5M2, &nan)));
}

TEST(Data, TruthValuesComeOutTrueAndFalse) {
  for (const Pattern& pattern : reducing_patterns({2, 4, 9})) {
    const bool is_logical = pattern.op >= TUTTI_LOGICAL_AND && pattern.op <= TUTTI_LOGICAL_XOR;
    if (!is_logical && pattern.type != TUTTI_BOOL) continue;
    const uint64_t size = tutti_type_size(pattern.type);
    const Bytes results = folded(pattern, 0, 1000);
    int ones = 0;
    for (uint64_t i = 0; i < 1000; ++i) ones += std::to_integer<int>(results[i * size]);
    EXPECT_GT(ones, 200) << text(pattern);
    EXPECT_LT(ones, 800) << text(pattern);
  }
}

TEST(Data, ComplexNumbersReadAsPairs) {
  const float parts[] = {1.5f, -2};
  EXPECT_EQ(as_text(TUTTI_COMPLEX64, parts), "(1.5, -2)");
  EXPECT_EQ(as_text(TUTTI_FLOAT32, parts), "1.5");
}

}  // namespace
}  // namespace tutti::perf
