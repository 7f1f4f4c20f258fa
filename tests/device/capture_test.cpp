// Collectives in stream capture: replays with new inputs, several graphs of one communicator, graphs that outlive it.
#include <atomic>

#include "tests/device/calls.h"
#include "tests/device/device_fixture.h"

namespace tutti::test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr std::size_t kCount = 3000;
constexpr std::size_t kBytes = kCount * sizeof(std::int32_t);

tutti_status sum(const Memory& send, const Memory& recv, tutti_comm* comm, tutti_stream stream,
                 const tutti_call* call = nullptr) {
  return tutti_all_reduce(send.data(), recv.data(), kCount, TUTTI_INT32, TUTTI_SUM, comm, stream, call);
}

class DeviceCapture : public DeviceTest {};

TEST_F(DeviceCapture, AReplayFoldsWhatTheBuffersHoldThen) {
  for (const bool first_call : {false, true}) {
    const DeviceRanks ranks({.ranks = 2, .places = 2});
    MeetingPoint point(2);
    ranks.run([&](const DeviceRank& rank) {
      if (!first_call) expect_sums(rank, {}, rank.stream);
      const Memory send(MemoryKind::device, kBytes);
      const Memory recv(MemoryKind::device, kBytes);
      std::uint64_t before = 0, after = 0;
      // In mode `global` each thread's unsafe calls end the other's capture: so there are none but the library's.
      point.meet();
      EXPECT_EQ(tutti_comm_sequence(rank.comm, &before), TUTTI_SUCCESS);
      const Replay replay = Replay::capture(rank.stream, cuda::CaptureMode::thread_local_only, [&] {
        EXPECT_EQ(sum(send, recv, rank.comm, on(rank.stream)), TUTTI_SUCCESS) << last_error();
        EXPECT_EQ(sum(recv, recv, rank.comm, on(rank.stream)), TUTTI_SUCCESS) << last_error();
      });
      EXPECT_EQ(tutti_comm_sequence(rank.comm, &after), TUTTI_SUCCESS);
      point.meet();
      for (int round = 0; round < 20; ++round) {
        send.write_all(std::vector<std::int32_t>(kCount, round + rank.rank));
        replay.launch(rank.stream);
        rank.stream.wait();
        ASSERT_EQ(recv.read_all<std::int32_t>(), std::vector<std::int32_t>(kCount, 2 * (2 * round + 1))) << round;
      }
      EXPECT_EQ(before, after) << "nothing has run by itself";
    });
  }
}

/// Ranks of one place in one thread, whose streams join a capture of the first one's.
class OneThread {
 public:
  explicit OneThread(const DeviceRanks& ranks) : ranks_(ranks) {
    EXPECT_EQ(api().cuEventCreate(&event_, cuda::kEventDisableTiming), kOk);
    for (int r = 0; r < ranks.size(); ++r) {
      streams_.emplace_back();
      send.emplace_back(MemoryKind::device, kBytes);
      recv.emplace_back(MemoryKind::device, kBytes);
    }
  }
  ~OneThread() { api().cuEventDestroy_v2(event_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

  const Stream& first() const { return streams_[0]; }
  /// Calls of all ranks in one group, their streams forked off the first and joined again. Those behind the first ones sum
  /// what these have received.
  tutti_status call_all(int calls = 1) {
    for (std::size_t r = 1; r < streams_.size(); ++r) tie(streams_[0], streams_[r]);
    EXPECT_EQ(tutti_group_start(), TUTTI_SUCCESS);
    for (int r = 0; r < ranks_.size(); ++r) {
      const auto at = static_cast<std::size_t>(r);
      for (int c = 0; c < calls; ++c) {
        EXPECT_EQ(sum(c == 0 ? send[at] : recv[at], recv[at], ranks_[r], on(streams_[at])), TUTTI_SUCCESS) << last_error();
      }
    }
    const tutti_status status = tutti_group_end(nullptr);
    for (std::size_t r = 1; r < streams_.size(); ++r) tie(streams_[r], streams_[0]);
    return status;
  }
  Replay capture(cuda::CaptureMode mode = cuda::CaptureMode::global) {
    return Replay::capture(first(), mode, [this] { EXPECT_EQ(call_all(), TUTTI_SUCCESS) << last_error(); });
  }
  /// Rank r sends value + r.
  void fill(std::int32_t value) const {
    for (std::size_t r = 0; r < send.size(); ++r)
      send[r].write_all(std::vector<std::int32_t>(kCount, value + static_cast<std::int32_t>(r)));
  }
  void expect(std::int32_t value) const {
    const int p = ranks_.size();
    for (const Memory& each : recv)
      ASSERT_EQ(each.read_all<std::int32_t>(), std::vector<std::int32_t>(kCount, p * value + p * (p - 1) / 2));
  }

  std::vector<Memory> send;
  std::vector<Memory> recv;

 private:
  void tie(const Stream& before, const Stream& behind) const {
    EXPECT_EQ(api().cuEventRecord(event_, before.handle()), kOk);
    EXPECT_EQ(api().cuStreamWaitEvent(behind.handle(), event_, 0), kOk);
  }

  const DeviceRanks& ranks_;
  std::vector<Stream> streams_;
  cuda::EventHandle event_ = nullptr;
};

TEST_F(DeviceCapture, OfSeveralRanksOfOnePlaceInAGroupIsReplayed) {
  const CurrentPlace current(0);
  for (const int p : {1, 2, 3}) {
    const DeviceRanks ranks({.ranks = p});
    OneThread all(ranks);
    const Replay replay = all.capture();
    for (int round = 0; round < 20; ++round) {
      all.fill(round);
      replay.launch(all.first());
      all.first().wait();
      all.expect(round);
    }
  }
}

TEST_F(DeviceCapture, ReplaysAndCallsTakeTurns) {
  const CurrentPlace current(0);
  const DeviceRanks ranks({.ranks = 3});
  OneThread all(ranks);
  const Replay replay = all.capture();
  for (int round = 0; round < 20; ++round) {
    all.fill(round);
    if (round % 3 == 0) {
      EXPECT_EQ(all.call_all(), TUTTI_SUCCESS) << last_error();
    } else {
      replay.launch(all.first());
    }
    all.first().wait();
    all.expect(round);
  }
}

// Nothing orders the graph's launches behind that call, which brings the plan.
TEST_F(DeviceCapture, OfAShapeWhoseFirstCallHasNotRunWaitsForThatCall) {
  const DeviceRanks ranks({.ranks = 2, .places = 2, .timeout_ns = 300'000'000});
  const CurrentPlace current(0);
  Hold hold;
  MeetingPoint point(2);
  ranks.run([&](const DeviceRank& rank) {
    const Memory data = device_values(std::vector<std::int32_t>(kCount, 1));
    const Memory first = device_values(std::vector<std::int32_t>(1, 1));
    ASSERT_EQ(issue({.count = 1}, first.data(), first.data(), rank.comm, on(rank.stream)), TUTTI_SUCCESS) << last_error();
    rank.stream.wait();
    const Stream captured;
    point.meet();
    hold.hold(rank.stream);
    ASSERT_EQ(sum(data, data, rank.comm, on(rank.stream)), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(api().cuStreamBeginCapture_v2(captured.handle(), cuda::CaptureMode::thread_local_only), kOk);
    EXPECT_EQ(sum(data, data, rank.comm, on(captured)), TUTTI_TIMEOUT);
    EXPECT_THAT(last_error(), HasSubstr("waited for a device to write its memory"));
    cuda::GraphHandle graph = nullptr;
    EXPECT_EQ(api().cuStreamEndCapture(captured.handle(), &graph), kOk);
    if (graph != nullptr) {
      EXPECT_EQ(api().cuGraphDestroy(graph), kOk);
    }
    point.meet();
    hold.open();
    rank.stream.wait();
    point.meet();
  });
}

TEST_F(DeviceCapture, AReplayMayFollowACallThatIsStillUnderWay) {
  const DeviceRanks ranks({.ranks = 2, .places = 2});
  MeetingPoint point(2);
  ranks.run([&](const DeviceRank& rank) {
    const Memory data = device_values(std::vector<std::int32_t>(kCount, 1));
    point.meet();
    const Replay replay = Replay::capture(rank.stream, cuda::CaptureMode::thread_local_only, [&] {
      EXPECT_EQ(sum(data, data, rank.comm, on(rank.stream)), TUTTI_SUCCESS) << last_error();
    });
    point.meet();
    for (int round = 0; round < 10; ++round) {
      EXPECT_EQ(sum(data, data, rank.comm, on(rank.stream)), TUTTI_SUCCESS) << last_error();
      replay.launch(rank.stream);
    }
    rank.stream.wait();
    EXPECT_EQ(data.read_all<std::int32_t>(), std::vector<std::int32_t>(kCount, 1 << 20));
  });
}

TEST_F(DeviceCapture, TwoGraphsOfOneCommunicatorAreReplayedOnTwoStreamsAtOnce) {
  const CurrentPlace current(0);
  if (standin) standin.set("QUEUES", "64");
  const DeviceRanks ranks({.ranks = 3});
  OneThread one(ranks), other(ranks);
  const Replay first = one.capture();
  const Replay second = other.capture();
  one.fill(1);
  other.fill(100);
  for (int round = 0; round < 30; ++round) {
    first.launch(one.first());
    second.launch(other.first());
  }
  one.first().wait();
  other.first().wait();
  one.expect(1);
  other.expect(100);
}

// Ranks whose replays come in different orders cannot be right. They end, and say so.
TEST_F(DeviceCapture, RacingReplaysOfTwoPlacesAreRightOrAMismatch) {
  if (standin) standin.set("QUEUES", "64");
  for (int attempt = 0; attempt < 4; ++attempt) {
    const DeviceRanks ranks({.ranks = 2, .places = 2, .timeout_ns = 3 * kSecondNs});
    MeetingPoint point(2);
    ranks.run([&](const DeviceRank& rank) {
      const Stream beside;
      const Memory large = device_values(std::vector<std::int32_t>(kCount, 1));
      const Memory small = device_values(std::vector<std::int32_t>(10, 1));
      point.meet();
      const Replay first = Replay::capture(rank.stream, cuda::CaptureMode::thread_local_only, [&] {
        EXPECT_EQ(sum(large, large, rank.comm, on(rank.stream)), TUTTI_SUCCESS) << last_error();
      });
      const Replay second = Replay::capture(beside, cuda::CaptureMode::thread_local_only, [&] {
        EXPECT_EQ(tutti_all_reduce(small.data(), small.data(), 10, TUTTI_INT32, TUTTI_SUM, rank.comm, on(beside), nullptr),
                  TUTTI_SUCCESS)
            << last_error();
      });
      point.meet();
      for (int round = 0; round < 5; ++round) {
        first.launch(rank.stream);
        second.launch(beside);
      }
      const std::uint64_t begun = clock_ns();
      rank.stream.wait();
      beside.wait();
      EXPECT_LE(clock_ns() - begun, 3 * kSecondNs + 2 * kPromisedEndNs);
      point.meet();
      const tutti_status after = tutti_barrier(rank.comm, {}, nullptr);
      EXPECT_THAT(after, AnyOf(TUTTI_SUCCESS, TUTTI_MISMATCH)) << last_error();
      if (after != TUTTI_SUCCESS) return;
      EXPECT_EQ(large.read_all<std::int32_t>(), std::vector<std::int32_t>(kCount, 32));
      EXPECT_EQ(small.read_all<std::int32_t>(), std::vector<std::int32_t>(10, 32));
    });
  }
  expect_places_work(2, 2);
}

TEST_F(DeviceCapture, AReplayThatOneRankDoesNotMakeEndsAtTheDeadline) {
  const DeviceRanks ranks({.ranks = 2, .places = 2, .timeout_ns = kSecondNs / 2});
  MeetingPoint point(2);
  ranks.run([&](const DeviceRank& rank) {
    const Memory data = device_values(std::vector<std::int32_t>(kCount, 1));
    point.meet();
    const Replay replay = Replay::capture(rank.stream, cuda::CaptureMode::thread_local_only, [&] {
      EXPECT_EQ(sum(data, data, rank.comm, on(rank.stream)), TUTTI_SUCCESS) << last_error();
    });
    point.meet();
    if (rank.rank == 0) {
      const std::uint64_t begun = clock_ns();
      replay.launch(rank.stream);
      rank.stream.wait();
      EXPECT_LE(clock_ns() - begun, kSecondNs / 2 + 2 * kPromisedEndNs);
      EXPECT_TRUE(cuda::eventually([&] {
        tutti_comm_state_kind state = TUTTI_COMM_READY;
        return tutti_comm_state(rank.comm, &state) == TUTTI_SUCCESS && state == TUTTI_COMM_FAILED;
      }));
      EXPECT_EQ(sum(data, data, rank.comm, {}), TUTTI_TIMEOUT) << last_error();
      EXPECT_THAT(error_of(rank.comm).message, HasSubstr("rank 1"));
    }
    point.meet();
  });
  expect_places_work(2, 2);
}

TEST_F(DeviceCapture, AGraphThatOutlivesItsCommunicatorEndsAtOnce) {
  for (const int places : {1, 2}) {
    DeviceRanks ranks({.ranks = 2, .places = places});
    if (places == 1) {
      const CurrentPlace current(0);
      OneThread all(ranks);
      const Replay replay = all.capture();
      all.fill(1);
      replay.launch(all.first());
      all.first().wait();
      all.expect(1);
      ranks.destroy();
      for (int round = 0; round < 3; ++round) {
        const std::uint64_t begun = clock_ns();
        replay.launch(all.first());
        all.first().wait();
        EXPECT_LE(clock_ns() - begun, kPromisedEndNs);
      }
    } else {
      MeetingPoint point(2);
      ranks.run([&](const DeviceRank& rank) {
        const Memory data = device_values(std::vector<std::int32_t>(kCount, 1));
        point.meet();
        const Replay replay = Replay::capture(rank.stream, cuda::CaptureMode::thread_local_only, [&] {
          EXPECT_EQ(sum(data, data, rank.comm, on(rank.stream)), TUTTI_SUCCESS) << last_error();
        });
        point.meet();
        replay.launch(rank.stream);
        rank.stream.wait();
        point.meet();
        if (rank.rank == 0) ranks.destroy();
        point.meet();
        if (rank.rank == 0) {  // alone: it does not wait for the other
          const std::uint64_t begun = clock_ns();
          replay.launch(rank.stream);
          rank.stream.wait();
          EXPECT_LE(clock_ns() - begun, kPromisedEndNs);
        }
      });
    }
    expect_places_work(2, places);
  }
}

TEST_F(DeviceCapture, AGraphThatGoesFirstLeavesACommunicatorThatWorks) {
  const CurrentPlace current(0);
  const DeviceRanks ranks({.ranks = 2});
  OneThread all(ranks);
  for (int round = 0; round < 5; ++round) {
    const Replay replay = all.capture();
    all.fill(round);
    replay.launch(all.first());
    all.first().wait();
    all.expect(round);
  }
  all.fill(7);
  EXPECT_EQ(all.call_all(), TUTTI_SUCCESS) << last_error();
  all.first().wait();
  all.expect(7);
}

TEST_F(DeviceCapture, AnAbortEndsReplaysThatWait) {
  const DeviceRanks ranks({.ranks = 2, .places = 2});
  MeetingPoint point(2);
  ranks.run([&](const DeviceRank& rank) {
    const Memory data = device_values(std::vector<std::int32_t>(kCount, 1));
    point.meet();
    const Replay replay = Replay::capture(rank.stream, cuda::CaptureMode::thread_local_only, [&] {
      EXPECT_EQ(sum(data, data, rank.comm, on(rank.stream)), TUTTI_SUCCESS) << last_error();
    });
    point.meet();
    if (rank.rank == 0) {
      for (int round = 0; round < 3; ++round) replay.launch(rank.stream);
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      const std::uint64_t begun = clock_ns();
      EXPECT_EQ(tutti_comm_abort(rank.comm), TUTTI_SUCCESS);
      rank.stream.wait();
      EXPECT_LE(clock_ns() - begun, kPromisedEndNs);
    }
    point.meet();
    EXPECT_EQ(sum(data, data, rank.comm, {}), TUTTI_ABORTED);
  });
  expect_places_work(2, 2);
}

TEST_F(DeviceCapture, AWorkIsRefusedAndTheCaptureGoesOn) {
  const CurrentPlace current(0);
  const DeviceRanks ranks({.ranks = 1});
  const Stream stream;
  const Memory data = device_values(std::vector<std::int32_t>(kCount, 5));
  const Memory recv = device_values(std::vector<std::int32_t>(kCount, 0));
  tutti_work* work = nullptr;
  const Replay replay = Replay::capture(stream, cuda::CaptureMode::global, [&] {
    tutti_call call = TUTTI_CALL_INIT;
    call.work = &work;
    EXPECT_EQ(sum(data, recv, ranks[0], on(stream), &call), TUTTI_INVALID_USAGE);
    EXPECT_THAT(error_of(nullptr).message, HasSubstr("work"));
    EXPECT_EQ(work, nullptr);
    EXPECT_EQ(tutti_group_start(), TUTTI_SUCCESS);
    EXPECT_EQ(sum(data, recv, ranks[0], on(stream)), TUTTI_SUCCESS);
    EXPECT_EQ(tutti_group_end(&call), TUTTI_INVALID_USAGE) << "nor does a group's have one";
    EXPECT_EQ(sum(data, recv, ranks[0], on(stream)), TUTTI_SUCCESS) << last_error();
  });
  replay.launch(stream);
  stream.wait();
  EXPECT_EQ(recv.read_all<std::int32_t>(), std::vector<std::int32_t>(kCount, 5));
}

TEST_F(DeviceCapture, OfOneRankOfAPlaceAloneIsRefusedAndTheCommunicatorWorks) {
  const DeviceRanks ranks({.ranks = 2});
  MeetingPoint point(2);
  ranks.run([&](const DeviceRank& rank) {
    expect_sums(rank, {}, rank.stream);
    const Memory data = device_values(std::vector<std::int32_t>(kCount, 1));
    point.meet();
    cuda::GraphHandle graph = nullptr;
    EXPECT_EQ(api().cuStreamBeginCapture_v2(rank.stream.handle(), cuda::CaptureMode::thread_local_only), kOk);
    EXPECT_EQ(sum(data, data, rank.comm, on(rank.stream)), TUTTI_UNSUPPORTED);
    EXPECT_THAT(error_of(nullptr).message, HasSubstr("1 of the 2 ranks"));
    EXPECT_THAT(error_of(nullptr).remedy, HasSubstr("group"));
    EXPECT_EQ(api().cuStreamEndCapture(rank.stream.handle(), &graph), kOk) << "the capture goes on";
    EXPECT_EQ(api().cuGraphDestroy(graph), kOk);
    point.meet();
    expect_sums(rank, on(rank.stream), rank.stream);
  });
}

// One rank of a place in a capture, the other one not: neither can be launched, and both are told at once.
TEST_F(DeviceCapture, OfOneRankOfAPlaceBesideACallOfTheOtherFailsAtOnce) {
  const CurrentPlace current(0);
  const DeviceRanks ranks({.ranks = 2});
  const Stream captured, other;
  const Memory data[] = {device_values(std::vector<std::int32_t>(kCount, 1)),
                         device_values(std::vector<std::int32_t>(kCount, 1))};
  const auto both = [&](const Stream& first, const Stream& second) {
    EXPECT_EQ(tutti_group_start(), TUTTI_SUCCESS);
    EXPECT_EQ(sum(data[0], data[0], ranks[0], on(first)), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(sum(data[1], data[1], ranks[1], on(second)), TUTTI_SUCCESS) << last_error();
    return tutti_group_end(nullptr);
  };
  EXPECT_EQ(both(other, other), TUTTI_SUCCESS) << last_error();
  other.wait();
  cuda::GraphHandle graph = nullptr;
  EXPECT_EQ(api().cuStreamBeginCapture_v2(captured.handle(), cuda::CaptureMode::thread_local_only), kOk);
  const std::uint64_t begun = clock_ns();
  EXPECT_EQ(both(captured, other), TUTTI_UNSUPPORTED) << last_error();
  EXPECT_LE(clock_ns() - begun, kPromisedEndNs);
  EXPECT_EQ(api().cuStreamEndCapture(captured.handle(), &graph), kOk) << "the capture goes on";
  EXPECT_EQ(api().cuGraphDestroy(graph), kOk);
  other.wait();
  tutti_comm_state_kind state = TUTTI_COMM_READY;
  EXPECT_EQ(tutti_comm_state(ranks[1], &state), TUTTI_SUCCESS);
  EXPECT_EQ(state, TUTTI_COMM_FAILED) << "one rank's call was under way already";
}

TEST_F(DeviceCapture, OfAGroupOfTwoCommunicatorsKeepsTheStreamsOrder) {
  const CurrentPlace current(0);
  const DeviceRanks one({.ranks = 1}), other({.ranks = 1});
  const Stream stream;
  const Memory data[] = {Memory(MemoryKind::device, kBytes), Memory(MemoryKind::device, kBytes),
                         Memory(MemoryKind::device, kBytes), Memory(MemoryKind::device, kBytes)};
  const auto copy = [&](const DeviceRanks& by, int from, int to) {
    EXPECT_EQ(sum(data[from], data[to], by[0], on(stream)), TUTTI_SUCCESS) << last_error();
  };
  for (const bool swapped : {false, true}) {
    const DeviceRanks& first = swapped ? other : one;
    const DeviceRanks& second = swapped ? one : other;
    const Replay replay = Replay::capture(stream, cuda::CaptureMode::global, [&] {
      EXPECT_EQ(tutti_group_start(), TUTTI_SUCCESS);
      copy(first, 0, 1);
      copy(second, 1, 2);
      copy(first, 3, 1);
      EXPECT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
    });
    for (std::int32_t value = 0; value < 4; ++value) data[value].write_all(std::vector<std::int32_t>(kCount, value + 1));
    replay.launch(stream);
    stream.wait();
    EXPECT_EQ(data[2].read_all<std::int32_t>(), std::vector<std::int32_t>(kCount, 1)) << swapped;
    EXPECT_EQ(data[1].read_all<std::int32_t>(), std::vector<std::int32_t>(kCount, 4)) << swapped;
  }
}

// A call works on what the one before it gave, and the graph runs again and again.
TEST_F(DeviceCapture, OfAGroupOfSeveralCallsOfEachRankIsOneLaunch) {
  const CurrentPlace current(0);
  const DeviceRanks ranks({.ranks = 2});
  OneThread all(ranks);
  ASSERT_EQ(all.call_all(), TUTTI_SUCCESS) << last_error();
  all.first().wait();
  const std::uint64_t before = standin ? standin.calls("cuLaunchKernelEx") : 0;
  const Replay replay = Replay::capture(all.first(), cuda::CaptureMode::global,
                                        [&] { EXPECT_EQ(all.call_all(3), TUTTI_SUCCESS) << last_error(); });
  if (standin) {
    EXPECT_EQ(standin.calls("cuLaunchKernelEx") - before, 1u);
  }
  for (int round = 0; round < 20; ++round) {
    all.fill(round);
    replay.launch(all.first());
    all.first().wait();
    for (const Memory& each : all.recv)
      ASSERT_EQ(each.read_all<std::int32_t>(), std::vector<std::int32_t>(kCount, 4 * (2 * round + 1))) << round;
  }
}

TEST_F(DeviceCapture, OfRanksOfAPlaceInTwoCapturesIsRefusedAndBothGoOn) {
  const CurrentPlace current(0);
  const DeviceRanks ranks({.ranks = 2});
  const Stream streams[2];
  const Memory data[] = {device_values(std::vector<std::int32_t>(kCount, 1)),
                         device_values(std::vector<std::int32_t>(kCount, 1))};
  EXPECT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  for (const int r : {0, 1}) EXPECT_EQ(sum(data[r], data[r], ranks[r], on(streams[r])), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
  for (const Stream& stream : streams) stream.wait();
  for (const Stream& stream : streams) {
    EXPECT_EQ(api().cuStreamBeginCapture_v2(stream.handle(), cuda::CaptureMode::thread_local_only), kOk);
  }
  EXPECT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  for (const int r : {0, 1}) EXPECT_EQ(sum(data[r], data[r], ranks[r], on(streams[r])), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_group_end(nullptr), TUTTI_UNSUPPORTED);
  EXPECT_THAT(last_error(), HasSubstr("different captures"));
  for (const Stream& stream : streams) {
    cuda::GraphHandle graph = nullptr;
    EXPECT_EQ(api().cuStreamEndCapture(stream.handle(), &graph), kOk) << "the capture goes on";
    EXPECT_EQ(api().cuGraphDestroy(graph), kOk);
  }
  ranks.run([](const DeviceRank& rank) { expect_sums(rank, {}, rank.stream); });
}

// Unsafe calls of another thread end a capture of mode `global`, unless the library makes them as it says.
TEST_F(DeviceCapture, CallsOfOtherThreadsMayGoOnMeanwhile) {
  const CurrentPlace current(0);
  const DeviceRanks ranks({.ranks = 2});
  OneThread all(ranks);
  std::atomic<bool> over{false};
  std::atomic<int> made{0};
  std::thread other([&] {
    const CurrentPlace own(0);
    const Memory data = device_values(std::vector<std::int32_t>(kCount, 1));
    while (!over) {
      // The first call of each communicator makes arenas, links and plans.
      tutti_comm* comm = nullptr;
      tutti_config config = TUTTI_CONFIG_INIT;
      config.operation_timeout_ns = kUsualTimeoutNs;
      ASSERT_EQ(tutti_comm_create_all(&comm, 1, &config), TUTTI_SUCCESS) << last_error();
      for (const std::size_t count : {10u, 1000u}) {
        EXPECT_EQ(tutti_all_reduce(data.data(), data.data(), count, TUTTI_INT32, TUTTI_SUM, comm, {}, nullptr),
                  TUTTI_SUCCESS)
            << last_error();
      }
      EXPECT_EQ(tutti_comm_destroy(comm), TUTTI_SUCCESS);
      ++made;
    }
    // Memory that is given back is an unsafe call of the test's own: not before the captures are over.
  });
  EXPECT_TRUE(cuda::eventually([&] { return made > 0; }));
  std::vector<Replay> replays;
  for (int round = 0; round < 10; ++round) {
    const int before = made;
    replays.push_back(Replay::capture(all.first(), cuda::CaptureMode::global, [&] {
      EXPECT_EQ(all.call_all(), TUTTI_SUCCESS) << last_error();
      EXPECT_TRUE(cuda::eventually([&] { return made > before; }));
    }));
  }
  over = true;
  other.join();
  all.fill(3);
  for (const Replay& replay : replays) replay.launch(all.first());
  all.first().wait();
  all.expect(3);
}

// Every verb is captured as it is called.
TEST_F(DeviceCapture, EveryVerbIsReplayed) {
  const DeviceRanks ranks({.ranks = 2, .places = 2});
  MeetingPoint point(2);
  ranks.run([&](const DeviceRank& rank) {
    for (int v = 0; v < kVerbs; ++v) {
      const CollectiveCase of{.verb = static_cast<Verb>(v), .count = 501, .root = 1};
      const auto [send_count, recv_count] = extents(of, rank.rank, rank.size);
      const Memory send(MemoryKind::device, contents_of(of, 5, rank.rank, send_count * 4));
      const Memory recv(MemoryKind::device, Bytes(recv_count * 4, 0));
      point.meet();
      const Replay replay = Replay::capture(rank.stream, cuda::CaptureMode::thread_local_only, [&] {
        EXPECT_EQ(issue(of, send_count != 0 ? send.data() : nullptr, recv_count != 0 ? recv.data() : nullptr, rank.comm,
                        on(rank.stream)),
                  TUTTI_SUCCESS)
            << of.text() << ": " << last_error();
      });
      point.meet();
      for (int round = 0; round < 2; ++round) replay.launch(rank.stream);
      rank.stream.wait();
      EXPECT_TRUE(recv.read() == Reference(of, 5, rank.size).recv_of(rank.rank)) << of.text() << ", rank " << rank.rank;
    }
  });
}

}  // namespace
}  // namespace tutti::test
