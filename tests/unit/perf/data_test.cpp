// The data of checked runs: exact in every order of folding, and told apart.
#include "perf/data.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <set>
#include <vector>

#include "src/tables/element_types.h"
#include "src/tables/names.h"
#include "src/tables/operators.h"

namespace tutti::perf {
namespace {

using Bytes = std::vector<std::byte>;

// An operator on single elements of the type itself, rounding after every step: an oracle that shares nothing with the
// wide arithmetic under test but as_number and the rounding to 16 bits, which have tests of their own.
template <class T>
T apply(tutti_op op, T a, T b) {
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

Bytes combine_16(tutti_type type, tutti_op op, const Bytes& a, const Bytes& b) {
  Bytes out(a.size());
  for (size_t i = 0; i < a.size(); i += 2) {
    const double value = apply(op, as_number(type, &a[i]), as_number(type, &b[i]));
    const uint16_t bits = type == TUTTI_FLOAT16 ? to_float16(value) : to_bfloat16(value);
    std::memcpy(&out[i], &bits, 2);
  }
  return out;
}

Bytes combine(tutti_type type, tutti_op op, const Bytes& a, const Bytes& b) {
  return visit_type(type, [&]<class T>(std::type_identity<T>) {
    if constexpr (std::is_arithmetic_v<T>) {
      return combine_as<T>(op, a, b);
    } else {
      return combine_16(type, op, a, b);
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

void divide_16(tutti_type type, Bytes& bytes, int ranks) {
  for (size_t i = 0; i < bytes.size(); i += 2) {
    const double value = as_number(type, &bytes[i]) / ranks;
    const uint16_t bits = type == TUTTI_FLOAT16 ? to_float16(value) : to_bfloat16(value);
    std::memcpy(&bytes[i], &bits, 2);
  }
}

void divide(tutti_type type, Bytes& bytes, int ranks) {
  visit_type(type, [&]<class T>(std::type_identity<T>) {
    if constexpr (std::is_arithmetic_v<T>) {
      divide_as<T>(bytes, ranks);
    } else {
      divide_16(type, bytes, ranks);
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
  for (const ElementTypeInfo& type : supported_types) {
    for (const OperatorInfo& op : supported_operators) {
      for (const int ranks : rank_counts) patterns.push_back({type.type, op.op, true, ranks, 7});
    }
  }
  return patterns;
}

std::string text(const Pattern& pattern) {
  return text_of(pattern.type) + " " + text_of(pattern.op) + " of " + std::to_string(pattern.ranks);
}

constexpr uint64_t kCount = 700;  // more than one block of the generator

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
      const uint64_t most = reduces && pattern.op == TUTTI_PROD ? 2000 : 3800;
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

}  // namespace
}  // namespace tutti::perf
