// Sums whose bits depend on their operands and these operands' order alone: TUTTI_REPRODUCIBLE, and the call options
// reproducible, accumulate and canonical.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "algorithms/algorithm.h"
#include "src/reduction/elements.h"
#include "src/tables/element_types.h"
#include "src/tables/names.h"
#include "tests/support/ranks.h"

namespace tutti::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using Bytes = std::vector<std::byte>;

/// Operand `index` of a fold: numbers of very different size and of both signs, so that each order rounds to other bits.
Bytes operand(tutti_type type, std::uint64_t index, std::size_t count) {
  Bytes bytes(count * element_bytes(type));
  std::mt19937_64 random(index + 1);
  visit_type(type, [&]<typename T>(std::type_identity<T>) {
    for (std::size_t i = 0; i < count; ++i) {
      const double sign = (random() & 1) != 0 ? -1 : 1;
      // All of a float64's digits, so that its sums round, too.
      const double mantissa = 1 + std::ldexp(static_cast<double>(random() >> 12), -52);
      const double value = sign * std::ldexp(mantissa, static_cast<int>(random() % 9) - 4);
      T element{};
      if constexpr (std::is_floating_point_v<T>) {
        element = static_cast<T>(value);
      } else if constexpr (std::is_integral_v<T>) {
        element = static_cast<T>(random());
      } else if constexpr (requires { element.real; }) {
        element.real = static_cast<decltype(element.real)>(value);
        element.imaginary = static_cast<decltype(element.imaginary)>(-value / 3);
      } else if constexpr (requires { element.bits; }) {
        element = narrow<T>(static_cast<float>(value));
      }
      std::memcpy(bytes.data() + i * sizeof element, &element, sizeof element);
    }
    return 0;
  });
  return bytes;
}

/// The operands [first, first + n), one behind the other.
Bytes operands(tutti_type type, std::uint64_t first, std::uint64_t n, std::size_t count) {
  Bytes all;
  for (std::uint64_t o = first; o < first + n; ++o) {
    const Bytes one = operand(type, o, count);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

/// The sum of n operands in float32 or float64, folded left to right and rounded once.
template <typename T>
Bytes expected_sum(tutti_type type, std::uint64_t n, std::size_t count) {
  Bytes out(count * sizeof(T));
  std::vector<Bytes> all;
  for (std::uint64_t o = 0; o < n; ++o) all.push_back(operand(type, o, count));
  for (std::size_t i = 0; i < count; ++i) {
    const auto at = [&](std::uint64_t o) {
      T element;
      std::memcpy(&element, all[o].data() + i * sizeof(T), sizeof(T));
      return widen(element);
    };
    auto sum = at(0);
    for (std::uint64_t o = 1; o < n; ++o) sum = sum + at(o);
    const T rounded = narrow<T>(sum);
    std::memcpy(out.data() + i * sizeof(T), &rounded, sizeof(T));
  }
  return out;
}

Bytes expected(tutti_type type, std::uint64_t n, std::size_t count) {
  switch (type) {
    case TUTTI_FLOAT64:
      return expected_sum<double>(type, n, count);
    case TUTTI_FLOAT32:
      return expected_sum<float>(type, n, count);
    case TUTTI_BFLOAT16:
      return expected_sum<BFloat16>(type, n, count);
    case TUTTI_FLOAT16:
      return expected_sum<Float16>(type, n, count);
    case TUTTI_FLOAT8_E4M3:
      return expected_sum<Float8E4M3>(type, n, count);
    default:
      return expected_sum<Float8E5M2>(type, n, count);
  }
}

constexpr tutti_type kFloats[] = {TUTTI_FLOAT64, TUTTI_FLOAT32,     TUTTI_BFLOAT16,
                                  TUTTI_FLOAT16, TUTTI_FLOAT8_E4M3, TUTTI_FLOAT8_E5M2};

struct World {
  int ranks;
  const char* transport;
};
class Reproducible : public testing::TestWithParam<World> {};

constexpr std::size_t kCount = 3001;
const int kSplits = std::getenv("TEST_WHOLE") != nullptr ? 50 : 8;

/// Checks that sums of kCount elements have the expected bits, cut into pieces at random, in place or not, by `call`.
void expect_split_sums(int ranks, int rank, tutti_comm* comm, tutti_type type, const tutti_call& call, int splits) {
  const std::size_t element = element_bytes(type);
  const Bytes mine = operand(type, static_cast<std::uint64_t>(rank), kCount);
  const Bytes sum = expected(type, static_cast<std::uint64_t>(ranks), kCount);
  std::mt19937 random(7);  // the same on all ranks
  for (int split = 0; split < splits; ++split) {
    const bool in_place = split % 2 != 0;
    Bytes send = mine;
    Bytes recv(sum.size());
    for (std::size_t at = 0; at < kCount;) {
      const std::size_t n = split == 0 ? kCount : std::min<std::size_t>(kCount - at, 1 + random() % 1500);
      std::byte* const to = (in_place ? send : recv).data() + at * element;
      ASSERT_EQ(tutti_all_reduce(send.data() + at * element, to, n, type, TUTTI_SUM, comm, {}, &call), TUTTI_SUCCESS)
          << last_error();
      at += n;
    }
    ASSERT_EQ(in_place ? send : recv, sum) << text_of(type) << ", split " << split << ", rank " << rank;
  }
}

TEST_P(Reproducible, SumsHaveTheBitsOfOneFold) {
  const auto [count, transport] = GetParam();
  const Ranks ranks(count, transport);
  ranks.run([&](int rank, tutti_comm* comm) {
    tutti_call call = TUTTI_CALL_INIT;
    call.reproducible = 1;
    for (const tutti_type type : kFloats) expect_split_sums(ranks.size(), rank, comm, type, call, kSplits);
    call.reproducible = 0;
    call.accumulate = TUTTI_FLOAT32;
    expect_split_sums(ranks.size(), rank, comm, TUTTI_BFLOAT16, call, 2);
  });
}

/// Whether a named algorithm gave its bits, rather than being refused.
bool agrees(const Algorithm& algorithm, tutti_type type, int n, int rank, tutti_comm* comm) {
  tutti_call call = TUTTI_CALL_INIT;
  call.reproducible = 1;
  call.algorithm = algorithm.name;
  constexpr std::size_t count = 100;
  const std::size_t bytes = count * element_bytes(type);
  const std::size_t blocks = algorithm.collective == Collective::reduce_scatter ? static_cast<std::size_t>(n) : 1;
  const Bytes send = operand(type, static_cast<std::uint64_t>(rank), blocks * count);
  const Bytes all = expected(type, static_cast<std::uint64_t>(n), blocks * count);
  Bytes recv(bytes);
  const int root = n - 1;
  const auto verb = [&] {
    if (algorithm.collective == Collective::all_reduce)
      return tutti_all_reduce(send.data(), recv.data(), count, type, TUTTI_SUM, comm, {}, &call);
    if (algorithm.collective == Collective::reduce)
      return tutti_reduce(send.data(), recv.data(), count, type, TUTTI_SUM, root, comm, {}, &call);
    return tutti_reduce_scatter(send.data(), recv.data(), count, type, TUTTI_SUM, comm, {}, &call);
  };
  const tutti_status status = verb();
  if (n > 2 && !algorithm.one_fold) {  // two operands are folded once by any
    EXPECT_EQ(status, TUTTI_INVALID_ARGUMENT) << algorithm.name;
    EXPECT_THAT(last_error(), AllOf(HasSubstr("folds in an order of its own"), HasSubstr("direct")));
    return false;
  }
  if (n == 2 && !algorithm.one_fold && status != TUTTI_SUCCESS) {
    EXPECT_THAT(last_error(), HasSubstr("wants other places of ranks")) << algorithm.name;
    return false;
  }
  EXPECT_EQ(status, TUTTI_SUCCESS) << algorithm.name << ": " << last_error();
  if (algorithm.collective == Collective::reduce && rank != root) return true;
  const auto from = static_cast<std::ptrdiff_t>(blocks > 1 ? static_cast<std::size_t>(rank) * bytes : 0);
  EXPECT_EQ(recv, Bytes(all.begin() + from, all.begin() + from + static_cast<std::ptrdiff_t>(bytes)))
      << name_of(algorithm.collective) << " " << algorithm.name << ", " << text_of(type) << ", rank " << rank;
  return true;
}

// Each algorithm either is refused, with those that can, or gives the same bits.
TEST_P(Reproducible, AlgorithmsAgree) {
  const auto [count, transport] = GetParam();
  const Ranks ranks(count, transport);
  ranks.run([&](int rank, tutti_comm* comm) {
    int able = 0;
    for (const Algorithm* algorithm : all_algorithms()) {
      if (!reduces(algorithm->collective)) continue;
      for (const tutti_type type : kFloats) able += agrees(*algorithm, type, ranks.size(), rank, comm) ? 1 : 0;
    }
    EXPECT_GE(able, 6 * static_cast<int>(std::size(kFloats)));
  });
}

// Without the option a ring rounds otherwise: so these operands tell.
TEST(ReproducibleOperands, HaveOtherSumsInAnotherOrder) {
  const Ranks ranks(3);
  ranks.run([](int rank, tutti_comm* comm) {
    tutti_call call = TUTTI_CALL_INIT;
    call.algorithm = "ring";
    for (const tutti_type type : kFloats) {
      const Bytes sum = expected(type, 3, kCount);
      const Bytes send = operand(type, static_cast<std::uint64_t>(rank), kCount);
      Bytes recv(sum.size());
      ASSERT_EQ(tutti_all_reduce(send.data(), recv.data(), kCount, type, TUTTI_SUM, comm, {}, &call), TUTTI_SUCCESS);
      EXPECT_NE(recv, sum) << text_of(type);
    }
  });
}

// However many ranks share twelve operands, their fold has the same bits.
TEST_P(Reproducible, CanonicalFoldsDoNotDependOnTheRanks) {
  const auto [count, transport] = GetParam();
  const unsigned all = 12 % count == 0 ? 12 : 3 * static_cast<unsigned>(count);
  const Ranks ranks(count, transport);
  ranks.run([&](int rank, tutti_comm* comm) {
    tutti_call call = TUTTI_CALL_INIT;
    call.canonical = all;
    const std::uint64_t local_operands = all / static_cast<unsigned>(ranks.size());
    for (const tutti_type type : kFloats) {
      for (const std::size_t n : {std::size_t{1}, std::size_t{1000}, std::size_t{30'011}}) {
        const Bytes sum = expected(type, all, n);
        Bytes send = operands(type, static_cast<std::uint64_t>(rank) * local_operands, local_operands, n);
        Bytes recv(sum.size());
        ASSERT_EQ(tutti_all_reduce(send.data(), recv.data(), n, type, TUTTI_SUM, comm, {}, &call), TUTTI_SUCCESS)
            << last_error();
        EXPECT_EQ(recv, sum) << text_of(type) << " of " << n << ", rank " << rank;
        Bytes at_root(sum.size());
        ASSERT_EQ(tutti_reduce(send.data(), at_root.data(), n, type, TUTTI_SUM, 0, comm, {}, &call), TUTTI_SUCCESS)
            << last_error();
        if (rank == 0) {
          EXPECT_EQ(at_root, sum) << text_of(type) << " of " << n;
        }
        ASSERT_EQ(tutti_all_reduce(send.data(), send.data(), n, type, TUTTI_SUM, comm, {}, &call), TUTTI_SUCCESS)
            << last_error();
        EXPECT_EQ(Bytes(send.begin(), send.begin() + static_cast<std::ptrdiff_t>(sum.size())), sum) << "in place";
      }
    }
    // Operands of whole numbers, by an operator whose order does not matter, and averages of all operands.
    const std::vector<std::int32_t> ones(local_operands * 5, rank + 1);
    std::vector<std::int32_t> most(5);
    ASSERT_EQ(tutti_all_reduce(ones.data(), most.data(), 5, TUTTI_INT32, TUTTI_MAX, comm, {}, &call), TUTTI_SUCCESS);
    EXPECT_EQ(most, std::vector<std::int32_t>(5, ranks.size()));
    const std::vector<float> twelves(local_operands * 5, 12.0f);
    std::vector<float> average(5);
    ASSERT_EQ(tutti_all_reduce(twelves.data(), average.data(), 5, TUTTI_FLOAT32, TUTTI_AVG, comm, {}, &call),
              TUTTI_SUCCESS);
    EXPECT_EQ(average, std::vector<float>(5, 12.0f));
  });
}

INSTANTIATE_TEST_SUITE_P(, Reproducible,
                         testing::Values(World{1, "shm"}, World{2, "shm"}, World{3, "shm"}, World{4, "shm"},
                                         World{5, "shm"}, World{6, "shm"}, World{7, "shm"}, World{8, "shm"},
                                         World{2, "tcp"}, World{3, "tcp"}, World{4, "tcp"}, World{5, "tcp"},
                                         World{6, "tcp"}, World{7, "tcp"}, World{8, "tcp"}),
                         [](const auto& each) { return std::to_string(each.param.ranks) + "over" + each.param.transport; });

// As many operands as there may be, of a few elements and of several windows.
TEST(CanonicalFolds, HaveUpTo4096Operands) {
  const Ranks ranks(2);
  ranks.run([](int rank, tutti_comm* comm) {
    tutti_call call = TUTTI_CALL_INIT;
    call.canonical = 4096;
    for (const char* algorithm : {"flat", "direct", "central"}) {
      call.algorithm = algorithm;
      for (const std::size_t n : {std::size_t{1}, std::size_t{100}}) {
        std::vector<std::int32_t> send(2048 * n), recv(n);
        for (std::size_t i = 0; i < send.size(); ++i) send[i] = static_cast<std::int32_t>(i % 7) + rank;
        std::vector<std::int32_t> expected(n);
        for (std::size_t i = 0; i < send.size(); ++i) expected[i % n] += 2 * static_cast<std::int32_t>(i % 7) + 1;
        ASSERT_EQ(tutti_all_reduce(send.data(), recv.data(), n, TUTTI_INT32, TUTTI_SUM, comm, {}, &call), TUTTI_SUCCESS)
            << last_error();
        EXPECT_EQ(recv, expected) << algorithm << ", " << n;
      }
    }
  });
}

// The setting does for all calls what the option does for one, and TUTTI_ALGORITHM counts only where it can.
TEST(ReproducibleSetting, HoldsForAllCalls) {
  tutti_comm* comms[3] = {};
  tutti_config config = TUTTI_CONFIG_INIT;
  config.reproducible = 1;
  config.algorithm = "ring";
  ASSERT_EQ(tutti_comm_create_all(comms, 3, &config), TUTTI_SUCCESS) << last_error();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      expect_split_sums(3, rank, comms[rank], TUTTI_FLOAT16, TUTTI_CALL_INIT, 4);
      tutti_comm_choice choice{};
      choice.size = sizeof choice;
      EXPECT_EQ(tutti_comm_last_choice(comms[rank], &choice), TUTTI_SUCCESS);
      EXPECT_STRNE(choice.algorithm, "ring");
      // Whole numbers have the same bits by any.
      const std::int32_t one = 1;
      std::int32_t sum = 0;
      EXPECT_EQ(tutti_all_reduce(&one, &sum, 1, TUTTI_INT32, TUTTI_SUM, comms[rank], {}, nullptr), TUTTI_SUCCESS);
      EXPECT_EQ(sum, 3);
      EXPECT_EQ(tutti_comm_last_choice(comms[rank], &choice), TUTTI_SUCCESS);
      EXPECT_STREQ(choice.algorithm, "ring");
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (tutti_comm* comm : comms) tutti_comm_destroy(comm);
}

TEST(ReproducibleCalls, ThatAreWrongAreRefused) {
  const Ranks ranks(2);
  ranks.run([](int rank, tutti_comm* comm) {
    std::vector<double> send(100, 1.0), recv(100);
    const auto refused = [&](tutti_call call, tutti_type type, const char* words) {
      EXPECT_EQ(tutti_all_reduce(send.data(), recv.data(), 4, type, TUTTI_SUM, comm, {}, &call), TUTTI_INVALID_ARGUMENT);
      EXPECT_THAT(last_error(), HasSubstr(words));
    };
    tutti_call call = TUTTI_CALL_INIT;
    call.reproducible = 2;
    refused(call, TUTTI_FLOAT32, "the call option reproducible is 2");
    call = TUTTI_CALL_INIT;
    call.canonical = 3;
    refused(call, TUTTI_FLOAT32, "3 operands cannot be shared evenly by 2 ranks");
    call.canonical = 8192;
    refused(call, TUTTI_FLOAT32, "more than one fold has");
    call.canonical = 4;
    EXPECT_EQ(tutti_reduce_scatter(send.data(), recv.data(), 4, TUTTI_FLOAT32, TUTTI_SUM, comm, {}, &call),
              TUTTI_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr("reduce_scatter has one operand a rank"));
    EXPECT_EQ(tutti_broadcast(send.data(), recv.data(), 4, TUTTI_FLOAT32, 0, comm, {}, &call), TUTTI_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr("broadcast has one operand a rank"));
    call = TUTTI_CALL_INIT;
    call.accumulate = TUTTI_FLOAT32;
    refused(call, TUTTI_FLOAT64, "float64 cannot be accumulated in float32");
    refused(call, TUTTI_INT32, "int32 cannot be accumulated in float32");
    std::int32_t whole[4] = {1, 2, 3, 4};
    EXPECT_EQ(tutti_all_reduce(whole, whole, 4, TUTTI_INT32, TUTTI_MAX, comm, {}, &call), TUTTI_SUCCESS)
        << "no matter to other operators: " << last_error();
    call.accumulate = TUTTI_FLOAT64;
    refused(call, TUTTI_FLOAT32, "float32 cannot be accumulated in float64");
    // Verbs that fold nothing have nothing to refuse, and the communicator is as it was.
    call.accumulate = TUTTI_FLOAT32;
    call.reproducible = 1;
    EXPECT_EQ(tutti_broadcast(send.data(), recv.data(), 4, TUTTI_FLOAT64, 0, comm, {}, &call), TUTTI_SUCCESS)
        << last_error();
    EXPECT_EQ(tutti_all_reduce(send.data(), recv.data(), 4, TUTTI_FLOAT64, TUTTI_SUM, comm, {}, nullptr), TUTTI_SUCCESS);
    EXPECT_EQ(recv[3], 2.0) << rank;
  });
}

TEST(ReproducibleCalls, ThatDifferAreMismatches) {
  const Ranks ranks(2, "", 20'000'000'000);
  ranks.run([](int rank, tutti_comm* comm) {
    tutti_call call = TUTTI_CALL_INIT;
    call.canonical = rank == 0 ? 4 : 2;
    const std::vector<float> send(8, 1.0f);
    std::vector<float> recv(4);
    EXPECT_EQ(tutti_all_reduce(send.data(), recv.data(), 4, TUTTI_FLOAT32, TUTTI_SUM, comm, {}, &call), TUTTI_MISMATCH);
    EXPECT_THAT(last_error(), AllOf(HasSubstr("with 2 operands a rank")));
  });
}

TEST(ReproducibleSetting, IsTheSameOnAllRanks) {
  tutti_unique_id id;
  ASSERT_EQ(tutti_get_unique_id(&id), TUTTI_SUCCESS) << last_error();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      tutti_config config = TUTTI_CONFIG_INIT;
      config.reproducible = rank;
      tutti_comm* comm = nullptr;
      EXPECT_EQ(tutti_comm_create(&comm, 2, &id, rank, &config), TUTTI_INVALID_ARGUMENT);
      EXPECT_THAT(last_error(), AllOf(HasSubstr("TUTTI_REPRODUCIBLE is \"off\""), HasSubstr("\"on\"")));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tutti::test
