// Memory of tutti_memory_alloc: peers read and write it in place, so every collective must come to what it comes to in any
// other memory, whoever has which, and nothing may be left of what was freed.
#include <cstring>
#include <numeric>

#include "src/tables/collectives.h"
#include "tests/support/ranks.h"

namespace tutti::test {
namespace {

/// Elements in registered memory, or in a vector.
class Elements {
 public:
  Elements(std::size_t count, bool registered) : plain_(registered ? 0 : count), count_(count) {
    if (!registered) return;
    EXPECT_EQ(tutti_memory_alloc(&memory_, count * sizeof(std::int32_t)), TUTTI_SUCCESS) << last_error();
  }
  ~Elements() { EXPECT_EQ(tutti_memory_free(memory_), TUTTI_SUCCESS); }
  Elements(const Elements&) = delete;
  Elements& operator=(const Elements&) = delete;

  std::int32_t* data() { return memory_ != nullptr ? static_cast<std::int32_t*>(memory_) : plain_.data(); }
  void set(const std::vector<std::int32_t>& values) { std::copy(values.begin(), values.end(), data()); }
  std::vector<std::int32_t> get() { return {data(), data() + count_}; }

 private:
  std::vector<std::int32_t> plain_;
  void* memory_ = nullptr;
  std::size_t count_;
};

/// A call of each collective, of sums, but a reduce of the largest, and with the root 1 where there is one.
tutti_status call(Collective collective, const void* send, void* recv, std::size_t count, tutti_comm* comm) {
  const tutti_op op = collective == Collective::reduce ? TUTTI_MAX : TUTTI_SUM;
  return call_verb(collective, {send, recv, count, TUTTI_INT32, op, 1, comm, {}, nullptr});
}

struct Case {
  int ranks;
  const char* transports;
};
class Registered : public testing::TestWithParam<Case> {};

// The reference is the same call in other memory; a result that a verb leaves alone on a rank is the same there, too.
TEST_P(Registered, EveryVerbComesToTheSameWhoeverHasWhichMemory) {
  const Ranks ranks(GetParam().ranks, GetParam().transports);
  const auto p = static_cast<std::size_t>(ranks.size());
  ranks.run([&](int rank, tutti_comm* comm) {
    for (const auto& [collective, info] : collectives) {
      if (info.senders == Role::nobody) continue;
      for (const std::size_t count : {std::size_t{5000}, std::size_t{65'536 / p}, 300'001 / p}) {
        std::vector<std::int32_t> input(count * info.send_blocks(ranks.size())),
            before(count * info.recv_blocks(ranks.size()), -7);
        std::iota(input.begin(), input.end(), rank * 1000);
        std::vector<std::int32_t> expected = before;
        ASSERT_EQ(call(collective, input.data(), expected.data(), count, comm), TUTTI_SUCCESS) << info.name << last_error();
        for (const unsigned who : {~0u, 0xaaaaaaaau, 0x55555555u}) {
          const bool mine = (who >> rank & 1u) != 0;
          Elements send(input.size(), mine), recv(before.size(), mine);
          for (int turn = 0; turn < 3; ++turn) {  // of one program on the same memory
            send.set(input);
            recv.set(before);
            ASSERT_EQ(call(collective, send.data(), recv.data(), count, comm), TUTTI_SUCCESS) << info.name << last_error();
            ASSERT_EQ(recv.get(), expected) << info.name << " of " << count << ", registered " << who << ", rank " << rank;
            ASSERT_EQ(send.get(), input) << info.name << " wrote to its input";
          }
          if (info.has_send_blocks() != info.has_recv_blocks()) continue;
          ASSERT_EQ(call(collective, send.data(), send.data(), count, comm), TUTTI_SUCCESS) << info.name << last_error();
          const bool keeps = info.receivers == Role::root && rank != 1;
          ASSERT_EQ(send.get(), keeps ? input : expected)
              << info.name << " in place, of " << count << ", registered " << who;
        }
      }
    }
  });
}

// An address that is given out again is other memory: what peers mapped before must not be written any more.
TEST_P(Registered, MemoryThatWasFreedAndGivenOutAgainIsNew) {
  const Ranks ranks(GetParam().ranks, GetParam().transports);
  ranks.run([&](int rank, tutti_comm* comm) {
    constexpr std::size_t count = 70'000;
    for (int turn = 0; turn < 20; ++turn) {
      Elements send(count, true), recv(count, true);
      send.set(std::vector<std::int32_t>(count, rank + turn));
      ASSERT_EQ(tutti_all_reduce(send.data(), recv.data(), count, TUTTI_INT32, TUTTI_SUM, comm, {}, nullptr), TUTTI_SUCCESS)
          << last_error();
      const int p = ranks.size();
      ASSERT_EQ(recv.get(), std::vector<std::int32_t>(count, p * (p - 1) / 2 + p * turn)) << "turn " << turn;
    }
  });
}

// A part of an allocation, and one that reaches beyond its end as a whole would.
TEST_P(Registered, BuffersMayLieAnywhereInAnAllocation) {
  const Ranks ranks(GetParam().ranks, GetParam().transports);
  ranks.run([&](int rank, tutti_comm* comm) {
    constexpr std::size_t count = 33'333;
    Elements both(2 * count + 7, true);
    both.set(std::vector<std::int32_t>(2 * count + 7, -3));
    std::int32_t* const send = both.data() + 3;
    std::int32_t* const recv = send + count + 1;
    std::fill(send, send + count, rank + 1);
    ASSERT_EQ(tutti_all_reduce(send, recv, count, TUTTI_INT32, TUTTI_SUM, comm, {}, nullptr), TUTTI_SUCCESS)
        << last_error();
    const int sum = ranks.size() * (ranks.size() + 1) / 2;
    EXPECT_EQ(std::vector<std::int32_t>(recv, recv + count), std::vector<std::int32_t>(count, sum));
    EXPECT_EQ(both.data()[2], -3);
    EXPECT_EQ(send[count], -3);
    EXPECT_EQ(recv[count], -3);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Registered, testing::Values(Case{2, "shm"}, Case{3, "shm"}, Case{5, "shm"}, Case{3, "tcp"}),
                         [](const testing::TestParamInfo<Case>& at) {
                           return std::string(at.param.transports) + std::to_string(at.param.ranks);
                         });

}  // namespace
}  // namespace tutti::test
