#include "src/communicator/activity.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

namespace tutti {
namespace {

constexpr KindName kAllReduce("all_reduce");

TEST(ActivityBoard, ShowsTheCurrentAndTheLastOperation) {
  ActivityBoard board;
  ASSERT_TRUE(board.valid());
  EXPECT_EQ(board.read().started, UINT64_MAX);
  EXPECT_FALSE(board.read().busy());
  board.start(7, kAllReduce, 99, {1, 2, 3, 4}, 1000);
  EXPECT_TRUE(board.read().busy());
  board.complete(7, kAllReduce);
  const Activity activity = board.read();
  EXPECT_FALSE(activity.busy());
  EXPECT_EQ(activity.completed, 7u);
  EXPECT_EQ(activity.fingerprint, 99u);
  EXPECT_EQ(activity.detail[3], 4u);
  EXPECT_EQ(activity.completed_kind.text(), "all_reduce");
}

TEST(ActivityBoard, OutlivesItsWriterInAnothersMapping) {
  auto board = std::make_unique<ActivityBoard>();
  const ActivityBoard view(::getpid(), board->fd());
  ASSERT_TRUE(view.valid());
  board->complete(3, kAllReduce);
  board.reset();
  EXPECT_EQ(view.read().completed, 3u);
}

TEST(ActivityBoard, ReadersNeverSeeHalfAnOperation) {
  ActivityBoard board;
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    // It rests between operations, as ranks do: read() gives up on a writer that never does.
    for (std::uint64_t i = 0; !stop.load(); ++i, std::this_thread::yield()) board.start(i, kAllReduce, i * 3, {i, i, i, i}, i);
  });
  int torn = 0;
  for (int i = 0; i < 20000; ++i) {
    const Activity activity = board.read();
    if (activity.started == UINT64_MAX) continue;
    torn += activity.fingerprint != activity.started * 3 || activity.detail[2] != activity.started ? 1 : 0;
  }
  stop = true;
  writer.join();
  EXPECT_EQ(torn, 0);
}

TEST(Activity, SurvivesPacking) {
  Activity activity;
  activity.started = 5;
  activity.completed = 4;
  activity.detail = {1, 2, 3, 4};
  activity.started_kind = KindName("barrier");
  activity.exchanges = 6;
  ByteWriter out;
  pack_activity(out, activity);
  ByteReader in(out.bytes());
  const Activity back = unpack_activity(in);
  EXPECT_TRUE(in.complete());
  EXPECT_EQ(back.started, 5u);
  EXPECT_EQ(back.detail, activity.detail);
  EXPECT_EQ(back.started_kind.text(), "barrier");
  EXPECT_EQ(back.exchanges, 6u);
}

}  // namespace
}  // namespace tutti
