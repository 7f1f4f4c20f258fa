// Waits: each ends, forgets nothing, and calls the caller's hook.
#include <gmock/gmock.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/support/ranks.h"

namespace tutti::test {
namespace {

constexpr std::uint64_t ms = 1'000'000;

/// Two ranks whose hook counts its calls, on this thread and on others, and ends waits when told to.
class Hooked {
 public:
  explicit Hooked(std::uint64_t timeout_ns = 0) {
    tutti_config config = TUTTI_CONFIG_INIT;
    config.operation_timeout_ns = timeout_ns;
    config.poll = [](void* self) { return static_cast<Hooked*>(self)->poll(); };
    config.poll_ctx = this;
    EXPECT_EQ(tutti_comm_create_all(comms_.data(), 2, &config), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(tutti_queue_create(&queue_), TUTTI_SUCCESS);
  }
  ~Hooked() {
    EXPECT_EQ(tutti_queue_destroy(queue_), TUTTI_SUCCESS);
    for (tutti_comm* comm : comms_) EXPECT_EQ(tutti_comm_destroy(comm), TUTTI_SUCCESS);
  }
  Hooked(const Hooked&) = delete;
  Hooked& operator=(const Hooked&) = delete;

  /// Begins a barrier, or a receive, on rank 0's queue.
  tutti_work* begin(bool transfer = false) {
    tutti_call call = TUTTI_CALL_INIT;
    tutti_work* work = nullptr;
    call.work = &work;
    const tutti_stream stream = {TUTTI_STREAM_QUEUE, queue_};
    const tutti_status posted = transfer ? tutti_recv(&received, 1, TUTTI_INT32, 1, comms_[0], stream, &call)
                                         : tutti_barrier(comms_[0], stream, &call);
    EXPECT_EQ(posted, TUTTI_SUCCESS) << last_error();
    return work;
  }
  /// Rank 1 joins what has begun after a while, on a thread that is not this one; to be called once.
  std::thread join_after(useconds_t us, bool transfer = false) {
    return std::thread([this, us, transfer] {
      usleep(us);
      const int seven = 7;
      const tutti_status status =
          transfer ? tutti_send(&seven, 1, TUTTI_INT32, 0, comms_[1], {}, nullptr) : tutti_barrier(comms_[1], {}, nullptr);
      EXPECT_EQ(status, TUTTI_SUCCESS) << last_error();
    });
  }
  tutti_comm* operator[](std::size_t rank) const { return comms_[rank]; }
  tutti_queue* queue() const { return queue_; }
  int received = 0;
  std::atomic<int> calls{0};
  std::atomic<int> elsewhere{0};  ///< of those, calls on other threads
  std::atomic<bool> ends{false};

 private:
  int poll() {
    ++calls;
    if (std::this_thread::get_id() != owner_) ++elsewhere;
    return ends ? 1 : 0;
  }
  const std::thread::id owner_ = std::this_thread::get_id();
  std::array<tutti_comm*, 2> comms_{};
  tutti_queue* queue_ = nullptr;
};

TEST(Waits, ForWorksAndQueuesCallTheHookEveryMillisecond) {
  constexpr int few = 20;  // of the about 200 that 200 ms have room for
  for (const bool transfer : {false, true}) {
    Hooked world;
    tutti_work* work = world.begin(transfer);
    std::thread late = world.join_after(200'000, transfer);
    world.calls = 0;
    EXPECT_EQ(tutti_work_wait(work, 0), TUTTI_SUCCESS) << last_error();
    EXPECT_GT(world.calls, few);
    tutti_work_release(work);
    late.join();
    work = world.begin(transfer);
    late = world.join_after(200'000, transfer);
    world.calls = 0;
    EXPECT_EQ(tutti_queue_wait(world.queue(), 0), TUTTI_SUCCESS) << last_error();
    EXPECT_GT(world.calls, few);
    tutti_work_release(work);
    late.join();
  }
}

TEST(Waits, ForTransfersThatLastCallTheHookEveryMillisecondToo) {
  constexpr int few = 300;  // of the about 1500; a wait that naps longer the longer it lasts calls it 170 times
  Hooked world;
  int calls = 0;
  std::thread late([&] {
    usleep(1'500'000);
    const int seven = 7;
    calls = world.calls;
    EXPECT_EQ(tutti_send(&seven, 1, TUTTI_INT32, 0, world[1], {}, nullptr), TUTTI_SUCCESS) << last_error();
  });
  world.calls = 0;
  EXPECT_EQ(tutti_recv(&world.received, 1, TUTTI_INT32, 1, world[0], {}, nullptr), TUTTI_SUCCESS) << last_error();
  late.join();
  EXPECT_GT(calls, few);
}

/// Two ranks that have never exchanged anything, and whose limits together are less than what one of them is early by. (The
/// one for connecting is more than what a thread that gets no core may count for two looks.)
class Impatient : public testing::TestWithParam<std::tuple<const char*, std::size_t>> {
 protected:
  void SetUp() override {
    tutti_config config = TUTTI_CONFIG_INIT;
    config.transports = std::get<0>(GetParam());
    config.operation_timeout_ns = 100 * ms;
    config.connect_timeout_ns = 250 * ms;
    // Creation heeds them, too, and may take longer on a busy machine.
    for (int i = 0; i < 50 && tutti_comm_create_all(comms.data(), 2, &config) != TUTTI_SUCCESS; ++i) comms = {};
    ASSERT_NE(comms[0], nullptr) << last_error();
    early = std::get<1>(GetParam());
    late = 1 - early;
    call.timeout_ns = 30'000 * ms;
  }
  void TearDown() override {
    for (tutti_comm* comm : comms) EXPECT_EQ(tutti_comm_destroy(comm), TUTTI_SUCCESS) << last_error();
  }
  /// `of` is called with the early rank and, on another thread and later, with the late one.
  void expect_success(const std::function<tutti_status(std::size_t)>& of) {
    std::thread other([&] {
      usleep(600'000);
      EXPECT_EQ(of(late), TUTTI_SUCCESS) << last_error();
    });
    EXPECT_EQ(of(early), TUTTI_SUCCESS) << last_error();
    other.join();
  }
  /// Sends from the early rank to the late one, or the other way round.
  void expect_transfer(bool early_sends, const tutti_call* how) {
    const int seven = 7;
    int received = 0;
    expect_success([&](std::size_t rank) {
      const bool sends = early_sends == (rank == early);
      const int peer = static_cast<int>(1 - rank);
      return sends ? tutti_send(&seven, 1, TUTTI_INT32, peer, comms[rank], {}, how)
                   : tutti_recv(&received, 1, TUTTI_INT32, peer, comms[rank], {}, how);
    });
    EXPECT_EQ(received, 7);
  }
  std::array<tutti_comm*, 2> comms{};
  std::size_t early = 0;
  std::size_t late = 0;
  tutti_call call = TUTTI_CALL_INIT;
};

// Whoever is late for the very first message has not been lost, and is waited for as long as the call says.
TEST_P(Impatient, CallsWaitAsLongAsTheySayForAFirstMessageToo) {
  expect_success([&](std::size_t rank) { return tutti_barrier(comms[rank], {}, &call); });
}

TEST_P(Impatient, SendsWaitAsLongAsTheySayForAFirstMessageToo) { expect_transfer(true, &call); }

TEST_P(Impatient, ALimitThatIsRaisedHoldsForAFirstMessageToo) {
  for (tutti_comm* comm : comms) ASSERT_EQ(tutti_comm_set_timeout(comm, call.timeout_ns), TUTTI_SUCCESS);
  expect_transfer(false, nullptr);
}

INSTANTIATE_TEST_SUITE_P(Transports, Impatient, testing::Combine(testing::Values("shm", "tcp"), testing::Values(0u, 1u)));

TEST(Waits, EndWhereTheHookSaysSoAndLeaveTheOperationRunning) {
  for (const bool transfer : {false, true}) {
    Hooked world;
    tutti_work* work = world.begin(transfer);
    world.ends = true;
    usleep(20'000);  // time enough for the library's threads to ask it, if they did
    EXPECT_EQ(tutti_work_wait(work, 0), TUTTI_ABORTED);
    EXPECT_THAT(last_error(), testing::HasSubstr("poll hook"));
    EXPECT_EQ(tutti_queue_wait(world.queue(), 0), TUTTI_ABORTED);
    EXPECT_EQ(tutti_work_test(work), TUTTI_IN_PROGRESS);
    world.ends = false;
    std::thread late = world.join_after(0, transfer);
    EXPECT_EQ(tutti_work_wait(work, 0), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(tutti_queue_wait(world.queue(), 0), TUTTI_SUCCESS) << last_error();
    tutti_work_release(work);
    late.join();
  }
}

TEST(Waits, AskTheHookOnTheCallersThreadsAlone) {
  Hooked world;
  for (const bool transfer : {false, true}) {
    tutti_work* work = world.begin(transfer);
    usleep(20'000);
    const int seven = 7;
    const tutti_status met =
        transfer ? tutti_send(&seven, 1, TUTTI_INT32, 0, world[1], {}, nullptr) : tutti_barrier(world[1], {}, nullptr);
    EXPECT_EQ(met, TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(tutti_work_wait(work, 0), TUTTI_SUCCESS) << last_error();
    tutti_work_release(work);
  }
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  for (std::size_t r = 0; r < 2; ++r) EXPECT_EQ(tutti_barrier(world[r], {}, nullptr), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(world.elsewhere, 0);
}

/// Rank 0 in `body`, which the hook ends; rank 1 hears of that, and does not wait for its own deadline.
template <typename Body>
void expect_ended(const Body& body) {
  Hooked world(20'000 * ms);
  world.ends = true;
  EXPECT_EQ(body(world), TUTTI_ABORTED) << last_error();
  EXPECT_THAT(last_error(), testing::HasSubstr("poll hook"));
  world.ends = false;
  const auto begin = std::chrono::steady_clock::now();
  int x = 0;
  EXPECT_EQ(tutti_recv(&x, 1, TUTTI_INT32, 0, world[1], {}, nullptr), TUTTI_ABORTED);
  EXPECT_THAT(last_error(), testing::HasSubstr("poll hook"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(Waits, OfBlockingCallsThatTheHookEndsFailTheCommunicatorEverywhere) {
  expect_ended([](Hooked& world) { return tutti_barrier(world[0], {}, nullptr); });
  expect_ended([](Hooked& world) { return tutti_recv(&world.received, 1, TUTTI_INT32, 1, world[0], {}, nullptr); });
  expect_ended([](Hooked& world) {
    tutti_comm* part = nullptr;
    return tutti_comm_split(world[0], 0, 0, &part, nullptr);
  });
  expect_ended([](Hooked& world) { return tutti_comm_finalize(world[0]); });
  expect_ended([](Hooked& world) {
    EXPECT_EQ(tutti_group_start(), TUTTI_SUCCESS);
    EXPECT_EQ(tutti_recv(&world.received, 1, TUTTI_INT32, 1, world[0], {}, nullptr), TUTTI_SUCCESS);
    EXPECT_EQ(tutti_recv(&world.received, 1, TUTTI_INT32, 0, world[1], {}, nullptr), TUTTI_SUCCESS);
    return tutti_group_end(nullptr);
  });
}

/// A hook that counts its calls, on this thread and on others, and a config with it.
struct Counting {
  explicit Counting(bool ending = false) : ends(ending) {
    config.poll = [](void* self) {
      auto& counting = *static_cast<Counting*>(self);
      if (std::this_thread::get_id() != counting.owner) ++counting.elsewhere;
      ++counting.calls;
      return counting.ends ? 1 : 0;
    };
    config.poll_ctx = this;
  }
  const std::thread::id owner = std::this_thread::get_id();
  std::atomic<int> calls{0};
  std::atomic<int> elsewhere{0};
  std::atomic<bool> ends;
  tutti_config config = TUTTI_CONFIG_INIT;
};

/// Every form of creation, of one rank: none of them has anybody to wait for.
struct Form {
  const char* name;
  std::function<tutti_status(tutti_comm**, const tutti_config*)> create;
};

std::vector<Form> forms_of_creation() {
  const auto by_id = [](tutti_comm** comm, const tutti_config* config) {
    tutti_unique_id id;
    EXPECT_EQ(tutti_get_unique_id(&id), TUTTI_SUCCESS) << last_error();
    return tutti_comm_create(comm, 1, &id, 0, config);
  };
  const auto grouped = [by_id](tutti_comm** comm, const tutti_config* config) {
    EXPECT_EQ(tutti_group_start(), TUTTI_SUCCESS);
    EXPECT_EQ(by_id(comm, config), TUTTI_SUCCESS) << last_error();
    return tutti_group_end(nullptr);
  };
  const auto by_bootstrap = [](tutti_comm** comm, const tutti_config* config) {
    const tutti_bootstrap alone = {sizeof alone, nullptr,
                                   [](void*, const void* in, std::size_t n, void* out, std::uint64_t) {
                                     std::memcpy(out, in, n);
                                     return 0;
                                   }};
    return tutti_comm_create_bootstrap(comm, 1, 0, &alone, config);
  };
  const auto by_address = [](tutti_comm** comm, const tutti_config* config) {
    return tutti_comm_create_address(comm, "tcp://127.0.0.1:4711", 1, 0, config);
  };
  const auto all = [](tutti_comm** comm, const tutti_config* config) { return tutti_comm_create_all(comm, 1, config); };
  return {{"id", by_id}, {"address", by_address}, {"bootstrap", by_bootstrap}, {"group", grouped}, {"all", all}};
}

TEST(Waits, ACreationAsksTheHookOnceEvenWhereItWaitsForNobody) {
  for (const Form& form : forms_of_creation()) {
    Counting hook;
    tutti_comm* comm = nullptr;
    EXPECT_EQ(form.create(&comm, &hook.config), TUTTI_SUCCESS) << form.name << ": " << last_error();
    EXPECT_GE(hook.calls, 1) << form.name;
    EXPECT_EQ(hook.elsewhere, 0) << form.name;
    EXPECT_EQ(tutti_comm_destroy(comm), TUTTI_SUCCESS);
    hook.ends = true;
    EXPECT_EQ(form.create(&comm, &hook.config), TUTTI_ABORTED) << form.name << ": " << last_error();
    EXPECT_THAT(last_error(), testing::HasSubstr("poll hook")) << form.name;
    EXPECT_EQ(comm, nullptr) << form.name;
  }
}

/// Splits `comm` alone, or at the end of a group.
tutti_status split_of(tutti_comm* comm, int color, bool grouped, tutti_comm** part) {
  if (!grouped) return tutti_comm_split(comm, color, 0, part, nullptr);
  EXPECT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_comm_split(comm, color, 0, part, nullptr), TUTTI_SUCCESS) << last_error();
  return tutti_group_end(nullptr);
}

TEST(Waits, ASplitAsksTheHookOnceEvenWhereItWaitsForNobody) {
  for (const bool grouped : {false, true}) {
    for (const int color : {0, -1}) {
      Counting hook;
      tutti_comm* comm = nullptr;
      tutti_comm* part = nullptr;
      ASSERT_EQ(tutti_comm_create_all(&comm, 1, &hook.config), TUTTI_SUCCESS) << last_error();
      hook.calls = 0;
      EXPECT_EQ(split_of(comm, color, grouped, &part), TUTTI_SUCCESS) << last_error();
      EXPECT_GE(hook.calls, 1) << "color " << color << (grouped ? " in a group" : "");
      EXPECT_EQ(tutti_comm_destroy(part), TUTTI_SUCCESS);
      hook.ends = true;
      EXPECT_EQ(split_of(comm, color, grouped, &part), TUTTI_ABORTED) << last_error();
      EXPECT_EQ(part, nullptr);
      EXPECT_EQ(error_of(comm).status, TUTTI_ABORTED) << "the parent has failed, as for any split that its hook ends";
      EXPECT_EQ(hook.elsewhere, 0);
      EXPECT_EQ(tutti_comm_destroy(comm), TUTTI_SUCCESS);
    }
  }
}

TEST(Waits, ANonBlockingCreationAsksNobody) {
  Counting hook(true);
  hook.config.non_blocking = 1;
  tutti_comm* comm = nullptr;
  EXPECT_EQ(tutti_comm_create_address(&comm, "tcp://127.0.0.1:4711", 1, 0, &hook.config), TUTTI_IN_PROGRESS);
  tutti_comm_state_kind state = TUTTI_COMM_CREATING;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (state == TUTTI_COMM_CREATING && std::chrono::steady_clock::now() < end) {
    EXPECT_EQ(tutti_comm_state(comm, &state), TUTTI_SUCCESS);
    usleep(1'000);
  }
  EXPECT_EQ(state, TUTTI_COMM_READY);
  EXPECT_EQ(hook.calls, 0);
  EXPECT_EQ(tutti_comm_destroy(comm), TUTTI_SUCCESS);
}

TEST(Waits, OfCreationsAskTheHookOfTheirCallerAlone) {
  Counting hook;
  std::array<tutti_comm*, 2> comms{};
  EXPECT_EQ(tutti_comm_create_all(comms.data(), 2, &hook.config), TUTTI_SUCCESS) << last_error();
  for (tutti_comm* comm : comms) EXPECT_EQ(tutti_comm_destroy(comm), TUTTI_SUCCESS);
  tutti_unique_id id;
  ASSERT_EQ(tutti_get_unique_id(&id), TUTTI_SUCCESS);
  hook.ends = true;
  comms = {};
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_comm_create(&comms[0], 3, &id, 0, &hook.config), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_comm_create(&comms[1], 3, &id, 1, &hook.config), TUTTI_SUCCESS) << last_error();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(tutti_group_end(nullptr), TUTTI_ABORTED);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_EQ(comms[0], nullptr);
  EXPECT_EQ(hook.elsewhere, 0);
}

/// Cores that this process keeps busy while `count` threads wait in receives of one communicator.
double busy_while_receiving(int count) {
  std::array<tutti_comm*, 2> comms{};
  tutti_config config = TUTTI_CONFIG_INIT;
  config.spin = -1;
  EXPECT_EQ(tutti_comm_create_all(comms.data(), 2, &config), TUTTI_SUCCESS) << last_error();
  std::vector<std::thread> threads;
  std::vector<int> received(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      tutti_call call = TUTTI_CALL_INIT;
      call.tag = static_cast<std::uint64_t>(i);
      int* const into = &received[static_cast<std::size_t>(i)];
      EXPECT_EQ(tutti_recv(into, 1, TUTTI_INT32, 1, comms[0], {}, &call), TUTTI_SUCCESS) << last_error();
    });
  }
  const auto seconds = [](clockid_t clock) {
    timespec now;
    clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  };
  usleep(300'000);
  const double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
  const double wall = seconds(CLOCK_MONOTONIC);
  usleep(1'000'000);
  const double busy = (seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) / (seconds(CLOCK_MONOTONIC) - wall);
  for (int i = count; i-- > 0;) {
    tutti_call call = TUTTI_CALL_INIT;
    call.tag = static_cast<std::uint64_t>(i);
    EXPECT_EQ(tutti_send(&i, 1, TUTTI_INT32, 0, comms[1], {}, &call), TUTTI_SUCCESS) << last_error();
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < count; ++i) EXPECT_EQ(received[static_cast<std::size_t>(i)], i);
  for (tutti_comm* comm : comms) EXPECT_EQ(tutti_comm_destroy(comm), TUTTI_SUCCESS);
  return busy;
}

TEST(Waits, OfSeveralThreadsForTransfersOfOneCommunicatorKeepNoCoreBusy) {
  EXPECT_LT(busy_while_receiving(4), 0.5);  // they nap nearly always; one that yields without end is 1 of its own
}

TEST(Waits, ForAWorkInAnOpenGroupEnd) {
  const Ranks ranks(1);
  tutti_work* work = nullptr;
  tutti_call call = TUTTI_CALL_INIT;
  call.work = &work;
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_barrier(ranks[0], {}, &call), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_work_wait(work, 0), TUTTI_IN_PROGRESS);  // after its grace: nobody issues it meanwhile
  EXPECT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_work_wait(work, 0), TUTTI_SUCCESS);
  tutti_work_release(work);
}

TEST(Waits, ForTheWorkOfAGroupLastAsLongAsItsOperations) {
  const Ranks ranks(2);
  tutti_queue* queue = nullptr;
  ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS);
  tutti_work* whole = nullptr;
  tutti_call end = TUTTI_CALL_INIT;
  end.work = &whole;
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_barrier(ranks[0], {TUTTI_STREAM_QUEUE, queue}, nullptr), TUTTI_SUCCESS);
  ASSERT_EQ(tutti_group_end(&end), TUTTI_SUCCESS) << last_error();
  std::thread late([&] {
    usleep(5'300'000);  // more than the grace that comes on top of a deadline
    EXPECT_EQ(tutti_barrier(ranks[1], {}, nullptr), TUTTI_SUCCESS);
  });
  EXPECT_EQ(tutti_work_wait(whole, 0), TUTTI_SUCCESS) << last_error();
  late.join();
  tutti_work_release(whole);
  EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
}

TEST(Queues, RememberTransfersAndErrorsThatAnEarlierWaitDidNotSee) {
  const Ranks ranks(2);
  tutti_queue* queue = nullptr;
  ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS);
  int x = 0;
  tutti_call call = TUTTI_CALL_INIT;
  call.timeout_ns = 400 * ms;
  ASSERT_EQ(tutti_recv(&x, 1, TUTTI_INT32, 1, ranks[0], {TUTTI_STREAM_QUEUE, queue}, &call), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_queue_wait(queue, 50 * ms), TUTTI_IN_PROGRESS);
  EXPECT_EQ(tutti_queue_wait(queue, 0), TUTTI_TIMEOUT);
  EXPECT_EQ(tutti_queue_wait(queue, 0), TUTTI_SUCCESS) << "an error is told once";
  EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
}

TEST(Queues, WaitOnceForOperationsAndTransfersTogether) {
  const Ranks ranks(2);
  tutti_queue* queue = nullptr;
  ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS);
  std::thread late([&] {
    usleep(300'000);
    EXPECT_EQ(tutti_barrier(ranks[1], {}, nullptr), TUTTI_SUCCESS);
  });
  int x = 0;
  int seven = 7;
  tutti_call call = TUTTI_CALL_INIT;
  call.timeout_ns = 20'000 * ms;
  EXPECT_EQ(tutti_barrier(ranks[0], {TUTTI_STREAM_QUEUE, queue}, nullptr), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_recv(&x, 1, TUTTI_INT32, 1, ranks[0], {TUTTI_STREAM_QUEUE, queue}, &call), TUTTI_SUCCESS);
  // 300 ms of the limit go to the barrier; were the transfer given the whole of it again, its message would be seen.
  std::thread later([&] {
    usleep(1'200'000);
    EXPECT_EQ(tutti_send(&seven, 1, TUTTI_INT32, 0, ranks[1], {}, nullptr), TUTTI_SUCCESS);
  });
  EXPECT_EQ(tutti_queue_wait(queue, 1'000 * ms), TUTTI_IN_PROGRESS);
  EXPECT_EQ(tutti_queue_wait(queue, 0), TUTTI_SUCCESS) << last_error();
  late.join();
  later.join();
  EXPECT_EQ(x, 7);
  EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
}

TEST(Queues, DestructionCompletesTransfers) {
  const Ranks ranks(2);
  tutti_queue* queue = nullptr;
  ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS);
  tutti_work* work = nullptr;
  tutti_call call = TUTTI_CALL_INIT;
  call.work = &work;
  int x = 0;
  int seven = 7;
  ASSERT_EQ(tutti_recv(&x, 1, TUTTI_INT32, 1, ranks[0], {TUTTI_STREAM_QUEUE, queue}, &call), TUTTI_SUCCESS);
  std::thread late([&] {
    usleep(200'000);
    EXPECT_EQ(tutti_send(&seven, 1, TUTTI_INT32, 0, ranks[1], {}, nullptr), TUTTI_SUCCESS);
  });
  EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_work_test(work), TUTTI_SUCCESS);
  EXPECT_EQ(x, 7);
  tutti_work_release(work);
  late.join();
}

}  // namespace
}  // namespace tutti::test
