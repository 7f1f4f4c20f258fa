// A block's sweep, built for the host, against the folds of src/reduction. Bits are the same for every type and operator,
// whatever the operands' number and place and the number of threads.
#include "src/executors/cuda/sweep.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "src/reduction/reduction.h"
#include "src/reduction/scale.h"
#include "src/tables/element_types.h"
#include "src/tables/operators.h"

namespace tutti::testing {
namespace {

/// Bits that are worth trying: all kinds of numbers, and among them many that floats treat in ways of their own.
template <typename T>
T some_element(std::mt19937_64& random) {
  constexpr std::uint64_t special[] = {0,      1,      0x8000,     0x7c00,     0xfc00,     0x7e00,     0x7f80,
                                       0xff80, 0x7fc0, 0x7f800000, 0xff800000, 0x7fa00000, 0x80000000, 0x3f800000};
  constexpr std::uint64_t wide[] = {0x7ff0000000000000, 0xfff0000000000000, 0x7ff4000000000000, 0x8000000000000000};
  constexpr std::size_t kWords = (sizeof(T) + 7) / 8;
  std::uint64_t bits[kWords];
  for (std::uint64_t& word : bits) {
    word = random();
    if (random() % 4 == 0) word = sizeof(T) >= 8 && random() % 2 == 0 ? wide[random() % 4] : special[random() % 14];
  }
  T element;
  std::memcpy(&element, bits, sizeof element);
  return element;
}

/// Where one sweep's operands lie: offsets of bytes from multiples of 16.
struct Places {
  std::vector<std::size_t> sources, destinations;
};

/// Memory of operands, each at its offset, with bytes around that nobody may write.
class Operands {
 public:
  Operands(const std::vector<std::size_t>& offsets, std::size_t bytes) : bytes_(bytes) {
    for (const std::size_t offset : offsets) {
      memory_.emplace_back(bytes + 3 * guard, std::byte{0x5a});
      const auto address = reinterpret_cast<std::uintptr_t>(memory_.back().data());
      begin_.push_back(memory_.back().data() + (guard - address % guard) + offset);
    }
  }
  std::byte* operator[](std::size_t i) { return begin_[i]; }
  std::byte* const* all() { return begin_.data(); }
  std::vector<std::byte> whole() const {
    std::vector<std::byte> bytes;
    for (const auto& memory : memory_) bytes.insert(bytes.end(), memory.begin(), memory.end());
    return bytes;
  }
  /// Whether nobody wrote around them.
  bool intact_outside() const {
    bool intact = true;
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      for (const std::byte& byte : memory_[i])
        intact = intact && ((&byte >= begin_[i] && &byte < begin_[i] + bytes_) || byte == std::byte{0x5a});
    }
    return intact;
  }
  std::vector<std::byte> of(std::size_t i) const { return {begin_[i], begin_[i] + bytes_}; }

 private:
  static constexpr std::size_t guard = 64;
  std::size_t bytes_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<std::byte*> begin_;
};

std::vector<std::byte> folded_on_host(tutti_type type, tutti_op op, Operands& sources, std::size_t source_count,
                                      std::uint64_t count, std::uint64_t divide_by) {
  std::vector<FoldSource> from;
  for (std::size_t s = 0; s < source_count; ++s) from.push_back({sources[s]});
  std::vector<std::byte> result(count * element_bytes(type));
  const FoldDestination to{result.data()};
  find_fold(type, op)({from.data(), &to, static_cast<std::uint32_t>(source_count), 1, count, divide_by});
  return result;
}

/// All of a block's threads, one after the other: none waits for another.
template <typename Run>
void by_threads(std::uint32_t threads, const Run& run) {
  for (std::uint32_t t = 0; t < threads; ++t) run(Sweeper{t, threads});
}

const std::vector<Places> places = {{{0}, {0}},
                                    {{0, 0}, {0}},
                                    {{8, 8}, {8, 8}},
                                    {{4, 4, 4}, {4}},
                                    {{1, 1}, {1, 1}},         // not as elements lie, but all alike
                                    {{0, 4, 8}, {12, 0, 4}},  // packs do not meet
                                    {{0, 1, 2, 3}, {5, 0}},   // nor do elements
                                    {{0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0}}};

template <typename T, typename Op>
void expect_host_bits(tutti_type type, tutti_op op, std::uint64_t divide_by) {
  std::mt19937_64 random(1);
  for (const Places& at : places) {
    for (const std::uint64_t count : {0, 1, 2, 7, 15, 16, 17, 63, 64, 65, 300, 4099}) {
      Operands sources(at.sources, count * sizeof(T)), destinations(at.destinations, count * sizeof(T));
      for (std::size_t s = 0; s < at.sources.size(); ++s) {
        for (std::uint64_t i = 0; i < count; ++i) {
          const T element = some_element<T>(random);
          std::memcpy(sources[s] + i * sizeof(T), &element, sizeof(T));
        }
      }
      const auto expected = folded_on_host(type, op, sources, at.sources.size(), count, divide_by);
      const auto untouched = sources.whole();
      const SweepArguments arguments{sources.all(),
                                     destinations.all(),
                                     static_cast<std::uint32_t>(at.sources.size()),
                                     static_cast<std::uint32_t>(at.destinations.size()),
                                     count,
                                     divide_by};
      for (const std::uint32_t threads : {1u, 3u, 32u}) {
        by_threads(threads, [&](Sweeper self) { BlockSweep<T, Op>(arguments, self).run(); });
        for (std::size_t d = 0; d < at.destinations.size(); ++d) {
          const auto got = destinations.of(d);
          const auto [wrong, right] = std::mismatch(got.begin(), got.end(), expected.begin());
          ASSERT_EQ(wrong, got.end()) << "byte " << wrong - got.begin() << " of " << count << " elements, "
                                      << at.sources.size() << " sources, op " << op << ", divided by " << divide_by << ", "
                                      << threads << " threads, destination " << d;
        }
        ASSERT_TRUE(destinations.intact_outside());
        ASSERT_EQ(sources.whole(), untouched);
      }
    }
  }
}

template <typename T>
class EveryType : public ::testing::Test {};

template <typename T>
constexpr tutti_type type_of() {
  for (const ElementTypeInfo& info : element_types) {
    if (visit_type(info.type, []<typename U>(std::type_identity<U>) { return std::is_same_v<T, U>; })) return info.type;
  }
  return TUTTI_TYPE_LIMIT;
}

using Types = ::testing::Types<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t, std::uint32_t,
                               std::int64_t, std::uint64_t, Float8E4M3, Float8E5M2, Float16, BFloat16, float, double>;
TYPED_TEST_SUITE(EveryType, Types);

TYPED_TEST(EveryType, FoldsToTheHostsBits) {
  constexpr tutti_type type = type_of<TypeParam>();
  static_assert(type != TUTTI_TYPE_LIMIT);
  expect_host_bits<TypeParam, Sum>(type, TUTTI_SUM, 0);
  expect_host_bits<TypeParam, Prod>(type, TUTTI_PROD, 0);
  expect_host_bits<TypeParam, Min>(type, TUTTI_MIN, 0);
  expect_host_bits<TypeParam, Max>(type, TUTTI_MAX, 0);
  for (const std::uint64_t ranks : {1, 2, 3, 8, 1000}) expect_host_bits<TypeParam, Sum>(type, TUTTI_SUM, ranks);
  if constexpr (std::is_unsigned_v<TypeParam>) {
    expect_host_bits<TypeParam, LogicalAnd>(type, TUTTI_LOGICAL_AND, 0);
    expect_host_bits<TypeParam, LogicalOr>(type, TUTTI_LOGICAL_OR, 0);
    expect_host_bits<TypeParam, LogicalXor>(type, TUTTI_LOGICAL_XOR, 0);
  }
}

/// Sums of which the two in the middle are scaled, against the host's products and sums.
template <typename T>
void expect_scaled_bits(tutti_type type) {
  std::mt19937_64 random(4);
  for (const std::size_t count : {1, 7, 500}) {
    for (const Places& at : places) {
      Operands sources(at.sources, count * sizeof(T)), destinations(at.destinations, count * sizeof(T));
      Operands products(std::vector<std::size_t>(at.sources.size(), 0), count * sizeof(T));
      const T scalar = some_element<T>(random);
      const auto n = static_cast<std::uint32_t>(at.sources.size());
      const std::uint32_t begin = n > 2 ? 1 : 0, end = n > 2 ? 3 : 1;
      for (std::uint32_t s = 0; s < n; ++s) {
        for (std::size_t i = 0; i < count; ++i) {
          const T element = some_element<T>(random);
          std::memcpy(sources[s] + i * sizeof(T), &element, sizeof(T));
        }
        std::memcpy(products[s], sources[s], count * sizeof(T));
        if (s >= begin && s < end) scale(type, &scalar, sources[s], products[s], count);
      }
      // Sums of complex numbers are counted in floats.
      const tutti_type folded = fold_kind(type, TUTTI_SUM).type;
      const auto expected = folded_on_host(folded, TUTTI_SUM, products, n, count * sizeof(T) / element_bytes(folded), 0);
      const SweepArguments arguments{sources.all(),
                                     destinations.all(),
                                     n,
                                     static_cast<std::uint32_t>(at.destinations.size()),
                                     count,
                                     0,
                                     begin,
                                     end,
                                     reinterpret_cast<const std::byte*>(&scalar)};
      by_threads(5, [&](Sweeper self) { BlockSweep<T, PreMulSum>(arguments, self).run(); });
      for (std::size_t d = 0; d < at.destinations.size(); ++d)
        ASSERT_EQ(destinations.of(d), expected) << count << " elements, " << n << " sources";
      ASSERT_TRUE(destinations.intact_outside());
    }
  }
}

TYPED_TEST(EveryType, ScalesToTheHostsBits) { expect_scaled_bits<TypeParam>(type_of<TypeParam>()); }

TEST(BlockSweep, ScalesComplexNumbersToTheHostsBits) {
  expect_scaled_bits<Complex<float>>(TUTTI_COMPLEX64);
  expect_scaled_bits<Complex<double>>(TUTTI_COMPLEX128);
}

TEST(BlockSweep, FoldsBitsToTheHostsBits) {
  expect_host_bits<std::uint8_t, BitwiseAnd>(TUTTI_UINT8, TUTTI_BITWISE_AND, 0);
  expect_host_bits<std::uint8_t, BitwiseOr>(TUTTI_UINT8, TUTTI_BITWISE_OR, 0);
  expect_host_bits<std::uint8_t, BitwiseXor>(TUTTI_UINT8, TUTTI_BITWISE_XOR, 0);
}

TEST(BlockSweep, MultipliesComplexNumbersToTheHostsBits) {
  expect_host_bits<Complex<float>, Prod>(TUTTI_COMPLEX64, TUTTI_PROD, 0);
  expect_host_bits<Complex<double>, Prod>(TUTTI_COMPLEX128, TUTTI_PROD, 0);
}

TYPED_TEST(EveryType, FoldsInPlace) {
  constexpr tutti_type type = type_of<TypeParam>();
  std::mt19937_64 random(2);
  for (const std::size_t place : {0, 1}) {
    Operands sources({0, 0, 0}, 1000 * sizeof(TypeParam));
    for (std::size_t s = 0; s < 3; ++s) {
      for (std::uint64_t i = 0; i < 1000; ++i) {
        const TypeParam element = some_element<TypeParam>(random);
        std::memcpy(sources[s] + i * sizeof(TypeParam), &element, sizeof(TypeParam));
      }
    }
    const auto expected = folded_on_host(type, TUTTI_SUM, sources, 3, 1000, 0);
    std::byte* const to = sources[place];
    const SweepArguments arguments{sources.all(), &to, 3, 1, 1000, 0};
    by_threads(5, [&](Sweeper self) { BlockSweep<TypeParam, Sum>(arguments, self).run(); });
    EXPECT_EQ(sources.of(place), expected);
  }
}

TEST(BlockCopy, CopiesEveryBit) {
  std::mt19937_64 random(3);
  for (const Places& at : {Places{{0}, {0}}, Places{{8}, {8, 0}}, Places{{3}, {3}}, Places{{1}, {2, 9}}}) {
    for (const std::uint64_t bytes : {0, 1, 8, 15, 16, 17, 24, 1000, 4096, 4099}) {
      Operands source(at.sources, bytes), destinations(at.destinations, bytes);
      for (std::uint64_t i = 0; i < bytes; ++i) source[0][i] = static_cast<std::byte>(random());
      const SweepArguments arguments{
          source.all(), destinations.all(), 1, static_cast<std::uint32_t>(at.destinations.size()), bytes, 0};
      by_threads(7, [&](Sweeper self) { copy_in_block(arguments, self); });
      for (std::size_t d = 0; d < at.destinations.size(); ++d) EXPECT_EQ(destinations.of(d), source.of(0));
      EXPECT_TRUE(destinations.intact_outside());
    }
  }
}

}  // namespace
}  // namespace tutti::testing
