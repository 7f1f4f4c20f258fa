// What users meet when something is wrong: one sentence that names it, on every rank, and no rank hangs.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>

#include "tests/support/ranks.h"
#include "tests/support/sanitizers.h"

namespace tutti::test {
namespace {

using testing::HasSubstr;

TEST(Errors, BadArgumentsAreRefusedBeforeAnythingIsSent) {
  const Ranks ranks(1);
  tutti_comm* comm = ranks[0];
  float x = 1;
  EXPECT_EQ(tutti_all_reduce(nullptr, &x, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, {}, nullptr), TUTTI_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("NULL send buffer"));
  EXPECT_EQ(tutti_all_reduce(&x, &x, 1, static_cast<tutti_type>(99), TUTTI_SUM, comm, {}, nullptr), TUTTI_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("element type 99"));
  EXPECT_EQ(tutti_all_reduce(&x, &x, 1, TUTTI_FLOAT32, static_cast<tutti_op>(17), comm, {}, nullptr),
            TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_broadcast(&x, &x, 1, TUTTI_FLOAT32, 3, comm, {}, nullptr), TUTTI_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("root 3 is outside"));
  EXPECT_EQ(tutti_send(&x, 1, TUTTI_FLOAT32, 1, comm, {}, nullptr), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_all_reduce(&x, &x, 1, TUTTI_FLOAT32, TUTTI_SUM, nullptr, {}, nullptr), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_all_reduce(&x, &x, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, {TUTTI_STREAM_CUDA, nullptr}, nullptr),
            TUTTI_UNSUPPORTED);
}

// Who destroys its communicator early has left, and nobody is sent to look for a crash.
TEST(Errors, ARankThatLeavesIsNotSaidToHaveDied) {
  for (const char* transport : {"shm", "tcp"}) {
    for (const bool waits : {false, true}) {
      std::array<tutti_comm*, 3> comms{};
      tutti_config config = TUTTI_CONFIG_INIT;
      config.transports = transport;
      ASSERT_EQ(tutti_comm_create_all(comms.data(), 3, &config), TUTTI_SUCCESS) << last_error();
      std::vector<std::thread> threads;
      for (int rank = 0; rank < 3; ++rank) {
        threads.emplace_back([rank, waits, comm = comms[static_cast<std::size_t>(rank)]] {
          std::vector<float> data(100'000, 1);
          const auto add_up = [&] {
            return tutti_all_reduce(data.data(), data.data(), data.size(), TUTTI_FLOAT32, TUTTI_SUM, comm, {}, nullptr);
          };
          EXPECT_EQ(add_up(), TUTTI_SUCCESS) << last_error();
          if (rank == 1) {
            if (waits) std::this_thread::sleep_for(std::chrono::milliseconds(50));
            return tutti_comm_destroy(comm), void();
          }
          EXPECT_EQ(add_up(), TUTTI_REMOTE_ERROR);
          const tutti_error error = error_of(comm);
          EXPECT_THAT(error.message,
                      testing::AllOf(HasSubstr("rank 1"), HasSubstr("left"), testing::Not(HasSubstr("died"))));
        });
      }
      for (std::thread& thread : threads) thread.join();
      tutti_comm_destroy(comms[0]);
      tutti_comm_destroy(comms[2]);
    }
  }
}

TEST(Errors, CreationRefusesBadRanksTransportsAndAlgorithms) {
  tutti_unique_id id;
  ASSERT_EQ(tutti_get_unique_id(&id), TUTTI_SUCCESS);
  tutti_comm* comm = nullptr;
  EXPECT_EQ(tutti_comm_create(&comm, 2, &id, 2, nullptr), TUTTI_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("rank 2 is outside the size 2"));
  EXPECT_EQ(comm, nullptr);
  std::array<tutti_comm*, 2> comms{};
  tutti_config config = TUTTI_CONFIG_INIT;
  config.transports = "carrier-pigeon";
  EXPECT_EQ(tutti_comm_create_all(comms.data(), 2, &config), TUTTI_INVALID_ARGUMENT);
  config.transports = nullptr;
  config.algorithm = "telepathy";
  EXPECT_EQ(tutti_comm_create_all(comms.data(), 2, &config), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(comms[0], nullptr);
  tutti_unique_id altered = id;
  altered.bytes[20] ^= 1;
  EXPECT_EQ(tutti_comm_create(&comm, 1, &altered, 0, nullptr), TUTTI_INVALID_ARGUMENT);
}

TEST(Errors, AMismatchedCallFailsOnAllRanksNamingBothSides) {
  const Ranks ranks(3);
  ranks.run([](int rank, tutti_comm* comm) {
    std::vector<float> data(1000, 1);
    const std::size_t count = rank == 1 ? 999 : 1000;
    EXPECT_EQ(tutti_all_reduce(data.data(), data.data(), count, TUTTI_FLOAT32, TUTTI_SUM, comm, {}, nullptr),
              TUTTI_MISMATCH);
    const std::string message = error_of(comm).message;
    EXPECT_THAT(message, HasSubstr("999"));
    EXPECT_THAT(message, HasSubstr("1000"));
    EXPECT_THAT(message, HasSubstr("rank 1"));
    EXPECT_EQ(tutti_barrier(comm, {}, nullptr), TUTTI_MISMATCH) << "a failed communicator returns its first error";
  });
}

TEST(Errors, AnEmptyCallAgainstAFullOneIsAMismatchNotAHang) {
  const Ranks ranks(2);
  ranks.run([](int rank, tutti_comm* comm) {
    std::vector<float> data(10, 1);
    const std::size_t count = rank == 0 ? 0 : 10;
    tutti_status status = tutti_all_reduce(data.data(), data.data(), count, TUTTI_FLOAT32, TUTTI_SUM, comm, {}, nullptr);
    if (rank == 0) status = tutti_barrier(comm, {}, nullptr);  // rank 0 had nothing to wait for until now
    EXPECT_EQ(status, TUTTI_MISMATCH) << error_of(comm).message;
  });
}

TEST(Errors, ALateRankIsNamedWhenTheDeadlinePasses) {
  const Ranks ranks(3, "", 700'000'000);
  std::atomic<int> timed_out{0};
  ranks.run([&](int rank, tutti_comm* comm) {
    float x = 1;
    EXPECT_EQ(tutti_all_reduce(&x, &x, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, {}, nullptr), TUTTI_SUCCESS);
    if (rank == 2) return;
    EXPECT_EQ(tutti_all_reduce(&x, &x, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, {}, nullptr), TUTTI_TIMEOUT);
    const tutti_error error = error_of(comm);
    EXPECT_THAT(error.message, HasSubstr("rank 2"));
    EXPECT_THAT(error.message, HasSubstr("did not arrive within 700 ms"));
    EXPECT_THAT(error.message, HasSubstr("#0 all_reduce"));
    ASSERT_EQ(error.guilty_count, 1u);
    EXPECT_EQ(error.guilty[0].rank, 2);
    EXPECT_EQ(error.guilty[0].pid, getpid());
    ++timed_out;
  });
  EXPECT_EQ(timed_out, 2);
}

/// Rank 1 of two, which stops itself in operation #1, or before it, and is never waited for; its pid.
pid_t rank_that_stops(const std::string& address, std::size_t count, bool in_it) {
  const pid_t child = fork();
  if (child != 0) return child;
  alarm(60);
  static std::atomic<bool> stops{false};
  tutti_config config = TUTTI_CONFIG_INIT;
  config.poll = [](void*) { return stops ? raise(SIGSTOP) : 0; };
  tutti_comm* comm = nullptr;
  std::vector<float> data(count, 1);
  const auto add_up = [&] {
    return tutti_all_reduce(data.data(), data.data(), count, TUTTI_FLOAT32, TUTTI_SUM, comm, {}, nullptr);
  };
  if (tutti_comm_create_address(&comm, address.c_str(), 2, 1, &config) != TUTTI_SUCCESS) _exit(1);
  if (add_up() != TUTTI_SUCCESS) _exit(2);
  stops = in_it;
  if (!in_it) raise(SIGSTOP);
  static_cast<void>(add_up());
  _exit(3);
}

/// Time that this thread could have run, and others did.
std::chrono::nanoseconds waited_for_a_core() {
  std::uint64_t ran = 0, waited = 0;
  std::ifstream("/proc/thread-self/schedstat") >> ran >> waited;
  return std::chrono::nanoseconds(waited);
}

/// A poll hook that ends no wait and knows how long it was not asked, a loaded machine's doing aside.
struct Gaps {
  using Clock = std::chrono::steady_clock;
  int asked = 0;
  Clock::time_point last = Clock::now();
  std::chrono::nanoseconds waited = waited_for_a_core();
  Clock::duration longest{};
  static int poll(void* self) {
    Gaps& gaps = *static_cast<Gaps*>(self);
    const auto now = Clock::now();
    const auto waited = waited_for_a_core();
    gaps.longest = std::max<Clock::duration>(gaps.longest, now - gaps.last - (waited - gaps.waited));
    gaps.last = now;
    gaps.waited = waited;
    ++gaps.asked;
    return 0;
  }
};

TEST(Errors, AStoppedRankIsSaidNotToAnswerAndNotToHaveDoneNothing) {
  if (under_tsan) GTEST_SKIP() << "the thread sanitizer lets no forked child start threads";
  for (const bool in_it : {true, false}) {
    const std::string path = "/tmp/tutti-test-" + std::to_string(getpid());
    std::vector<float> data(1 << 22, 1);  // more than the other can send before this rank takes any
    const pid_t child = rank_that_stops("file://" + path, data.size(), in_it);
    tutti_comm* comm = nullptr;
    Gaps gaps;
    tutti_config config = TUTTI_CONFIG_INIT;
    config.poll = &Gaps::poll;
    config.poll_ctx = &gaps;
    ASSERT_EQ(tutti_comm_create_address(&comm, ("file://" + path).c_str(), 2, 0, &config), TUTTI_SUCCESS) << last_error();
    const auto add_up = [&](const tutti_call* call) {
      return tutti_all_reduce(data.data(), data.data(), data.size(), TUTTI_FLOAT32, TUTTI_SUM, comm, {}, call);
    };
    EXPECT_EQ(add_up(nullptr), TUTTI_SUCCESS) << last_error();
    int state = 0;
    EXPECT_EQ(waitpid(child, &state, WUNTRACED), child);
    EXPECT_TRUE(WIFSTOPPED(state)) << state;
    tutti_call call = TUTTI_CALL_INIT;
    call.timeout_ns = 300'000'000;
    gaps = {};
    EXPECT_EQ(add_up(&call), TUTTI_TIMEOUT);
    EXPECT_GT(gaps.asked, 100) << "in .3 s, and while the silent rank is asked what it does";
    // A millisecond is promised; except where a peer may still write into this rank's memory, a second at most.
    EXPECT_LT(gaps.longest, std::chrono::milliseconds(500));
    const tutti_error error = error_of(comm);
    EXPECT_THAT(error.message, HasSubstr("rank 1 ("));
    EXPECT_THAT(error.message, HasSubstr("does not answer after 300 ms"));
    EXPECT_THAT(error.message, HasSubstr(in_it ? "it had arrived" : "it had not arrived when last heard of"));
    EXPECT_THAT(error.message, HasSubstr("its last completed operation was #0 all_reduce"));
    EXPECT_THAT(error.message, testing::Not(HasSubstr("did not arrive")));
    EXPECT_THAT(error.remedy, HasSubstr("stopped or cut off"));
    ASSERT_EQ(error.guilty_count, 1u);
    EXPECT_EQ(error.guilty[0].pid, child);
    EXPECT_EQ(error.guilty[0].last_operation, 0u);
    kill(child, SIGKILL);
    waitpid(child, &state, 0);
    EXPECT_EQ(tutti_comm_destroy(comm), TUTTI_SUCCESS);
  }
}

TEST(Errors, AbortEndsEverybodysWait) {
  const Ranks ranks(3);
  const auto begin = std::chrono::steady_clock::now();
  ranks.run([](int rank, tutti_comm* comm) {
    if (rank == 0) {
      usleep(200'000);
      EXPECT_EQ(tutti_comm_abort(comm), TUTTI_SUCCESS);
      return;
    }
    EXPECT_EQ(tutti_barrier(comm, {}, nullptr), TUTTI_ABORTED);
    EXPECT_THAT(error_of(comm).message, HasSubstr("rank 0"));
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(Errors, AForkedChildGetsAnErrorAndTheParentIsUnharmed) {
  const Ranks ranks(2);
  const pid_t child = fork();
  if (child == 0) {
    const tutti_status status = tutti_barrier(ranks[0], {}, nullptr);
    _exit(status == TUTTI_INVALID_USAGE ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  ranks.run([](int, tutti_comm* comm) { EXPECT_EQ(tutti_barrier(comm, {}, nullptr), TUTTI_SUCCESS) << last_error(); });
}

/// While it lives this process gets so many descriptors more.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t more) {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    const int lowest = dup(0);
    close(lowest);
    const rlimit few{static_cast<rlim_t>(lowest) + more, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  ~FewDescriptors() { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
};

using Verb = tutti_status (*)(int rank, tutti_comm* comm);

void expect_own_shortage(const char* what, Verb verb) {
  for (const rlim_t more : {0, 1, 2, 3, 4, 5, 6, 7, 8}) {
    SCOPED_TRACE(what);
    const Ranks ranks(2, "shm");
    std::array<tutti_status, 2> outcomes{};
    {
      const FewDescriptors few(more);
      ranks.run([&](int rank, tutti_comm* comm) { outcomes[static_cast<std::size_t>(rank)] = verb(rank, comm); });
    }
    for (int rank = 0; rank < 2; ++rank) {
      const tutti_status outcome = outcomes[static_cast<std::size_t>(rank)];
      if (outcome == TUTTI_SUCCESS) continue;
      const std::string message = error_of(ranks[rank]).message;
      EXPECT_EQ(outcome, TUTTI_SYSTEM_ERROR) << more << " descriptors: " << message;
      EXPECT_THAT(message, testing::Not(testing::AnyOf(HasSubstr("died"), HasSubstr("was lost"))))
          << more << " descriptors";
    }
  }
}

TEST(Errors, WithoutDescriptorsForLinksTheSystemIsToBlameAndNobodyHasDied) {
  expect_own_shortage("all_reduce", [](int, tutti_comm* comm) {
    float x = 1;
    return tutti_all_reduce(&x, &x, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, {}, nullptr);
  });
  expect_own_shortage("send and recv", [](int rank, tutti_comm* comm) {
    float x = 1;
    return rank == 0 ? tutti_send(&x, 1, TUTTI_FLOAT32, 1, comm, {}, nullptr)
                     : tutti_recv(&x, 1, TUTTI_FLOAT32, 0, comm, {}, nullptr);
  });
}

TEST(Errors, OfFinalizeAreCalledThatAndNoBarrier) {
  const Ranks ranks(2, "", 300'000'000);
  EXPECT_EQ(tutti_comm_finalize(ranks[0]), TUTTI_TIMEOUT);
  const tutti_error error = error_of(ranks[0]);
  EXPECT_THAT(error.message, HasSubstr("finalize #0 of \"world\": rank 1"));
  EXPECT_STREQ(error.operation_kind, "finalize");
}

TEST(Errors, OfAMismatchKnowWhatBothHadDoneBefore) {
  const Ranks ranks(2);
  ranks.run([](int rank, tutti_comm* comm) {
    float x = 1;
    EXPECT_EQ(tutti_all_reduce(&x, &x, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, {}, nullptr), TUTTI_SUCCESS);
    EXPECT_EQ(tutti_all_reduce(&x, &x, 1, TUTTI_FLOAT32, rank == 0 ? TUTTI_SUM : TUTTI_MAX, comm, {}, nullptr),
              TUTTI_MISMATCH);
    const tutti_error error = error_of(comm);
    ASSERT_EQ(error.guilty_count, 2u);
    for (const int one : {0, 1}) {
      EXPECT_EQ(error.guilty[one].last_operation, 0u);
      EXPECT_STREQ(error.guilty[one].last_operation_kind, "all_reduce");
    }
  });
}

TEST(Errors, OfASplitNameItAndWhoIsLate) {
  const Ranks ranks(2);
  ranks.run([](int, tutti_comm* comm) { EXPECT_EQ(tutti_barrier(comm, {}, nullptr), TUTTI_SUCCESS) << last_error(); });
  tutti_config config = TUTTI_CONFIG_INIT;
  config.connect_timeout_ns = 300'000'000;
  tutti_comm* part = nullptr;
  EXPECT_EQ(tutti_comm_split(ranks[0], 0, 0, &part, &config), TUTTI_TIMEOUT);
  const tutti_error error = error_of(ranks[0]);
  EXPECT_THAT(error.message, HasSubstr("rank 1 ("));
  EXPECT_THAT(error.message, HasSubstr("did not take part in split #1 within 300 ms"));
  EXPECT_EQ(error.operation, 1u);
  EXPECT_STREQ(error.operation_kind, "split");
  EXPECT_THAT(error.remedy, HasSubstr("TUTTI_CONNECT_TIMEOUT"));
  ASSERT_EQ(error.guilty_count, 1u);
  EXPECT_EQ(error.guilty[0].last_operation, 0u);
}

TEST(Errors, LongNamesLeaveRoomForTheSentence) {
  const std::string name(798, 'n');
  std::array<tutti_comm*, 2> comms{};
  tutti_config config = TUTTI_CONFIG_INIT;
  config.name = name.c_str();
  config.operation_timeout_ns = 200'000'000;
  ASSERT_EQ(tutti_comm_create_all(comms.data(), 2, &config), TUTTI_SUCCESS) << last_error();
  tutti_call call = TUTTI_CALL_INIT;
  call.name = name.c_str();
  EXPECT_EQ(tutti_barrier(comms[0], {}, &call), TUTTI_TIMEOUT);
  const std::string message = error_of(comms[0]).message;
  EXPECT_THAT(message, HasSubstr(std::string(60, 'n') + "…"));
  EXPECT_THAT(message, HasSubstr("did not arrive within 200 ms"));
  for (tutti_comm* comm : comms) EXPECT_EQ(tutti_comm_destroy(comm), TUTTI_SUCCESS);
}

TEST(Life, SplitMakesWorkingGroupsAndNegativeColorsNone) {
  const Ranks ranks(5);
  ranks.run([](int rank, tutti_comm* comm) {
    tutti_comm* part = nullptr;
    const int color = rank == 4 ? -1 : rank % 2;
    ASSERT_EQ(tutti_comm_split(comm, color, -rank, &part, nullptr), TUTTI_SUCCESS) << last_error();
    if (rank == 4) {
      EXPECT_EQ(part, nullptr);
      return;
    }
    int part_rank = -1;
    int part_size = 0;
    tutti_comm_rank(part, &part_rank);
    tutti_comm_size(part, &part_size);
    EXPECT_EQ(part_size, 2);
    EXPECT_EQ(part_rank, rank < 2 ? 1 : 0) << "ordered by key";
    int sum = rank;
    EXPECT_EQ(tutti_all_reduce(&sum, &sum, 1, TUTTI_INT32, TUTTI_SUM, part, {}, nullptr), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(sum, color == 0 ? 2 : 4);
    EXPECT_EQ(tutti_comm_destroy(part), TUTTI_SUCCESS);
  });
}

TEST(Life, ANonBlockingCreationIsThereAtOnceAndCanBeAborted) {
  tutti_unique_id id;
  ASSERT_EQ(tutti_get_unique_id(&id), TUTTI_SUCCESS);
  tutti_config config = TUTTI_CONFIG_INIT;
  config.non_blocking = 1;
  tutti_comm* comm = nullptr;
  ASSERT_EQ(tutti_comm_create(&comm, 2, &id, 0, &config), TUTTI_IN_PROGRESS);
  ASSERT_NE(comm, nullptr);
  tutti_comm_state_kind state;
  EXPECT_EQ(tutti_comm_state(comm, &state), TUTTI_SUCCESS);
  EXPECT_EQ(state, TUTTI_COMM_CREATING);
  EXPECT_EQ(tutti_comm_abort(comm), TUTTI_SUCCESS);
  for (int i = 0; i < 500 && state == TUTTI_COMM_CREATING; ++i) {
    usleep(10'000);
    tutti_comm_state(comm, &state);
  }
  EXPECT_EQ(state, TUTTI_COMM_FAILED);
  EXPECT_EQ(tutti_comm_destroy(comm), TUTTI_SUCCESS);
}

TEST(Works, CompleteOnAQueueInOrderAndCallBackOnce) {
  const Ranks ranks(2);
  ranks.run([](int, tutti_comm* comm) {
    tutti_queue* queue = nullptr;
    ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS);
    std::atomic<int> called{0};
    std::vector<int> data(50, 1);
    tutti_work* last = nullptr;
    for (int i = 0; i < 50; ++i) {
      tutti_call call = TUTTI_CALL_INIT;
      call.work = &last;
      int* at = &data[static_cast<std::size_t>(i)];
      ASSERT_EQ(tutti_all_reduce(at, at, 1, TUTTI_INT32, TUTTI_SUM, comm, {TUTTI_STREAM_QUEUE, queue}, &call),
                TUTTI_SUCCESS);
      ASSERT_EQ(tutti_work_on_complete(
                    last, [](void* ctx, tutti_status) { ++*static_cast<std::atomic<int>*>(ctx); }, &called),
                TUTTI_SUCCESS);
      if (i < 49) tutti_work_release(last);
    }
    EXPECT_EQ(tutti_work_wait(last, 0), TUTTI_SUCCESS);
    EXPECT_EQ(tutti_queue_wait(queue, 0), TUTTI_SUCCESS);
    EXPECT_EQ(data, std::vector<int>(50, 2));
    for (int i = 0; i < 500 && called != 50; ++i) usleep(10'000);
    EXPECT_EQ(called, 50);
    tutti_work_release(last);
    EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
  });
}

TEST(Groups, OneThreadMayHoldSeveralRanks) {
  const Ranks ranks(3);
  std::array<int, 3> data = {1, 2, 4};
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  for (int r = 0; r < 3; ++r) {
    int* at = &data[static_cast<std::size_t>(r)];
    ASSERT_EQ(tutti_all_reduce(at, at, 1, TUTTI_INT32, TUTTI_SUM, ranks[r], {}, nullptr), TUTTI_SUCCESS);
  }
  ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(data, (std::array<int, 3>{7, 7, 7}));
  EXPECT_EQ(tutti_group_end(nullptr), TUTTI_INVALID_USAGE);
}

}  // namespace
}  // namespace tutti::test
