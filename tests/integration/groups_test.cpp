// Groups: together or not at all, with one deadline, and every work ends.
#include <gmock/gmock.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>

#include "tests/support/ranks.h"

namespace tutti::test {
namespace {

using testing::HasSubstr;
constexpr std::uint64_t ms = 1'000'000;

tutti_status add(int& x, tutti_comm* comm, const tutti_call* call = nullptr, tutti_stream stream = {}) {
  return tutti_all_reduce(&x, &x, 1, TUTTI_INT32, TUTTI_SUM, comm, stream, call);
}

TEST(Groups, TransfersProgressWhileACollectiveOfTheirGroupRuns) {
  const Ranks ranks(2, "", 5'000 * ms);
  ranks.run([](int rank, tutti_comm* comm) {
    std::vector<int> data(300'000, rank);  // too long to be sent before its receive is there
    int x = 1;
    if (rank == 0) {
      ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
      EXPECT_EQ(tutti_send(data.data(), data.size(), TUTTI_INT32, 1, comm, {}, nullptr), TUTTI_SUCCESS);
    } else {
      EXPECT_EQ(tutti_recv(data.data(), data.size(), TUTTI_INT32, 0, comm, {}, nullptr), TUTTI_SUCCESS) << last_error();
    }
    EXPECT_EQ(add(x, comm), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(rank == 0 ? tutti_group_end(nullptr) : TUTTI_SUCCESS, TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(x, 2);
    EXPECT_EQ(data, std::vector<int>(300'000, 0));
  });
}

TEST(Groups, AFailedCallFailsTheEndAndNothingRuns) {
  const Ranks ranks(2);
  int x = 1;
  tutti_work* work = nullptr;
  tutti_work* whole = nullptr;
  tutti_call call = TUTTI_CALL_INIT;
  call.work = &work;
  tutti_call end = TUTTI_CALL_INIT;
  end.work = &whole;
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  EXPECT_EQ(add(x, ranks[0], &call), TUTTI_SUCCESS);
  ASSERT_NE(work, nullptr);
  EXPECT_EQ(tutti_send(&x, 1, TUTTI_INT32, 7, ranks[0], {}, nullptr), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_all_to_all_v(nullptr, nullptr, TUTTI_INT8, ranks[0], {}, nullptr), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_group_end(&end), TUTTI_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("peer 7"));
  EXPECT_EQ(whole, nullptr);
  EXPECT_EQ(tutti_work_wait(work, 1000 * ms), TUTTI_INVALID_ARGUMENT) << "its work ends with the group";
  tutti_work_release(work);
  EXPECT_EQ(x, 1);
  ranks.run([](int, tutti_comm* comm) {
    int y = 1;
    EXPECT_EQ(add(y, comm), TUTTI_SUCCESS) << "nothing was sent: " << last_error();
    EXPECT_EQ(y, 2);
  });
}

TEST(Groups, AVerbOnACommunicatorThatIsBeingCreatedSpoilsThem) {
  const Ranks ranks(1);
  tutti_unique_id id;
  ASSERT_EQ(tutti_get_unique_id(&id), TUTTI_SUCCESS);
  tutti_config config = TUTTI_CONFIG_INIT;
  config.non_blocking = 1;
  tutti_comm* creating = nullptr;
  tutti_work* work = nullptr;
  tutti_call call = TUTTI_CALL_INIT;
  call.work = &work;
  int x = 7;
  int y = 0;
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  ASSERT_EQ(tutti_comm_create(&creating, 2, &id, 0, &config), TUTTI_IN_PROGRESS) << "nobody else will come";
  EXPECT_EQ(tutti_recv(&y, 1, TUTTI_INT32, 0, ranks[0], {}, &call), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_send(&x, 1, TUTTI_INT32, 0, ranks[0], {}, nullptr), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << "a creation that has begun is no failure: " << last_error();
  EXPECT_EQ(y, 7);
  tutti_work_release(work);
  y = 0;
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_recv(&y, 1, TUTTI_INT32, 0, ranks[0], {}, &call), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_send(&x, 1, TUTTI_INT32, 0, ranks[0], {}, nullptr), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_send(&x, 1, TUTTI_INT32, 1, creating, {}, nullptr), TUTTI_IN_PROGRESS);
  EXPECT_EQ(tutti_group_end(nullptr), TUTTI_INVALID_USAGE);
  EXPECT_THAT(last_error(), HasSubstr("still being created"));
  EXPECT_EQ(tutti_work_wait(work, 1000 * ms), TUTTI_INVALID_USAGE) << "its work ends with the group";
  EXPECT_EQ(y, 0) << "nothing ran";
  tutti_work_release(work);
  EXPECT_EQ(tutti_comm_destroy(creating), TUTTI_SUCCESS);
}

TEST(Groups, AnEndThatIsRefusedCompletesTheWorks) {
  const Ranks ranks(1);
  int x = 1;
  tutti_work* work = nullptr;
  tutti_call call = TUTTI_CALL_INIT;
  call.work = &work;
  tutti_call bad = TUTTI_CALL_INIT;
  bad.size = 1;
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  EXPECT_EQ(add(x, ranks[0], &call), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_group_end(&bad), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_work_wait(work, 1000 * ms), TUTTI_INVALID_ARGUMENT);
  tutti_work_release(work);
  EXPECT_EQ(tutti_group_end(nullptr), TUTTI_INVALID_USAGE) << "the group is closed";
}

TEST(Groups, ThatAreOpenWhereTheirThreadEndsCompleteTheWorks) {
  const Ranks ranks(1);
  int x = 1;
  tutti_work* work = nullptr;
  tutti_call call = TUTTI_CALL_INIT;
  call.work = &work;
  std::thread([&] {
    struct Late {  // made before anything of the library's, and destroyed after it
      ~Late() { EXPECT_EQ(tutti_group_end(nullptr), TUTTI_INVALID_USAGE) << "the group has ended with its thread"; }
    };
    static thread_local const Late late;
    static_cast<void>(late);
    ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
    EXPECT_EQ(add(x, ranks[0], &call), TUTTI_SUCCESS) << last_error();
  }).join();
  EXPECT_EQ(tutti_work_wait(work, 1000 * ms), TUTTI_INVALID_USAGE);
  EXPECT_THAT(last_error(), HasSubstr("the thread ended with a group open"));
  tutti_work_release(work);
  EXPECT_EQ(x, 1);
}

TEST(Groups, TheEndsTimeoutIsThatOfOperationsWithoutTheirOwn) {
  const Ranks ranks(2);
  int x = 1;
  tutti_call end = TUTTI_CALL_INIT;
  end.timeout_ns = 300 * ms;
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  EXPECT_EQ(add(x, ranks[0]), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_group_end(&end), TUTTI_TIMEOUT);
  EXPECT_THAT(last_error(), HasSubstr("within 300 ms"));
}

TEST(Groups, OneWorkStandsForTheWholeGroup) {
  const Ranks ranks(2);
  tutti_queue* queue = nullptr;
  ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS);
  const tutti_stream stream = {TUTTI_STREAM_QUEUE, queue};
  std::array<int, 2> first = {1, 2};
  std::array<int, 2> second = {3, 4};
  tutti_work* whole = nullptr;
  tutti_call end = TUTTI_CALL_INIT;
  end.work = &whole;
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  EXPECT_EQ(add(first[0], ranks[0], nullptr, stream), TUTTI_SUCCESS);
  EXPECT_EQ(add(second[0], ranks[0], nullptr, stream), TUTTI_SUCCESS);
  ASSERT_EQ(tutti_group_end(&end), TUTTI_SUCCESS) << last_error();
  ASSERT_NE(whole, nullptr);
  EXPECT_EQ(tutti_work_test(whole), TUTTI_IN_PROGRESS);
  EXPECT_EQ(add(first[1], ranks[1]), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(add(second[1], ranks[1]), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_work_wait(whole, 0), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(first[0] + second[0], 10);
  tutti_work_details info{};
  info.size = sizeof info;
  EXPECT_EQ(tutti_work_info(whole, &info), TUTTI_SUCCESS);
  EXPECT_NE(info.start_ns, 0u);
  EXPECT_LE(info.start_ns, info.end_ns);
  tutti_work_release(whole);
  EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
}

TEST(Groups, WhatCannotBeHeldBackIsRefusedInside) {
  const Ranks ranks(1);
  int x = 1;
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  EXPECT_EQ(add(x, ranks[0]), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_comm_finalize(ranks[0]), TUTTI_INVALID_USAGE);
  EXPECT_THAT(last_error(), HasSubstr("tutti_comm_finalize was called between"));
  EXPECT_EQ(tutti_comm_destroy(ranks[0]), TUTTI_INVALID_USAGE) << "the group holds an operation of it";
  EXPECT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
}

// As NCCL's users hold several ranks in one thread.
TEST(Groups, OneThreadCreatesAndSplitsAllRanksInside) {
  constexpr int kRanks = 3;
  tutti_unique_id id;
  ASSERT_EQ(tutti_get_unique_id(&id), TUTTI_SUCCESS);
  std::array<tutti_comm*, kRanks> world{}, halves{};
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  for (int r = 0; r < kRanks; ++r) {
    EXPECT_EQ(tutti_comm_create(&world[static_cast<std::size_t>(r)], kRanks, &id, r, nullptr), TUTTI_SUCCESS)
        << last_error();
  }
  EXPECT_EQ(world[0], nullptr) << "the group's end gives them out";
  ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  for (int r = 0; r < kRanks; ++r) {
    const auto at = static_cast<std::size_t>(r);
    EXPECT_EQ(tutti_comm_split(world[at], r == 1 ? -1 : 0, -r, &halves[at], nullptr), TUTTI_SUCCESS) << last_error();
  }
  ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(halves[1], nullptr);
  int rank = -1;
  EXPECT_EQ(tutti_comm_rank(halves[2], &rank), TUTTI_SUCCESS);
  EXPECT_EQ(rank, 0) << "ordered by key";
  std::array<int, kRanks> x = {1, 10, 100};
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  for (std::size_t r = 0; r < kRanks; ++r) EXPECT_EQ(add(x[r], world[r]), TUTTI_SUCCESS);
  ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(x, (std::array<int, kRanks>{111, 111, 111}));
  for (tutti_comm* comm : halves) EXPECT_EQ(tutti_comm_destroy(comm), TUTTI_SUCCESS);
  for (tutti_comm* comm : world) EXPECT_EQ(tutti_comm_destroy(comm), TUTTI_SUCCESS);
}

TEST(Groups, ACreationThatFailsLeavesNothingAndEndsTheOthers) {
  tutti_unique_id id;
  ASSERT_EQ(tutti_get_unique_id(&id), TUTTI_SUCCESS);
  std::array<tutti_comm*, 2> world{};
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_comm_create(&world[0], 2, &id, 0, nullptr), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_comm_create(&world[1], 2, &id, 0, nullptr), TUTTI_SUCCESS) << "seen only when they meet";
  EXPECT_EQ(tutti_group_end(nullptr), TUTTI_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("same rank"));
  EXPECT_EQ(world, (std::array<tutti_comm*, 2>{}));
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_comm_create(&world[0], 2, &id, 0, nullptr), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_comm_create(&world[1], 2, &id, 7, nullptr), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_group_end(nullptr), TUTTI_INVALID_ARGUMENT) << "and rank 0 does not wait for the rank that will not come";
  EXPECT_EQ(world[0], nullptr);
}

TEST(Groups, ThatAreSpoiledLeaveTheParentsOfTheirSplitsAsTheyWere) {
  const Ranks ranks(2);
  tutti_config bad = TUTTI_CONFIG_INIT;
  bad.size = 1;
  tutti_comm* parts[2] = {};
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_comm_split(ranks[0], 0, 0, &parts[0], nullptr), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_comm_split(ranks[1], 0, 0, &parts[1], &bad), TUTTI_INVALID_ARGUMENT);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(tutti_group_end(nullptr), TUTTI_INVALID_ARGUMENT);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_EQ(parts[0], nullptr);
  ranks.run([](int, tutti_comm* comm) {
    tutti_comm* part = nullptr;
    EXPECT_EQ(tutti_comm_split(comm, 0, 0, &part, nullptr), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(tutti_comm_destroy(part), TUTTI_SUCCESS);
  });
}

TEST(Groups, ASplitThatIsGivenUpFailsItsParentEverywhereAtOnce) {
  const Ranks ranks(2);
  tutti_unique_id id;
  ASSERT_EQ(tutti_get_unique_id(&id), TUTTI_SUCCESS);
  tutti_comm* made[3] = {};
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_comm_split(ranks[0], 0, 0, &made[0], nullptr), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_comm_create(&made[1], 2, &id, 0, nullptr), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_comm_create(&made[2], 2, &id, 0, nullptr), TUTTI_SUCCESS) << "the same rank: seen when they meet";
  EXPECT_EQ(tutti_group_end(nullptr), TUTTI_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("same rank"));
  tutti_comm* part = nullptr;
  EXPECT_EQ(tutti_comm_split(ranks[1], 0, 0, &part, nullptr), TUTTI_ABORTED);
  EXPECT_THAT(last_error(), HasSubstr("rank 0 gave up splitting \"world\""));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20)) << "not at the connect timeout";
}

TEST(Groups, KeepWhatTheyHoldFromBeingDestroyed) {
  const Ranks ranks(1);
  tutti_queue* queue = nullptr;
  ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS);
  tutti_comm* part = nullptr;
  int x = 1;
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_comm_split(ranks[0], 0, 0, &part, nullptr), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_comm_destroy(ranks[0]), TUTTI_INVALID_USAGE) << "the group holds a split of it";
  EXPECT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_comm_destroy(part), TUTTI_SUCCESS);
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  EXPECT_EQ(add(x, ranks[0], nullptr, {TUTTI_STREAM_QUEUE, queue}), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_INVALID_USAGE) << "the group holds an operation on it";
  EXPECT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
}

TEST(Groups, KeepNoFailedCreationFromBeingDestroyed) {
  tutti_config config = TUTTI_CONFIG_INIT;
  config.non_blocking = 1;
  config.connect_timeout_ns = 100 * ms;
  tutti_unique_id id;
  ASSERT_EQ(tutti_get_unique_id(&id), TUTTI_SUCCESS);
  tutti_comm* failed = nullptr;
  ASSERT_EQ(tutti_comm_create(&failed, 2, &id, 0, &config), TUTTI_IN_PROGRESS) << "nobody else will come";
  tutti_comm_state_kind state = TUTTI_COMM_CREATING;
  for (int i = 0; i < 1000 && state == TUTTI_COMM_CREATING; ++i) {
    usleep(10'000);
    EXPECT_EQ(tutti_comm_state(failed, &state), TUTTI_SUCCESS);
  }
  ASSERT_EQ(state, TUTTI_COMM_FAILED);
  tutti_comm* other = nullptr;
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_comm_create_address(&other, "tcp://127.0.0.1:4711", 1, 0, nullptr), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_comm_destroy(failed), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_comm_destroy(other), TUTTI_SUCCESS);
}

TEST(Groups, CreateAllOrNone) {
  std::array<tutti_unique_id, 3> ids;
  for (tutti_unique_id& id : ids) ASSERT_EQ(tutti_get_unique_id(&id), TUTTI_SUCCESS);
  std::array<tutti_comm*, 3> comms{};
  tutti_config brief = TUTTI_CONFIG_INIT;
  brief.connect_timeout_ns = 500 * ms;
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_comm_create(&comms[0], 1, &ids[0], 0, nullptr), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_comm_create(&comms[1], 2, &ids[1], 0, &brief), TUTTI_SUCCESS) << "nobody else will come";
  EXPECT_EQ(tutti_comm_create(&comms[2], 1, &ids[2], 0, nullptr), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_group_end(nullptr), TUTTI_TIMEOUT);
  EXPECT_EQ(comms, (std::array<tutti_comm*, 3>{}));
}

TEST(Groups, ReturnTheErrorOfTheOperationThatWasEnteredFirst) {
  for (const bool turned : {false, true}) {
    std::array<std::array<tutti_comm*, 2>, 2> comms{};
    for (std::size_t i = 0; i < 2; ++i) {
      tutti_config config = TUTTI_CONFIG_INIT;
      config.name = i == 0 ? "early" : "late";
      ASSERT_EQ(tutti_comm_create_all(comms[i].data(), 2, &config), TUTTI_SUCCESS) << last_error();
    }
    tutti_call call = TUTTI_CALL_INIT;
    call.timeout_ns = 200 * ms;
    int x = 1;
    ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
    EXPECT_EQ(add(x, comms[turned ? 1 : 0][0], &call), TUTTI_SUCCESS);
    EXPECT_EQ(add(x, comms[turned ? 0 : 1][0], &call), TUTTI_SUCCESS);
    EXPECT_EQ(tutti_group_end(nullptr), TUTTI_TIMEOUT);
    EXPECT_THAT(last_error(), HasSubstr(turned ? "\"late\"" : "\"early\""));
    for (const auto& group : comms) {
      for (tutti_comm* comm : group) EXPECT_EQ(tutti_comm_destroy(comm), TUTTI_SUCCESS);
    }
  }
}

TEST(Calls, FieldsBeyondTheirSizeAreNotRead) {
  const Ranks ranks(1);
  tutti_work* mark = nullptr;
  tutti_call call = TUTTI_CALL_INIT;
  call.size = offsetof(tutti_call, work);
  call.work = &mark;
  int x = 1;
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  EXPECT_EQ(add(x, ranks[0], &call), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_send(&x, 1, TUTTI_INT32, 3, ranks[0], {}, &call), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(mark, nullptr);
}

TEST(Calls, ThatAreRefusedLeaveNoWork) {
  const Ranks ranks(1);
  int x = 1;
  tutti_work* const garbage = reinterpret_cast<tutti_work*>(&x);
  tutti_work* work = garbage;
  tutti_call call = TUTTI_CALL_INIT;
  call.work = &work;
  EXPECT_EQ(tutti_broadcast(&x, &x, 1, TUTTI_INT32, 3, ranks[0], {}, &call), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(work, nullptr);
  work = garbage;
  EXPECT_EQ(tutti_send(&x, 1, TUTTI_INT32, 3, ranks[0], {}, &call), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(work, nullptr);
  work = garbage;
  EXPECT_EQ(tutti_barrier(nullptr, {}, &call), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(work, nullptr);
  work = garbage;
  EXPECT_EQ(tutti_gather_v(nullptr, 0, nullptr, TUTTI_INT8, 0, ranks[0], {}, &call), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(work, nullptr);
}

}  // namespace
}  // namespace tutti::test
