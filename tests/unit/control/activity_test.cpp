#include "src/control/activity.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace tutti {
namespace {

constexpr KindName kAllReduce("all_reduce");
constexpr KindName kRing("ring");

// A rank that calls operations of the given hashes, one after the other.
class Rank {
 public:
  void call(std::uint64_t hash, std::uint64_t times = 1) {
    for (; times > 0; --times) {
      board_.start({next_++, history_, hash, {1, 2, hash}, kAllReduce, kRing});
      history_ = followed_by(history_, hash);
    }
  }
  // As an operation that is run again.
  void call_again(std::uint64_t hash) {
    board_.start_again(next_++);
    history_ = followed_by(history_, hash);
  }
  ActivityBoard& board() { return board_; }
  Activity activity() const { return board_.read(); }

 private:
  ActivityBoard board_;
  std::uint64_t next_ = 0;
  std::uint64_t history_ = 0;
};

// The hash of operation n; 0 where it is not remembered.
std::uint64_t hash_of(const Activity& activity, std::uint64_t n) {
  const Called* called = activity.called(n);
  return called != nullptr ? called->hash : 0;
}

Activity told(const Activity& activity, std::size_t runs = Activity::kRuns) {
  ByteWriter out;
  pack_activity(out, activity, runs);
  ByteReader in(out.bytes());
  Activity back = unpack_activity(in);
  EXPECT_TRUE(in.complete());
  return back;
}

TEST(ActivityBoard, ShowsTheCurrentAndTheLastOperation) {
  ActivityBoard board;
  ASSERT_TRUE(board.valid());
  EXPECT_EQ(board.read().started, UINT64_MAX);
  EXPECT_FALSE(board.read().busy());
  board.start({7, 0, 99, {1, 2, 4}, kAllReduce, kRing});
  EXPECT_TRUE(board.read().busy());
  board.complete(7);
  const Activity activity = board.read();
  EXPECT_FALSE(activity.busy());
  EXPECT_EQ(activity.completed, 7u);
  ASSERT_NE(activity.called(7), nullptr);
  EXPECT_EQ(activity.called(7)->hash, 99u);
  EXPECT_EQ(activity.called(7)->detail[2], 4u);
  EXPECT_EQ(activity.called(7)->algorithm.text(), "ring");
  EXPECT_EQ(activity.completed_kind().text(), "all_reduce");
}

TEST(ActivityBoard, CompletionsThatOvertakeEachOtherDoNotGoBack) {
  ActivityBoard board;
  EXPECT_EQ(board.read().completed, UINT64_MAX);
  board.complete_at_least(0);
  EXPECT_EQ(board.read().completed, 0u) << "the first of all";
  for (const std::uint64_t sequence : {6u, 5u, 6u, 2u}) board.complete_at_least(sequence);
  EXPECT_EQ(board.read().completed, 6u);
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&board, t] {
      for (std::uint64_t n = 7 + t; n < 4000; n += 4) board.complete_at_least(n);
    });
  }
  std::uint64_t last = 6;
  while (last != 3999) {
    const std::uint64_t now = board.read().completed;
    ASSERT_GE(now, last);
    last = now;
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ActivityBoard, RemembersManyOperationsThatAreAllDifferent) {
  Rank rank;
  for (std::uint64_t n = 0; n < 1000; ++n) rank.call(n + 1);
  const Activity activity = rank.activity();
  const std::uint64_t oldest = activity.runs.front().sequence;
  EXPECT_LE(oldest, 1000 - Activity::kRuns + 1);
  for (std::uint64_t n = oldest; n < 1000; ++n) EXPECT_EQ(hash_of(activity, n), n + 1);
  EXPECT_EQ(activity.called(oldest - 1), nullptr);
  EXPECT_EQ(activity.called(1000), nullptr);
}

TEST(ActivityBoard, RemembersALoopOfOneCallHoweverLongItIs) {
  Rank rank;
  rank.call(1);
  rank.call(2);
  for (int i = 0; i < 100'000; ++i) rank.call_again(2);
  rank.call(2, 5);
  rank.call(3);
  const Activity activity = rank.activity();
  EXPECT_EQ(activity.runs.size(), 3u);
  EXPECT_EQ(activity.started, 100'007u);
  EXPECT_EQ(hash_of(activity, 0), 1u);
  EXPECT_EQ(hash_of(activity, 1), 2u);
  EXPECT_EQ(hash_of(activity, 100'006), 2u);
  EXPECT_EQ(hash_of(activity, 100'007), 3u);
  EXPECT_EQ(activity.runs.back().past, followed_by(followed_by(0, 1), 2, 100'006));
}

TEST(ActivityBoard, OutlivesItsWriterInAnothersMapping) {
  auto board = std::make_unique<ActivityBoard>();
  const ActivityBoard view(::getpid(), board->fd(), board->inode());
  ASSERT_TRUE(view.valid());
  board->complete(3);
  board.reset();
  EXPECT_EQ(view.read().completed, 3u);
}

// A neighbour that has destroyed its communicator may have the descriptor of another one's board by now.
TEST(ActivityBoard, IsNotTakenForAnotherOneThatHasItsDescriptor) {
  auto gone = std::make_unique<ActivityBoard>();
  const int fd = gone->fd();
  const std::uint64_t inode = gone->inode();
  gone.reset();
  ActivityBoard another;
  ASSERT_EQ(another.fd(), fd);
  another.complete(3);
  EXPECT_FALSE(ActivityBoard(::getpid(), fd, inode).valid());
  EXPECT_TRUE(ActivityBoard(::getpid(), fd, another.inode()).valid());
}

// A page as its writer leaves it where it dies between any two of the stores that begin an operation.
TEST(ActivityBoard, OfAWriterThatDiedWhileItWroteShowsWhatItHadCalledBefore) {
  Rank rank;
  for (std::uint64_t n = 0; n < Activity::kRuns + 3; ++n) rank.call(n + 1);
  const std::uint64_t last = Activity::kRuns + 2;
  const ActivityBoard view(::getpid(), rank.board().fd(), rank.board().inode());
  const UniqueFd fd(::open(("/proc/self/fd/" + std::to_string(rank.board().fd())).c_str(), O_RDWR | O_CLOEXEC));
  constexpr off_t word = 8;
  const auto put = [&](off_t at, std::uint64_t value) {
    ASSERT_EQ(::pwrite(fd.get(), &value, sizeof value, at * word), static_cast<ssize_t>(sizeof value));
  };
  // The words of the entry that is overwritten next, in the ring behind 8 words; then the number of runs.
  const off_t entry = 8 + 12 * static_cast<off_t>((last + 1) % Activity::kRuns);
  for (off_t written = 0; written < 12; ++written) {
    put(entry + written, written == 0 ? last + 1 : 4711);
    const Activity activity = view.read();
    EXPECT_EQ(activity.started, last);
    EXPECT_EQ(activity.runs.size(), Activity::kRuns - 1);
    for (std::uint64_t n = activity.runs.front().sequence; n <= last; ++n) EXPECT_EQ(hash_of(activity, n), n + 1);
  }
  put(2, last + 2);
  EXPECT_EQ(view.read().started, last + 1) << "an operation whose entry is counted has begun";
  EXPECT_EQ(hash_of(view.read(), last + 1), 4711u);
}

// The writer rests nowhere, and overwrites what is being read.
TEST(ActivityBoard, ReadersNeverSeeHalfAnOperation) {
  ActivityBoard board;
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    std::uint64_t history = 0;
    for (std::uint64_t i = 0; !stop.load(); ++i) {
      board.start(
          {i, history, i / 2 * 3 + 1, {i / 2, i / 2, i / 2}, kAllReduce, kRing});  // every second one is a repetition
      history = followed_by(history, i / 2 * 3 + 1);
      board.complete(i);
    }
  });
  int torn = 0;
  for (int i = 0; i < 20000; ++i) {
    const Activity activity = board.read();
    const bool completed = activity.completed != UINT64_MAX;
    torn += completed && activity.completed > activity.started ? 1 : 0;
    const Called* before = nullptr;
    for (const Called& run : activity.runs) {
      torn += run.hash != run.sequence / 2 * 3 + 1 || run.detail[2] != run.sequence / 2 || run.sequence % 2 != 0 ? 1 : 0;
      torn += before != nullptr && run.past != followed_by(before->past, before->hash, 2) ? 1 : 0;
      before = &run;
    }
    torn += before != nullptr && activity.started > before->sequence + 1 ? 1 : 0;
  }
  stop = true;
  writer.join();
  EXPECT_EQ(torn, 0);
}

TEST(Activity, SurvivesPacking) {
  Rank rank;
  for (std::uint64_t n = 0; n < 300; ++n) rank.call(n % 7 + 1);
  rank.board().complete(298);
  Activity activity = rank.activity();
  activity.exchanges = 6;
  for (const std::size_t runs : {std::size_t{1}, Activity::kBrief, Activity::kRuns}) {
    const Activity back = told(activity, runs);
    EXPECT_EQ(back.started, 299u);
    EXPECT_EQ(back.completed, 298u);
    EXPECT_EQ(back.exchanges, 6u);
    EXPECT_EQ(back.runs.size(), std::min(runs, activity.runs.size()));
    for (const Called& run : back.runs) {
      const Called* same = activity.called(run.sequence);
      ASSERT_NE(same, nullptr);
      EXPECT_EQ(run.past, same->past);
      EXPECT_EQ(run.hash, same->hash);
      EXPECT_EQ(run.detail, same->detail);
      EXPECT_EQ(run.kind.text(), "all_reduce");
      EXPECT_EQ(run.algorithm.text(), "ring");
    }
  }
  EXPECT_EQ(told(Activity()).started, UINT64_MAX);
}

// Seven calls in turn are told once, and then by their numbers.
TEST(Activity, IsShortWhereAProgramCallsTheSameFewThings) {
  Rank rank;
  for (std::uint64_t n = 0; n < 300; ++n) rank.call(n % 7 + 1);
  ByteWriter full, brief;
  pack_activity(full, rank.activity());
  pack_activity(brief, rank.activity(), Activity::kBrief);
  EXPECT_LT(full.size(), 2048u);
  EXPECT_LT(brief.size(), 768u);
}

// Whoever is within the group may send anything.
TEST(Activity, ThatIsNoHistoryIsRefused) {
  Rank rank;
  for (std::uint64_t n = 0; n < 20; ++n) rank.call(n % 3 + 1);
  ByteWriter out;
  pack_activity(out, rank.activity());
  const std::vector<std::byte> good(out.bytes().begin(), out.bytes().end());
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::vector<std::byte> bad = good;
    bad[at] ^= std::byte{0xff};
    for (const std::size_t length : {bad.size(), at}) {
      ByteReader in(std::span<const std::byte>(bad).first(length));
      const Activity activity = unpack_activity(in);
      std::uint64_t before = 0;
      for (const Called& run : activity.runs) {
        EXPECT_TRUE(run.sequence <= activity.started && (before == 0 || run.sequence > before)) << at;
        before = run.sequence;
      }
      static_cast<void>(first_difference(rank.activity(), activity));
    }
  }
}

TEST(Difference, IsNoneWhereOneIsBehindOrHasCalledNothing) {
  Rank ahead, behind, idle;
  for (std::uint64_t n = 0; n < 100; ++n) {
    ahead.call(n % 3 + 1);
    if (n < 50) behind.call(n % 3 + 1);
  }
  EXPECT_FALSE(first_difference(ahead.activity(), behind.activity()));
  EXPECT_FALSE(first_difference(behind.activity(), ahead.activity()));
  EXPECT_FALSE(first_difference(idle.activity(), ahead.activity()));
  EXPECT_FALSE(first_difference(told(ahead.activity(), 1), behind.activity()))
      << "all that one remembers the other has not called";
}

TEST(Difference, IsTheFirstOneHoweverLateItIsLookedFor) {
  Rank one, other;
  for (std::uint64_t n = 0; n < 1000; ++n) {
    one.call(5);
    other.call(n == 1 ? 6 : n == 3 ? 7 : 5);
  }
  for (const bool swapped : {false, true}) {
    const Activity a = told((swapped ? other : one).activity()), b = told((swapped ? one : other).activity());
    const auto difference = first_difference(a, b);
    ASSERT_TRUE(difference);
    EXPECT_EQ(difference->sequence, 1u);
    ASSERT_NE(difference->mine, nullptr);
    EXPECT_EQ(difference->mine->hash, swapped ? 6u : 5u);
    EXPECT_EQ(difference->its->hash, swapped ? 5u : 6u);
  }
}

// Then it is known that they parted before what they remember, and no later operation is said to be the first.
TEST(Difference, ThatIsForgottenIsSaidToBeEarlier) {
  Rank one, other;
  other.call(9);
  one.call(8);
  for (std::uint64_t n = 1; n < 500; ++n) {
    one.call(n);
    other.call(n < 498 ? n : n + 1);
  }
  const Activity a = one.activity(), b = other.activity();
  const auto difference = first_difference(a, b);
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->mine, nullptr);
  EXPECT_EQ(difference->sequence, a.runs.front().sequence);
  // A brief history tells the same of its own part, as it has the hash of all before it.
  const Activity brief = told(b, Activity::kBrief);
  const auto later = first_difference(a, brief);
  ASSERT_TRUE(later);
  EXPECT_EQ(later->mine, nullptr);
  EXPECT_EQ(later->sequence, brief.runs.front().sequence);
}

}  // namespace
}  // namespace tutti
