// What bindings hang on to calls: functions in a queue's order, notices of an end, the settings as a list.
#include <gmock/gmock.h>

#include <atomic>
#include <cstring>
#include <stdexcept>
#include <string>
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
