// Every collective over the real library: ranks as threads, both transports, in place and out, counts that do not divide.
#include <numeric>

#include "tests/support/ranks.h"

namespace tutti::test {
namespace {

struct Case {
  int ranks;
  const char* transports;
};

class Collectives : public testing::TestWithParam<Case> {
 protected:
  /// What rank r contributes at index i: small integers, so that sums are exact.
  static std::int32_t value(int rank, std::size_t i) {
    return static_cast<std::int32_t>((static_cast<std::size_t>(rank) * 7 + i * 3) % 101) - 50;
  }
  static constexpr std::size_t counts[] = {0, 1, 3, 17, 1000, 65536};
};

TEST_P(Collectives, AllReduceSumsEveryElementInPlaceAndOut) {
  const Ranks ranks(GetParam().ranks, GetParam().transports);
  ranks.run([&](int rank, tutti_comm* comm) {
    for (const std::size_t count : counts) {
      for (const bool in_place : {false, true}) {
        std::vector<std::int32_t> send(count), recv(count, -1);
        for (std::size_t i = 0; i < count; ++i) send[i] = value(rank, i);
        std::int32_t* out = in_place ? send.data() : recv.data();
        ASSERT_EQ(tutti_all_reduce(send.data(), out, count, TUTTI_INT32, TUTTI_SUM, comm, {}, nullptr), TUTTI_SUCCESS)
            << last_error();
        for (std::size_t i = 0; i < count; ++i) {
          std::int32_t expected = 0;
          for (int r = 0; r < ranks.size(); ++r) expected += value(r, i);
          ASSERT_EQ(out[i], expected) << "element " << i << " of " << count << " on rank " << rank;
        }
      }
    }
  });
}

TEST_P(Collectives, BroadcastAndReduceWorkFromAndToEveryRoot) {
  const Ranks ranks(GetParam().ranks, GetParam().transports);
  ranks.run([&](int rank, tutti_comm* comm) {
    for (int root = 0; root < ranks.size(); ++root) {
      constexpr std::size_t count = 1003;
      std::vector<std::int32_t> data(count), sums(count, -1);
      for (std::size_t i = 0; i < count; ++i) data[i] = value(rank, i);
      ASSERT_EQ(tutti_reduce(data.data(), sums.data(), count, TUTTI_INT32, TUTTI_SUM, root, comm, {}, nullptr),
                TUTTI_SUCCESS)
          << last_error();
      for (std::size_t i = 0; i < count; ++i) {
        std::int32_t expected = 0;
        for (int r = 0; r < ranks.size(); ++r) expected += value(r, i);
        ASSERT_EQ(sums[i], rank == root ? expected : -1) << "root " << root;
      }
      ASSERT_EQ(tutti_broadcast(data.data(), data.data(), count, TUTTI_INT32, root, comm, {}, nullptr), TUTTI_SUCCESS)
          << last_error();
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(data[i], value(root, i)) << "root " << root;
    }
  });
}

TEST_P(Collectives, GatheringAndScatteringPutBlocksInTheirPlaces) {
  const Ranks ranks(GetParam().ranks, GetParam().transports);
  ranks.run([&](int rank, tutti_comm* comm) {
    const std::size_t p = static_cast<std::size_t>(ranks.size());
    constexpr std::size_t count = 501;
    std::vector<std::int32_t> mine(count), all(count * p, -1), blocks(count * p), part(count, -1);
    for (std::size_t i = 0; i < count; ++i) mine[i] = value(rank, i);
    for (std::size_t i = 0; i < count * p; ++i) blocks[i] = value(rank, i);
    ASSERT_EQ(tutti_all_gather(mine.data(), all.data(), count, TUTTI_INT32, comm, {}, nullptr), TUTTI_SUCCESS)
        << last_error();
    for (std::size_t i = 0; i < count * p; ++i) ASSERT_EQ(all[i], value(static_cast<int>(i / count), i % count)) << i;

    ASSERT_EQ(tutti_reduce_scatter(blocks.data(), part.data(), count, TUTTI_INT32, TUTTI_SUM, comm, {}, nullptr),
              TUTTI_SUCCESS)
        << last_error();
    for (std::size_t i = 0; i < count; ++i) {
      std::int32_t expected = 0;
      for (int r = 0; r < ranks.size(); ++r) expected += value(r, static_cast<std::size_t>(rank) * count + i);
      ASSERT_EQ(part[i], expected) << i;
    }

    std::vector<std::int32_t> swapped(count * p, -1);
    ASSERT_EQ(tutti_all_to_all(blocks.data(), swapped.data(), count, TUTTI_INT32, comm, {}, nullptr), TUTTI_SUCCESS)
        << last_error();
    for (std::size_t i = 0; i < count * p; ++i) {
      ASSERT_EQ(swapped[i], value(static_cast<int>(i / count), static_cast<std::size_t>(rank) * count + i % count)) << i;
    }
    ASSERT_EQ(tutti_all_to_all(blocks.data(), blocks.data(), count, TUTTI_INT32, comm, {}, nullptr), TUTTI_SUCCESS)
        << last_error();
    ASSERT_EQ(blocks, swapped);

    for (int root = 0; root < ranks.size(); ++root) {
      std::vector<std::int32_t> gathered(count * p, -1), scattered(count, -1);
      ASSERT_EQ(tutti_gather(mine.data(), gathered.data(), count, TUTTI_INT32, root, comm, {}, nullptr), TUTTI_SUCCESS)
          << last_error();
      if (rank == root) {
        ASSERT_EQ(gathered, all);
      }
      ASSERT_EQ(tutti_scatter(all.data(), scattered.data(), count, TUTTI_INT32, root, comm, {}, nullptr), TUTTI_SUCCESS)
          << last_error();
      ASSERT_EQ(scattered, mine);
    }
    ASSERT_EQ(tutti_barrier(comm, {}, nullptr), TUTTI_SUCCESS) << last_error();
  });
}

TEST_P(Collectives, TransfersWithCrossedTagsFinish) {
  if (GetParam().ranks < 2) GTEST_SKIP() << "needs two ranks";
  const Ranks ranks(GetParam().ranks, GetParam().transports);
  ranks.run([&](int rank, tutti_comm* comm) {
    if (rank > 1) return;
    constexpr std::size_t count = 300'000;
    const int peer = 1 - rank;
    std::vector<std::int32_t> first(count, rank), second(count, rank + 10), a(count), b(count);
    tutti_work* works[4];
    tutti_call call = TUTTI_CALL_INIT;
    const auto with = [&](std::uint64_t tag, int work) {
      call.tag = tag;
      call.work = &works[work];
      return &call;
    };
    tutti_queue* queue = nullptr;
    ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS);
    const tutti_stream stream = {TUTTI_STREAM_QUEUE, queue};
    ASSERT_EQ(tutti_send(first.data(), count, TUTTI_INT32, peer, comm, stream, with(1, 0)), TUTTI_SUCCESS) << last_error();
    ASSERT_EQ(tutti_send(second.data(), count, TUTTI_INT32, peer, comm, stream, with(2, 1)), TUTTI_SUCCESS) << last_error();
    ASSERT_EQ(tutti_recv(b.data(), count, TUTTI_INT32, TUTTI_ANY_SOURCE, comm, stream, with(2, 2)), TUTTI_SUCCESS)
        << last_error();
    ASSERT_EQ(tutti_recv(a.data(), count, TUTTI_INT32, peer, comm, stream, with(1, 3)), TUTTI_SUCCESS) << last_error();
    for (tutti_work* work : works) {
      ASSERT_EQ(tutti_work_wait(work, 0), TUTTI_SUCCESS) << last_error();
      tutti_work_release(work);
    }
    tutti_queue_destroy(queue);
    EXPECT_EQ(a, std::vector<std::int32_t>(count, peer));
    EXPECT_EQ(b, std::vector<std::int32_t>(count, peer + 10));
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives,
                         testing::Values(Case{1, ""}, Case{2, "shm"}, Case{3, "shm"}, Case{4, "shm"}, Case{7, "shm"},
                                         Case{9, ""}, Case{2, "tcp"}, Case{3, "tcp"}, Case{8, "tcp"}),
                         [](const testing::TestParamInfo<Case>& at) {
                           const std::string name = at.param.transports;
                           return (name.empty() ? "any" : name) + std::to_string(at.param.ranks);
                         });

}  // namespace
}  // namespace tutti::test
