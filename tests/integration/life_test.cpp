// Creation and what it refuses; forked children; systems without a thread left.
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/tables/element_types.h"
#include "tests/support/holdings.h"
#include "tests/support/ranks.h"
#include "tests/support/sanitizers.h"

namespace tutti::test {
namespace {

using testing::HasSubstr;

/// While it lives no thread can start: none has room for its stack.
class NoThreads {
 public:
  NoThreads() {
    pthread_attr_t huge;
    pthread_getattr_default_np(&before_);
    pthread_getattr_default_np(&huge);
    EXPECT_EQ(pthread_attr_setstacksize(&huge, std::size_t{1} << 48), 0);
    EXPECT_EQ(pthread_setattr_default_np(&huge), 0);
    pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    EXPECT_EQ(pthread_setattr_default_np(&before_), 0);
    pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_;
};

/// Two ranks as threads; `create` makes rank r's communicator with a config whose connect timeout nobody waits out. Both
/// fail the same way, with rank 1 as the guilty one.
void expect_rank_1_to_fail_both(const std::function<tutti_status(tutti_comm**, int rank, tutti_config&)>& create,
                                const char* sentence) {
  std::array<std::string, 2> told;
  std::array<tutti_status, 2> status{};
  const auto begin = std::chrono::steady_clock::now();
  std::array<std::thread, 2> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads[static_cast<std::size_t>(rank)] = std::thread([&, rank] {
      tutti_config config = TUTTI_CONFIG_INIT;
      config.connect_timeout_ns = 120'000'000'000;
      if (rank == 1) config.memory = 77;
      tutti_comm* comm = nullptr;
      status[static_cast<std::size_t>(rank)] = create(&comm, rank, config);
      told[static_cast<std::size_t>(rank)] = error_of(nullptr).message;
      EXPECT_EQ(comm, nullptr);
      if (rank == 1) return;
      const tutti_error error = error_of(nullptr);
      EXPECT_EQ(error.guilty_count, 1u) << error.message;
      EXPECT_EQ(error.guilty[0].rank, 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(status[0], status[1]);
  EXPECT_THAT(told[0], testing::AllOf(HasSubstr("rank 1 ("), HasSubstr(told[1]), HasSubstr(sentence)));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST(Creation, WhatIsWrongOnOneRankAloneIsToldToTheOthers) {
  tutti_unique_id id;
  ASSERT_EQ(tutti_get_unique_id(&id), TUTTI_SUCCESS);
  expect_rank_1_to_fail_both(
      [&](tutti_comm** comm, int rank, tutti_config& config) { return tutti_comm_create(comm, 2, &id, rank, &config); },
      "tutti_config.memory is 77");
  const std::string address =
      "file://" + (std::filesystem::temp_directory_path() / "tutti-wrong-").string() + std::to_string(getpid());
  for (const std::uint32_t non_blocking : {0u, 1u}) {
    expect_rank_1_to_fail_both(
        [&](tutti_comm** comm, int rank, tutti_config& config) {
          if (rank == 1) config.non_blocking = non_blocking;
          return tutti_comm_create_address(comm, address.c_str(), 2, rank, &config);
        },
        "tutti_config.memory is 77");
  }
}

TEST(Creation, ARankOutsideTheSizeIsToldToTheOthers) {
  tutti_unique_id id;
  ASSERT_EQ(tutti_get_unique_id(&id), TUTTI_SUCCESS) << last_error();
  std::array<std::thread, 3> ranks;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    ranks[i] = std::thread([&id, rank = i == 2 ? 3 : static_cast<int>(i)] {
      tutti_config config = TUTTI_CONFIG_INIT;
      config.connect_timeout_ns = 120'000'000'000;
      tutti_comm* comm = nullptr;
      EXPECT_EQ(tutti_comm_create(&comm, 3, &id, rank, &config), TUTTI_INVALID_ARGUMENT);
      EXPECT_THAT(last_error(), HasSubstr("rank 3 is outside the size 3"));
      EXPECT_EQ(comm, nullptr);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST(Creation, AThreadThatCannotBeHadIsToldToTheOthers) {
  tutti_unique_id id;
  ASSERT_EQ(tutti_get_unique_id(&id), TUTTI_SUCCESS);
  std::atomic<bool> joining{false};
  expect_rank_1_to_fail_both(
      [&](tutti_comm** comm, int rank, tutti_config& config) {
        config.memory = TUTTI_MEMORY_AUTO;
        if (rank == 0) {
          joining = true;
          return tutti_comm_create(comm, 2, &id, rank, &config);
        }
        while (!joining) usleep(1000);
        usleep(300'000);  // rank 0 has its own threads
        const NoThreads none;
        config.non_blocking = 1;
        return tutti_comm_create(comm, 2, &id, rank, &config);
      },
      "Starting the library's thread");
}

TEST(Creation, ThatASpoiledGroupHeldIsToldToTheOthers) {
  tutti_unique_id id;
  ASSERT_EQ(tutti_get_unique_id(&id), TUTTI_SUCCESS);
  expect_rank_1_to_fail_both(
      [&](tutti_comm** comm, int rank, tutti_config& config) {
        config.memory = TUTTI_MEMORY_AUTO;
        if (rank == 0) return tutti_comm_create(comm, 2, &id, rank, &config);
        EXPECT_EQ(tutti_group_start(), TUTTI_SUCCESS);
        EXPECT_EQ(tutti_comm_create(comm, 2, &id, rank, &config), TUTTI_SUCCESS);
        EXPECT_EQ(tutti_comm_create(comm, 2, nullptr, rank, &config), TUTTI_INVALID_ARGUMENT);
        const tutti_status status = tutti_group_end(nullptr);
        EXPECT_THAT(last_error(), HasSubstr("needs an id"));
        return status;
      },
      "needs an id");
}

TEST(Creation, WhatIsWrongWithOneRanksSplitIsToldToTheOthers) {
  const Ranks ranks(2);
  expect_rank_1_to_fail_both(
      [&](tutti_comm** comm, int rank, tutti_config& config) { return tutti_comm_split(ranks[rank], 0, 0, comm, &config); },
      "tutti_config.memory is 77");
  ranks.run([](int, tutti_comm* comm) {
    tutti_comm* part = nullptr;
    EXPECT_EQ(tutti_comm_split(comm, 0, 0, &part, nullptr), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(tutti_comm_destroy(part), TUTTI_SUCCESS);
  });
}

TEST(Creation, RefusesWhatItCannotDo) {
  std::array<tutti_comm*, 1> comm{};
  tutti_config config = TUTTI_CONFIG_INIT;
  config.memory = TUTTI_MEMORY_MANAGED;
  EXPECT_EQ(tutti_comm_create_all(comm.data(), 1, &config), TUTTI_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("Managed memory"));
  config.memory = 77;
  EXPECT_EQ(tutti_comm_create_all(comm.data(), 1, &config), TUTTI_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("77"));
  config.memory = TUTTI_MEMORY_HOST;
  config.traffic_class = 999;
  EXPECT_EQ(tutti_comm_create_all(comm.data(), 1, &config), TUTTI_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("999"));
  config.traffic_class = 63;
  for (const int non_blocking : {-1, 3}) {
    config.non_blocking = non_blocking;
    EXPECT_EQ(tutti_comm_create_all(comm.data(), 1, &config), TUTTI_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr("Set it to 0, 1 or 2"));
  }
  config.non_blocking = 0;
  config.device = -3;
  EXPECT_EQ(tutti_comm_create_all(comm.data(), 1, &config), TUTTI_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("config.device is \"-3\""));
  config.device = 0;
  config.min_blocks = 5;
  config.max_blocks = 2;
  EXPECT_EQ(tutti_comm_create_all(comm.data(), 1, &config), TUTTI_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("at least 5 and at most 2 thread blocks"));
  config.max_blocks = 5;
  EXPECT_EQ(tutti_comm_create_all(comm.data(), 1, &config), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_comm_destroy(comm[0]), TUTTI_SUCCESS);
}

/// This process's TCP connections whose packets have that DSCP.
int connections_of_class(int dscp) {
  constexpr int most_descriptors = 1024;
  int count = 0;
  for (int fd = 0; fd < most_descriptors; ++fd) {
    int type = 0, tos = 0;
    sockaddr_storage peer{};
    socklen_t peer_bytes = sizeof peer, type_bytes = sizeof type, tos_bytes = sizeof tos;
    if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_bytes) != 0 || type != SOCK_STREAM) continue;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_bytes) != 0) continue;
    const bool v6 = peer.ss_family == AF_INET6;
    if (!v6 && peer.ss_family != AF_INET) continue;
    const auto [level, name] = v6 ? std::pair(IPPROTO_IPV6, IPV6_TCLASS) : std::pair(int{IPPROTO_IP}, IP_TOS);
    if (::getsockopt(fd, level, name, &tos, &tos_bytes) == 0 && tos >> 2 == dscp) ++count;
  }
  return count;
}

TEST(Creation, TellsItsTrafficClassToTheNetwork) {
  constexpr int expedited = 46;
  for (const std::uint32_t traffic_class : {0u, 46u}) {
    tutti_config config = TUTTI_CONFIG_INIT;
    config.transports = "tcp";
    config.traffic_class = traffic_class;
    const Ranks ranks(2, config);
    ranks.run([](int, tutti_comm* comm) { EXPECT_EQ(tutti_barrier(comm, {}, nullptr), TUTTI_SUCCESS) << last_error(); });
    EXPECT_EQ(connections_of_class(expedited) > 0, traffic_class != 0);
  }
}

TEST(Creation, ThatIsRefusedLeavesNothingBehind) {
  std::array<tutti_comm*, 2> comms{};
  tutti_config config = TUTTI_CONFIG_INIT;
  config.traffic_class = 64;
  const auto refuse = [&] { return tutti_comm_create_all(comms.data(), 2, &config); };
  EXPECT_EQ(refuse(), TUTTI_INVALID_ARGUMENT);  // what comes with the first is there now
  const Holdings before = Holdings::now();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(refuse(), TUTTI_INVALID_ARGUMENT);
  config.traffic_class = 0;
  config.transports = "carrier-pigeon";  // when they meet
  for (int i = 0; i < 3; ++i) EXPECT_EQ(refuse(), TUTTI_INVALID_ARGUMENT);
  config.transports = nullptr;
  config.poll = [](void*) { return 1; };  // and while they do
  for (int i = 0; i < 3; ++i) EXPECT_EQ(refuse(), TUTTI_ABORTED);
  EXPECT_TRUE(holds_no_more_than(before));
}

// So a program may fork, or change its user, as if it had never met anybody.
TEST(Creation, ThatIsOverLeavesNoThreadAndNoSocketBehind) {
  std::thread([] {}).join();  // with which a sanitizer's own thread comes
  const Holdings before = Holdings::now();
  {
    const Ranks ranks(3);
  }
  EXPECT_TRUE(holds_no_more_than(before));
}

TEST(Creation, OfOneRankReadsItsAddressToo) {
  tutti_comm* comm = nullptr;
  for (const char* bad : {"carrier://pigeon", "tcp://", "tcp://host", "tcp://host:0", "tcp://host:70000", "tcp://host:1x",
                          "file://relative", "id:nonsense", "tutti1:zz", ""}) {
    EXPECT_EQ(tutti_comm_create_address(&comm, bad, 1, 0, nullptr), TUTTI_INVALID_ARGUMENT) << bad;
    EXPECT_EQ(comm, nullptr);
  }
  for (const char* good : {"tcp://127.0.0.1:4711", "tcp://[::1]:4711", "file:///nowhere/at/all"}) {
    EXPECT_EQ(tutti_comm_create_address(&comm, good, 1, 0, nullptr), TUTTI_SUCCESS) << good << ": " << last_error();
    EXPECT_EQ(tutti_comm_destroy(comm), TUTTI_SUCCESS);
  }
}

TEST(Creation, AnAbortIsNotLostWhereverItMeetsTheEndOfCreation) {
  tutti_config config = TUTTI_CONFIG_INIT;
  config.non_blocking = 1;
  for (int i = 0; i < 100; ++i) {
    tutti_comm* comm = nullptr;
    ASSERT_EQ(tutti_comm_create_address(&comm, "tcp://127.0.0.1:4711", 1, 0, &config), TUTTI_IN_PROGRESS);
    int rank = -1;
    EXPECT_EQ(tutti_comm_rank(comm, &rank), TUTTI_SUCCESS);
    EXPECT_EQ(rank, 0);
    usleep(static_cast<useconds_t>(i) * 10);
    EXPECT_EQ(tutti_comm_abort(comm), TUTTI_SUCCESS);
    // Asked without pause: it is never seen ready after the abort.
    tutti_comm_state_kind state = TUTTI_COMM_CREATING;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (state == TUTTI_COMM_CREATING && std::chrono::steady_clock::now() < end) {
      EXPECT_EQ(tutti_comm_state(comm, &state), TUTTI_SUCCESS);
    }
    EXPECT_EQ(state, TUTTI_COMM_FAILED) << "aborted " << i * 10 << " us after the beginning";
    EXPECT_EQ(tutti_barrier(comm, {}, nullptr), TUTTI_ABORTED);
    EXPECT_EQ(tutti_comm_destroy(comm), TUTTI_SUCCESS);
  }
}

TEST(Creation, ThatIsAbortedIsSoOnThePeerTooWhereverThatMeetsIt) {
  tutti_config config = TUTTI_CONFIG_INIT;
  config.non_blocking = 1;
  for (int i = 0; i < 40; ++i) {
    tutti_unique_id id;
    ASSERT_EQ(tutti_get_unique_id(&id), TUTTI_SUCCESS);
    std::array<tutti_comm*, 2> comms{};
    for (int r = 0; r < 2; ++r) {
      ASSERT_EQ(tutti_comm_create(&comms[static_cast<std::size_t>(r)], 2, &id, r, &config), TUTTI_IN_PROGRESS);
    }
    usleep(static_cast<useconds_t>(i) * 150);
    EXPECT_EQ(tutti_comm_abort(comms[0]), TUTTI_SUCCESS);
    tutti_comm_state_kind state = TUTTI_COMM_CREATING;
    for (int wait = 0; wait < 10'000 && state == TUTTI_COMM_CREATING; ++wait) {
      usleep(1000);
      EXPECT_EQ(tutti_comm_state(comms[1], &state), TUTTI_SUCCESS);
    }
    EXPECT_EQ(tutti_barrier(comms[1], {}, nullptr), TUTTI_ABORTED)
        << "aborted " << i * 150 << " us after the beginning: " << last_error();
    for (tutti_comm* comm : comms) EXPECT_EQ(tutti_comm_destroy(comm), TUTTI_SUCCESS);
  }
}

TEST(Creation, WithoutThreadsIsAnErrorAndLeavesNoHandle) {
  const Ranks two(2);
  std::array<tutti_comm*, 2> comms{};
  tutti_comm* comm = nullptr;
  tutti_queue* queue = nullptr;
  std::array<int, 2> data = {1, 1};
  tutti_config config = TUTTI_CONFIG_INIT;
  config.non_blocking = 1;
  {
    const NoThreads none;
    EXPECT_EQ(tutti_comm_create_all(comms.data(), 2, nullptr), TUTTI_SYSTEM_ERROR);
    EXPECT_THAT(last_error(), HasSubstr("thread"));
    EXPECT_EQ(comms[0], nullptr);
    EXPECT_EQ(tutti_comm_create_address(&comm, "tcp://127.0.0.1:4711", 1, 0, &config), TUTTI_SYSTEM_ERROR);
    EXPECT_EQ(comm, nullptr);
    EXPECT_EQ(tutti_queue_create(&queue), TUTTI_SYSTEM_ERROR);
    EXPECT_EQ(queue, nullptr);
    ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
    for (std::size_t r = 0; r < 2; ++r) {
      EXPECT_EQ(tutti_all_reduce(&data[r], &data[r], 1, TUTTI_INT32, TUTTI_SUM, two[static_cast<int>(r)], {}, nullptr),
                TUTTI_SUCCESS);
    }
    EXPECT_EQ(tutti_group_end(nullptr), TUTTI_SYSTEM_ERROR);
    EXPECT_THAT(last_error(), HasSubstr("thread"));
  }
  ASSERT_EQ(tutti_comm_create_all(comms.data(), 2, nullptr), TUTTI_SUCCESS) << last_error();
  for (tutti_comm* one : comms) EXPECT_EQ(tutti_comm_destroy(one), TUTTI_SUCCESS);
}

TEST(Creation, TurnsWhatACallersFunctionThrowsIntoAStatus) {
  tutti_bootstrap bootstrap{};
  bootstrap.size = sizeof bootstrap;
  tutti_comm* comm = nullptr;
  bootstrap.allgather = [](void*, const void*, std::size_t, void*, std::uint64_t) -> int { throw 42; };
  EXPECT_EQ(tutti_comm_create_bootstrap(&comm, 2, 0, &bootstrap, nullptr), TUTTI_INTERNAL_ERROR);
  EXPECT_THAT(last_error(), HasSubstr("unknown type"));
  bootstrap.allgather = [](void*, const void*, std::size_t, void*, std::uint64_t) -> int { throw std::bad_alloc(); };
  EXPECT_EQ(tutti_comm_create_bootstrap(&comm, 2, 0, &bootstrap, nullptr), TUTTI_SYSTEM_ERROR);
  EXPECT_THAT(last_error(), HasSubstr("out of memory"));
  EXPECT_EQ(comm, nullptr);
}

/// Whether a callback on a queue's work of a communicator of one comes.
bool callback_comes() {
  std::atomic<bool> called{false};
  tutti_comm* comm = nullptr;
  tutti_queue* queue = nullptr;
  tutti_work* work = nullptr;
  tutti_call call = TUTTI_CALL_INIT;
  call.work = &work;
  bool done =
      tutti_comm_create_all(&comm, 1, nullptr) == TUTTI_SUCCESS && tutti_queue_create(&queue) == TUTTI_SUCCESS &&
      tutti_barrier(comm, {TUTTI_STREAM_QUEUE, queue}, &call) == TUTTI_SUCCESS &&
      tutti_work_on_complete(
          work, [](void* ctx, tutti_status) { *static_cast<std::atomic<bool>*>(ctx) = true; }, &called) == TUTTI_SUCCESS &&
      tutti_work_wait(work, 0) == TUTTI_SUCCESS;
  for (int i = 0; i < 500 && !called; ++i) usleep(10'000);
  tutti_work_release(work);
  done = tutti_queue_destroy(queue) == TUTTI_SUCCESS && tutti_comm_destroy(comm) == TUTTI_SUCCESS && done;
  return done && called;
}

TEST(Forks, AChildHasCallbacksOfItsOwnAndKeepsOffItsParentsObjects) {
  if (under_tsan) GTEST_SKIP() << "the thread sanitizer lets no forked child start threads";
  ASSERT_TRUE(callback_comes());
  tutti_queue* queue = nullptr;
  ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // a child that hangs is a failure, not a hanging test
    tutti_comm* comm = nullptr;
    const bool refused = tutti_comm_create_all(&comm, 1, nullptr) == TUTTI_SUCCESS &&
                         tutti_barrier(comm, {TUTTI_STREAM_QUEUE, queue}, nullptr) == TUTTI_INVALID_USAGE &&
                         tutti_queue_wait(queue, 0) == TUTTI_INVALID_USAGE && tutti_queue_destroy(queue) == TUTTI_SUCCESS;
    _exit(!refused ? 1 : callback_comes() ? 0 : 2);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
}

/// The exit code of a forked child that runs `body` and gives what that gives; 128 and more: it was ended by a signal.
template <typename Body>
int in_child(const Body& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // a child that hangs is a failure, not a hanging test
    _exit(body());
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(Forks, AChildCannotEndItsParentsGroup) {
  const Ranks ranks(2);
  for (const bool with_work : {false, true}) {
    int sent = 42;
    tutti_work* work = nullptr;
    tutti_call call = TUTTI_CALL_INIT;
    if (with_work) call.work = &work;
    ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
    ASSERT_EQ(tutti_send(&sent, 1, TUTTI_INT32, 1, ranks[0], {}, &call), TUTTI_SUCCESS) << last_error();
    const int child = in_child([&] {
      sent = 666;
      if (tutti_group_end(nullptr) != TUTTI_INVALID_USAGE) return 1;
      if (last_error().find("which forked this one") == std::string::npos) return 2;
      // The next group is the child's own.
      if (tutti_group_start() != TUTTI_SUCCESS || tutti_group_end(nullptr) != TUTTI_SUCCESS) return 3;
      return tutti_group_end(nullptr) == TUTTI_INVALID_USAGE ? 0 : 4;
    });
    EXPECT_EQ(child, 0);
    int received = 0;
    std::thread peer([&] {
      tutti_call brief = TUTTI_CALL_INIT;
      brief.timeout_ns = 10'000'000'000;
      EXPECT_EQ(tutti_recv(&received, 1, TUTTI_INT32, 0, ranks[1], {}, &brief), TUTTI_SUCCESS) << last_error();
    });
    usleep(100'000);  // time enough for what the child sent, if it did
    EXPECT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
    peer.join();
    EXPECT_EQ(received, 42);
    tutti_work_release(work);
  }
}

TEST(Forks, WhatAChildCallsWithinItsParentsGroupNeverRuns) {
  if (under_tsan) GTEST_SKIP() << "the thread sanitizer lets no forked child start threads";
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  const int child = in_child([] {
    tutti_comm* comm = nullptr;
    tutti_work* work = nullptr;
    tutti_call call = TUTTI_CALL_INIT;
    call.work = &work;
    if (tutti_comm_create_all(&comm, 1, nullptr) != TUTTI_SUCCESS) return 1;
    if (tutti_barrier(comm, {}, &call) != TUTTI_SUCCESS) return 2;
    if (tutti_group_end(nullptr) != TUTTI_INVALID_USAGE) return 3;
    if (tutti_work_wait(work, 0) != TUTTI_INVALID_USAGE) return 4;
    tutti_work_release(work);
    return tutti_barrier(comm, {}, nullptr) == TUTTI_SUCCESS && tutti_comm_destroy(comm) == TUTTI_SUCCESS ? 0 : 5;
  });
  EXPECT_EQ(child, 0);
  EXPECT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
}

TEST(Forks, AChildIsToldAtOnceThatNobodyCompletesItsParentsWorks) {
  const Ranks ranks(2);
  tutti_queue* queue = nullptr;
  ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS);
  const tutti_stream stream = {TUTTI_STREAM_QUEUE, queue};
  std::array<tutti_work*, 2> works{};  // one that waits for its peer, and one behind it
  std::array<std::thread, 2> waiting;
  for (std::size_t i = 0; i < works.size(); ++i) {
    tutti_call call = TUTTI_CALL_INIT;
    call.work = &works[i];
    ASSERT_EQ(tutti_barrier(ranks[0], stream, &call), TUTTI_SUCCESS) << last_error();
    waiting[i] = std::thread([work = works[i]] { EXPECT_EQ(tutti_work_wait(work, 0), TUTTI_SUCCESS) << last_error(); });
  }
  usleep(100'000);  // the threads wait
  const int child = in_child([&] {
    for (tutti_work* work : works) {
      tutti_work_details info{};
      info.size = sizeof info;
      if (tutti_work_test(work) != TUTTI_INVALID_USAGE) return 1;
      if (tutti_work_wait(work, 0) != TUTTI_INVALID_USAGE) return 2;
      if (tutti_work_info(work, &info) != TUTTI_INVALID_USAGE) return 3;
      if (tutti_work_on_complete(work, [](void*, tutti_status) {}, nullptr) != TUTTI_INVALID_USAGE) return 4;
      if (last_error().find("which forked this one") == std::string::npos) return 5;
      tutti_work_release(work);
    }
    return 0;
  });
  EXPECT_EQ(child, 0);
  for (std::size_t i = 0; i < works.size(); ++i) EXPECT_EQ(tutti_barrier(ranks[1], {}, nullptr), TUTTI_SUCCESS);
  for (std::thread& thread : waiting) thread.join();
  for (tutti_work* work : works) tutti_work_release(work);
  EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
}

TEST(Forks, AChildMayDestroyAQueueThatItsParentsGroupHoldsOperationsOn) {
  const Ranks ranks(1);
  tutti_queue* queue = nullptr;
  ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS);
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_barrier(ranks[0], {TUTTI_STREAM_QUEUE, queue}, nullptr), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(in_child([&] { return static_cast<int>(tutti_queue_destroy(queue)); }), 0);
  EXPECT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
}

/// What is destroyed after all thread_locals of the first thread, and after the library's handlers of the process's end.
struct LastOfAll {
  int (*body)() = nullptr;
  ~LastOfAll() {
    if (body != nullptr) _exit(body());
  }
} last_of_all;

TEST(StaticDestructors, MayCallAfterTheThreadsOwn) {
  if (under_tsan) GTEST_SKIP() << "the thread sanitizer lets no forked child start threads";
  static tutti_comm* comm = nullptr;
  const auto exchange = [] {
    std::array<int, 4> sent = {1, 2, 3, 4};
    std::array<int, 4> received = {};
    tutti_call tagged = TUTTI_CALL_INIT;
    bool good = tutti_send(sent.data(), 1, TUTTI_INT32, 9, comm, {}, nullptr) == TUTTI_INVALID_ARGUMENT &&
                last_error().find("peer 9 is outside") != std::string::npos && tutti_group_start() == TUTTI_SUCCESS;
    for (std::size_t i = 0; i < 4; ++i) {
      tagged.tag = i;
      good = good && tutti_recv(&received[i], 1, TUTTI_INT32, 0, comm, {}, &tagged) == TUTTI_SUCCESS &&
             tutti_send(&sent[i], 1, TUTTI_INT32, 0, comm, {}, &tagged) == TUTTI_SUCCESS;
    }
    return tutti_group_end(nullptr) == TUTTI_SUCCESS && sent == received && good;
  };
  const int child = in_child([&] {
    if (tutti_comm_create_all(&comm, 1, nullptr) != TUTTI_SUCCESS || !exchange()) return 1;
    static const auto again = exchange;
    last_of_all.body = [] {
      if (error_of(nullptr).status != TUTTI_SUCCESS) return 2;  // that failure went with the thread
      // What was freed is given to others meanwhile, so that its use shows.
      std::vector<std::string> others;
      for (std::size_t n = 16; n < 2000; n += 8) others.emplace_back(n, 'x');
      for (int i = 0; i < 3; ++i) {
        if (!again()) return 3;
      }
      for (const std::string& other : others) {
        if (other != std::string(other.size(), 'x')) return 4;
      }
      return tutti_comm_destroy(comm) == TUTTI_SUCCESS ? 0 : 5;
    };
    std::exit(6);
  });
  EXPECT_EQ(child, 0);
}

TEST(Exit, LeavesNoOperationOfAnotherThreadASuccessThatItIsNot) {
  if (under_tsan) GTEST_SKIP() << "the thread sanitizer lets no forked child start threads";
  static std::atomic<int> returned{-1};
  const int child = in_child([] {
    std::array<tutti_comm*, 2> comms{};
    if (tutti_comm_create_all(comms.data(), 2, nullptr) != TUTTI_SUCCESS) return 101;
    std::thread([comm = comms[0]] {
      tutti_call call = TUTTI_CALL_INIT;
      call.timeout_ns = 500'000'000;
      int x = 1;
      returned = tutti_all_reduce(&x, &x, 1, TUTTI_INT32, TUTTI_SUM, comm, {}, &call);  // the other rank never calls
    }).detach();
    usleep(100'000);
    last_of_all.body = [] {
      for (int i = 0; i < 1000 && returned == -1; ++i) usleep(10'000);
      return returned.load();
    };
    std::exit(102);
  });
  EXPECT_EQ(child, TUTTI_TIMEOUT);
}

/// What `body` gives on a thread that has been cancelled before, if it comes to that; else 99.
template <typename Body>
tutti_status when_cancelled(const Body& body) {
  struct Run {
    const Body& body;
    tutti_status status = static_cast<tutti_status>(99);
  } run{body};
  const auto cancelled = [](void* given) -> void* {
    int before = 0;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    pthread_cancel(pthread_self());
    pthread_setcancelstate(before, nullptr);
    static_cast<Run*>(given)->status = static_cast<Run*>(given)->body();
    return nullptr;
  };
  pthread_t thread;
  EXPECT_EQ(pthread_create(&thread, nullptr, cancelled, &run), 0);
  EXPECT_EQ(pthread_join(thread, nullptr), 0);
  return run.status;
}

TEST(CancelledThreads, EndTheirAbortsAndDestructionsFirst) {
  std::array<tutti_comm*, 2> comms{};
  ASSERT_EQ(tutti_comm_create_all(comms.data(), 2, nullptr), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(when_cancelled([&] { return tutti_comm_abort(comms[0]); }), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_barrier(comms[1], {}, nullptr), TUTTI_ABORTED);
  for (tutti_comm* comm : comms) EXPECT_EQ(when_cancelled([&] { return tutti_comm_destroy(comm); }), TUTTI_SUCCESS);

  ASSERT_EQ(tutti_comm_create_all(comms.data(), 2, nullptr), TUTTI_SUCCESS) << last_error();
  tutti_queue* queue = nullptr;
  ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS);
  // Destruction of both waits for the other rank.
  EXPECT_EQ(tutti_barrier(comms[0], {TUTTI_STREAM_QUEUE, queue}, nullptr), TUTTI_SUCCESS);
  std::thread late([&] {
    usleep(200'000);
    EXPECT_EQ(tutti_barrier(comms[1], {}, nullptr), TUTTI_SUCCESS) << last_error();
    usleep(200'000);
    EXPECT_EQ(tutti_barrier(comms[1], {}, nullptr), TUTTI_SUCCESS) << last_error();
  });
  EXPECT_EQ(when_cancelled([&] { return tutti_queue_destroy(queue); }), TUTTI_SUCCESS);
  ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_barrier(comms[0], {TUTTI_STREAM_QUEUE, queue}, nullptr), TUTTI_SUCCESS);
  EXPECT_EQ(when_cancelled([&] { return tutti_comm_destroy(comms[0]); }), TUTTI_SUCCESS);
  late.join();
  EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_comm_destroy(comms[1]), TUTTI_SUCCESS);

  tutti_unique_id id;
  ASSERT_EQ(tutti_get_unique_id(&id), TUTTI_SUCCESS);
  tutti_config config = TUTTI_CONFIG_INIT;
  config.non_blocking = 1;
  ASSERT_EQ(tutti_comm_create(&comms[0], 2, &id, 0, &config), TUTTI_IN_PROGRESS) << "nobody else will come";
  EXPECT_EQ(when_cancelled([&] { return tutti_comm_destroy(comms[0]); }), TUTTI_SUCCESS);
}

TEST(Types, ThatDoNotExistAreRefused) {
  const Ranks ranks(1);
  std::uint64_t x = 0;
  EXPECT_EQ(tutti_recv(&x, 1, static_cast<tutti_type>(99), 0, ranks[0], {}, nullptr), TUTTI_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("99 does not exist"));
}

TEST(Choice, FieldsBeyondItsSizeAreNotWritten) {
  const Ranks ranks(1);
  tutti_comm_choice choice{};
  choice.size = offsetof(tutti_comm_choice, transport);
  EXPECT_EQ(tutti_comm_last_choice(ranks[0], &choice), TUTTI_SUCCESS) << last_error();
  EXPECT_STREQ(choice.algorithm, "none");
  EXPECT_EQ(choice.transport, nullptr);
  EXPECT_EQ(choice.size, offsetof(tutti_comm_choice, transport));
  EXPECT_EQ(choice.links, nullptr);
  choice.size = sizeof choice;
  EXPECT_EQ(tutti_comm_last_choice(ranks[0], &choice), TUTTI_SUCCESS) << last_error();
  EXPECT_STREQ(choice.links, "self");
  choice.size = 1;
  EXPECT_EQ(tutti_comm_last_choice(ranks[0], &choice), TUTTI_INVALID_ARGUMENT);
}

TEST(Memory, IsZeroedPageAlignedAndFreedOnce) {
  void* memory = nullptr;
  ASSERT_EQ(tutti_memory_alloc(&memory, 5000), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE)), 0u);
  EXPECT_EQ(std::string(static_cast<const char*>(memory), 5000), std::string(5000, '\0'));
  EXPECT_EQ(tutti_memory_free(memory), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_memory_free(memory), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_memory_free(nullptr), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_memory_alloc(&memory, SIZE_MAX), TUTTI_SYSTEM_ERROR);
}

}  // namespace
}  // namespace tutti::test
