// What a queue keeps of operations that have ended.
#include "src/communicator/queue.h"

#include <gtest/gtest.h>

#include <memory>
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
        [work, i] {
          work->complete(i == 1 || i == 7 ? Status(TUTTI_TIMEOUT, "operation " + std::to_string(i)) : Status());
        },
        work, [] {});
    work->sleep(10'000'000'000);
  }
  int kept = 0;
  for (const auto& work : ended) kept += work.expired() ? 0 : 1;
  EXPECT_LE(kept, 2) << "the one before the last may not be passed yet";
  Status first = queue.wait(0);
  EXPECT_EQ(first.text(), "operation 1");
  EXPECT_TRUE(queue.wait(0).ok());
}

}  // namespace
}  // namespace tutti
