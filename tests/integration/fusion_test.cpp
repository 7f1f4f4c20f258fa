// Buffers in pieces, and what becomes of a group's small collectives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <random>
#include <vector>

#include "include/tutti/tutti.h"
#include "tests/support/own_queue.h"
#include "tests/support/ranks.h"

namespace tutti::test {
namespace {

using testing::HasSubstr;

std::uint64_t sequence_of(const tutti_comm* comm) {
  std::uint64_t sequence = 0;
  EXPECT_EQ(tutti_comm_sequence(comm, &sequence), TUTTI_SUCCESS);
  return sequence;
}

std::int32_t value(int rank, std::size_t i) {
  return static_cast<std::int32_t>(i * 7 + static_cast<std::size_t>(rank) * 1000003);
}

std::int32_t sum_of(int ranks, std::size_t i) {
  std::uint32_t sum = 0;
  for (int r = 0; r < ranks; ++r) sum += static_cast<std::uint32_t>(value(r, i));
  return static_cast<std::int32_t>(sum);
}

/// Pieces of `total` elements somewhere in memory, with gaps, in no order.
struct Pieces {
  std::vector<std::int32_t> memory;
  std::vector<tutti_block> blocks;

  Pieces(std::size_t total, std::mt19937& random) {
    std::vector<std::size_t> lengths;
    for (std::size_t left = total; left != 0;) {
      const std::size_t length = std::min<std::size_t>(left, random() % 5 == 0 ? 0 : 1 + random() % (1 + total / 3));
      lengths.push_back(length);
      left -= length;
    }
    if (random() % 2 == 0) lengths.push_back(0);
    memory.assign(2 * total + 8 * lengths.size() + 8, -1);
    std::vector<std::size_t> order(lengths.size());
    for (std::size_t b = 0; b < order.size(); ++b) order[b] = b;
    std::ranges::shuffle(order, random);
    blocks.resize(lengths.size());
    std::size_t at = 1;
    for (const std::size_t b : order) {
      blocks[b] = {lengths[b] != 0 ? memory.data() + at : nullptr, lengths[b]};
      at += lengths[b] + 1 + random() % 4;
    }
  }
  template <typename Touch>
  void each(const Touch& touch) {
    std::size_t i = 0;
    for (const tutti_block& block : blocks) {
      for (std::uint64_t e = 0; e < block.count; ++e) touch(static_cast<std::int32_t*>(block.ptr)[e], i++);
    }
  }
  /// Those between the pieces.
  std::ptrdiff_t untouched() const { return std::ranges::count(memory, -1); }
};

TEST(AllReduceV, SumsWhatLiesInPieces) {
  for (const int n : {1, 2, 3, 4, 7}) {
    for (const char* transports : {"shm", "tcp"}) {
      const Ranks ranks(n, transports);
      for (const std::size_t total : {0u, 1u, 2u, 77u, 5000u, 700'000u}) {
        ranks.run([&](int rank, tutti_comm* comm) {
          std::mt19937 random(static_cast<unsigned>(rank * 31 + n) + static_cast<unsigned>(total));
          for (const bool in_place : {false, true}) {
            Pieces send(total, random), recv(total, random);
            Pieces& from = in_place ? recv : send;
            from.each([rank](std::int32_t& element, std::size_t i) { element = value(rank, i); });
            const auto gaps = static_cast<std::ptrdiff_t>(recv.memory.size() - total);
            ASSERT_EQ(tutti_all_reduce_v(in_place ? nullptr : send.blocks.data(), in_place ? 0 : send.blocks.size(),
                                         recv.blocks.data(), recv.blocks.size(), TUTTI_INT32, TUTTI_SUM, comm, {}, nullptr),
                      TUTTI_SUCCESS)
                << last_error();
            int wrong = 0;
            recv.each([&](std::int32_t& element, std::size_t i) { wrong += element != sum_of(n, i); });
            EXPECT_EQ(wrong, 0) << n << " ranks, " << total << " elements over " << transports;
            if (!in_place) {
              EXPECT_GE(recv.untouched(), gaps);
            }
          }
        });
      }
    }
  }
}

/// The same fold however many ranks share the operands, and wherever these lie.
TEST(AllReduceV, TakesOperandsFromAList) {
  constexpr std::size_t count = 1000;
  constexpr int operands = 12;
  std::vector<float> first;
  for (const int n : {1, 2, 3, 4, 6}) {
    const Ranks ranks(n);
    std::vector<std::vector<float>> results(static_cast<std::size_t>(n));
    ranks.run([&](int rank, tutti_comm* comm) {
      const int own = operands / n;
      std::vector<std::vector<float>> shares(static_cast<std::size_t>(own), std::vector<float>(count));
      std::vector<tutti_block> list;
      for (int s = 0; s < own; ++s) {
        std::vector<float>& share = shares[static_cast<std::size_t>(s)];
        std::mt19937 random(static_cast<unsigned>(rank * own + s));
        for (float& element : share) element = static_cast<float>(random()) / 3e7F - 70.F;
        list.push_back({share.data(), 300});
        list.push_back({share.data() + 300, count - 300});
      }
      std::vector<float>& result = results[static_cast<std::size_t>(rank)];
      result.resize(count);
      const tutti_block into = {result.data(), count};
      tutti_call call = TUTTI_CALL_INIT;
      call.canonical = operands;
      ASSERT_EQ(tutti_all_reduce_v(list.data(), list.size(), &into, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, {}, &call),
                TUTTI_SUCCESS)
          << last_error();
    });
    if (first.empty()) first = results[0];
    for (const auto& result : results) {
      EXPECT_EQ(std::memcmp(result.data(), first.data(), count * sizeof(float)), 0) << n << " ranks";
    }
  }
}

TEST(AllReduceV, RefusesWhatCannotBe) {
  const Ranks ranks(2);
  std::int32_t memory[4] = {};
  const tutti_block two = {memory, 2}, one = {memory + 2, 1}, none = {nullptr, 1};
  const auto refused = [&](const tutti_block* send, std::size_t sends, const tutti_block* recv, std::size_t recvs,
                           const char* why) {
    EXPECT_EQ(tutti_all_reduce_v(send, sends, recv, recvs, TUTTI_INT32, TUTTI_SUM, ranks[0], {}, nullptr),
              TUTTI_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr(why));
  };
  refused(&two, 1, &one, 1, "sends 2 elements and receives 1");
  refused(&none, 1, &one, 1, "NULL send block 0");
  refused(nullptr, 0, &none, 1, "NULL receive block 0");
  refused(nullptr, 0, nullptr, 1, "NULL list of receive blocks");
  refused(nullptr, 1, &one, 1, "NULL list of send blocks");
  const tutti_block huge = {memory, UINT64_MAX / 4};
  refused(nullptr, 0, &huge, 1, "more elements than memory can hold");
}

TEST(AllReduceV, OfOtherTotalsIsAMismatch) {
  const Ranks ranks(2);
  ranks.run([](int rank, tutti_comm* comm) {
    std::int32_t memory[8] = {};
    const tutti_block block = {memory, rank == 0 ? 4u : 5u};
    EXPECT_EQ(tutti_all_reduce_v(nullptr, 0, &block, 1, TUTTI_INT32, TUTTI_SUM, comm, {}, nullptr), TUTTI_MISMATCH);
  });
}

/// Runs `calls` within a group; how many operations that were.
template <typename Calls>
std::uint64_t operations_of(tutti_comm* comm, const Calls& calls, bool fuse = true) {
  const std::uint64_t before = sequence_of(comm);
  EXPECT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  calls();
  tutti_call call = TUTTI_CALL_INIT;
  call.fuse = fuse ? 1 : 0;
  EXPECT_EQ(tutti_group_end(&call), TUTTI_SUCCESS) << last_error();
  return sequence_of(comm) - before;
}

TEST(Group, SmallSumsAreOneOperation) {
  const Ranks ranks(3);
  ranks.run([](int rank, tutti_comm* comm) {
    std::vector<std::vector<std::int32_t>> tensors, sums;
    for (std::size_t t = 0; t < 20; ++t) {
      tensors.emplace_back(t * 17 + 1);
      for (std::size_t i = 0; i < tensors[t].size(); ++i) tensors[t][i] = value(rank, i);
      sums.emplace_back(tensors[t].size());
    }
    std::vector<tutti_work*> works(tensors.size());
    EXPECT_EQ(operations_of(comm,
                            [&] {
                              for (std::size_t t = 0; t < tensors.size(); ++t) {
                                tutti_call call = TUTTI_CALL_INIT;
                                call.work = &works[t];
                                const void* const from = t % 2 == 0 ? sums[t].data() : tensors[t].data();
                                if (t % 2 == 0) sums[t] = tensors[t];
                                EXPECT_EQ(tutti_all_reduce(from, sums[t].data(), sums[t].size(), TUTTI_INT32, TUTTI_SUM,
                                                           comm, {}, &call),
                                          TUTTI_SUCCESS);
                              }
                            }),
              1u);
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      EXPECT_EQ(tutti_work_test(works[t]), TUTTI_SUCCESS);
      tutti_work_details info{};
      info.size = sizeof info;
      EXPECT_EQ(tutti_work_info(works[t], &info), TUTTI_SUCCESS);
      EXPECT_EQ(info.sequence, 0u);
      tutti_work_release(works[t]);
      for (std::size_t i = 0; i < sums[t].size(); ++i) ASSERT_EQ(sums[t][i], sum_of(3, i)) << t << ", " << i;
    }
  });
}

TEST(Group, KeepsApartWhatIsLongOrOtherwiseOrNotAskedFor) {
  const Ranks ranks(2);
  ranks.run([](int, tutti_comm* comm) {
    std::vector<std::int32_t> a(100, 1), b(100, 1), c(100, 1), d(5000, 1);
    const auto sum = [&](std::vector<std::int32_t>& from, std::vector<std::int32_t>& to, tutti_op op = TUTTI_SUM) {
      EXPECT_EQ(tutti_all_reduce(from.data(), to.data(), from.size(), TUTTI_INT32, op, comm, {}, nullptr), TUTTI_SUCCESS);
    };
    EXPECT_EQ(operations_of(comm, [&] { sum(a, a), sum(b, b), sum(d, d); }), 2u) << "d is long";
    EXPECT_EQ(operations_of(comm, [&] { sum(a, a), sum(b, b, TUTTI_MAX); }), 2u);
    EXPECT_EQ(operations_of(comm, [&] { sum(a, b), sum(b, c); }, false), 2u) << "c is the sum of a sum";
    EXPECT_EQ(a, std::vector<std::int32_t>(100, 4));
    EXPECT_EQ(b, std::vector<std::int32_t>(100, 8));
    EXPECT_EQ(c, std::vector<std::int32_t>(100, 16));
    EXPECT_EQ(operations_of(comm, [&] { sum(a, a); }), 1u);
    EXPECT_EQ(operations_of(comm,
                            [&] {
                              sum(a, a);
                              EXPECT_EQ(tutti_barrier(comm, {}, nullptr), TUTTI_SUCCESS);
                              sum(b, b);
                            }),
              3u);
  });
}

TEST(Group, BroadcastsOfDifferentRootsAreOneOperation) {
  for (const int n : {2, 3, 5}) {
    const Ranks ranks(n);
    ranks.run([n](int rank, tutti_comm* comm) {
      for (const bool in_place : {false, true}) {
        std::vector<std::vector<std::int32_t>> own(static_cast<std::size_t>(n)), all(own.size());
        const std::uint64_t operations = operations_of(comm, [&] {
          for (int i = 0; i < n; ++i) {
            const int root = (i + 1) % n;
            if (root == 0 && n == 5) continue;  // one that gives nothing
            const auto at = static_cast<std::size_t>(root);
            const std::size_t count = 10'000 * at + 3;
            all[at].assign(count, -1);
            own[at].assign(count, 100 + root);
            if (in_place && root == rank) all[at] = own[at];
            const void* const from = root != rank ? nullptr : in_place ? all[at].data() : own[at].data();
            EXPECT_EQ(tutti_broadcast(from, all[at].data(), count, TUTTI_INT32, root, comm, {}, nullptr), TUTTI_SUCCESS);
          }
        });
        EXPECT_EQ(operations, 1u);
        EXPECT_EQ(all, [&] {
          auto expected = own;
          if (n == 5) expected[0].clear();
          return expected;
        }());
      }
      std::vector<std::int32_t> a(5, rank), b(5, rank);
      EXPECT_EQ(operations_of(comm,
                              [&] {
                                for (auto* data : {&a, &b}) {
                                  EXPECT_EQ(
                                      tutti_broadcast(data->data(), data->data(), 5, TUTTI_INT32, 1, comm, {}, nullptr),
                                      TUTTI_SUCCESS);
                                }
                              }),
                2u)
          << "both are of one root";
      EXPECT_EQ(a, std::vector<std::int32_t>(5, 1));
      EXPECT_EQ(b, std::vector<std::int32_t>(5, 1));
    });
  }
}

/// One thread has all ranks, so each communicator's calls are fused by themselves.
TEST(Group, FusesEachCommunicatorsOwn) {
  const Ranks ranks(3);
  std::vector<std::vector<std::int32_t>> data(6, std::vector<std::int32_t>(9, 1));
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  for (std::size_t i = 0; i < data.size(); ++i) {
    EXPECT_EQ(tutti_all_reduce(data[i].data(), data[i].data(), 9, TUTTI_INT32, TUTTI_SUM, ranks[static_cast<int>(i % 3)],
                               {}, nullptr),
              TUTTI_SUCCESS);
  }
  tutti_work* whole = nullptr;
  tutti_call call = TUTTI_CALL_INIT;
  call.work = &whole;
  call.fuse = 1;
  ASSERT_EQ(tutti_group_end(&call), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_work_wait(whole, 0), TUTTI_SUCCESS);
  tutti_work_release(whole);
  for (const auto& one : data) EXPECT_EQ(one, std::vector<std::int32_t>(9, 3));
  for (int r = 0; r < 3; ++r) EXPECT_EQ(sequence_of(ranks[r]), 1u);
}

/// What may differ between ranks decides nothing: names, limits, and buffers that only the root reads.
TEST(Group, IsFusedAlikeWhateverDiffersBetweenRanks) {
  constexpr int n = 3;
  const Ranks ranks(n);
  ranks.run([](int rank, tutti_comm* comm) {
    std::vector<std::int32_t> slots(n, -1);
    slots[static_cast<std::size_t>(rank)] = 10 + rank;
    EXPECT_EQ(operations_of(comm,
                            [&] {
                              for (int r = 0; r < n; ++r) {
                                tutti_call call = TUTTI_CALL_INIT;
                                call.timeout_ns = rank == 1 ? 50'000'000'000 : 0;
                                call.name = rank == 2 ? "weights" : nullptr;
                                EXPECT_EQ(tutti_broadcast(&slots[static_cast<std::size_t>(rank)],
                                                          &slots[static_cast<std::size_t>(r)], 1, TUTTI_INT32, r, comm, {},
                                                          &call),
                                          TUTTI_SUCCESS);
                              }
                            }),
              1u);
    EXPECT_EQ(slots, (std::vector<std::int32_t>{10, 11, 12}));
    std::int32_t a = 1, b = 1;
    const auto by_name = [&](std::int32_t& data, int root) {
      tutti_call call = TUTTI_CALL_INIT;
      call.algorithm = "binomial";
      EXPECT_EQ(tutti_broadcast(&data, &data, 1, TUTTI_INT32, root, comm, {}, &call), TUTTI_SUCCESS);
    };
    EXPECT_EQ(operations_of(comm, [&] { by_name(a, 0), by_name(b, 1); }), 2u) << "no all_gather is called binomial";
  });
}

/// Without the promise a group is a rank's own affair.
TEST(Group, OfOneRankMeetsPlainCallsOfAnother) {
  const Ranks ranks(2);
  ranks.run([](int rank, tutti_comm* comm) {
    std::int32_t a = 1, b = 2;
    if (rank == 0) {
      EXPECT_EQ(tutti_group_start(), TUTTI_SUCCESS);
    }
    EXPECT_EQ(tutti_all_reduce(&a, &a, 1, TUTTI_INT32, TUTTI_SUM, comm, {}, nullptr), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(tutti_all_reduce(&b, &b, 1, TUTTI_INT32, TUTTI_SUM, comm, {}, nullptr), TUTTI_SUCCESS) << last_error();
    if (rank == 0) {
      EXPECT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
    }
    EXPECT_EQ(a, 2);
    EXPECT_EQ(b, 4);
  });
}

/// A call that fails ends the works of all that were one operation with it: rank 1 never comes.
TEST(Group, ThatFailsEndsAllItsWorks) {
  const Ranks ranks(2);
  tutti_work* works[2] = {};
  std::int32_t data[2] = {};
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  for (int i = 0; i < 2; ++i) {
    tutti_call call = TUTTI_CALL_INIT;
    call.work = &works[i];
    ASSERT_EQ(tutti_all_reduce(&data[i], &data[i], 1, TUTTI_INT32, TUTTI_SUM, ranks[0], {}, &call), TUTTI_SUCCESS);
  }
  tutti_call call = TUTTI_CALL_INIT;
  call.fuse = 1;
  call.timeout_ns = 200'000'000;
  EXPECT_EQ(tutti_group_end(&call), TUTTI_TIMEOUT);
  for (tutti_work* work : works) {
    EXPECT_EQ(tutti_work_wait(work, 0), TUTTI_TIMEOUT);
    tutti_work_release(work);
  }
}

/// As operations_of, of calls on queues, which are waited for.
template <typename Calls>
std::uint64_t queued_operations_of(tutti_comm* comm, std::initializer_list<const OwnQueue*> queues, const Calls& calls) {
  const std::uint64_t before = sequence_of(comm);
  operations_of(comm, calls);
  for (const OwnQueue* queue : queues) EXPECT_EQ(queue->wait(), TUTTI_SUCCESS) << last_error();
  return sequence_of(comm) - before;
}

void sum_in_place(std::vector<std::int32_t>& data, tutti_comm* comm, tutti_stream stream, tutti_work** work = nullptr,
                  std::uint64_t user_tag = 0) {
  tutti_call call = TUTTI_CALL_INIT;
  call.work = work;
  call.user_tag = user_tag;
  EXPECT_EQ(tutti_all_reduce(data.data(), data.data(), data.size(), TUTTI_INT32, TUTTI_SUM, comm, stream, &call),
            TUTTI_SUCCESS)
      << last_error();
}

/// What is told of a work that has succeeded; it is released.
tutti_work_details details_of(tutti_work* work) {
  tutti_work_details info{};
  info.size = sizeof info;
  EXPECT_EQ(tutti_work_info(work, &info), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(info.status, TUTTI_SUCCESS);
  EXPECT_LE(info.start_ns, info.end_ns);
  EXPECT_NE(info.start_ns, 0u);
  EXPECT_STRNE(info.algorithm, "");
  tutti_work_release(work);
  return info;
}

TEST(QueuedGroup, SmallSumsAndBroadcastsAreOneOperationEach) {
  constexpr std::size_t sums = 20, broadcasts = 3;
  const Ranks ranks(3);
  ranks.run([](int rank, tutti_comm* comm) {
    const OwnQueue queue;
    for (int turn = 0; turn < 20; ++turn) {
      std::vector<std::vector<std::int32_t>> data(sums + broadcasts);
      std::vector<tutti_work*> works(data.size());
      const std::uint64_t first = sequence_of(comm);
      EXPECT_EQ(queued_operations_of(comm, {&queue},
                                     [&] {
                                       for (std::size_t t = 0; t < data.size(); ++t) {
                                         data[t].assign(t * 17 + 1, rank + static_cast<int>(t));
                                         if (t < sums) {
                                           sum_in_place(data[t], comm, queue.stream(), &works[t], 100 + t);
                                           continue;
                                         }
                                         tutti_call call = TUTTI_CALL_INIT;
                                         call.work = &works[t];
                                         call.user_tag = 100 + t;
                                         EXPECT_EQ(
                                             tutti_broadcast(data[t].data(), data[t].data(), data[t].size(), TUTTI_INT32,
                                                             static_cast<int>(t - sums), comm, queue.stream(), &call),
                                             TUTTI_SUCCESS);
                                       }
                                     }),
                2u);
      for (std::size_t t = 0; t < data.size(); ++t) {
        const bool is_sum = t < sums;
        EXPECT_EQ(tutti_work_test(works[t]), TUTTI_SUCCESS) << "the queue was waited for";
        const tutti_work_details info = details_of(works[t]);
        EXPECT_EQ(info.sequence, first + (is_sum ? 0 : 1));
        EXPECT_EQ(info.user_tag, 100 + t);
        EXPECT_EQ(info.bytes, 4 * data[t].size());
        EXPECT_STREQ(info.kind, is_sum ? "all_reduce" : "broadcast");
        const int at = static_cast<int>(t);
        const int expected = is_sum ? 3 + 3 * at : at - static_cast<int>(sums) + at;
        EXPECT_EQ(data[t], std::vector<std::int32_t>(data[t].size(), expected)) << t;
      }
    }
  });
}

TEST(QueuedGroup, JoinsCallsOfOneStreamAlone) {
  const Ranks ranks(2);
  ranks.run([](int, tutti_comm* comm) {
    const OwnQueue one, other;
    std::vector<std::vector<std::int32_t>> data(8, std::vector<std::int32_t>(9, 1));
    const tutti_stream streams[] = {one.stream(), one.stream(), other.stream(), other.stream(), other.stream(),
                                    {},           {},           one.stream()};
    EXPECT_EQ(queued_operations_of(comm, {&one, &other},
                                   [&] {
                                     for (std::size_t t = 0; t < data.size(); ++t) sum_in_place(data[t], comm, streams[t]);
                                   }),
              4u)
        << "2 on one, 3 on the other, 2 that block, 1 on one";
    for (const auto& each : data) EXPECT_EQ(each, std::vector<std::int32_t>(9, 2));
  });
}

/// What a queue has before and behind a group stays there, functions too.
TEST(QueuedGroup, KeepsItsPlaceOnItsQueue) {
  const Ranks ranks(2);
  ranks.run([](int, tutti_comm* comm) {
    const OwnQueue queue;
    struct Seen {
      std::vector<std::int32_t> a = std::vector<std::int32_t>(50, 1), b = std::vector<std::int32_t>(70, 1);
      std::vector<int> seen;
      static void note(void* self) {
        Seen& own = *static_cast<Seen*>(self);
        own.seen.push_back(own.a.back());
        own.seen.push_back(own.b.back());
      }
    } data;
    for (int turn = 0; turn < 3; ++turn) {
      sum_in_place(data.a, comm, queue.stream());
      EXPECT_EQ(tutti_queue_call(queue.get(), &Seen::note, &data, nullptr), TUTTI_SUCCESS);
      EXPECT_EQ(tutti_group_start(), TUTTI_SUCCESS);
      sum_in_place(data.a, comm, queue.stream());
      sum_in_place(data.b, comm, queue.stream());
      tutti_call call = TUTTI_CALL_INIT;
      call.fuse = 1;
      EXPECT_EQ(tutti_group_end(&call), TUTTI_SUCCESS) << last_error();
      EXPECT_EQ(tutti_queue_call(queue.get(), &Seen::note, &data, nullptr), TUTTI_SUCCESS);
    }
    EXPECT_EQ(queue.wait(), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(data.seen, (std::vector<int>{2, 1, 4, 2, 8, 2, 16, 4, 32, 4, 64, 8}));
    EXPECT_EQ(sequence_of(comm), 6u);
  });
}

/// Whatever else a rank's group holds, as others need not be ranks of that.
TEST(QueuedGroup, IsFusedAlikeWhateverOtherCommunicatorsHaveBetween) {
  const Ranks ranks(3);
  ranks.run([](int rank, tutti_comm* comm) {
    const OwnQueue queue;
    tutti_comm* part = nullptr;
    ASSERT_EQ(tutti_comm_split(comm, rank == 2 ? 1 : 0, rank, &part, nullptr), TUTTI_SUCCESS) << last_error();
    std::vector<std::int32_t> a(5, 1), b(6, 1), c(7, 1), d(8, 1);
    const std::uint64_t before = sequence_of(comm);
    EXPECT_EQ(queued_operations_of(part, {&queue},
                                   [&] {
                                     sum_in_place(a, comm, queue.stream());
                                     if (rank != 2) sum_in_place(b, part, queue.stream());
                                     sum_in_place(c, comm, queue.stream());
                                     if (rank != 2) sum_in_place(d, part, queue.stream());
                                   }),
              rank == 2 ? 0u : 1u);
    EXPECT_EQ(sequence_of(comm) - before, 1u);
    EXPECT_EQ(a[4] + c[6], 6);
    EXPECT_EQ(b[5] + d[7], rank == 2 ? 2 : 4);
    EXPECT_EQ(tutti_comm_destroy(part), TUTTI_SUCCESS);
  });
}

/// A group of two fused sums on a queue, their works, and the whole group's.
struct TwoSums {
  std::vector<std::int32_t> a, b;
  tutti_work* works[3] = {};

  TwoSums(std::size_t count, tutti_comm* comm, const OwnQueue& queue, std::uint64_t timeout_ns = 0) : a(count), b(count) {
    EXPECT_EQ(tutti_group_start(), TUTTI_SUCCESS);
    sum_in_place(a, comm, queue.stream(), &works[0]);
    sum_in_place(b, comm, queue.stream(), &works[1]);
    tutti_call call = TUTTI_CALL_INIT;
    call.fuse = 1;
    call.timeout_ns = timeout_ns;
    call.work = &works[2];
    EXPECT_EQ(tutti_group_end(&call), TUTTI_SUCCESS) << last_error();
  }
  void expect(tutti_status status) const {
    for (tutti_work* work : works) {
      EXPECT_EQ(tutti_work_wait(work, 0), status) << last_error();
      tutti_work_release(work);
    }
  }
};

TEST(QueuedGroup, ThatFailsEndsAllItsWorks) {
  const Ranks ranks(2);
  const OwnQueue queue;
  const TwoSums sums(1, ranks[0], queue, 1'000'000'000);
  EXPECT_EQ(tutti_work_test(sums.works[1]), TUTTI_IN_PROGRESS);
  sums.expect(TUTTI_TIMEOUT);
  EXPECT_EQ(queue.wait(), TUTTI_TIMEOUT);
}

TEST(QueuedGroup, OfOtherCountsIsAMismatchOfAllItsWorks) {
  const Ranks ranks(2);
  ranks.run([](int rank, tutti_comm* comm) {
    const OwnQueue queue;
    TwoSums(rank == 0 ? 4 : 5, comm, queue).expect(TUTTI_MISMATCH);
    EXPECT_EQ(queue.wait(), TUTTI_MISMATCH);
  });
}

/// Where nothing of the group can run, their works end with that.
TEST(QueuedGroup, OfACommunicatorThatHasFailedEndsItsWorks) {
  const Ranks ranks(2);
  const OwnQueue queue;
  tutti_work* works[2] = {};
  std::vector<std::int32_t> data[2] = {std::vector<std::int32_t>(3), std::vector<std::int32_t>(4)};
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  for (int i = 0; i < 2; ++i) sum_in_place(data[i], ranks[0], queue.stream(), &works[i]);
  ASSERT_EQ(tutti_comm_abort(ranks[0]), TUTTI_SUCCESS);
  tutti_call call = TUTTI_CALL_INIT;
  call.fuse = 1;
  EXPECT_EQ(tutti_group_end(&call), TUTTI_ABORTED);
  for (tutti_work* work : works) {
    EXPECT_EQ(tutti_work_test(work), TUTTI_ABORTED);
    tutti_work_release(work);
  }
}

/// As DDP does: each work is waited for, the last one first.
TEST(QueuedGroup, IsWaitedForByAnyOfItsWorks) {
  const Ranks ranks(2);
  ranks.run([](int, tutti_comm* comm) {
    const OwnQueue queue;
    for (int turn = 0; turn < 200; ++turn) {
      const TwoSums sums(30, comm, queue);
      EXPECT_EQ(tutti_work_wait(sums.works[1], 0), TUTTI_SUCCESS) << last_error();
      EXPECT_EQ(tutti_work_test(sums.works[0]), TUTTI_SUCCESS) << "works end in order";
      sums.expect(TUTTI_SUCCESS);
    }
  });
}

}  // namespace
}  // namespace tutti::test
