// What bindings hang on to calls: functions in a queue's order, notices of an end, the settings as a list.
#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/ranks.h"

namespace tutti::test {
namespace {

using testing::HasSubstr;

TEST(QueueCalls, RunInTheQueuesOrder) {
  const Ranks ranks(2);
  ranks.run([](int rank, tutti_comm* comm) {
    tutti_queue* queue = nullptr;
    ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS) << last_error();
    struct Copy {
      std::vector<int> data = std::vector<int>(1000, 1);
      std::vector<std::vector<int>> seen;
      static void take(void* self) {
        Copy& copy = *static_cast<Copy*>(self);
        copy.seen.push_back(copy.data);
      }
    } copy;
    for (int n = 0; n < 5; ++n) {
      ASSERT_EQ(tutti_all_reduce(copy.data.data(), copy.data.data(), copy.data.size(), TUTTI_INT32, TUTTI_SUM, comm,
                                 {TUTTI_STREAM_QUEUE, queue}, nullptr),
                TUTTI_SUCCESS)
          << last_error();
      tutti_work* work = nullptr;
      ASSERT_EQ(tutti_queue_call(queue, &Copy::take, &copy, n == 4 ? &work : nullptr), TUTTI_SUCCESS) << last_error();
      if (work == nullptr) continue;
      EXPECT_EQ(tutti_work_wait(work, 0), TUTTI_SUCCESS) << last_error();
      EXPECT_EQ(copy.seen.size(), 5u) << "it ends behind its function";
      tutti_work_release(work);
    }
    EXPECT_EQ(tutti_queue_wait(queue, 0), TUTTI_SUCCESS) << last_error();
    ASSERT_EQ(copy.seen.size(), 5u);
    for (std::size_t n = 0; n < 5; ++n) EXPECT_EQ(copy.seen[n], std::vector<int>(1000, 2 << n)) << "rank " << rank;
    EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
  });
}

// What a group would take, of which nothing runs.
TEST(GroupEstimates, GrowWithWhatIsCalledAndRunNothing) {
  const Ranks ranks(2);
  std::vector<float> data(1 << 20, 1.0f);
  const auto estimate = [&](std::size_t count, int calls, bool transfers) {
    EXPECT_EQ(tutti_group_start(), TUTTI_SUCCESS);
    for (int n = 0; n < calls; ++n) {
      EXPECT_EQ(transfers
                    ? tutti_send(data.data(), count, TUTTI_FLOAT32, 1, ranks[0], {}, nullptr)
                    : tutti_all_reduce(data.data(), data.data(), count, TUTTI_FLOAT32, TUTTI_SUM, ranks[0], {}, nullptr),
                TUTTI_SUCCESS)
          << last_error();
    }
    std::uint64_t ns = UINT64_MAX;
    EXPECT_EQ(tutti_group_estimate(&ns), TUTTI_SUCCESS) << last_error();
    return ns;
  };
  for (const bool transfers : {false, true}) {
    EXPECT_EQ(estimate(1, 0, transfers), 0u);
    EXPECT_GT(estimate(1, 1, transfers), 0u);
    EXPECT_GT(estimate(1 << 20, 1, transfers), estimate(1, 1, transfers));
    EXPECT_GT(estimate(1 << 20, 3, transfers), 2 * estimate(1 << 20, 1, transfers));
  }
  EXPECT_EQ(data, std::vector<float>(1 << 20, 1.0f));
  // A work of such a group has ended, and the communicator is as it was.
  tutti_work* work = nullptr;
  tutti_call call = TUTTI_CALL_INIT;
  call.work = &work;
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_all_reduce(data.data(), data.data(), 4, TUTTI_FLOAT32, TUTTI_SUM, ranks[0], {}, &call), TUTTI_SUCCESS);
  std::uint64_t ns = 0;
  EXPECT_EQ(tutti_group_estimate(&ns), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_work_test(work), TUTTI_ABORTED);
  EXPECT_THAT(last_error(), HasSubstr("only estimated"));
  tutti_work_release(work);
  ranks.run([](int, tutti_comm* comm) { EXPECT_EQ(tutti_barrier(comm, {}, nullptr), TUTTI_SUCCESS) << last_error(); });
}

TEST(GroupEstimates, ThatAreWrongAreRefused) {
  const Ranks ranks(1);
  std::uint64_t ns = 7;
  EXPECT_EQ(tutti_group_estimate(&ns), TUTTI_INVALID_USAGE);
  EXPECT_THAT(last_error(), HasSubstr("without tutti_group_start"));
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_group_estimate(&ns), TUTTI_INVALID_USAGE);
  EXPECT_THAT(last_error(), HasSubstr("within an inner group"));
  EXPECT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_group_estimate(nullptr), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_group_estimate(&ns), TUTTI_INVALID_USAGE) << "the group has ended";
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  tutti_comm* made = nullptr;
  EXPECT_EQ(tutti_comm_split(ranks[0], 0, 0, &made, nullptr), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_group_estimate(&ns), TUTTI_INVALID_USAGE);
  EXPECT_THAT(last_error(), HasSubstr("makes communicators"));
  EXPECT_EQ(ns, 7u);
}

/// A sum that notes which thread folds it.
struct NotedSum {
  std::thread::id folded_by;

  static void fold(void* self, const void* in, void* inout, std::uint64_t count) {
    static_cast<NotedSum*>(self)->folded_by = std::this_thread::get_id();
    for (std::uint64_t i = 0; i < count; ++i) static_cast<int*>(inout)[i] += static_cast<const int*>(in)[i];
  }
};

/// Posts pairs of sums on a queue and waits for the second of each. How many of these the thread that waited ran, as far as
/// this rank folded.
int taken_over(tutti_comm* comm, int rank, int sums, std::uint64_t timeout_ns) {
  tutti_queue* queue = nullptr;
  EXPECT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS) << last_error();
  NotedSum sum;
  tutti_op op = TUTTI_OP_LIMIT;
  EXPECT_EQ(tutti_op_create_user(&op, &NotedSum::fold, &sum, 1, sizeof(int), comm), TUTTI_SUCCESS) << last_error();
  int mine = 0;
  for (int n = 0; n < sums; ++n) {
    std::vector<int> data(n % 3 == 0 ? 10'000 : 1, rank + n);
    tutti_work* works[2] = {};
    tutti_call call = TUTTI_CALL_INIT;
    for (tutti_work*& work : works) {
      call.work = &work;
      EXPECT_EQ(tutti_all_reduce(data.data(), data.data(), data.size(), TUTTI_INT32, op, comm, {TUTTI_STREAM_QUEUE, queue},
                                 &call),
                TUTTI_SUCCESS)
          << last_error();
    }
    EXPECT_EQ(tutti_work_wait(works[1], timeout_ns), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(tutti_work_test(works[0]), TUTTI_SUCCESS) << "it was before the other one";
    EXPECT_EQ(data, std::vector<int>(data.size(), 2 * (1 + 2 * n))) << n;
    mine += sum.folded_by == std::this_thread::get_id() ? 1 : 0;
    sum.folded_by = {};
    for (tutti_work* work : works) tutti_work_release(work);
  }
  EXPECT_EQ(tutti_queue_wait(queue, timeout_ns), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_op_destroy(op, comm), TUTTI_SUCCESS);
  return mine;
}

// A wait with a limit of its own could not be left in time.
TEST(QueueWaits, TakeOverWhatTheQueueHasNotBegun) {
  const Ranks ranks(2);
  std::atomic<int> taken{0};
  ranks.run([&](int rank, tutti_comm* comm) {
    taken += taken_over(comm, rank, 300, 0);
    taken += taken_over(comm, rank, 50, TUTTI_NO_TIMEOUT);
    EXPECT_EQ(taken_over(comm, rank, 100, 10'000'000'000), 0);
  });
  EXPECT_GT(taken, 0);
}

// Nor could one whose communicator has a hook, which may end it.
TEST(QueueWaits, OfCommunicatorsWithAHookTakeNothingOver) {
  tutti_comm* comms[2] = {};
  tutti_config config = TUTTI_CONFIG_INIT;
  config.poll = [](void*) { return 0; };
  ASSERT_EQ(tutti_comm_create_all(comms, 2, &config), TUTTI_SUCCESS) << last_error();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] { EXPECT_EQ(taken_over(comms[rank], rank, 100, 0), 0); });
  for (std::thread& thread : threads) thread.join();
  for (tutti_comm* comm : comms) tutti_comm_destroy(comm);
}

// Several threads wait for one queue's operations, and another one destroys it.
TEST(QueueWaits, MayTakeOverFromSeveralThreads) {
  const Ranks ranks(2);
  ranks.run([](int rank, tutti_comm* comm) {
    for (int turn = 0; turn < 50; ++turn) {
      tutti_queue* queue = nullptr;
      ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS) << last_error();
      std::vector<std::vector<int>> data(6, std::vector<int>(100, rank));
      std::vector<tutti_work*> works(data.size());
      for (std::size_t n = 0; n < data.size(); ++n) {
        tutti_call call = TUTTI_CALL_INIT;
        call.work = &works[n];
        ASSERT_EQ(tutti_all_reduce(data[n].data(), data[n].data(), 100, TUTTI_INT32, TUTTI_SUM, comm,
                                   {TUTTI_STREAM_QUEUE, queue}, &call),
                  TUTTI_SUCCESS)
            << last_error();
      }
      std::vector<std::thread> waiting;
      for (tutti_work* work : works)
        waiting.emplace_back([work] { EXPECT_EQ(tutti_work_wait(work, 0), TUTTI_SUCCESS) << last_error(); });
      if (turn % 2 == 0) {
        EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
      }
      for (std::thread& thread : waiting) thread.join();
      if (turn % 2 != 0) {
        EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
      }
      for (tutti_work* work : works) tutti_work_release(work);
      for (const std::vector<int>& sums : data) EXPECT_EQ(sums, std::vector<int>(100, 1));
    }
  });
}

TEST(QueueCalls, ThatThrowFailTheirWorkAndTheNextWait) {
  tutti_queue* queue = nullptr;
  ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS) << last_error();
  tutti_work* work = nullptr;
  ASSERT_EQ(
      tutti_queue_call(queue, [](void*) { throw std::runtime_error("the disk is full"); }, nullptr, &work), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_work_wait(work, 0), TUTTI_INTERNAL_ERROR);
  EXPECT_THAT(last_error(), HasSubstr("the disk is full"));
  tutti_work_release(work);
  std::atomic<int> after{0};
  EXPECT_EQ(tutti_queue_call(
                queue, [](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &after, nullptr),
            TUTTI_SUCCESS);
  EXPECT_EQ(tutti_queue_wait(queue, 0), TUTTI_INTERNAL_ERROR);
  EXPECT_EQ(tutti_queue_wait(queue, 0), TUTTI_SUCCESS) << "it was told once";
  EXPECT_EQ(after, 1);
  EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
}

TEST(QueueCalls, NeitherWaitForTheirQueueNorDestroyIt) {
  struct Self {
    tutti_queue* queue = nullptr;
    std::array<tutti_status, 3> told = {};
    static void wait(void* self) {
      Self& own = *static_cast<Self*>(self);
      own.told = {tutti_queue_wait(own.queue, 0), tutti_queue_wait(own.queue, 1000), tutti_queue_destroy(own.queue)};
    }
  } self;
  ASSERT_EQ(tutti_queue_create(&self.queue), TUTTI_SUCCESS) << last_error();
  ASSERT_EQ(tutti_queue_call(self.queue, &Self::wait, &self, nullptr), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_queue_wait(self.queue, 0), TUTTI_SUCCESS) << last_error();
  EXPECT_THAT(self.told, testing::ElementsAre(TUTTI_INVALID_USAGE, TUTTI_IN_PROGRESS, TUTTI_INVALID_USAGE));
  EXPECT_EQ(tutti_queue_destroy(self.queue), TUTTI_SUCCESS);
}

TEST(QueueCalls, ThatAreWrongAreRefused) {
  tutti_queue* queue = nullptr;
  ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS) << last_error();
  const auto nothing = [](void*) {};
  int x = 0;
  tutti_work* work = reinterpret_cast<tutti_work*>(&x);
  EXPECT_EQ(tutti_queue_call(queue, nullptr, nullptr, &work), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(work, nullptr);
  EXPECT_EQ(tutti_queue_call(nullptr, nothing, nullptr, nullptr), TUTTI_INVALID_ARGUMENT);
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_queue_call(queue, nothing, nullptr, nullptr), TUTTI_INVALID_USAGE);
  static_cast<void>(tutti_group_end(nullptr));
  EXPECT_EQ(tutti_queue_call(queue, nothing, nullptr, nullptr), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
}

/// How often a notice was called, and with what.
struct Notice {
  std::atomic<int> calls{0};
  std::atomic<tutti_status> status{TUTTI_IN_PROGRESS};
  static void note(void* self, tutti_status status) {
    Notice& notice = *static_cast<Notice*>(self);
    notice.status = status;
    ++notice.calls;
  }
};

TEST(Notices, AreGivenOnceWhetherTheOperationHasEndedOrNot) {
  const Ranks ranks(2);
  Notice early[2], late[2];
  ranks.run([&](int rank, tutti_comm* comm) {
    Notice &before = early[rank], &after = late[rank];
    tutti_queue* queue = nullptr;
    ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS);
    tutti_work* work = nullptr;
    tutti_call call = TUTTI_CALL_INIT;
    call.work = &work;
    int x = 1;
    ASSERT_EQ(tutti_all_reduce(&x, &x, 1, TUTTI_INT32, TUTTI_SUM, comm, {TUTTI_STREAM_QUEUE, queue}, &call), TUTTI_SUCCESS);
    EXPECT_EQ(tutti_work_notify(work, &Notice::note, &before), TUTTI_SUCCESS);
    EXPECT_EQ(tutti_work_wait(work, 0), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(tutti_work_notify(work, &Notice::note, &after), TUTTI_SUCCESS);
    EXPECT_EQ(after.calls, 1) << "within the call, as it had ended";
    tutti_work_release(work);
    EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);  // the thread that ended it is through
  });
  for (const auto& notices : {early, late}) {
    for (int r = 0; r < 2; ++r) {
      EXPECT_EQ(notices[r].calls, 1);
      EXPECT_EQ(notices[r].status, TUTTI_SUCCESS);
    }
  }
}

TEST(Notices, TellOfFailures) {
  const Ranks ranks(2);
  tutti_work* work = nullptr;
  tutti_call call = TUTTI_CALL_INIT;
  call.work = &work;
  int x = 0;
  // Nobody sends.
  tutti_queue* queue = nullptr;
  ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS);
  ASSERT_EQ(tutti_recv(&x, 1, TUTTI_INT32, 1, ranks[0], {TUTTI_STREAM_QUEUE, queue}, &call), TUTTI_SUCCESS) << last_error();
  ASSERT_NE(work, nullptr);
  Notice notice;
  EXPECT_EQ(tutti_work_notify(work, &Notice::note, &notice), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_comm_abort(ranks[0]), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_work_wait(work, 0), TUTTI_ABORTED);
  while (notice.calls == 0) std::this_thread::yield();
  EXPECT_EQ(notice.status, TUTTI_ABORTED);
  EXPECT_EQ(tutti_work_notify(work, nullptr, nullptr), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_work_notify(nullptr, &Notice::note, &notice), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(notice.calls, 1);
  tutti_work_release(work);
  EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
}

TEST(SettingsAsAList, HoldWhatTheEnvironmentSays) {
  ::setenv("TUTTI_LANES", "3", 1);
  ::setenv("TUTTI_SECRET", "the secret of this test", 1);
  bool lanes = false, secret = false;
  int count = 0;
  tutti_setting setting{};
  setting.size = sizeof setting;
  for (; tutti_setting_get(count, &setting) == TUTTI_SUCCESS; ++count) {
    EXPECT_EQ(std::string(setting.name).rfind("TUTTI_", 0), 0u);
    EXPECT_STRNE(setting.type, "");
    EXPECT_STRNE(setting.form, "") << setting.name;
    EXPECT_STRNE(setting.help, "") << setting.name;
    EXPECT_LT(std::strlen(setting.help), sizeof setting.help - 1) << setting.name << " is cut";
    EXPECT_LT(std::strlen(setting.form), sizeof setting.form - 1) << setting.name << " is cut";
    if (setting.name == std::string("TUTTI_LANES")) {
      lanes = true;
      EXPECT_STREQ(setting.value, "3");
      EXPECT_STREQ(setting.origin, "environment");
    }
    if (setting.name == std::string("TUTTI_SECRET")) {
      secret = true;
      EXPECT_STREQ(setting.value, "(set)");
    }
  }
  ::unsetenv("TUTTI_LANES");
  ::unsetenv("TUTTI_SECRET");
  EXPECT_TRUE(lanes);
  EXPECT_TRUE(secret);
  EXPECT_GT(count, 20);
  EXPECT_THAT(last_error(), HasSubstr("there is no setting " + std::to_string(count)));
  EXPECT_EQ(tutti_setting_get(-1, &setting), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_setting_get(0, nullptr), TUTTI_INVALID_ARGUMENT);
  // An older caller's struct ends sooner.
  std::memset(&setting, 0x5a, sizeof setting);
  setting.size = offsetof(tutti_setting, type);
  EXPECT_EQ(tutti_setting_get(0, &setting), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(setting.type[0], 0x5a);
}

}  // namespace
}  // namespace tutti::test
