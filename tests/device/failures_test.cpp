// What goes wrong on devices. Bad input is refused and harms nothing. Ranks that differ, are missing or abort end every
// call with a sentence, in time. Devices are usable afterwards.
#include <atomic>

#include "tests/device/calls.h"
#include "tests/device/device_fixture.h"

namespace tutti::test {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr std::size_t kCount = 1000;
/// Of calls that are to fail: a hang shows as a failure.
constexpr std::uint64_t kShortNs = 2 * kSecondNs;

enum class Way { blocking, stream };
const char* name_of(Way way) { return way == Way::blocking ? "blocking" : "on a stream"; }

/// What a call came to in the end: its own status, or its work's where it was launched.
tutti_status end_of(const CollectiveCase& of, const void* send, void* recv, const DeviceRank& rank, Way way) {
  if (way == Way::blocking) return issue(of, send, recv, rank.comm, {});
  tutti_work* work = nullptr;
  tutti_call call = TUTTI_CALL_INIT;
  call.work = &work;
  tutti_status status = issue(of, send, recv, rank.comm, on(rank.stream), call);
  EXPECT_EQ(work != nullptr, status == TUTTI_SUCCESS) << "a work where the call was not refused, and only there";
  if (status == TUTTI_SUCCESS) status = tutti_work_wait(work, 0);
  tutti_work_release(work);
  return status;
}

class DeviceFailures : public DeviceTest {};

// ---- Bad input.

/// Memory that calls are tried with.
struct Supplies {
  Memory device = Memory(MemoryKind::device, kCount * 4);
  Memory other = Memory(MemoryKind::device, kCount * 4);
  std::vector<std::int32_t> pageable = std::vector<std::int32_t>(kCount, 1);
};

struct BadInput {
  const char* name;
  std::function<tutti_status(const DeviceRank&, const Supplies&, void* pageable)> call;
  tutti_status status;
  std::vector<const char*> words;  ///< in the sentence
};

tutti_status sum(const void* send, void* recv, const DeviceRank& rank, tutti_stream stream) {
  return tutti_all_reduce(send, recv, kCount, TUTTI_INT32, TUTTI_SUM, rank.comm, stream, nullptr);
}

std::vector<BadInput> bad_inputs() {
  using Rank = const DeviceRank&;
  using With = const Supplies&;
  return {
      {"pageable memory to send on a stream",
       [](Rank rank, With with, void* pageable) { return sum(pageable, with.device.data(), rank, on(rank.stream)); },
       TUTTI_INVALID_ARGUMENT,
       {"send", "pageable"}},
      {"pageable memory to receive on a stream",
       [](Rank rank, With with, void* pageable) { return sum(with.device.data(), pageable, rank, on(rank.stream)); },
       TUTTI_INVALID_ARGUMENT,
       {"rec", "pageable"}},
      {"device memory to send, and pageable memory to receive",
       [](Rank rank, With with, void* pageable) { return sum(with.device.data(), pageable, rank, {}); },
       TUTTI_UNSUPPORTED,
       {"rec", "pageable"}},
      {"pageable memory to send, and device memory to receive",
       [](Rank rank, With with, void* pageable) { return sum(pageable, with.device.data(), rank, {}); },
       TUTTI_UNSUPPORTED,
       {"send", "pageable"}},
      {"no memory to send",
       [](Rank rank, With with, void*) { return sum(nullptr, with.device.data(), rank, on(rank.stream)); },
       TUTTI_INVALID_ARGUMENT,
       {"send"}},
      {"an operator that does not apply to the type",
       [](Rank rank, With with, void*) {
         return tutti_all_reduce(with.device.data(), with.other.data(), 8, TUTTI_COMPLEX64, TUTTI_MAX, rank.comm,
                                 on(rank.stream), nullptr);
       },
       TUTTI_INVALID_ARGUMENT,
       {"max", "complex64"}},
      {"an algorithm that does not exist",
       [](Rank rank, With with, void*) {
         tutti_call call = TUTTI_CALL_INIT;
         call.algorithm = "telepathy";
         return tutti_all_reduce(with.device.data(), with.other.data(), kCount, TUTTI_INT32, TUTTI_SUM, rank.comm,
                                 on(rank.stream), &call);
       },
       TUTTI_INVALID_ARGUMENT,
       {"telepathy"}},
      {"device memory to tutti_send",
       [](Rank rank, With with, void*) {
         return tutti_send(with.device.data(), kCount, TUTTI_INT32, 1 - rank.rank, rank.comm, {}, nullptr);
       },
       TUTTI_UNSUPPORTED,
       {"tutti_send"}},
      {"device memory to tutti_recv",
       [](Rank rank, With with, void*) {
         return tutti_recv(with.device.data(), kCount, TUTTI_INT32, 1 - rank.rank, rank.comm, {}, nullptr);
       },
       TUTTI_UNSUPPORTED,
       {"tutti_recv"}},
      {"a CUDA stream to tutti_send",
       [](Rank rank, With, void* pageable) {
         return tutti_send(pageable, kCount, TUTTI_INT32, 1 - rank.rank, rank.comm, on(rank.stream), nullptr);
       },
       TUTTI_UNSUPPORTED,
       {"stream"}},
  };
}

/// The call is refused in words, and the communicator works as before, on devices and on the host.
void expect_refused(const BadInput& bad, const DeviceRank& rank) {
  Supplies supplies;
  EXPECT_EQ(bad.call(rank, supplies, supplies.pageable.data()), bad.status) << bad.name << ": " << last_error();
  const tutti_error error = error_of(nullptr);
  EXPECT_EQ(error.status, bad.status) << bad.name;
  for (const char* const word : bad.words) EXPECT_THAT(error.message, HasSubstr(word)) << bad.name;
  EXPECT_STRNE(error.remedy, "") << bad.name << ": " << error.message;
  tutti_comm_state_kind state = TUTTI_COMM_FAILED;
  EXPECT_EQ(tutti_comm_state(rank.comm, &state), TUTTI_SUCCESS);
  EXPECT_EQ(state, TUTTI_COMM_READY) << bad.name;
  expect_sums(rank, on(rank.stream), rank.stream);
  EXPECT_EQ(tutti_barrier(rank.comm, {}, nullptr), TUTTI_SUCCESS) << bad.name << ": " << last_error();
}

bool reaches_pageable_memory() { return *driver().attribute(cuda::DeviceAttribute::pageable_memory_access, 0) != 0; }

TEST_F(DeviceFailures, BadInputIsRefusedInWordsAndHarmsNothing) {
  const DeviceRanks ranks({.ranks = 2});
  const bool all_reached = reaches_pageable_memory();
  ranks.run([all_reached](const DeviceRank& rank) {
    for (const BadInput& bad : bad_inputs()) {
      const bool pageable = std::string(bad.name).find("pageable") != std::string::npos;
      if (!(pageable && all_reached)) expect_refused(bad, rank);
    }
  });
  if (all_reached) GTEST_SKIP() << "this device reaches pageable memory, so that is not refused";
}

TEST_F(DeviceFailures, AStreamOfAnotherDeviceIsRefused) {
  if (devices() < 2) GTEST_SKIP() << "this machine has one device";
  const DeviceRanks ranks({.ranks = 2, .places = 2});
  ranks.run([](const DeviceRank& rank) {
    expect_sums(rank, {}, rank.stream);
    const CurrentPlace other(1 - rank.place);
    const Stream stream;
    const CurrentPlace own(rank.place);
    expect_refused({"a stream of another device",
                    [&stream](const DeviceRank& by, const Supplies& with, void*) {
                      return sum(with.device.data(), with.other.data(), by, on(stream));
                    },
                    TUTTI_INVALID_ARGUMENT,
                    {"stream"}},
                   rank);
  });
}

TEST_F(DeviceFailures, MemoryOfADeviceThatIsNotReachedIsRefused) {
  if (!standin || devices() < 2) GTEST_SKIP() << "this machine's devices may reach each other, or there is one";
  standin.set("LINKS", "none");
  const DeviceRanks ranks({.ranks = 2});
  ranks.run([](const DeviceRank& rank) {
    const CurrentPlace other(1);
    const Memory far(MemoryKind::device, kCount * 4);
    const CurrentPlace own(0);
    expect_refused({"memory of another device",
                    [&far](const DeviceRank& by, const Supplies& with, void*) {
                      return sum(with.device.data(), far.data(), by, on(by.stream));
                    },
                    TUTTI_INVALID_ARGUMENT,
                    {"rec", "device 1"}},
                   rank);
  });
}

TEST_F(DeviceFailures, DevicesThatDoNotReachEachOtherAreRefusedAndHostMemoryWorks) {
  if (!standin || devices() < 2) GTEST_SKIP() << "this machine's devices may reach each other, or there is one";
  standin.set("LINKS", "none");
  const DeviceRanks ranks({.ranks = 2, .places = 2, .timeout_ns = kShortNs});
  ranks.run([](const DeviceRank& rank) {
    const Memory data(MemoryKind::device, kCount * 4);
    EXPECT_EQ(sum(data.data(), data.data(), rank, {}), TUTTI_UNSUPPORTED) << last_error();
    EXPECT_THAT(error_of(nullptr).message, AllOf(HasSubstr("device 0"), HasSubstr("device 1")));
  });
}

TEST_F(DeviceFailures, AHandleThatIsNoStreamIsRefused) {
  if (!standin) GTEST_SKIP() << "a real driver may follow any handle";
  const DeviceRanks ranks({.ranks = 2});
  ranks.run([](const DeviceRank& rank) {
    int nothing = 0;
    expect_refused({"a handle that is no stream",
                    [&nothing](const DeviceRank& by, const Supplies& with, void*) {
                      return sum(with.device.data(), with.other.data(), by, {TUTTI_STREAM_CUDA, &nothing});
                    },
                    TUTTI_INVALID_ARGUMENT,
                    {"stream"}},
                   rank);
  });
}

TEST_F(DeviceFailures, ADeviceThatDoesNotExistIsNamed) {
  const CurrentPlace current(0);
  const Memory data(MemoryKind::device, kCount * 4);
  tutti_config config = TUTTI_CONFIG_INIT;
  config.device = 78;
  tutti_comm* comm = nullptr;
  tutti_status status = tutti_comm_create_all(&comm, 1, &config);
  if (status == TUTTI_SUCCESS) {
    status = tutti_all_reduce(data.data(), data.data(), kCount, TUTTI_INT32, TUTTI_SUM, comm, {}, nullptr);
  }
  EXPECT_THAT(status, AnyOf(TUTTI_INVALID_ARGUMENT, TUTTI_UNHANDLED_CUDA_ERROR)) << last_error();
  EXPECT_THAT(error_of(nullptr).message, HasSubstr("77"));
  EXPECT_EQ(tutti_comm_destroy(comm), TUTTI_SUCCESS);
}

TEST_F(DeviceFailures, WhereAllMemoryIsTheHostsTheDriverIsNotAsked) {
  if (!standin) GTEST_SKIP() << "a real driver does not count its calls";
  const DeviceRanks ranks({.ranks = 2, .memory = TUTTI_MEMORY_HOST});
  const auto calls = [this] {
    std::uint64_t all = 0;
    cuda::for_each_entry(api(), [&](const auto& entry) { all += standin.calls(entry.name); });
    return all;
  };
  MeetingPoint point(2);
  std::atomic<std::uint64_t> before{0};
  ranks.run([&](const DeviceRank& rank) {
    point.meet();
    if (rank.rank == 0) before = calls();
    point.meet();
    std::vector<std::int32_t> data(kCount, 1);
    for (int round = 0; round < 3; ++round) EXPECT_EQ(sum(data.data(), data.data(), rank, {}), TUTTI_SUCCESS);
    EXPECT_EQ(data, std::vector<std::int32_t>(kCount, 8));
    point.meet();
    if (rank.rank == 0) {
      EXPECT_EQ(calls(), before);
    }
    point.meet();
    EXPECT_EQ(sum(data.data(), data.data(), rank, on(rank.stream)), TUTTI_INVALID_ARGUMENT);
    EXPECT_THAT(error_of(nullptr).message, AllOf(HasSubstr("stream"), HasSubstr("memory")));
    EXPECT_EQ(tutti_barrier(rank.comm, {}, nullptr), TUTTI_SUCCESS);
  });
}

// ---- Ranks that differ.

struct Difference {
  const char* name;
  std::function<void(CollectiveCase&)> change;
  bool on_host = false;  ///< rank 0 passes host memory
};

std::vector<Difference> differences() {
  return {
      {"count", [](CollectiveCase& call) { call.count -= 1; }},
      {"type", [](CollectiveCase& call) { call.type = TUTTI_FLOAT32; }},
      {"op", [](CollectiveCase& call) { call.op = TUTTI_MAX; }},
      {"verb", [](CollectiveCase& call) { call.verb = Verb::broadcast; }},
      {"root", [](CollectiveCase& call) { call.root = 1; }},
      {"algorithm", [](CollectiveCase& call) { call.algorithm = "chain"; }},
      {"memory", [](CollectiveCase&) {}, true},
  };
}

TEST_F(DeviceFailures, RanksThatDifferAreAllToldOfAMismatch) {
  for (const Difference& difference : differences()) {
    for (const int places : {1, 2}) {
      for (const Way way : {Way::blocking, Way::stream}) {
        if (difference.on_host && way == Way::stream) continue;
        const DeviceRanks ranks({.ranks = 3, .places = places, .timeout_ns = 2 * kShortNs});
        const std::string name = std::string(difference.name) + ", " + std::to_string(places) + " places, " + name_of(way);
        MeetingPoint through(ranks.size());
        ranks.run([&](const DeviceRank& rank) {
          expect_sums(rank, {}, rank.stream);
          through.meet();  // a failure would end it where it has not
          const Memory send(MemoryKind::device, kCount * 4);
          const Memory recv(MemoryKind::device, kCount * 4);
          std::vector<std::int32_t> host(kCount);
          CollectiveCase call{.verb = Verb::reduce, .count = kCount, .algorithm = "binomial"};
          if (rank.rank == 0) difference.change(call);
          const bool on_host = rank.rank == 0 && difference.on_host;
          tutti_status status =
              end_of(call, on_host ? host.data() : send.data(), on_host ? host.data() : recv.data(), rank, way);
          // What was done before it showed has succeeded, and the next call says so.
          if (status == TUTTI_SUCCESS) status = tutti_barrier(rank.comm, {}, nullptr);
          EXPECT_EQ(status, TUTTI_MISMATCH) << name << ", rank " << rank.rank << ": " << last_error();
          const tutti_error error = error_of(rank.comm);
          EXPECT_EQ(error.status, TUTTI_MISMATCH) << name;
          EXPECT_EQ(error.operation, 1u) << name << ": " << error.message;
          EXPECT_STRNE(error.remedy, "") << name << ": " << error.message;
          if (difference.on_host) {
            EXPECT_THAT(std::string(error.message) + error.remedy, HasSubstr("emory")) << name;
          }
        });
      }
    }
  }
  expect_places_work(3, 2);
}

/// The calls of a group on the rank's stream, all_reduce each. Its outcome, once its work has ended.
tutti_status end_of_group(const DeviceRank& rank, const Memory& data, const std::vector<std::size_t>& counts) {
  EXPECT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  for (const std::size_t count : counts) {
    EXPECT_EQ(issue({.count = count}, data.data(), data.data(), rank.comm, on(rank.stream)), TUTTI_SUCCESS) << last_error();
  }
  tutti_call call = TUTTI_CALL_INIT;
  tutti_work* whole = nullptr;
  call.work = &whole;
  tutti_status status = tutti_group_end(&call);
  if (status == TUTTI_SUCCESS) status = tutti_work_wait(whole, 0);
  if (whole != nullptr) tutti_work_release(whole);
  return status;
}

// One launch may have them all, and the error is still the one call's.
TEST_F(DeviceFailures, OfAGroupTheCallThatDiffersIsNamed) {
  for (const int places : {1, 2, 3}) {
    const DeviceRanks ranks({.ranks = 3, .places = places, .timeout_ns = 2 * kShortNs});
    MeetingPoint through(ranks.size());
    ranks.run([&](const DeviceRank& rank) {
      expect_sums(rank, {}, rank.stream);
      through.meet();
      const Memory data(MemoryKind::device, kCount * 4);
      tutti_status status = end_of_group(rank, data, {kCount, kCount, rank.rank == 1 ? kCount - 1 : kCount, kCount});
      if (status == TUTTI_SUCCESS) status = tutti_barrier(rank.comm, {}, nullptr);
      EXPECT_EQ(status, TUTTI_MISMATCH) << places << " places, rank " << rank.rank << ": " << last_error();
      const tutti_error error = error_of(rank.comm);
      EXPECT_EQ(error.status, TUTTI_MISMATCH) << places;
      EXPECT_EQ(error.operation, 3u) << places << ": " << error.message;
    });
  }
  expect_places_work(3, 2);
}

TEST_F(DeviceFailures, OfAGroupTheCallThatARankDoesNotMakeIsNamedAtTheDeadline) {
  for (const int places : {1, 2, 3}) {
    const DeviceRanks ranks({.ranks = 3, .places = places, .timeout_ns = kSecondNs / 2});
    MeetingPoint point(ranks.size());
    ranks.run([&](const DeviceRank& rank) {
      expect_sums(rank, {}, rank.stream);
      point.meet();
      const Memory data(MemoryKind::device, kCount * 4);
      if (rank.rank == 2) {
        EXPECT_EQ(end_of_group(rank, data, {kCount, kCount}), TUTTI_SUCCESS) << places << ": " << last_error();
        point.meet();
        return;
      }
      const std::uint64_t begun = clock_ns();
      EXPECT_EQ(end_of_group(rank, data, {kCount, kCount, kCount, kCount}), TUTTI_TIMEOUT)
          << places << ": " << last_error();
      EXPECT_LE(clock_ns() - begun, kSecondNs / 2 + 2 * kPromisedEndNs) << places;
      const tutti_error error = error_of(rank.comm);
      EXPECT_EQ(error.operation, 3u) << places << ": " << error.message;
      ASSERT_EQ(error.guilty_count, 1u) << places << ": " << error.message;
      EXPECT_EQ(error.guilty[0].rank, 2) << places << ": " << error.message;
      rank.stream.wait();
      point.meet();
    });
  }
  expect_places_work(3, 2);
}

// ---- Ranks that do not come.

TEST_F(DeviceFailures, ARankThatDoesNotCallIsNamedAtTheDeadline) {
  for (const bool first_call : {false, true}) {
    for (const int places : {1, 2, 3}) {
      for (const Way way : {Way::blocking, Way::stream}) {
        const std::string name = std::to_string(places) + " places, " + name_of(way) + (first_call ? ", first call" : "");
        const DeviceRanks ranks({.ranks = 3, .places = places});
        MeetingPoint point(3);
        ranks.run([&](const DeviceRank& rank) {
          if (!first_call) expect_sums(rank, {}, rank.stream);
          EXPECT_EQ(tutti_comm_set_timeout(rank.comm, kSecondNs / 2), TUTTI_SUCCESS);
          const Memory data(MemoryKind::device, kCount * 4);
          const CollectiveCase call{.count = kCount};
          point.meet();
          if (rank.rank == 2) {
            point.meet();
            // It hears of it, too, by its next call.
            EXPECT_NE(end_of(call, data.data(), data.data(), rank, way), TUTTI_SUCCESS) << name;
            return;
          }
          const std::uint64_t begun = clock_ns();
          EXPECT_EQ(end_of(call, data.data(), data.data(), rank, way), TUTTI_TIMEOUT) << name << ": " << last_error();
          EXPECT_LE(clock_ns() - begun, kSecondNs / 2 + 2 * kPromisedEndNs) << name;
          const tutti_error error = error_of(rank.comm);
          EXPECT_EQ(error.limit_ns, kSecondNs / 2) << name;
          ASSERT_EQ(error.guilty_count, 1u) << name << ": " << error.message;
          EXPECT_EQ(error.guilty[0].rank, 2) << name << ": " << error.message;
          EXPECT_THAT(error.remedy, HasSubstr("tutti_group_start")) << name << ": the rank is of this process";
          rank.stream.wait();
          point.meet();
        });
      }
    }
  }
  expect_places_work(3, 2);
}

TEST_F(DeviceFailures, ALimitOfTheCallWinsOverTheCommunicators) {
  const DeviceRanks ranks({.ranks = 2, .places = 2});
  MeetingPoint point(2);
  ranks.run([&](const DeviceRank& rank) {
    expect_sums(rank, {}, rank.stream);
    const Memory data(MemoryKind::device, kCount * 4);
    if (rank.rank == 0) {
      tutti_call call = TUTTI_CALL_INIT;
      call.timeout_ns = kSecondNs / 5;
      EXPECT_EQ(tutti_all_reduce(data.data(), data.data(), kCount, TUTTI_INT32, TUTTI_SUM, rank.comm, {}, &call),
                TUTTI_TIMEOUT)
          << last_error();
      EXPECT_EQ(error_of(rank.comm).limit_ns, kSecondNs / 5);
    }
    point.meet();
  });
}

TEST_F(DeviceFailures, APollHookEndsACallThatWaits) {
  std::atomic<bool> ends{false};
  const auto ask = [](void* ctx) { return static_cast<std::atomic<bool>*>(ctx)->load() ? 1 : 0; };
  for (const int places : {1, 2}) {
    ends = false;
    const DeviceRanks ranks({.ranks = 2, .places = places, .poll = ask, .poll_ctx = &ends});
    MeetingPoint point(2);
    ranks.run([&](const DeviceRank& rank) {
      expect_sums(rank, {}, rank.stream);
      const Memory data(MemoryKind::device, kCount * 4);
      point.meet();
      if (rank.rank == 0) {
        EXPECT_EQ(sum(data.data(), data.data(), rank, {}), TUTTI_ABORTED) << places << ": " << last_error();
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        ends = true;
      }
      point.meet();
    });
  }
}

// ---- Aborts, and ends, while kernels wait for peers.

/// Whether a call's launch has begun: its kernel waits for a peer then.
bool has_started(tutti_work* work) {
  tutti_work_details info{};
  info.size = sizeof info;
  EXPECT_EQ(tutti_work_info(work, &info), TUTTI_SUCCESS);
  return info.start_ns != 0;
}

/// Of four ranks at two places those at the first have called, on a stream or blocking. Their kernel waits for the others
/// when `act(ranks)` is done, which is to end it at once with `status`.
void expect_end_of_waiting_kernels(Way way, const std::function<void(const DeviceRanks&)>& act, tutti_status status) {
  const DeviceRanks ranks({.ranks = 4, .places = 2});
  MeetingPoint point(4);
  std::atomic<int> started{0};
  std::atomic<std::uint64_t> acted_ns{0};
  ranks.run([&](const DeviceRank& rank) {
    expect_sums(rank, {}, rank.stream);
    const Memory data(MemoryKind::device, kCount * 4);
    const CollectiveCase of{.count = kCount};
    point.meet();
    if (rank.place == 0) {
      tutti_status ended;
      if (way == Way::stream) {
        tutti_work* work = nullptr;
        tutti_call call = TUTTI_CALL_INIT;
        call.work = &work;
        ASSERT_EQ(issue(of, data.data(), data.data(), rank.comm, on(rank.stream), call), TUTTI_SUCCESS) << last_error();
        EXPECT_TRUE(cuda::eventually([&] { return has_started(work); }));
        ++started;
        ended = tutti_work_wait(work, 0);
        tutti_work_release(work);
      } else {
        ++started;
        ended = issue(of, data.data(), data.data(), rank.comm, {});
      }
      rank.stream.wait();  // the kernel has left the device
      EXPECT_LE(clock_ns() - acted_ns, kPromisedEndNs) << name_of(way);
      EXPECT_EQ(ended, status) << name_of(way) << ": " << last_error();
      EXPECT_STRNE(error_of(rank.comm).message, "");
    } else if (rank.rank == 3) {
      EXPECT_TRUE(cuda::eventually([&] { return started == 2; }));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      acted_ns = clock_ns();
      act(ranks);
    }
    point.meet();
    EXPECT_EQ(tutti_barrier(rank.comm, on(rank.stream), nullptr), status) << "every rank knows";
  });
  expect_places_work(4, 2);
}

TEST_F(DeviceFailures, AnAbortEndsKernelsThatWaitForTheRankThatAborts) {
  for (const Way way : {Way::blocking, Way::stream}) {
    expect_end_of_waiting_kernels(
        way, [](const DeviceRanks& ranks) { EXPECT_EQ(tutti_comm_abort(ranks[3]), TUTTI_SUCCESS); }, TUTTI_ABORTED);
  }
}

TEST_F(DeviceFailures, AnAbortByARankThatWaitsEndsItsOwnKernel) {
  for (const Way way : {Way::blocking, Way::stream}) {
    expect_end_of_waiting_kernels(
        way, [](const DeviceRanks& ranks) { EXPECT_EQ(tutti_comm_abort(ranks[0]), TUTTI_SUCCESS); }, TUTTI_ABORTED);
  }
}

TEST_F(DeviceFailures, AMismatchEndsKernelsThatWaitElsewhere) {
  for (const Way way : {Way::blocking, Way::stream}) {
    expect_end_of_waiting_kernels(
        way,
        [](const DeviceRanks& ranks) {
          std::vector<std::thread> threads;
          for (const int r : {1, 3}) {
            threads.emplace_back(
                [&ranks, r] { EXPECT_EQ(tutti_barrier(ranks[r], {}, nullptr), TUTTI_MISMATCH) << last_error(); });
          }
          for (std::thread& thread : threads) thread.join();
        },
        TUTTI_MISMATCH);
  }
}

TEST_F(DeviceFailures, AnAbortBeforeALaunchsTurnEndsItWhenThatComes) {
  const CurrentPlace current(0);
  if (standin) standin.set("QUEUES", "128");
  for (int warm_up = 0; warm_up < 2; ++warm_up) expect_places_work(2, 1);
  const std::uint64_t live = standin ? standin.live() : 0;
  Hold hold;
  MeetingPoint point(2);
  DeviceRanks(GroupOptions{.ranks = 2}).run([&](const DeviceRank& rank) {
    const Memory data = device_values(std::vector<std::int32_t>(kCount, 1));
    // The first call waits for all ranks and their devices.
    ASSERT_EQ(issue({.count = 1}, data.data(), data.data(), rank.comm, on(rank.stream)), TUTTI_SUCCESS) << last_error();
    rank.stream.wait();
    point.meet();
    hold.hold(rank.stream);
    tutti_work* work = nullptr;
    tutti_call call = TUTTI_CALL_INIT;
    call.work = &work;
    ASSERT_EQ(issue({.count = kCount}, data.data(), data.data(), rank.comm, on(rank.stream), call), TUTTI_SUCCESS);
    point.meet();
    if (rank.rank == 0) {
      EXPECT_EQ(tutti_comm_abort(rank.comm), TUTTI_SUCCESS);
    }
    point.meet();
    const std::uint64_t begun = clock_ns();
    EXPECT_EQ(tutti_work_wait(work, 0), TUTTI_ABORTED) << last_error();
    EXPECT_LE(clock_ns() - begun, 2 * kPromisedEndNs) << "the stream still stands still";
    tutti_work_release(work);
    point.meet();
    hold.open();
    const std::uint64_t opened = clock_ns();
    rank.stream.wait();
    EXPECT_LE(clock_ns() - opened, kPromisedEndNs);
    point.meet();
  });
  expect_places_work(2, 1);
  // What the launch used was given up while it stood still, and let go of once it was over; the hold is the test's.
  if (standin) {
    EXPECT_TRUE(cuda::eventually([&] { return standin.live() <= live + 1; })) << standin.live() << " after " << live;
  }
}

TEST_F(DeviceFailures, ARankThatIsDestroyedWhileItsKernelWaitsLeavesInTime) {
  DeviceRanks ranks({.ranks = 2, .places = 2, .timeout_ns = kSecondNs});
  tutti_comm* const leaving = ranks[0];
  MeetingPoint point(2);
  ranks.run([&](const DeviceRank& rank) {
    expect_sums(rank, {}, rank.stream);
    const Memory data(MemoryKind::device, kCount * 4);
    point.meet();
    if (rank.rank == 0) {
      tutti_work* work = nullptr;
      tutti_call call = TUTTI_CALL_INIT;
      call.work = &work;
      EXPECT_EQ(issue({.count = kCount}, data.data(), data.data(), rank.comm, on(rank.stream), call), TUTTI_SUCCESS);
      EXPECT_TRUE(cuda::eventually([&] { return has_started(work); }));
      const std::uint64_t begun = clock_ns();
      EXPECT_EQ(tutti_comm_destroy(leaving), TUTTI_SUCCESS);
      EXPECT_LE(clock_ns() - begun, kSecondNs + 2 * kPromisedEndNs) << "its limit, and what an end takes";
      rank.stream.wait();
      EXPECT_THAT(tutti_work_wait(work, 0), AnyOf(TUTTI_TIMEOUT, TUTTI_ABORTED));
      tutti_work_release(work);
    }
    point.meet();
    if (rank.rank == 1) {
      EXPECT_NE(issue({.count = kCount}, data.data(), data.data(), rank.comm, {}), TUTTI_SUCCESS);
      EXPECT_STRNE(error_of(rank.comm).message, "");
    }
  });
  static_cast<void>(ranks.take(0));
  expect_places_work(2, 2);
}

TEST_F(DeviceFailures, APeerThatHasLeftIsNamed) {
  for (const int places : {1, 2}) {
    DeviceRanks ranks({.ranks = 2, .places = places});
    tutti_comm* const leaving = ranks[1];
    MeetingPoint point(2);
    ranks.run([&](const DeviceRank& rank) {
      expect_sums(rank, {}, rank.stream);
      const Memory data(MemoryKind::device, kCount * 4);
      if (rank.rank == 1) {
        EXPECT_EQ(tutti_comm_destroy(leaving), TUTTI_SUCCESS);
      }
      point.meet();
      if (rank.rank == 1) return;
      const std::uint64_t begun = clock_ns();
      EXPECT_EQ(sum(data.data(), data.data(), rank, {}), TUTTI_REMOTE_ERROR) << last_error();
      EXPECT_LE(clock_ns() - begun, 4 * kPromisedEndNs) << "far less than its limit";
      const tutti_error error = error_of(rank.comm);
      ASSERT_EQ(error.guilty_count, 1u) << error.message;
      EXPECT_EQ(error.guilty[0].rank, 1) << error.message;
    });
    static_cast<void>(ranks.take(1));
  }
}

// The device is that of the thread that calls, whoever runs the call for it.
TEST_F(DeviceFailures, ACallFromAQueueOrAGroupIsOfTheCallersDevice) {
  if (devices() < 2) GTEST_SKIP() << "this machine has one device";
  tutti_comm* comms[2] = {};
  for (const bool in_group : {false, true}) {
    ASSERT_EQ(tutti_comm_create_all(comms, 2, nullptr), TUTTI_SUCCESS) << last_error();
    std::vector<Memory> data;
    for (const int place : {1, 0}) {
      const CurrentPlace current(place);
      data.push_back(device_values(std::vector<std::int32_t>(kCount, 1)));
    }
    tutti_queue* queues[2] = {};
    if (in_group) {
      ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
    }
    for (const int r : {0, 1}) {
      const CurrentPlace current(1 - r);
      ASSERT_EQ(tutti_queue_create(&queues[r]), TUTTI_SUCCESS);
      const tutti_stream stream = in_group ? tutti_stream{} : tutti_stream{TUTTI_STREAM_QUEUE, queues[r]};
      EXPECT_EQ(issue({.count = kCount}, data[static_cast<std::size_t>(r)].data(), data[static_cast<std::size_t>(r)].data(),
                      comms[r], stream),
                TUTTI_SUCCESS)
          << last_error();
    }
    if (in_group) {
      EXPECT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
    }
    for (tutti_queue* const queue : queues) {
      EXPECT_EQ(tutti_queue_wait(queue, 0), TUTTI_SUCCESS) << last_error();
      EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
    }
    for (const int r : {0, 1}) {
      const CurrentPlace current(1 - r);
      EXPECT_EQ(data[static_cast<std::size_t>(r)].read_all<std::int32_t>(), std::vector<std::int32_t>(kCount, 2));
    }
    for (tutti_comm* const comm : comms) EXPECT_EQ(tutti_comm_destroy(comm), TUTTI_SUCCESS);
  }
}

// The driver may wait for the device where it loads code or allocates, which a launch that waits for others would hold up.
TEST_F(DeviceFailures, ACallAfterTheFirstLoadsNothing) {
  if (!standin) GTEST_SKIP() << "a real driver does not count its calls";
  const DeviceRanks ranks({.ranks = 2, .places = 2});
  MeetingPoint point(2);
  ranks.run([&](const DeviceRank& rank) {
    expect_sums(rank, on(rank.stream), rank.stream);
    const Memory data = device_values(std::vector<double>(64, 1));
    point.meet();
    const std::uint64_t loaded = standin.calls("cuKernelGetFunction") + standin.calls("cuFuncLoad");
    const std::uint64_t allocated = standin.calls("cuMemHostAlloc");
    point.meet();
    for (const tutti_op op : {TUTTI_SUM, TUTTI_MIN, TUTTI_PROD}) {
      for (int round = 0; round < 10; ++round) {
        ASSERT_EQ(
            issue({.type = TUTTI_FLOAT64, .op = op, .count = 64}, data.data(), data.data(), rank.comm, on(rank.stream)),
            TUTTI_SUCCESS)
            << last_error();
      }
    }
    rank.stream.wait();
    point.meet();
    EXPECT_EQ(standin.calls("cuKernelGetFunction") + standin.calls("cuFuncLoad"), loaded);
    EXPECT_EQ(standin.calls("cuMemHostAlloc"), allocated);
    point.meet();
  });
}

}  // namespace
}  // namespace tutti::test
