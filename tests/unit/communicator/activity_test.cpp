#include "src/communicator/activity.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

namespace tutti {
namespace {

constexpr KindName kAllReduce("all_reduce");
constexpr KindName kRing("ring");

// Operation n of these; one numbered UINT64_MAX where it is not among them.
Called called_in(const Activity& activity, std::uint64_t n) {
  const Called* called = activity.called(n);
  return called != nullptr ? *called : Called{};
}

TEST(ActivityBoard, ShowsTheCurrentAndTheLastOperation) {
  ActivityBoard board;
  ASSERT_TRUE(board.valid());
  EXPECT_EQ(board.read().started, UINT64_MAX);
  EXPECT_FALSE(board.read().busy());
  board.start({7, 99, {1, 2, 3, 4}, kRing});
  EXPECT_TRUE(board.read().busy());
  board.complete(7, kAllReduce);
  const Activity activity = board.read();
  EXPECT_FALSE(activity.busy());
  EXPECT_EQ(activity.completed, 7u);
  EXPECT_EQ(called_in(activity, 7).hash, 99u);
  EXPECT_EQ(called_in(activity, 7).detail[3], 4u);
  EXPECT_EQ(activity.completed_kind.text(), "all_reduce");
}

TEST(ActivityBoard, RemembersTheLastFewOperations) {
  ActivityBoard board;
  for (std::uint64_t n = 0; n < 20; ++n) board.start({n, n * 2, {}, kRing});
  const Activity activity = board.read();
  for (std::uint64_t n = 20 - Activity::kRecent; n < 20; ++n) {
    EXPECT_EQ(called_in(activity, n).sequence, n);
    EXPECT_EQ(called_in(activity, n).hash, n * 2);
  }
  EXPECT_EQ(activity.called(20 - Activity::kRecent - 1), nullptr);
  EXPECT_EQ(activity.called(20), nullptr);
}

TEST(ActivityBoard, RemembersWhatWasCalledAgainAsTheOneBefore) {
  ActivityBoard board;
  board.start({3, 30, {1, 2, 3, 4}, kRing});
  for (std::uint64_t n = 4; n < 20; ++n) {
    board.start_again(n);
    EXPECT_TRUE(board.read().busy());
    board.complete(n, kAllReduce);
    const Activity activity = board.read();
    EXPECT_FALSE(activity.busy());
    EXPECT_EQ(activity.started, n);
    for (std::uint64_t k = n - std::min<std::uint64_t>(n - 3, Activity::kRecent - 1); k <= n; ++k) {
      EXPECT_EQ(called_in(activity, k).sequence, k) << n;
      EXPECT_EQ(called_in(activity, k).hash, 30u) << n;
      EXPECT_EQ(called_in(activity, k).detail[3], 4u) << n;
    }
  }
  board.start({20, 40, {}, kRing});
  board.start_again(21);
  const Activity activity = board.read();
  EXPECT_EQ(called_in(activity, 21).hash, 40u);
  EXPECT_EQ(called_in(activity, 20).hash, 40u);
  for (std::uint64_t k = 14; k < 20; ++k) EXPECT_EQ(called_in(activity, k).hash, 30u) << k;
}

TEST(ActivityBoard, OutlivesItsWriterInAnothersMapping) {
  auto board = std::make_unique<ActivityBoard>();
  const ActivityBoard view(::getpid(), board->fd());
  ASSERT_TRUE(view.valid());
  board->complete(3, kAllReduce);
  board.reset();
  EXPECT_EQ(view.read().completed, 3u);
}

TEST(ActivityBoard, OfAWriterThatDiedWhileItWroteGivesNothing) {
  ActivityBoard board;
  board.complete(3, kAllReduce);
  const ActivityBoard view(::getpid(), board.fd());
  ASSERT_TRUE(view.try_read().has_value());
  const Descriptor fd(::open(("/proc/self/fd/" + std::to_string(board.fd())).c_str(), O_RDWR | O_CLOEXEC));
  std::uint64_t version = 0;  // the page's first word, odd while the words change
  ASSERT_EQ(::pread(fd.get(), &version, sizeof version, 0), static_cast<ssize_t>(sizeof version));
  ++version;
  ASSERT_EQ(::pwrite(fd.get(), &version, sizeof version, 0), static_cast<ssize_t>(sizeof version));
  EXPECT_FALSE(view.try_read().has_value());
  EXPECT_EQ(view.read().completed, UINT64_MAX);
}

TEST(ActivityBoard, ReadersNeverSeeHalfAnOperation) {
  ActivityBoard board;
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    // It rests between operations, as ranks do: read() gives up on a writer that never does.
    for (std::uint64_t i = 0; !stop.load(); ++i, std::this_thread::yield()) board.start({i, i * 3, {i, i, i, i}, kRing});
  });
  int torn = 0;
  for (int i = 0; i < 20000; ++i) {
    const Activity activity = board.read();
    if (activity.started == UINT64_MAX) continue;
    const Called called = called_in(activity, activity.started);
    torn += called.hash != activity.started * 3 || called.detail[2] != activity.started ? 1 : 0;
  }
  stop = true;
  writer.join();
  EXPECT_EQ(torn, 0);
}

TEST(Activity, SurvivesPacking) {
  Activity activity;
  activity.started = 5;
  activity.completed = 4;
  activity.recent[5] = {5, 77, {1, 2, 3, 4}, KindName("ring")};
  activity.exchanges = 6;
  ByteWriter out;
  pack_activity(out, activity);
  ByteReader in(out.bytes());
  const Activity back = unpack_activity(in);
  EXPECT_TRUE(in.complete());
  EXPECT_EQ(back.started, 5u);
  EXPECT_EQ(called_in(back, 5).hash, 77u);
  EXPECT_EQ(called_in(back, 5).detail, activity.recent[5].detail);
  EXPECT_EQ(called_in(back, 5).algorithm.text(), "ring");
  EXPECT_EQ(back.called(4), nullptr);
  EXPECT_EQ(back.exchanges, 6u);
}

}  // namespace
}  // namespace tutti
