// Collectives on CUDA streams: their order, groups of one thread, works, and the end of communicators meanwhile.
#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>

#include "tests/device/calls.h"
#include "tests/device/device_fixture.h"
#include "tests/support/holdings.h"

namespace tutti::test {
namespace {

constexpr std::size_t kCount = 2000;

/// Streams that are held up would hold up others where they share a hardware queue: so there are as many as needed.
class DeviceStreams : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    const char* const given = std::getenv("STANDIN_QUEUES");
    if (standin) standin.set("QUEUES", given != nullptr ? given : "128");
  }
};

tutti_status sum_on(const Memory& send, const Memory& recv, tutti_comm* comm, tutti_stream stream,
                    const tutti_call* call = nullptr) {
  return tutti_all_reduce(send.data(), recv.data(), kCount, TUTTI_INT32, TUTTI_SUM, comm, stream, call);
}

/// A communicator's first call, which waits for all its ranks and their devices. Those that follow are of other shapes.
void connect_devices(const DeviceRank& rank) {
  const Memory data = device_values(std::vector<std::int32_t>(1, 1));
  ASSERT_EQ(issue({.count = 1}, data.data(), data.data(), rank.comm, on(rank.stream)), TUTTI_SUCCESS) << last_error();
  rank.stream.wait();
}

void copy(const Memory& to, const Memory& from, const Stream& stream) {
  EXPECT_EQ(api().cuMemcpyAsync(to.address(), from.address(), from.bytes(), stream.handle()), kOk);
}

TEST_F(DeviceStreams, TheLegacyStreamAndThatOfTheThreadAreStreamsToo) {
  const DeviceRanks ranks({.ranks = 3});
  ranks.run([](const DeviceRank& rank) {
    for (const std::uintptr_t value : {std::uintptr_t{0}, cuda::kLegacyStream, cuda::kPerThreadStream}) {
      const auto handle = reinterpret_cast<cuda::StreamHandle>(value);
      const Memory data = device_values(std::vector<std::int32_t>(kCount, 1));
      for (int round = 0; round < 3; ++round) {
        ASSERT_EQ(sum_on(data, data, rank.comm, on(handle)), TUTTI_SUCCESS) << value << ": " << last_error();
      }
      EXPECT_EQ(api().cuStreamSynchronize(handle), kOk);
      EXPECT_EQ(data.read_all<std::int32_t>(), std::vector<std::int32_t>(kCount, 27)) << value;
    }
  });
}

// Whoever waits launches what has come, though not on the stream of another thread that has the same handle.
TEST_F(DeviceStreams, ThreadsOfARankHaveStreamsOfTheirOwnByOneHandle) {
  const auto handle = reinterpret_cast<cuda::StreamHandle>(cuda::kPerThreadStream);
  // Beside strangers each hand-over takes a slice, and all of them longer than a call may.
  const bool whole = std::getenv("TEST_WHOLE") != nullptr;
  constexpr int kMostRounds = 10;
  const int rounds = whole ? kMostRounds : 4, threads_of_rank = whole ? 6 : 5;
  for (const int of_ranks : {1, 2}) {
    const DeviceRanks ranks({.ranks = of_ranks});
    MeetingPoint connected(of_ranks);
    // Two calls of a rank may be made in either order, so they are the same but for their memory.
    ranks.run([&](const DeviceRank& rank) {
      connect_devices(rank);
      connected.meet();  // memory is given back where all streams stand still: nobody may hold one before
      const auto work = [&] {
        const CurrentPlace current(rank.place);
        const Memory source(MemoryKind::pinned, kCount * sizeof(std::int32_t));
        const Memory result(MemoryKind::pinned, kCount * sizeof(std::int32_t));
        const Memory data = device_values(std::vector<std::int32_t>(kCount, -1));
        const Memory sum = device_values(std::vector<std::int32_t>(kCount, -1));
        Hold holds[kMostRounds];
        for (int round = 0; round < rounds; ++round) {
          source.write_all(std::vector<std::int32_t>(kCount, round));
          holds[round].hold(handle);
          EXPECT_EQ(api().cuMemcpyAsync(data.address(), source.address(), data.bytes(), handle), kOk);
          // Between two of them another thread may come.
          ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
          for (int n = 0; n < 4; ++n) {
            EXPECT_EQ(sum_on(data, sum, rank.comm, on(handle)), TUTTI_SUCCESS) << last_error();
          }
          ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
          EXPECT_EQ(api().cuMemcpyAsync(result.address(), sum.address(), sum.bytes(), handle), kOk);
          holds[round].open();
          EXPECT_EQ(api().cuStreamSynchronize(handle), kOk);
          if (of_ranks > 1) continue;  // whose call met whose is chance
          ASSERT_EQ(result.read_all<std::int32_t>(), std::vector<std::int32_t>(kCount, round));
        }
      };
      std::vector<std::thread> threads;
      for (int t = 0; t < threads_of_rank; ++t) threads.emplace_back(work);
      for (std::thread& thread : threads) thread.join();
    });
  }
}

// Each rank's stream is the last to go on once: the others' calls wait for it, and so does what is behind them.
TEST_F(DeviceStreams, ACallReturnsBeforeItsTurnAndRunsInIt) {
  constexpr int kRanks = 3;
  const DeviceRanks ranks({.ranks = kRanks, .places = 2});
  const CurrentPlace current(0);
  for (int last = 0; last < kRanks; ++last) {
    Hold holds[kRanks];
    MeetingPoint point(kRanks);
    ranks.run([&](const DeviceRank& rank) {
      connect_devices(rank);
      const Memory source(MemoryKind::pinned, kCount * sizeof(std::int32_t));
      const Memory result(MemoryKind::pinned, kCount * sizeof(std::int32_t));
      result.write_all(std::vector<std::int32_t>(kCount, -1));
      const Memory send = device_values(std::vector<std::int32_t>(kCount, 77));
      const Memory recv = device_values(std::vector<std::int32_t>(kCount, -2));
      point.meet();
      holds[rank.rank].hold(rank.stream);
      copy(send, source, rank.stream);
      ASSERT_EQ(sum_on(send, recv, rank.comm, on(rank.stream)), TUTTI_SUCCESS) << last_error();
      copy(result, recv, rank.stream);
      // All calls have returned, and the streams still stand still: what is written now is what gets summed.
      std::fill_n(source.as<std::int32_t>(), kCount, rank.rank + 1);
      point.meet();
      if (rank.rank != last) holds[rank.rank].open();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      EXPECT_EQ(result.as<std::int32_t>()[0], -1) << "a stream before it stands still";
      point.meet();
      if (rank.rank == last) holds[rank.rank].open();
      rank.stream.wait();
      EXPECT_EQ(std::vector<std::int32_t>(result.as<std::int32_t>(), result.as<std::int32_t>() + kCount),
                std::vector<std::int32_t>(kCount, 6));
    });
  }
}

// Also where all streams of a device share a hardware queue, the library's own included: CTest runs it so, too.
TEST_F(DeviceStreams, ACallOfANewShapeWaitsForNoStream) {
  constexpr int kRanks = 3;
  constexpr std::size_t kCounts[] = {7, 500, 3000, 66'001};
  const DeviceRanks ranks({.ranks = kRanks, .places = 2});
  const CurrentPlace current(0);
  Hold hold;
  MeetingPoint point(kRanks);
  ranks.run([&](const DeviceRank& rank) {
    connect_devices(rank);
    std::vector<Memory> sums, copies;
    for (const std::size_t count : kCounts) {
      sums.push_back(device_values(std::vector<std::int32_t>(count, rank.rank + 1)));
      copies.push_back(device_values(std::vector<std::int32_t>(count, rank.rank)));
    }
    point.meet();
    hold.hold(rank.stream);
    for (std::size_t c = 0; c < std::size(kCounts); ++c) {
      const CollectiveCase sum = {.count = kCounts[c]};
      const CollectiveCase broadcast = {.verb = Verb::broadcast, .count = kCounts[c], .root = 2};
      EXPECT_EQ(issue(sum, sums[c].data(), sums[c].data(), rank.comm, on(rank.stream)), TUTTI_SUCCESS) << last_error();
      EXPECT_EQ(issue(broadcast, copies[c].data(), copies[c].data(), rank.comm, on(rank.stream)), TUTTI_SUCCESS)
          << last_error();
    }
    point.meet();
    hold.open();
    rank.stream.wait();
    for (std::size_t c = 0; c < std::size(kCounts); ++c) {
      EXPECT_EQ(sums[c].read_all<std::int32_t>(), std::vector<std::int32_t>(kCounts[c], 6));
      EXPECT_EQ(copies[c].read_all<std::int32_t>(), std::vector<std::int32_t>(kCounts[c], 2));
    }
  });
}

// Links by lines of 32 KiB: each shape takes more than a third of what a rank has ready.
TEST_F(DeviceStreams, MoreShapesThanThereIsMemoryForInTheStockAreRightToo) {
  const DeviceRanks ranks({.ranks = 4, .places = 2});
  ranks.run([](const DeviceRank& rank) {
    for (std::size_t count = 8000; count < 8008; ++count) {
      const Memory data = device_values(std::vector<std::int32_t>(count, rank.rank));
      const CollectiveCase of = {.verb = Verb::all_reduce, .count = count, .algorithm = "flat"};
      ASSERT_EQ(issue(of, data.data(), data.data(), rank.comm, on(rank.stream)), TUTTI_SUCCESS) << last_error();
      rank.stream.wait();
      EXPECT_EQ(data.read_all<std::int32_t>(), std::vector<std::int32_t>(count, 6));
    }
  });
}

// More than have room in pinned memory at one time, which none of them needs for longer than its first call.
TEST_F(DeviceStreams, AHundredShapesRunOneAfterTheOther) {
  const DeviceRanks ranks({.ranks = 2});
  ranks.run([](const DeviceRank& rank) {
    const Memory data = device_values(std::vector<std::int32_t>(100, 1));
    for (std::size_t count = 1; count <= 100; ++count) {
      ASSERT_EQ(issue({.verb = Verb::broadcast, .count = count}, data.data(), data.data(), rank.comm, on(rank.stream)),
                TUTTI_SUCCESS)
          << last_error();
    }
    rank.stream.wait();
  });
}

TEST_F(DeviceStreams, CallsOfOneCommunicatorKeepTheirOrderOverTwoStreams) {
  const DeviceRanks ranks({.ranks = 4, .places = 2});
  ranks.run([](const DeviceRank& rank) {
    const Stream other;
    const Memory data = device_values(std::vector<std::int32_t>(kCount, 1));
    std::int32_t expected = 1;
    for (int round = 0; round < 14; ++round) {
      // Only the communicator orders the two streams.
      ASSERT_EQ(sum_on(data, data, rank.comm, on(round % 3 == 0 ? other : rank.stream)), TUTTI_SUCCESS) << last_error();
      expected *= 4;
    }
    rank.stream.wait();
    other.wait();
    EXPECT_EQ(data.read_all<std::int32_t>(), std::vector<std::int32_t>(kCount, expected));
  });
}

TEST_F(DeviceStreams, AStreamMayGoBeforeTheNextCallComesOnAnother) {
  const DeviceRanks ranks({.ranks = 2});
  ranks.run([](const DeviceRank& rank) {
    const Memory data = device_values(std::vector<std::int32_t>(kCount, 1));
    for (int round = 0; round < 6; ++round) {
      const Stream brief;
      ASSERT_EQ(sum_on(data, data, rank.comm, on(brief)), TUTTI_SUCCESS) << last_error();
    }
    ASSERT_EQ(sum_on(data, data, rank.comm, on(rank.stream)), TUTTI_SUCCESS) << last_error();
    rank.stream.wait();
    EXPECT_EQ(data.read_all<std::int32_t>(), std::vector<std::int32_t>(kCount, 128));
  });
}

/// Ranks of one thread, in one group.
struct OneThread {
  explicit OneThread(const DeviceRanks& of) : ranks(of) {
    for (int r = 0; r < ranks.size(); ++r) {
      contexts.push_back(std::make_unique<CurrentPlace>(ranks.place_of(r)));
      streams.emplace_back();
      data.push_back(device_values(std::vector<std::int32_t>(kCount, r + 1)));
    }
  }
  /// Contexts are left in the opposite order.
  ~OneThread() {
    data.clear();
    streams.clear();
    while (!contexts.empty()) contexts.pop_back();
  }
  tutti_status call(int r, tutti_call* options = nullptr) {
    const auto at = static_cast<std::size_t>(r);
    const CurrentPlace current(ranks.place_of(r));
    return sum_on(data[at], data[at], ranks[r], on(streams[at]), options);
  }
  void expect(std::int32_t value) {
    for (int r = 0; r < ranks.size(); ++r) {
      const CurrentPlace current(ranks.place_of(r));
      streams[static_cast<std::size_t>(r)].wait();
      EXPECT_EQ(data[static_cast<std::size_t>(r)].read_all<std::int32_t>(), std::vector<std::int32_t>(kCount, value))
          << "rank " << r;
    }
  }

  const DeviceRanks& ranks;
  std::vector<std::unique_ptr<CurrentPlace>> contexts;
  std::vector<Stream> streams;
  std::vector<Memory> data;
};

TEST_F(DeviceStreams, OneThreadHasSeveralRanksInAGroup) {
  for (const int places : {1, 2}) {
    const DeviceRanks ranks({.ranks = 3, .places = places});
    OneThread all(ranks);
    // The last context stays current: calls of the other device's ranks come from it, too.
    for (int round = 0; round < 3; ++round) {
      ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
      for (int r = 0; r < ranks.size(); ++r) EXPECT_EQ(all.call(r), TUTTI_SUCCESS) << last_error();
      ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << places << " places: " << last_error();
    }
    all.expect(6 * 3 * 3);
  }
}

TEST_F(DeviceStreams, AGroupMayHoldSeveralCallsOfEachRank) {
  const DeviceRanks ranks({.ranks = 3});
  OneThread all(ranks);
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  for (int r = 0; r < ranks.size(); ++r) {
    for (int n = 0; n < 3; ++n) EXPECT_EQ(all.call(r), TUTTI_SUCCESS) << last_error();
  }
  ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
  all.expect(6 * 3 * 3);
}

/// A group of one thread that has several calls of each rank. A call says by what it folds, and on which stream it runs.
class GroupOfCalls {
 public:
  struct Call {
    std::size_t count = kCount;
    tutti_op op = TUTTI_SUM;
    std::size_t stream = 0;  ///< which of two
  };
  explicit GroupOfCalls(const DeviceRanks& of, std::vector<Call> calls) : ranks_(of), calls_(std::move(calls)) {
    for (int r = 0; r < ranks_.size(); ++r) {
      const CurrentPlace current(ranks_.place_of(r));
      for (std::size_t stream = 0; stream < 2; ++stream) streams_.emplace_back();
      for (std::size_t c = 0; c < calls_.size(); ++c)
        data_.push_back(device_values(std::vector<std::int32_t>(kCount, contents(r, c))));
    }
  }
  ~GroupOfCalls() {
    for (int r = ranks_.size() - 1; r >= 0; --r) {
      const CurrentPlace current(ranks_.place_of(r));
      data_.resize(static_cast<std::size_t>(r) * calls_.size());
      streams_.resize(static_cast<std::size_t>(r) * 2);
    }
  }
  GroupOfCalls(const GroupOfCalls&) = delete;
  GroupOfCalls& operator=(const GroupOfCalls&) = delete;

  /// Call by call, or rank by rank.
  void run(bool by_rank) {
    ++runs_;
    ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
    const std::size_t ranks = static_cast<std::size_t>(ranks_.size());
    for (std::size_t n = 0; n < ranks * calls_.size(); ++n) {
      const std::size_t r = by_rank ? n / calls_.size() : n % ranks, c = by_rank ? n % calls_.size() : n / ranks;
      const CurrentPlace current(ranks_.place_of(static_cast<int>(r)));
      const Memory& data = data_[r * calls_.size() + c];
      EXPECT_EQ(tutti_all_reduce(data.data(), data.data(), calls_[c].count, TUTTI_INT32, calls_[c].op,
                                 ranks_[static_cast<int>(r)], on(streams_[2 * r + calls_[c].stream]), nullptr),
                TUTTI_SUCCESS)
          << last_error();
    }
    ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
  }
  /// Once its streams have come to their ends.
  void expect_results() const {
    for (int r = 0; r < ranks_.size(); ++r) {
      const CurrentPlace current(ranks_.place_of(r));
      for (std::size_t stream = 0; stream < 2; ++stream) streams_[2 * static_cast<std::size_t>(r) + stream].wait();
      for (std::size_t c = 0; c < calls_.size(); ++c) {
        std::vector<std::int32_t> expected(kCount, contents(r, c));
        std::fill_n(expected.begin(), calls_[c].count, result(c));
        ASSERT_EQ(data_[static_cast<std::size_t>(r) * calls_.size() + c].read_all<std::int32_t>(), expected)
            << "rank " << r << ", call " << c;
      }
    }
  }

 private:
  static std::int32_t contents(int rank, std::size_t call) { return rank + 1 + static_cast<std::int32_t>(call); }
  std::int32_t result(std::size_t call) const {
    std::int32_t total = 0;
    for (int r = 0; r < ranks_.size(); ++r)
      total = calls_[call].op == TUTTI_MAX ? contents(r, call) : total + contents(r, call);
    for (int run = 1; run < runs_ && calls_[call].op == TUTTI_SUM; ++run) total *= ranks_.size();
    return total;
  }

  const DeviceRanks& ranks_;
  const std::vector<Call> calls_;
  std::vector<Stream> streams_;  ///< two of each rank
  std::vector<Memory> data_;     ///< rank by rank
  int runs_ = 0;
};

TEST_F(DeviceStreams, AGroupsCallsOfACommunicatorAreOneLaunchWhereTheyMayBe) {
  if (!standin) GTEST_SKIP() << "a real driver does not count its calls";
  using Calls = std::vector<GroupOfCalls::Call>;
  const struct {
    Calls calls;
    std::uint64_t launches;
    const char* why;
  } cases[] = {{Calls(1), 1, "one"},
               {Calls(5), 1, "of one shape"},
               {{{1}, {7}, {kCount}, {7}, {1}}, 1, "of several shapes"},
               {{{7}, {0}, {7}}, 1, "one of nothing"},
               {{{7}, {7, TUTTI_MAX}, {7, TUTTI_MAX}, {7}}, 3, "of two folds"},
               {{{7}, {7}, {7, TUTTI_SUM, 1}, {7, TUTTI_SUM, 1}, {7}}, 3, "on two streams"},
               {Calls(40), 0, "more than a launch holds"}};
  for (const auto& [of_ranks, places] : {std::pair(1, 1), {3, 1}, {4, 2}}) {
    const DeviceRanks ranks({.ranks = of_ranks, .places = places});
    const auto teams = static_cast<std::uint64_t>(places);
    for (const auto& [calls, launches, why] : cases) {
      GroupOfCalls group(ranks, calls);
      const std::uint64_t fit = 32 * teams / static_cast<std::uint64_t>(of_ranks);  // 32 jobs in a launch
      const std::uint64_t expected = launches != 0 ? launches : (calls.size() + fit - 1) / fit;
      for (const bool by_rank : {false, true}) {
        const std::uint64_t before = standin.calls("cuLaunchKernelEx");
        group.run(by_rank);
        EXPECT_EQ(standin.calls("cuLaunchKernelEx") - before, expected * teams)
            << of_ranks << " ranks at " << places << " places: " << why;
      }
      group.expect_results();
    }
  }
}

// A call of the group works on what the one before it gave, on other ranks' devices too. Ranks are threads, and who
// launches how many at once is chance.
TEST_F(DeviceStreams, AGroupsCallsSeeWhatThoseBeforeThemGave) {
  for (const int places : {1, 2, 3}) {
    const DeviceRanks ranks({.ranks = 3, .places = places});
    ranks.run([](const DeviceRank& rank) {
      const Memory own = device_values(std::vector<std::int32_t>(kCount, rank.rank + 1));
      const Memory all = device_values(std::vector<std::int32_t>(3 * kCount, -1));
      const Memory sum = device_values(std::vector<std::int32_t>(kCount, -1));
      std::int32_t value = rank.rank + 1, total = 6;
      for (int round = 0; round < 10; ++round) {
        ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
        const auto call = [&](const CollectiveCase& of, const Memory& send, const Memory& recv) {
          EXPECT_EQ(issue(of, send.data(), recv.data(), rank.comm, on(rank.stream)), TUTTI_SUCCESS) << last_error();
        };
        call({.verb = Verb::all_gather, .count = kCount}, own, all);
        call({.verb = Verb::all_to_all, .count = kCount}, all, all);  // block r of each: what rank r has
        call({.verb = Verb::reduce_scatter, .count = kCount}, all, own);
        call({.verb = Verb::broadcast, .count = kCount, .root = 2}, own, sum);
        if (round % 2 == 0) call({.count = 1}, sum, sum);
        ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
        rank.stream.wait();
        // Rank r has block r of every rank's, which is rank r's own, in all blocks.
        ASSERT_EQ(all.read_all<std::int32_t>(), std::vector<std::int32_t>(3 * kCount, value)) << round;
        ASSERT_EQ(own.read_all<std::int32_t>(), std::vector<std::int32_t>(kCount, total)) << round;
        std::vector<std::int32_t> expected(kCount, total);
        if (round % 2 == 0) expected[0] *= 3;
        ASSERT_EQ(sum.read_all<std::int32_t>(), expected) << round;
        value = total % 1000;
        total = 3 * value;
        own.write_all(std::vector<std::int32_t>(kCount, value));
      }
    });
  }
}

tutti_status spread(const Memory& from, const Memory& to, tutti_comm* comm, const Stream& stream) {
  return tutti_broadcast(from.data(), to.data(), kCount, TUTTI_INT32, 0, comm, on(stream), nullptr);
}

// Calls of one could share a launch, and would overtake the other's between them.
TEST_F(DeviceStreams, AStreamOrdersTheCallsOfTwoCommunicatorsInAGroup) {
  for (const int places : {1, 2}) {
    const DeviceRanks one({.ranks = 2, .places = places}), other({.ranks = 2, .places = places});
    for (const bool by_thread : {false, true}) {
      const auto in_group = [&](const std::vector<int>& own, const std::function<void(int)>& calls) {
        EXPECT_EQ(tutti_group_start(), TUTTI_SUCCESS);
        for (const int rank : own) {
          const CurrentPlace current(one.place_of(rank));
          calls(rank);
        }
        EXPECT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << places << " places: " << last_error();
      };
      const auto body = [&](const std::vector<int>& own) {
        std::map<int, Stream> streams;
        std::map<int, std::vector<Memory>> data;
        for (const int rank : own) {
          const CurrentPlace current(one.place_of(rank));
          streams[rank];
          for (std::int32_t value = 1; value <= 4; ++value)
            data[rank].push_back(device_values(std::vector<std::int32_t>(kCount, value)));
        }
        for (int round = 0; round < 20; ++round) {
          in_group(own, [&](int rank) {
            const std::vector<Memory>& of = data[rank];
            EXPECT_EQ(spread(of[0], of[1], one[rank], streams[rank]), TUTTI_SUCCESS) << last_error();
            EXPECT_EQ(spread(of[1], of[2], other[rank], streams[rank]), TUTTI_SUCCESS) << last_error();
            EXPECT_EQ(spread(of[3], of[1], one[rank], streams[rank]), TUTTI_SUCCESS) << last_error();
          });
          for (const int rank : own) {
            const CurrentPlace current(one.place_of(rank));
            streams[rank].wait();
            ASSERT_EQ(data[rank][2].read_all<std::int32_t>(), std::vector<std::int32_t>(kCount, 1)) << "rank " << rank;
            ASSERT_EQ(data[rank][1].read_all<std::int32_t>(), std::vector<std::int32_t>(kCount, 4)) << "rank " << rank;
            data[rank][2].write_all(std::vector<std::int32_t>(kCount, 3));
          }
        }
        for (const int rank : own) {
          const CurrentPlace current(one.place_of(rank));
          data.erase(rank);
          streams.erase(rank);
        }
      };
      if (!by_thread) {
        body({0, 1});
        continue;
      }
      std::thread second([&] { body({1}); });
      body({0});
      second.join();
    }
  }
}

// The whole's call comes behind the halves', whoever completes which.
TEST_F(DeviceStreams, CallsOfPartsAndOfTheWholeInAGroupKeepTheirStreamsOrder) {
  constexpr int kRanks = 4;
  const DeviceRanks whole({.ranks = kRanks});
  std::vector<tutti_comm*> halves(kRanks);
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  for (int r = 0; r < kRanks; ++r) {
    EXPECT_EQ(tutti_comm_split(whole[r], r % 2, r, &halves[static_cast<std::size_t>(r)], nullptr), TUTTI_SUCCESS);
  }
  ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
  whole.run([&](const DeviceRank& rank) {
    const Memory one = device_values(std::vector<std::int32_t>(kCount, 1));
    const Memory sum = device_values(std::vector<std::int32_t>(kCount, 0));
    for (int round = 0; round < 50; ++round) {
      sum.write_all(std::vector<std::int32_t>(kCount, 0));
      ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
      EXPECT_EQ(sum_on(one, sum, halves[static_cast<std::size_t>(rank.rank)], on(rank.stream)), TUTTI_SUCCESS);
      EXPECT_EQ(sum_on(sum, sum, rank.comm, on(rank.stream)), TUTTI_SUCCESS);
      ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
      rank.stream.wait();
      ASSERT_EQ(sum.read_all<std::int32_t>(), std::vector<std::int32_t>(kCount, 2 * kRanks)) << round;
    }
  });
  for (tutti_comm* half : halves) tutti_comm_destroy(half);
}

// One rank's second call may not begin before the other one's first has ended.
TEST_F(DeviceStreams, AStreamThatTwoRanksShareOrdersTheirCallsInAGroup) {
  const CurrentPlace current(0);
  const DeviceRanks ranks({.ranks = 2});
  const Stream stream;
  const Memory a = device_values(std::vector<std::int32_t>(kCount, -1));
  const Memory b = device_values(std::vector<std::int32_t>(kCount, -1));
  const Memory source = device_values(std::vector<std::int32_t>(kCount, 7));
  const auto from_1 = [&](const Memory& of_1, const Memory& to_0, const Memory& to_1) {
    const auto spread_from_1 = [&](int r, const Memory& recv) {
      EXPECT_EQ(tutti_broadcast(of_1.data(), recv.data(), kCount, TUTTI_INT32, 1, ranks[r], on(stream), nullptr),
                TUTTI_SUCCESS)
          << last_error();
    };
    spread_from_1(0, to_0);
    spread_from_1(1, to_1);
  };
  for (int round = 0; round < 50; ++round) {
    a.write_all(std::vector<std::int32_t>(kCount, -1));
    ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
    from_1(source, a, source);
    from_1(a, b, a);  // rank 1 sends what rank 0 has received
    ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
    stream.wait();
    ASSERT_EQ(b.read_all<std::int32_t>(), std::vector<std::int32_t>(kCount, 7)) << round;
  }
}

// A program may wait for the first before anybody makes the second.
TEST_F(DeviceStreams, AWorkOfAGroupEndsThoughCallsBehindItDoNot) {
  const DeviceRanks ranks({.ranks = 2, .places = 2});
  MeetingPoint point(2);
  ranks.run([&](const DeviceRank& rank) {
    const Memory data = device_values(std::vector<std::int32_t>(kCount, rank.rank + 1));
    tutti_work* works[2] = {};
    const auto call = [&](int n) {
      tutti_call options = TUTTI_CALL_INIT;
      options.work = &works[n];
      EXPECT_EQ(sum_on(data, data, rank.comm, on(rank.stream), &options), TUTTI_SUCCESS) << last_error();
    };
    if (rank.rank == 0) {
      ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
      call(0);
      call(1);
      ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
      EXPECT_EQ(tutti_work_wait(works[0], 0), TUTTI_SUCCESS) << last_error();
      EXPECT_EQ(tutti_work_test(works[1]), TUTTI_IN_PROGRESS);
      point.meet();
    } else {
      call(0);
      point.meet();
      call(1);
    }
    EXPECT_EQ(tutti_work_wait(works[1], 0), TUTTI_SUCCESS) << last_error();
    for (tutti_work* work : works) tutti_work_release(work);
    rank.stream.wait();
    EXPECT_EQ(data.read_all<std::int32_t>(), std::vector<std::int32_t>(kCount, 6));
  });
}

TEST_F(DeviceStreams, AGroupThatIsRefusedLeavesItsCommunicatorsSound) {
  const CurrentPlace current(0);
  const DeviceRanks ranks({.ranks = 2});
  OneThread all(ranks);
  const auto in_group = [&](const std::function<void(int)>& calls) {
    EXPECT_EQ(tutti_group_start(), TUTTI_SUCCESS);
    for (int r = 0; r < 2; ++r) calls(r);
    return tutti_group_end(nullptr);
  };
  EXPECT_EQ(in_group([&](int r) {
              tutti_call call = TUTTI_CALL_INIT;
              call.algorithm = "nonsense";
              all.call(r, &call);
            }),
            TUTTI_INVALID_ARGUMENT);
  // It would wait for a call that runs behind it.
  EXPECT_EQ(in_group([&](int r) {
              EXPECT_EQ(tutti_barrier(ranks[r], {}, nullptr), TUTTI_SUCCESS);
              all.call(r);
            }),
            TUTTI_INVALID_USAGE);
  EXPECT_NE(last_error().find("blocking"), std::string::npos) << last_error();
  EXPECT_EQ(in_group([&](int r) {
              all.call(r);
              EXPECT_EQ(tutti_barrier(ranks[r], {}, nullptr), TUTTI_SUCCESS);
            }),
            TUTTI_SUCCESS)
      << last_error();
  all.expect(3);
}

// Queues run what was given them before, for which all ranks have to be there.
TEST_F(DeviceStreams, AGroupMayHaveCallsOnQueuesBeforeThoseOnStreams) {
  const DeviceRanks ranks({.ranks = 2});
  OneThread all(ranks);
  tutti_queue* queues[2] = {};
  for (tutti_queue*& queue : queues) ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS);
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(tutti_barrier(ranks[r], {TUTTI_STREAM_QUEUE, queues[r]}, nullptr), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(all.call(r), TUTTI_SUCCESS) << last_error();
  }
  EXPECT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
  all.expect(3);
  for (tutti_queue* const queue : queues) {
    EXPECT_EQ(tutti_queue_wait(queue, 0), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
  }
}

TEST_F(DeviceStreams, AGroupsWorksEndWithTheirCallsAndItsOwnWithAll) {
  const DeviceRanks ranks({.ranks = 2});
  OneThread all(ranks);
  tutti_work* works[2] = {};
  tutti_work* whole = nullptr;
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  for (int r = 0; r < 2; ++r) {
    tutti_call call = TUTTI_CALL_INIT;
    call.work = &works[r];
    EXPECT_EQ(all.call(r, &call), TUTTI_SUCCESS) << last_error();
  }
  tutti_call call = TUTTI_CALL_INIT;
  call.work = &whole;
  ASSERT_EQ(tutti_group_end(&call), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_work_wait(whole, 0), TUTTI_SUCCESS) << last_error();
  for (tutti_work* work : works) {
    EXPECT_EQ(tutti_work_test(work), TUTTI_SUCCESS) << "the whole has ended";
    tutti_work_release(work);
  }
  tutti_work_release(whole);
  all.expect(3);
}

TEST_F(DeviceStreams, AWorkSaysWhenItsCallHasEndedAndNotBefore) {
  const DeviceRanks ranks({.ranks = 2});
  const CurrentPlace current(0);
  Hold hold;
  MeetingPoint point(2);
  ranks.run([&](const DeviceRank& rank) {
    connect_devices(rank);
    const Memory data = device_values(std::vector<std::int32_t>(kCount, rank.rank + 1));
    std::uint64_t sequence = 0;
    ASSERT_EQ(tutti_comm_sequence(rank.comm, &sequence), TUTTI_SUCCESS);
    tutti_work* work = nullptr;
    tutti_call call = TUTTI_CALL_INIT;
    call.work = &work;
    point.meet();  // memory that is freed waits for held streams
    hold.hold(rank.stream);
    ASSERT_EQ(sum_on(data, data, rank.comm, on(rank.stream), &call), TUTTI_SUCCESS) << last_error();
    std::atomic<int> called{0};
    std::atomic<int> told{-1};
    struct Heard {
      std::atomic<int>& called;
      std::atomic<int>& told;
    } heard{called, told};
    ASSERT_EQ(tutti_work_on_complete(
                  work,
                  [](void* ctx, tutti_status status) {
                    auto& into = *static_cast<Heard*>(ctx);
                    into.told = status;
                    ++into.called;
                  },
                  &heard),
              TUTTI_SUCCESS);
    EXPECT_EQ(tutti_work_test(work), TUTTI_IN_PROGRESS);
    EXPECT_EQ(tutti_work_wait(work, 20'000'000), TUTTI_IN_PROGRESS);
    EXPECT_EQ(called, 0);
    point.meet();
    hold.open();
    EXPECT_EQ(tutti_work_wait(work, 0), TUTTI_SUCCESS) << last_error();
    // Its end is the data's, without a wait for the stream.
    EXPECT_EQ(data.read_all<std::int32_t>(), std::vector<std::int32_t>(kCount, 3));
    EXPECT_TRUE(cuda::eventually([&] { return called == 1; }));
    EXPECT_EQ(told, TUTTI_SUCCESS);
    tutti_work_details info{};
    info.size = sizeof info;
    ASSERT_EQ(tutti_work_info(work, &info), TUTTI_SUCCESS);
    EXPECT_EQ(info.status, TUTTI_SUCCESS);
    EXPECT_EQ(info.sequence, sequence);
    EXPECT_GT(info.start_ns, 0u);
    EXPECT_GE(info.end_ns, info.start_ns);
    EXPECT_LE(info.end_ns, clock_ns());
    tutti_work_release(work);
  });
}

TEST_F(DeviceStreams, AWorkMayBeReleasedBeforeItsEnd) {
  const DeviceRanks ranks({.ranks = 2});
  ranks.run([](const DeviceRank& rank) {
    const Memory data = device_values(std::vector<std::int32_t>(kCount, 1));
    for (int round = 0; round < 10; ++round) {
      tutti_work* work = nullptr;
      tutti_call call = TUTTI_CALL_INIT;
      call.work = &work;
      ASSERT_EQ(sum_on(data, data, rank.comm, on(rank.stream), &call), TUTTI_SUCCESS) << last_error();
      tutti_work_release(work);
    }
    rank.stream.wait();
    EXPECT_EQ(data.read_all<std::int32_t>(), std::vector<std::int32_t>(kCount, 1024));
  });
}

/// How a communicator's life ends while its calls are still under way.
enum class End { finalize, destroy };

class DeviceEnd : public DeviceStreams, public ::testing::WithParamInterface<End> {};

TEST_P(DeviceEnd, WaitsForCallsUnderWay) {
  DeviceRanks ranks({.ranks = 3, .places = 2});
  MeetingPoint point(3);
  std::vector<tutti_comm*> handles;
  for (int r = 0; r < 3; ++r) handles.push_back(GetParam() == End::destroy ? ranks.take(r) : ranks[r]);
  std::vector<std::thread> threads;
  for (int r = 0; r < 3; ++r) {
    threads.emplace_back([&, r] {
      const CurrentPlace current(ranks.place_of(r));
      const Stream stream;
      tutti_comm* const comm = handles[static_cast<std::size_t>(r)];
      const Memory data = device_values(std::vector<std::int32_t>(kCount, 1));
      for (int round = 0; round < 12; ++round) {
        ASSERT_EQ(sum_on(data, data, comm, on(stream)), TUTTI_SUCCESS) << last_error();
      }
      point.meet();  // so that each has called before one leaves
      if (GetParam() == End::finalize) {
        EXPECT_EQ(tutti_comm_finalize(comm), TUTTI_SUCCESS) << last_error();
        EXPECT_EQ(sum_on(data, data, comm, on(stream)), TUTTI_INVALID_USAGE);
      } else {
        EXPECT_EQ(tutti_comm_destroy(comm), TUTTI_SUCCESS) << last_error();
      }
      stream.wait();
      EXPECT_EQ(data.read_all<std::int32_t>(), std::vector<std::int32_t>(kCount, 531'441));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(Ends, DeviceEnd, ::testing::Values(End::finalize, End::destroy),
                         [](const ::testing::TestParamInfo<End>& at) {
                           return at.param == End::finalize ? "Finalize" : "Destroy";
                         });

TEST_F(DeviceStreams, CommunicatorsThatComeAndGoLeaveNothingBehind) {
  if (!standin) GTEST_SKIP() << "a real driver does not count what is alive";
  for (int warm_up = 0; warm_up < 2; ++warm_up) expect_places_work(3, 2);
  const std::uint64_t live = standin.live();
  Holdings held = Holdings::now();
  const std::uint64_t threads = standin.threads();
  for (int round = 0; round < 5; ++round) expect_places_work(3, 2);
  held.threads += static_cast<std::ptrdiff_t>(standin.threads() - threads);  // its own may have become more
  EXPECT_TRUE(cuda::eventually([&] { return standin.live() <= live; }))
      << standin.live() << " handles and ranges are alive, before " << live;
  EXPECT_TRUE(holds_no_more_than(held));
}

// Managed memory waits for communicators to be gone: to free it the driver waits for devices.
TEST_F(DeviceStreams, ManagedMemoryIsFreedOnceNoCommunicatorUsesADevice) {
  if (!standin) GTEST_SKIP() << "a real driver does not count what is alive";
  const CurrentPlace current(0);
  const auto make = [] {
    void* memory = nullptr;
    EXPECT_EQ(tutti_memory_alloc_kind(&memory, 100, TUTTI_MEMORY_MANAGED, 2), TUTTI_SUCCESS) << last_error();
    return memory;
  };
  EXPECT_EQ(tutti_memory_free(make()), TUTTI_SUCCESS);
  for (int warm_up = 0; warm_up < 2; ++warm_up) expect_places_work(2, 1);
  const std::uint64_t live = standin.live();
  for (int round = 0; round < 3; ++round) EXPECT_EQ(tutti_memory_free(make()), TUTTI_SUCCESS);
  EXPECT_EQ(standin.live(), live);
  {
    const DeviceRanks ranks({.ranks = 2});
    ranks.run([](const DeviceRank& rank) { expect_sums(rank, {}, rank.stream); });
    const std::uint64_t before = standin.live();
    for (int round = 0; round < 3; ++round) EXPECT_EQ(tutti_memory_free(make()), TUTTI_SUCCESS);
    EXPECT_EQ(standin.live(), before + 3) << "they wait";
  }
  EXPECT_EQ(tutti_memory_free(make()), TUTTI_SUCCESS);
  EXPECT_TRUE(cuda::eventually([&] { return standin.live() <= live; })) << standin.live() << " after " << live;
}

// Many streams share the hardware's queues, so launches that wait for each other could stand in each other's way.
TEST_F(DeviceStreams, ManyStreamsOnFewQueuesComeToAnEnd) {
  if (standin) standin.set("QUEUES", "2");
  constexpr int kStreams = 33;
  const DeviceRanks ranks({.ranks = 4, .places = 2});
  ranks.run([](const DeviceRank& rank) {
    std::vector<Stream> streams(kStreams);
    const Memory data = device_values(std::vector<std::int32_t>(kCount, 1));
    for (const Stream& stream : streams) {
      ASSERT_EQ(tutti_all_reduce(data.data(), data.data(), kCount, TUTTI_INT32, TUTTI_MAX, rank.comm, on(stream), nullptr),
                TUTTI_SUCCESS)
          << last_error();
    }
    for (const Stream& stream : streams) stream.wait();
    EXPECT_EQ(data.read_all<std::int32_t>(), std::vector<std::int32_t>(kCount, 1));
  });
}

// Their ends are looked for from time to time, and the first of several may be looked at before it has ended.
TEST_F(DeviceStreams, WorksOfOneStreamEndInOrder) {
  constexpr int kCalls = 60;
  const DeviceRanks ranks({.ranks = 2, .places = 2});
  ranks.run([](const DeviceRank& rank) {
    connect_devices(rank);
    const Memory data = device_values(std::vector<std::int32_t>(kCount, 0));
    struct Ends {
      std::vector<int> order;  // one thread completes them
      std::atomic<int> ended{0};
      struct One {
        Ends* all = nullptr;
        int number = 0;
      };
      std::vector<One> ones = std::vector<One>(kCalls);
      static void note(void* self, tutti_status) {
        const One& one = *static_cast<One*>(self);
        one.all->order.push_back(one.number);
        one.all->ended.fetch_add(1, std::memory_order_release);  // the order so far is seen by whoever sees this
      }
    } ends;
    std::vector<tutti_work*> works(kCalls);
    std::vector<int> expected;
    for (int n = 0; n < kCalls; ++n) {
      const auto at = static_cast<std::size_t>(n);
      expected.push_back(n);
      ends.ones[at] = {&ends, n};
      tutti_call call = TUTTI_CALL_INIT;
      call.work = &works[at];
      ASSERT_EQ(sum_on(data, data, rank.comm, on(rank.stream), &call), TUTTI_SUCCESS) << last_error();
      EXPECT_EQ(tutti_work_notify(works[at], &Ends::note, &ends.ones[at]), TUTTI_SUCCESS);
    }
    for (tutti_work* work : works) EXPECT_EQ(tutti_work_wait(work, 0), TUTTI_SUCCESS) << last_error();
    for (tutti_work* work : works) tutti_work_release(work);
    // A waiter may go on before the last notice is given.
    ASSERT_TRUE(cuda::eventually([&] { return ends.ended.load(std::memory_order_acquire) == kCalls; }));
    EXPECT_EQ(ends.order, expected);
  });
}

}  // namespace
}  // namespace tutti::test
