// A system without memory: every call answers TUTTI_SYSTEM_ERROR, wherever it runs out, and nothing is lost or torn.
#include <gmock/gmock.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "tests/support/holdings.h"
#include "tests/support/ranks.h"

namespace {

/// Allocations of this thread until one fails; negative: none does. The library's go through the operator below, too.
thread_local int allocations_left = -1;

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (allocations_left >= 0 && allocations_left-- == 0) {
    allocations_left = 0;  // and every further one
    throw std::bad_alloc();
  }
  void* memory = std::malloc(bytes != 0 ? bytes : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocations_left == 0 ? nullptr : std::malloc(bytes != 0 ? bytes : 1);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace tutti::test {
namespace {

/// Calls `verb` on a fresh world again and again, running out of memory one allocation later each time, until it succeeds.
/// The number of failures.
template <typename World, typename Verb>
int starve(Verb verb) {
  for (int n = 0; n < 500; ++n) {
    World world;
    allocations_left = n;
    const tutti_status status = verb(world);
    allocations_left = -1;
    if (status == TUTTI_SUCCESS) return n;
    EXPECT_EQ(status, TUTTI_SYSTEM_ERROR) << "allocation " << n << ": " << last_error();
    EXPECT_THAT(last_error(), testing::HasSubstr("out of memory")) << "allocation " << n;
  }
  ADD_FAILURE() << "never succeeded";
  return 0;
}

struct World {
  World() {
    EXPECT_EQ(tutti_comm_create_all(&comm, 1, nullptr), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS);
    call.work = &work;
  }
  ~World() {
    if (work != nullptr) {
      EXPECT_NE(tutti_work_wait(work, 0), TUTTI_IN_PROGRESS) << "a work that was given out ends";
    }
    tutti_work_release(work);
    tutti_queue_destroy(queue);
    tutti_comm_destroy(comm);
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  tutti_stream stream() const { return {TUTTI_STREAM_QUEUE, queue}; }

  tutti_comm* comm = nullptr;
  tutti_queue* queue = nullptr;
  tutti_work* work = nullptr;
  tutti_call call = TUTTI_CALL_INIT;
  int x = 1;
  int y = 2;
};

/// Nothing but what was there before stays of a failure.
struct Tidy {
  ~Tidy() {
    if (made) return;
    EXPECT_TRUE(holds_no_more_than(before));
  }
  bool made = false;
  const Holdings before = Holdings::now();
};

TEST(NoMemory, AnIdIsMadeOrLeavesNothing) {
  EXPECT_GT(starve<Tidy>([](Tidy& tidy) {
              tutti_unique_id id;
              const tutti_status status = tutti_get_unique_id(&id);
              tidy.made = status == TUTTI_SUCCESS;
              return status;
            }),
            5);
}

TEST(NoMemory, RanksAreCreatedTogetherOrLeaveNothing) {
  EXPECT_GT(starve<Tidy>([](Tidy&) {
              std::array<tutti_comm*, 2> comms{};
              const tutti_status status = tutti_comm_create_all(comms.data(), 2, nullptr);
              allocations_left = -1;
              for (tutti_comm* comm : comms) tutti_comm_destroy(comm);
              return status;
            }),
            20);
}

TEST(NoMemory, AMeetingAtAFileBeginsOrLeavesNothing) {
  tutti_config config = TUTTI_CONFIG_INIT;
  config.connect_timeout_ns = 1'000'000;  // nobody else will come
  const std::string path = "/tmp/tutti-test-" + std::to_string(getpid());
  const std::string address = "file://" + path;
  int failures = 0;
  for (bool met = false; !met && failures < 1000; failures += met ? 0 : 1) {
    tutti_comm* comm = nullptr;
    {
      Tidy tidy;
      allocations_left = failures;
      const tutti_status status = tutti_comm_create_address(&comm, address.c_str(), 2, 0, &config);
      allocations_left = -1;
      met = tidy.made = status == TUTTI_TIMEOUT;
      EXPECT_TRUE(met || status == TUTTI_SYSTEM_ERROR) << last_error();
    }
    EXPECT_FALSE(std::filesystem::exists(path)) << "allocation " << failures;
  }
  EXPECT_GT(failures, 20);
}

TEST(NoMemory, ADirectCallFails) {
  EXPECT_GT(
      starve<World>([](World& w) { return tutti_all_reduce(&w.x, &w.y, 1, TUTTI_INT32, TUTTI_SUM, w.comm, {}, &w.call); }),
      2);
}

TEST(NoMemory, PostingOnAQueueFails) {
  EXPECT_GT(starve<World>([](World& w) {
              return tutti_all_reduce(&w.x, &w.y, 1, TUTTI_INT32, TUTTI_SUM, w.comm, w.stream(), &w.call);
            }),
            2);
}

TEST(NoMemory, AGroupFailsAndItsWorksEnd) {
  EXPECT_GT(starve<World>([](World& w) {
              tutti_work* whole = nullptr;
              tutti_call end = TUTTI_CALL_INIT;
              end.work = &whole;
              EXPECT_EQ(tutti_group_start(), TUTTI_SUCCESS);
              tutti_all_reduce(&w.x, &w.y, 1, TUTTI_INT32, TUTTI_SUM, w.comm, w.stream(), &w.call);
              tutti_all_reduce(&w.x, &w.y, 1, TUTTI_INT32, TUTTI_SUM, w.comm, {}, nullptr);
              const tutti_status status = tutti_group_end(&end);
              allocations_left = -1;
              if (whole != nullptr) {
                EXPECT_NE(tutti_work_wait(whole, 0), TUTTI_IN_PROGRESS);
              }
              tutti_work_release(whole);
              return status;
            }),
            5);
}

TEST(NoMemory, TransfersFailAndTheirWorksEnd) {
  EXPECT_GT(starve<World>([](World& w) {
              tutti_status status = tutti_recv(&w.y, 1, TUTTI_INT32, 0, w.comm, w.stream(), &w.call);
              if (status == TUTTI_SUCCESS) status = tutti_send(&w.x, 1, TUTTI_INT32, 0, w.comm, {}, nullptr);
              allocations_left = -1;
              if (status != TUTTI_SUCCESS) tutti_comm_abort(w.comm);  // a receive without its send would wait for long
              return status;
            }),
            5);
}

TEST(NoMemory, QueuesAndCallbacksFail) {
  EXPECT_GT(starve<World>([](World&) {
              tutti_queue* queue = nullptr;
              const tutti_status status = tutti_queue_create(&queue);
              tutti_queue_destroy(queue);
              return status;
            }),
            2);
  EXPECT_GT(starve<World>([](World& w) {
              const tutti_status status = tutti_barrier(w.comm, {}, &w.call);
              if (status != TUTTI_SUCCESS) return status;
              return tutti_work_on_complete(w.work, [](void*, tutti_status) {}, nullptr);
            }),
            2);
}

/// Whether a barrier on `comm` ends, however: an operation that was lost would hold up all that are entered after it.
void expect_turns_come(tutti_comm* comm) {
  std::atomic<bool> over{false};
  std::thread waiting([&] {
    static_cast<void>(tutti_barrier(comm, {}, nullptr));
    over = true;
  });
  for (int i = 0; i < 1000 && !over; ++i) usleep(10'000);
  EXPECT_TRUE(over);
  if (!over) tutti_comm_abort(comm);
  waiting.join();
}

TEST(NoMemory, ASplitInAGroupFailsAndNobodyWaitsForItsTurn) {
  EXPECT_GT(starve<World>([](World& w) {
              tutti_comm* part = nullptr;
              EXPECT_EQ(tutti_group_start(), TUTTI_SUCCESS);
              static_cast<void>(tutti_comm_split(w.comm, 0, 0, &part, nullptr));
              const tutti_status status = tutti_group_end(nullptr);
              allocations_left = -1;
              expect_turns_come(w.comm);
              tutti_comm_destroy(part);
              return status;
            }),
            5);
}

/// Two ranks, of which the other one does as it is told on a thread that has memory.
struct Pair {
  Pair() {
    tutti_config config = TUTTI_CONFIG_INIT;
    config.spin = -1;
    config.lanes = 8;
    EXPECT_EQ(tutti_comm_create_all(comms.data(), 2, &config), TUTTI_SUCCESS) << last_error();
  }
  ~Pair() {
    for (tutti_comm* comm : comms) tutti_comm_destroy(comm);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  /// Rank 0 runs out of memory in `verb`; rank 1 in the same does not wait for its deadline, which is minutes away.
  template <typename Verb>
  tutti_status both(const Verb& verb) {
    const int left = std::exchange(allocations_left, -1);
    std::atomic<bool> over{false};
    std::thread other([&] {
      static_cast<void>(verb(comms[1]));
      over = true;
    });
    allocations_left = left;
    const tutti_status status = verb(comms[0]);
    const int unused = std::exchange(allocations_left, -1);
    for (int i = 0; i < 2000 && !over; ++i) usleep(10'000);
    EXPECT_TRUE(over) << unused;
    if (!over) tutti_comm_abort(comms[1]);
    other.join();
    if (status != TUTTI_SUCCESS) {
      EXPECT_NE(verb(comms[0]), TUTTI_SUCCESS) << "what was torn stays failed";
    }
    return status;
  }
  std::array<tutti_comm*, 2> comms{};
};

TEST(NoMemory, AGroupOfSeveralRanksFailsAndNobodyWaitsForItsTurn) {
  EXPECT_GT(starve<Pair>([](Pair& pair) {
              EXPECT_EQ(tutti_group_start(), TUTTI_SUCCESS);
              for (tutti_comm* comm : pair.comms) static_cast<void>(tutti_barrier(comm, {}, nullptr));
              const tutti_status status = tutti_group_end(nullptr);
              allocations_left = -1;
              const std::string told = last_error();
              std::thread other([&] { expect_turns_come(pair.comms[1]); });
              expect_turns_come(pair.comms[0]);
              other.join();
              EXPECT_EQ(last_error(), told);
              return status;
            }),
            5);
}

TEST(NoMemory, ACollectiveFailsOnAllRanks) {
  EXPECT_GT(
      starve<Pair>([](Pair& pair) { return pair.both([](tutti_comm* comm) { return tutti_barrier(comm, {}, nullptr); }); }),
      5);
}

/// Closing a link takes memory to tell the peer, and there is none: it is closed all the same, and once.
TEST(NoMemory, ACollectiveFailsOnAllRanksWithManyLinksOpen) {
  EXPECT_GT(starve<Pair>([](Pair& pair) {
              const int left = std::exchange(allocations_left, -1);
              EXPECT_EQ(pair.both([](tutti_comm* comm) {
                std::vector<float> data(1 << 16, 1);
                tutti_call call = TUTTI_CALL_INIT;
                call.algorithm = "ring";  // a link a lane and direction
                return tutti_all_reduce(data.data(), data.data(), data.size(), TUTTI_FLOAT32, TUTTI_SUM, comm, {}, &call);
              }),
                        TUTTI_SUCCESS);
              allocations_left = left;
              return pair.both([](tutti_comm* comm) {
                float mine = 1;
                std::array<float, 2> all{};
                return tutti_all_gather(&mine, all.data(), 1, TUTTI_FLOAT32, comm, {}, nullptr);
              });
            }),
            5);
}

/// Nothing that ends a communicator may end the process.
TEST(NoMemory, DestroyingNeedsNone) {
  for (const char* transport : {"shm", "tcp"}) {
    for (const int n : {0, 1, 2, 3, 5, 8, 13}) {
      tutti_config config = TUTTI_CONFIG_INIT;
      config.transports = transport;
      std::array<tutti_comm*, 2> comms{};
      ASSERT_EQ(tutti_comm_create_all(comms.data(), 2, &config), TUTTI_SUCCESS) << last_error();
      const auto meet = [](tutti_comm* comm) {
        EXPECT_EQ(tutti_barrier(comm, {}, nullptr), TUTTI_SUCCESS) << last_error();
      };
      std::thread other(meet, comms[1]);
      meet(comms[0]);
      other.join();
      allocations_left = n;
      for (tutti_comm* comm : comms) static_cast<void>(tutti_comm_destroy(comm));
      allocations_left = -1;
    }
  }
}

TEST(NoMemory, FinalizeFailsOnAllRanks) {
  EXPECT_GT(starve<Pair>([](Pair& pair) { return pair.both([](tutti_comm* comm) { return tutti_comm_finalize(comm); }); }),
            5);
}

}  // namespace
}  // namespace tutti::test
