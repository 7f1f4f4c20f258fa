// Custom operators: user-defined ones, and sums whose operands are scaled.
#include <gmock/gmock.h>

#include <atomic>
#include <complex>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "algorithms/algorithm.h"
#include "src/reduction/elements.h"
#include "src/tables/element_types.h"
#include "tests/support/ranks.h"

namespace tutti::test {
namespace {

using testing::HasSubstr;

/// Whole numbers modulo a prime, 2 x 2 of them: products of matrices are associative and do not commute.
struct Matrix {
  std::uint32_t at[4];
  bool operator==(const Matrix&) const = default;
};
constexpr std::uint32_t kPrime = 65521;

Matrix product(const Matrix& a, const Matrix& b) {
  const auto sum = [&](int row, int column) {
    return (a.at[2 * row] * b.at[column] % kPrime + a.at[2 * row + 1] * b.at[2 + column] % kPrime) % kPrime;
  };
  return {{sum(0, 0), sum(0, 1), sum(1, 0), sum(1, 1)}};
}

Matrix matrix_of(int rank, std::size_t i) {
  std::minstd_rand random(static_cast<std::uint32_t>(rank) * 7919u + static_cast<std::uint32_t>(i) + 1u);
  Matrix made{};
  for (std::uint32_t& number : made.at) number = static_cast<std::uint32_t>(random()) % kPrime;
  return made;
}

/// What a test's operator was called with.
struct Seen {
  std::atomic<std::uint64_t> elements{0};
  std::atomic<int> misaligned{0};

  static void multiply(void* ctx, const void* in, void* inout, std::uint64_t count) {
    Seen& seen = *static_cast<Seen*>(ctx);
    seen.elements += count;
    if (reinterpret_cast<std::uintptr_t>(in) % 16 != 0 || reinterpret_cast<std::uintptr_t>(inout) % 16 != 0)
      ++seen.misaligned;
    const auto* const left = static_cast<const Matrix*>(in);
    auto* const right = static_cast<Matrix*>(inout);
    for (std::uint64_t i = 0; i < count; ++i) right[i] = product(left[i], right[i]);
  }
};

constexpr auto kMatrix = static_cast<tutti_type>(TUTTI_OPAQUE + sizeof(Matrix));

std::vector<Matrix> matrices_of(int rank, std::size_t count) {
  std::vector<Matrix> made;
  for (std::size_t i = 0; i < count; ++i) made.push_back(matrix_of(rank, i));
  return made;
}

std::vector<Matrix> product_of(int ranks, std::size_t count) {
  std::vector<Matrix> made = matrices_of(0, count);
  for (int r = 1; r < ranks; ++r) {
    for (std::size_t i = 0; i < count; ++i) made[i] = product(made[i], matrix_of(r, i));
  }
  return made;
}

/// By reduce_scatter, its v-variant, and several operands a rank. Behind each result is memory that nobody may write.
void expect_scattered_products(int ranks, int rank, tutti_comm* comm, tutti_op op) {
  constexpr std::size_t n = 501;
  const auto blocks = static_cast<std::size_t>(ranks);
  const std::vector<Matrix> mine = matrices_of(rank, n * blocks);
  const std::vector<Matrix> all = product_of(ranks, n * blocks);
  const auto own = all.begin() + static_cast<std::ptrdiff_t>(n) * rank;
  std::vector<Matrix> expected(own, own + static_cast<std::ptrdiff_t>(n));
  expected.resize(2 * n, Matrix{{7, 7, 7, 7}});
  std::vector<Matrix> got(2 * n, Matrix{{7, 7, 7, 7}});
  ASSERT_EQ(tutti_reduce_scatter(mine.data(), got.data(), n, kMatrix, op, comm, {}, nullptr), TUTTI_SUCCESS);
  EXPECT_EQ(got, expected);
  got.assign(2 * n, Matrix{{7, 7, 7, 7}});
  std::vector<tutti_block> list;
  for (std::size_t r = 0; r < blocks; ++r) list.push_back({const_cast<Matrix*>(mine.data()) + r * n, n});
  ASSERT_EQ(tutti_reduce_scatter_v(list.data(), got.data(), n, kMatrix, op, comm, {}, nullptr), TUTTI_SUCCESS)
      << last_error();
  EXPECT_EQ(got, expected) << "v";
  tutti_call call = TUTTI_CALL_INIT;
  call.canonical = static_cast<std::uint32_t>(3 * ranks);
  std::vector<Matrix> operands;
  for (int o = 3 * rank; o < 3 * rank + 3; ++o) {
    const std::vector<Matrix> one = matrices_of(o, n);
    operands.insert(operands.end(), one.begin(), one.end());
  }
  std::vector<Matrix> product(n);
  ASSERT_EQ(tutti_all_reduce(operands.data(), product.data(), n, kMatrix, op, comm, {}, &call), TUTTI_SUCCESS);
  EXPECT_EQ(product, product_of(3 * ranks, n)) << "canonical";
}

struct World {
  int ranks;
  const char* transport;
};
class CustomOperators : public testing::TestWithParam<World> {};

TEST_P(CustomOperators, KeepTheOrderOfRanksWhereTheyDoNotCommute) {
  const auto [count, transport] = GetParam();
  const Ranks ranks(count, transport);
  ranks.run([&](int rank, tutti_comm* comm) {
    Seen seen;
    // Ranks need not have the same value.
    tutti_op other = TUTTI_OP_LIMIT;
    const float half = .5f;
    if (rank % 2 != 0) {
      ASSERT_EQ(tutti_op_create_pre_mul_sum(&other, &half, TUTTI_FLOAT32, TUTTI_MEMORY_HOST, comm), TUTTI_SUCCESS);
    }
    tutti_op op = TUTTI_OP_LIMIT;
    ASSERT_EQ(tutti_op_create_user(&op, &Seen::multiply, &seen, 0, sizeof(Matrix), comm), TUTTI_SUCCESS) << last_error();
    EXPECT_GE(static_cast<int>(op), 256);
    for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{1001}, std::size_t{20'011}}) {
      const std::vector<Matrix> mine = matrices_of(rank, n);
      const std::vector<Matrix> all = product_of(ranks.size(), n);
      std::vector<Matrix> got(n);
      ASSERT_EQ(tutti_all_reduce(mine.data(), got.data(), n, kMatrix, op, comm, {}, nullptr), TUTTI_SUCCESS)
          << last_error();
      EXPECT_EQ(got, all) << n;
      got = mine;
      ASSERT_EQ(tutti_all_reduce(got.data(), got.data(), n, kMatrix, op, comm, {}, nullptr), TUTTI_SUCCESS) << last_error();
      EXPECT_EQ(got, all) << n << ", in place";
      const int root = ranks.size() / 2;
      got.assign(n, {});
      ASSERT_EQ(tutti_reduce(mine.data(), got.data(), n, kMatrix, op, root, comm, {}, nullptr), TUTTI_SUCCESS);
      if (rank == root) {
        EXPECT_EQ(got, all) << n << ", at the root";
      }
    }
    EXPECT_TRUE(seen.elements != 0 || ranks.size() == 1);
    expect_scattered_products(ranks.size(), rank, comm, op);
    EXPECT_EQ(seen.misaligned, 0);
    EXPECT_EQ(tutti_op_destroy(op, comm), TUTTI_SUCCESS);
  });
}

// Every algorithm but those that keep no order runs a commutative one.
TEST_P(CustomOperators, RunByAnyAlgorithmWhereTheyCommute) {
  const auto [count, transport] = GetParam();
  const Ranks ranks(count, transport);
  ranks.run([&](int rank, tutti_comm* comm) {
    const auto add = [](void*, const void* in, void* inout, std::uint64_t n) {
      for (std::uint64_t i = 0; i < 3 * n; ++i)
        static_cast<std::uint64_t*>(inout)[i] += static_cast<const std::uint64_t*>(in)[i];
    };
    tutti_op op = TUTTI_OP_LIMIT;
    ASSERT_EQ(tutti_op_create_user(&op, add, nullptr, 1, 24, comm), TUTTI_SUCCESS) << last_error();
    const auto type = static_cast<tutti_type>(TUTTI_OPAQUE + 24);
    for (const Algorithm* algorithm : all_algorithms()) {
      const bool scatters = algorithm->collective == Collective::reduce_scatter;
      if (!scatters && algorithm->collective != Collective::all_reduce) continue;
      for (const std::size_t n : {std::size_t{5}, std::size_t{20'011}}) {
        const std::size_t blocks = scatters ? static_cast<std::size_t>(ranks.size()) : 1;
        const std::vector<std::uint64_t> mine(3 * n * blocks, static_cast<std::uint64_t>(rank + 1));
        std::vector<std::uint64_t> got(3 * n);
        tutti_call call = TUTTI_CALL_INIT;
        call.algorithm = algorithm->name;
        const tutti_status status = scatters ? tutti_reduce_scatter(mine.data(), got.data(), n, type, op, comm, {}, &call)
                                             : tutti_all_reduce(mine.data(), got.data(), n, type, op, comm, {}, &call);
        if (status == TUTTI_INVALID_ARGUMENT) continue;  // it wants other places of ranks
        ASSERT_EQ(status, TUTTI_SUCCESS) << algorithm->name << ": " << last_error();
        const auto sum = static_cast<std::uint64_t>(ranks.size() * (ranks.size() + 1) / 2);
        EXPECT_EQ(got, std::vector<std::uint64_t>(3 * n, sum)) << algorithm->name << ", " << n;
      }
    }
    // On a queue, where the operator goes before the call has ended.
    tutti_queue* queue = nullptr;
    ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS) << last_error();
    std::vector<std::uint64_t> data(3000, 1);
    ASSERT_EQ(tutti_all_reduce(data.data(), data.data(), 1000, type, op, comm, {TUTTI_STREAM_QUEUE, queue}, nullptr),
              TUTTI_SUCCESS);
    EXPECT_EQ(tutti_op_destroy(op, comm), TUTTI_SUCCESS);
    EXPECT_EQ(tutti_queue_wait(queue, 0), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(data, std::vector<std::uint64_t>(3000, static_cast<std::uint64_t>(ranks.size())));
    EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
  });
}

TEST_P(CustomOperators, ScaleEachRanksOperandsByItsOwnNumber) {
  const auto [count, transport] = GetParam();
  const Ranks ranks(count, transport);
  ranks.run([&](int rank, tutti_comm* comm) {
    const int n = ranks.size();
    const auto expect = [&]<typename T>(tutti_type type, T scalar, T value, T sum) {
      tutti_op op = TUTTI_OP_LIMIT;
      ASSERT_EQ(tutti_op_create_pre_mul_sum(&op, &scalar, type, TUTTI_MEMORY_HOST, comm), TUTTI_SUCCESS) << last_error();
      const std::size_t elements = 3001;
      const auto blocks = static_cast<std::size_t>(n);
      std::vector<T> send(elements * blocks, value), recv(elements);
      const std::vector<T> expected(elements, sum);
      const auto same = [](const std::vector<T>& a, const std::vector<T>& b) {
        return std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
      };
      ASSERT_EQ(tutti_all_reduce(send.data(), recv.data(), elements, type, op, comm, {}, nullptr), TUTTI_SUCCESS);
      EXPECT_TRUE(same(recv, expected)) << "all_reduce, type " << type;
      EXPECT_TRUE(same(send, std::vector<T>(send.size(), value))) << "the operands are as they were";
      ASSERT_EQ(tutti_reduce_scatter(send.data(), recv.data(), elements, type, op, comm, {}, nullptr), TUTTI_SUCCESS);
      EXPECT_TRUE(same(recv, expected)) << "reduce_scatter, type " << type;
      ASSERT_EQ(tutti_reduce(send.data(), recv.data(), elements, type, op, 0, comm, {}, nullptr), TUTTI_SUCCESS);
      EXPECT_TRUE(rank != 0 || same(recv, expected)) << "reduce, type " << type;
      std::vector<tutti_block> list(blocks, {send.data(), elements});
      ASSERT_EQ(tutti_reduce_scatter_v(list.data(), recv.data(), elements, type, op, comm, {}, nullptr), TUTTI_SUCCESS)
          << last_error();
      EXPECT_TRUE(same(recv, expected)) << "reduce_scatter_v, type " << type;
      recv.assign(elements, value);
      ASSERT_EQ(tutti_all_reduce(recv.data(), recv.data(), elements, type, op, comm, {}, nullptr), TUTTI_SUCCESS);
      EXPECT_TRUE(same(recv, expected)) << "in place, type " << type;
      EXPECT_EQ(tutti_op_destroy(op, comm), TUTTI_SUCCESS);
    };
    const int all = n * (n + 1) / 2;
    expect(TUTTI_FLOAT32, static_cast<float>(rank + 1) * .5f, 4.0f, static_cast<float>(2 * all));
    expect(TUTTI_FLOAT64, static_cast<double>(rank + 1), -1.0, static_cast<double>(-all));
    expect(TUTTI_INT8, static_cast<std::int8_t>(rank + 1), std::int8_t{-1}, static_cast<std::int8_t>(-all));
    expect(TUTTI_UINT64, static_cast<std::uint64_t>(rank + 1), std::uint64_t{1} << 40,
           static_cast<std::uint64_t>(all) << 40);
    expect(TUTTI_BFLOAT16, narrow<BFloat16>(static_cast<float>(rank + 1)), narrow<BFloat16>(2.0f),
           narrow<BFloat16>(static_cast<float>(2 * all)));
    expect(TUTTI_FLOAT8_E4M3, narrow<Float8E4M3>(1.0f), narrow<Float8E4M3>(1.0f),
           narrow<Float8E4M3>(static_cast<float>(n)));
    expect(TUTTI_COMPLEX64, Complex<float>{0, static_cast<float>(rank + 1)}, Complex<float>{1, 2},
           Complex<float>{static_cast<float>(-2 * all), static_cast<float>(all)});
    // Several operands a rank, all by its one number.
    tutti_op op = TUTTI_OP_LIMIT;
    const float scalar = static_cast<float>(rank + 1);
    ASSERT_EQ(tutti_op_create_pre_mul_sum(&op, &scalar, TUTTI_FLOAT32, TUTTI_MEMORY_HOST, comm), TUTTI_SUCCESS);
    tutti_call call = TUTTI_CALL_INIT;
    call.canonical = static_cast<std::uint32_t>(3 * n);
    const std::vector<float> ones(3 * 100, 1.0f);
    std::vector<float> sum(100);
    ASSERT_EQ(tutti_all_reduce(ones.data(), sum.data(), 100, TUTTI_FLOAT32, op, comm, {}, &call), TUTTI_SUCCESS);
    EXPECT_EQ(sum, std::vector<float>(100, static_cast<float>(3 * all)));
  });
}

INSTANTIATE_TEST_SUITE_P(, CustomOperators,
                         testing::Values(World{1, "shm"}, World{2, "shm"}, World{3, "shm"}, World{4, "shm"},
                                         World{5, "shm"}, World{8, "shm"}, World{2, "tcp"}, World{4, "tcp"}),
                         [](const auto& each) { return std::to_string(each.param.ranks) + "over" + each.param.transport; });

void refused(tutti_status status, const char* words) {
  EXPECT_EQ(status, TUTTI_INVALID_ARGUMENT) << words;
  EXPECT_THAT(last_error(), HasSubstr(words));
}
void nothing(void*, const void*, void*, std::uint64_t) {}

TEST(CustomOperatorCreations, ThatCannotBeAreRefused) {
  const Ranks ranks(2);
  ranks.run([](int, tutti_comm* comm) {
    tutti_op op = TUTTI_SUM;
    const float two = 2;
    refused(tutti_op_create_user(nullptr, nothing, nullptr, 1, 4, comm), "a place for the operator");
    refused(tutti_op_create_user(&op, nullptr, nullptr, 1, 4, comm), "has no function");
    EXPECT_EQ(op, TUTTI_OP_LIMIT);
    refused(tutti_op_create_user(&op, nothing, nullptr, 1, 0, comm), "elements of 0 bytes");
    refused(tutti_op_create_user(&op, nothing, nullptr, 1, 1025, comm), "1 to 1024");
    refused(tutti_op_create_user(&op, nothing, nullptr, 1, 4, nullptr), "");
    refused(tutti_op_create_pre_mul_sum(&op, nullptr, TUTTI_FLOAT32, TUTTI_MEMORY_HOST, comm), "has no scalar");
    refused(tutti_op_create_pre_mul_sum(&op, &two, TUTTI_BOOL, TUTTI_MEMORY_HOST, comm), "bool cannot be scaled");
    refused(tutti_op_create_pre_mul_sum(&op, &two, static_cast<tutti_type>(TUTTI_OPAQUE + 4), TUTTI_MEMORY_HOST, comm),
            "cannot be scaled");
    refused(tutti_op_create_pre_mul_sum(&op, &two, TUTTI_FLOAT32, static_cast<tutti_memory_kind>(77), comm),
            "memory of kind 77");
    refused(tutti_op_destroy(TUTTI_SUM, comm), "has no operator 0 to destroy");
    EXPECT_EQ(tutti_barrier(comm, {}, nullptr), TUTTI_SUCCESS) << last_error();
  });
}

TEST(CustomOperatorCalls, ThatAreWrongAreRefused) {
  const Ranks ranks(2);
  ranks.run([](int, tutti_comm* comm) {
    tutti_op op = TUTTI_SUM;
    const float two = 2;
    std::vector<float> data(8, 1);
    const auto call = [&](tutti_type type, tutti_op with, const tutti_call* options = nullptr) {
      return tutti_all_reduce(data.data(), data.data(), 2, type, with, comm, {}, options);
    };
    refused(call(TUTTI_FLOAT32, static_cast<tutti_op>(300)), "has no operator 300");
    refused(call(TUTTI_FLOAT32, static_cast<tutti_op>(255)), "operator 255 does not exist");
    ASSERT_EQ(tutti_op_create_pre_mul_sum(&op, &two, TUTTI_FLOAT32, TUTTI_MEMORY_CUDA, comm), TUTTI_SUCCESS);
    refused(call(TUTTI_FLOAT32, op), "scalar lies in CUDA memory, and the call is of host memory");
    ASSERT_EQ(tutti_op_create_pre_mul_sum(&op, &two, TUTTI_FLOAT32, TUTTI_MEMORY_AUTO, comm), TUTTI_SUCCESS);
    refused(call(TUTTI_FLOAT64, op), "scales float32, and the call is of float64");
    EXPECT_EQ(call(TUTTI_FLOAT32, op), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(data[1], 4.0f);
    tutti_op user = TUTTI_OP_LIMIT;
    ASSERT_EQ(tutti_op_create_user(&user, nothing, nullptr, 1, 12, comm), TUTTI_SUCCESS);
    refused(call(TUTTI_FLOAT32, user), "folds elements of 12 bytes, and float32 has 4");
    tutti_call options = TUTTI_CALL_INIT;
    options.accumulate = TUTTI_FLOAT32;
    EXPECT_EQ(call(static_cast<tutti_type>(TUTTI_OPAQUE + 12), user, &options), TUTTI_SUCCESS) << "it is no matter there";
    // More and longer operands than a message holds.
    tutti_op large = TUTTI_OP_LIMIT;
    ASSERT_EQ(tutti_op_create_user(&large, nothing, nullptr, 1, 1024, comm), TUTTI_SUCCESS);
    std::vector<std::byte> many(std::size_t{2048} * 1024);
    options = TUTTI_CALL_INIT;
    options.canonical = 4096;
    refused(tutti_all_reduce(many.data(), many.data(), 1, static_cast<tutti_type>(TUTTI_OPAQUE + 1024), large, comm, {},
                             &options),
            "would have messages of");
    options.canonical = 512;
    EXPECT_EQ(tutti_all_reduce(many.data(), many.data(), 1, static_cast<tutti_type>(TUTTI_OPAQUE + 1024), large, comm, {},
                               &options),
              TUTTI_SUCCESS)
        << last_error();
    EXPECT_EQ(tutti_op_destroy(large, comm), TUTTI_SUCCESS);
    EXPECT_EQ(tutti_op_destroy(user, comm), TUTTI_SUCCESS);
    refused(call(static_cast<tutti_type>(TUTTI_OPAQUE + 12), user), "has no operator");
    EXPECT_EQ(tutti_op_destroy(op, comm), TUTTI_SUCCESS);
    EXPECT_EQ(call(TUTTI_FLOAT32, TUTTI_SUM), TUTTI_SUCCESS) << last_error();
  });
}

}  // namespace
}  // namespace tutti::test
