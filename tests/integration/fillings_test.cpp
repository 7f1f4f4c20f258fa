// Calls of one shape, again and again: a link tries all its ways of filling messages meanwhile, and each must bring the
// same. The longest first: trials begin once much has been sent.
#include <numeric>

#include "tests/support/ranks.h"

namespace tutti::test {
namespace {

class Fillings : public testing::TestWithParam<int> {};

// Every result is checked, so is that no element more was written.
TEST_P(Fillings, EveryCallOfManyIsRight) {
  const Ranks ranks(GetParam(), "shm");
  const int p = ranks.size();
  ranks.run([&](int rank, tutti_comm* comm) {
    for (const std::size_t count : {300'007u, 40'000u, 9001u, 1501u}) {
      const int calls = count > 100'000 ? 60 : 700;
      std::vector<std::int32_t> input(count), sum(count + 1), gathered(count * static_cast<std::size_t>(p));
      for (int call = 0; call < calls; ++call) {
        std::iota(input.begin(), input.end(), call + rank);
        sum.back() = -1;
        ASSERT_EQ(tutti_all_reduce(input.data(), sum.data(), count, TUTTI_INT32, TUTTI_SUM, comm, {}, nullptr),
                  TUTTI_SUCCESS)
            << last_error();
        for (std::size_t i = 0; i < count; ++i) {
          const auto expected = static_cast<std::int32_t>(i + static_cast<std::size_t>(call)) * p + p * (p - 1) / 2;
          ASSERT_EQ(sum[i], expected) << count << " elements, call " << call << ", element " << i;
        }
        ASSERT_EQ(sum.back(), -1);
        if (call % 7 != 0) continue;
        ASSERT_EQ(tutti_all_gather(input.data(), gathered.data(), count, TUTTI_INT32, comm, {}, nullptr), TUTTI_SUCCESS);
        for (std::size_t i = 0; i < gathered.size(); ++i) {
          const std::size_t from = i / count;
          ASSERT_EQ(gathered[i], static_cast<std::int32_t>(i % count + from + static_cast<std::size_t>(call)))
              << count << " elements, call " << call << ", element " << i;
        }
      }
    }
  });
}

TEST_P(Fillings, EveryTransferOfManyIsRight) {
  const Ranks ranks(GetParam(), "shm");
  const int p = ranks.size();
  ranks.run([&](int rank, tutti_comm* comm) {
    const int to = (rank + 1) % p;
    const int from = (rank + p - 1) % p;
    for (const std::size_t bytes : {700'001u, 262'144u, 33'000u, 5003u}) {
      std::vector<unsigned char> out(bytes), in(bytes + 1);
      for (int call = 0; call < (bytes > 100'000 ? 80 : 700); ++call) {
        for (std::size_t i = 0; i < bytes; ++i)
          out[i] = static_cast<unsigned char>(i * 7 + static_cast<std::size_t>(call + rank));
        in.back() = 77;
        ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
        ASSERT_EQ(tutti_send(out.data(), bytes, TUTTI_UINT8, to, comm, {}, nullptr), TUTTI_SUCCESS);
        ASSERT_EQ(tutti_recv(in.data(), bytes, TUTTI_UINT8, from, comm, {}, nullptr), TUTTI_SUCCESS);
        ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
        for (std::size_t i = 0; i < bytes; ++i) {
          ASSERT_EQ(in[i], static_cast<unsigned char>(i * 7 + static_cast<std::size_t>(call + from))) << call << ' ' << i;
        }
        ASSERT_EQ(in.back(), 77);
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Fillings, testing::Values(2, 3));

}  // namespace
}  // namespace tutti::test
