// What a queue keeps of operations that have ended.
#include "src/communicator/queue.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace tutti {
namespace {

TEST(Queue, KeepsNoOperationThatHasEndedAndTellsTheFirstErrorOnce) {
  auto made = Queue::make();
  ASSERT_TRUE(made.ok());
  Queue& queue = **made;
  constexpr int operations = 100;
  std::vector<std::weak_ptr<Work>> ended;
  for (int i = 0; i < operations; ++i) {
    auto work = std::make_shared<Work>();
    ended.push_back(work);
    queue.post(
        [work, i](bool) {
          work->complete(i == 1 || i == 7 ? Status(TUTTI_TIMEOUT, "operation " + std::to_string(i)) : Status());
        },
        Queue::Runner::any_thread, work, [] {});
    work->sleep(10'000'000'000);
  }
  int kept = 0;
  for (const auto& work : ended) kept += work.expired() ? 0 : 1;
  EXPECT_LE(kept, 2) << "the one before the last may not be passed yet";
  Status first = queue.wait(0);
  EXPECT_EQ(first.text(), "operation 1");
  EXPECT_TRUE(queue.wait(0).ok());
}

TEST(Queue, KeepsNoTransferThatHasEndedThoughItsThreadSleeps) {
  auto made = Queue::make();
  ASSERT_TRUE(made.ok());
  std::vector<std::weak_ptr<Work>> ended;
  for (int i = 0; i < 100; ++i) {
    auto work = std::make_shared<Work>();
    ended.push_back(work);
    (*made)->track(work);
    work->complete({});
  }
  int kept = 0;
  for (const auto& work : ended) kept += work.expired() ? 0 : 1;
  EXPECT_LE(kept, 1);
  EXPECT_TRUE((*made)->wait(0).ok());
}

TEST(Queue, RunsAnOperationBehindManyTransfersThatAreUnderWay) {
  auto made = Queue::make();
  ASSERT_TRUE(made.ok());
  std::vector<std::shared_ptr<Work>> transfers;
  for (int i = 0; i < 1000; ++i) (*made)->track(transfers.emplace_back(std::make_shared<Work>()));
  auto work = std::make_shared<Work>();
  (*made)->post([work](bool) { work->complete({}); }, Queue::Runner::any_thread, work, [] {});
  EXPECT_TRUE(work->sleep(10'000'000'000));
  EXPECT_EQ((*made)->wait(1'000'000).code(), TUTTI_IN_PROGRESS);
  for (const auto& transfer : transfers) transfer->complete({});
  EXPECT_TRUE((*made)->wait(0).ok());
}

// Whoever waits takes over what anybody may run, up to what the queue's own thread has to run, in order.
TEST(Queue, IsTakenOverByWhoWaitsUpToWhatItsOwnThreadHasToRun) {
  int taken = 0;
  for (int turn = 0; turn < 300; ++turn) {
    auto made = Queue::make();
    ASSERT_TRUE(made.ok());
    std::vector<std::string> ran;  // one after the other, so without a lock
    std::thread::id first_by;
    const auto post = [&](const char* name, Queue::Runner runner) {
      auto work = std::make_shared<Work>();
      const auto run = [&ran, &first_by, name, work](bool beside) {
        ran.push_back(std::string(name) + (beside ? " by its own" : ""));
        if (ran.size() == 1) first_by = std::this_thread::get_id();
        work->complete({});
      };
      (*made)->post(run, runner, work, [] {});
      return work;
    };
    const auto first = post("first", Queue::Runner::any_thread);
    const auto second = post("second", Queue::Runner::own_thread);
    const auto third = post("third", Queue::Runner::any_thread);
    if (turn % 2 == 0) {
      EXPECT_TRUE(first->wait(0).has_value());
      EXPECT_TRUE(third->wait(0).has_value());
    } else {
      EXPECT_TRUE((*made)->wait(0).ok());
    }
    made->reset();
    ASSERT_EQ(ran.size(), 3u);
    EXPECT_EQ(ran[0].substr(0, 5), "first");
    EXPECT_EQ(ran[1], "second by its own");
    EXPECT_EQ(ran[2].substr(0, 5), "third");
    EXPECT_EQ(first_by == std::this_thread::get_id(), ran[0] == "first");
    taken += ran[0] == "first" ? 1 : 0;
  }
  EXPECT_GT(taken, 0);
}

TEST(Queue, TellsAFailureToEveryWaitThatWasThere) {
  auto made = Queue::make();
  ASSERT_TRUE(made.ok());
  auto failing = std::make_shared<Work>();
  auto late = std::make_shared<Work>();
  (*made)->track(failing);
  (*made)->track(late);
  std::array<Status, 2> told;
  std::atomic<int> begun{0};
  std::vector<std::thread> waits;
  for (Status& status : told) {
    waits.emplace_back([&] {
      ++begun;
      status = (*made)->wait(0);
    });
  }
  while (begun < 2) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  failing->complete(Status(TUTTI_TIMEOUT, "failed"));
  late->complete({});
  for (std::thread& wait : waits) wait.join();
  for (const Status& status : told) EXPECT_EQ(status.text(), "failed");
  EXPECT_TRUE((*made)->wait(0).ok()) << "and to none that comes later";
}

TEST(Queue, TellsAFailureThatAnEarlierWaitSawButDidNotCover) {
  auto made = Queue::make();
  ASSERT_TRUE(made.ok());
  auto covered = std::make_shared<Work>();
  auto later = std::make_shared<Work>();
  (*made)->track(covered);
  std::atomic<bool> begun = false;
  Status told;
  std::thread wait([&] {
    begun = true;
    told = (*made)->wait(0);
  });
  while (!begun) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  (*made)->track(later);
  later->complete(Status(TUTTI_TIMEOUT, "later"));
  covered->complete(Status(TUTTI_TIMEOUT, "covered"));
  wait.join();
  EXPECT_EQ(told.text(), "covered");
  EXPECT_EQ((*made)->wait(0).text(), "later");
  EXPECT_TRUE((*made)->wait(0).ok());
}

}  // namespace
}  // namespace tutti
