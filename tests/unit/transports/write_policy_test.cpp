// The choice among the ways to fill messages: that it is the quickest one, soon, at whatever time, and that finding out is
// cheap.
#include "transports/shm/write_policy.h"

#include <gtest/gtest.h>

#include <random>
#include <utility>

namespace tutti::shm {
namespace {

constexpr std::array kAll{WritePolicy::reuse_slot, WritePolicy::rotate, WritePolicy::non_temporal};

/// Nanoseconds of one end's part, by the way.
using Times = std::array<std::uint64_t, kWritePolicies>;

/// What a message takes both ends, by its way, and how a sender goes on under it.
struct Machine {
  Times writing{};
  Times reading{};
  WritePolicyTuner choice{4};
  WriteTimes read{};
  std::uint64_t spent = 0;                           ///< over all messages
  std::array<std::uint32_t, kWritePolicies> used{};  ///< messages by their way
  std::mt19937 random{7};
  std::uint32_t lap = 8;
  bool touched = true;
  std::uint64_t bytes = kLeastTuned;
  std::uint64_t pause = 0;  ///< from a message to the next
  std::uint64_t now = 0;
  double disturbed = 0;  ///< part of the messages that something else makes a thousand times longer

  void send(int messages, bool settled = true) {
    for (int m = 0; m < messages; ++m) {
      const auto way = static_cast<std::size_t>(choice.next());
      const std::size_t f = lap == 0 && way == 1 ? 0 : way;  // without a rotation area it lies in a slot
      const auto longer = [&](std::uint64_t ns) { return std::bernoulli_distribution(disturbed)(random) ? ns * 1000 : ns; };
      const std::uint64_t write = longer(writing[f]);
      if (choice.timed()) read[way] = least_time(read[way], longer(reading[f]));
      const std::uint64_t took = writing[f] + reading[f];
      spent += took;
      now += took * bytes / kLeastTuned + pause;
      if (choice.written(write)) choice.compare(std::exchange(read, {}), bytes, settled, {lap, touched}, now);
      ++used[f];
    }
  }
};

TEST(WritePolicyTuner, IsWhatTakesBothEndsTogetherLeast) {
  for (const WritePolicy best : kAll) {
    Machine machine{{900, 800, 500}, {900, 1000, 1300}};  // all 1800, and none the best of both ends
    const auto b = static_cast<std::size_t>(best);
    machine.reading[b] -= best == WritePolicy::non_temporal ? 1000 : 600;
    machine.send(400);
    EXPECT_EQ(machine.choice.next(), best) << b;
  }
}

TEST(WritePolicyTuner, IsTheFirstUnlessColdTakesAnEighthLessOrStreamingHalf) {
  struct Case {
    std::uint64_t reuse_slot, rotate, non_temporal;
    WritePolicy best;
  };
  for (const Case& c : std::initializer_list<Case>{{1000, 890, 1000, WritePolicy::reuse_slot},
                                                   {1000, 860, 1000, WritePolicy::rotate},
                                                   {1000, 1000, 510, WritePolicy::reuse_slot},
                                                   {1000, 1000, 490, WritePolicy::non_temporal},
                                                   {1000, 600, 460, WritePolicy::rotate},
                                                   {1000, 600, 440, WritePolicy::non_temporal},
                                                   {1000, 300, 310, WritePolicy::rotate}}) {
    Machine machine{{c.reuse_slot, c.rotate, c.non_temporal}, {c.reuse_slot, c.rotate, c.non_temporal}};
    machine.send(400);
    EXPECT_EQ(machine.choice.next(), c.best) << c.reuse_slot << ' ' << c.rotate << ' ' << c.non_temporal;
  }
}

TEST(WritePolicyTuner, BeginsWarmAndTriesNothingUntilItMay) {
  Machine machine{{1000, 100, 1000}, {1000, 100, 1000}};
  machine.send(5000, false);
  EXPECT_EQ(machine.used[static_cast<std::size_t>(WritePolicy::reuse_slot)], 5000u);
  machine.send(100);
  EXPECT_EQ(machine.choice.next(), WritePolicy::rotate);
}

TEST(WritePolicyTuner, CostsLittleToMake) {
  for (const std::uint32_t lap : {0u, 8u, 31u, 496u}) {
    for (const std::uint64_t dear : {1010u, 1500u, 1990u, 3000u, 10'000u, 60'000u}) {
      Machine machine{{500, 500 * dear / 1000, 500 * dear / 1000}, {500, 500 * dear / 1000, 500 * dear / 1000}};
      machine.lap = lap;
      machine.send(3000);
      machine.spent = 0;
      machine.send(2'000'000);
      EXPECT_LE(static_cast<double>(machine.spent), 1.022 * 2'000'000 * 1000) << dear << ", " << lap;
    }
  }
}

// What has nothing to do with the ways does not make them be tried again and again.
TEST(WritePolicyTuner, CostsLittleToMakeWhereMuchIsDisturbed) {
  for (const std::uint32_t lap : {8u, 124u}) {
    Machine machine{{1000, 2000, 3000}, {1000, 2000, 3000}};
    machine.lap = lap;
    machine.disturbed = .2;
    machine.send(100'000);
    machine.used = {};
    machine.send(1'000'000);
    EXPECT_LE(machine.used[static_cast<std::size_t>(WritePolicy::non_temporal)] / WritePolicyTuner::kTimed * (lap + 16),
              60'000u)
        << lap;
  }
}

TEST(WritePolicyTuner, FollowsWhatChanges) {
  Machine machine{{4700, 900, 1500}, {1200, 1100, 2600}};
  machine.pause = 20'000;
  machine.send(1000);
  EXPECT_EQ(machine.choice.next(), WritePolicy::rotate);
  machine.writing = {21'000, 11'000, 1500};  // the cores were moved apart: two cycles, and a trial
  machine.reading = {2500, 2500, 3000};
  machine.send(4 * WritePolicyTuner::kCycle);
  EXPECT_EQ(machine.choice.next(), WritePolicy::non_temporal);
  machine.writing = {800, 1000, 1500};  // and close together, which is seen by trials alone
  machine.reading = {700, 700, 2600};
  machine.send(60'000);
  EXPECT_EQ(machine.choice.next(), WritePolicy::reuse_slot);
}

// What a bad moment chose is not done for long by those who seldom call: what trials cost is nothing in the time that
// passes.
TEST(WritePolicyTuner, IsMendedSoonWhereCallsAreFew) {
  Machine machine{{1000, 1100, 1500}, {1000, 1100, 2600}};
  machine.bytes = 1 << 18;
  machine.pause = 1'000'000;
  machine.lap = 30;
  machine.send(1000);
  ASSERT_EQ(machine.choice.next(), WritePolicy::reuse_slot);
  const auto [writing, reading] = std::pair(machine.writing, machine.reading);
  machine.writing = {21'000, 15'000, 1500};
  machine.reading = {2500, 2500, 2600};
  machine.send(500);
  EXPECT_EQ(machine.choice.next(), WritePolicy::non_temporal);
  machine.writing = writing;
  machine.reading = reading;
  machine.send(500);
  EXPECT_EQ(machine.choice.next(), WritePolicy::reuse_slot);
}

TEST(WritePolicyTuner, TriesWhatNeedsNoColdRoomBeforeThereIsOneAndThatAtOnceThen) {
  Machine machine{{2000, 100, 500}, {2000, 100, 900}};
  machine.lap = 0;
  machine.send(400);
  EXPECT_EQ(machine.choice.next(), WritePolicy::non_temporal);
  EXPECT_EQ(machine.used[static_cast<std::size_t>(WritePolicy::rotate)], 0u);
  machine.lap = 8;
  machine.touched = false;
  machine.send(100);
  EXPECT_EQ(machine.choice.next(), WritePolicy::rotate);
}

TEST(WritePolicyTuner, GivesUpNoRoomForThePagesThatItTouches) {
  Machine machine{{900, 30'000, 2000}, {900, 900, 2000}};
  machine.touched = false;
  machine.lap = 16;
  for (int m = 0; m < 200; ++m) {
    if (machine.used[1] == 8) machine.writing[1] = 500;
    machine.send(1);
  }
  EXPECT_EQ(machine.choice.next(), WritePolicy::rotate);
}

TEST(WritePolicyTuner, GivesUpAWayThatIsMuchDearer) {
  Machine machine{{21'000, 11'000, 1500}, {2500, 2500, 3000}};
  machine.lap = 124;
  machine.send(1000);
  ASSERT_EQ(machine.choice.next(), WritePolicy::non_temporal);
  machine.used = {};
  machine.send(1'000'000);
  const auto [reuse_slot, rotate, non_temporal] = machine.used;
  EXPECT_GT(reuse_slot, 30u) << "there were no trials";
  EXPECT_LE(rotate, 3 * reuse_slot);
  EXPECT_EQ(machine.choice.next(), WritePolicy::non_temporal);
}

// Lines of a room that was not used lately are no longer in the last cache.
TEST(WritePolicyTuner, TimesAColdRoomOnceItHasBeenGoneThrough) {
  Machine machine{{900, 900, 2000}, {900, 900, 2000}};
  machine.send(400);
  ASSERT_EQ(machine.choice.next(), WritePolicy::reuse_slot);
  std::uint32_t run = 0;
  for (int m = 0; m < 100'000; ++m) {
    run = machine.choice.next() == WritePolicy::rotate ? run + 1 : 0;
    const std::uint64_t rotate = run > machine.lap ? 500 : 1500;
    machine.writing[1] = machine.reading[1] = rotate;
    machine.send(1);
  }
  EXPECT_EQ(machine.choice.next(), WritePolicy::rotate);
}

TEST(WritePolicyTuner, TriesAgainWhatIsDearTwiceRunningOnly) {
  Machine machine{{1000, 3000, 6000}, {1000, 3000, 6000}};
  machine.pause = 20'000;
  machine.send(400);
  const auto trials = [&](int cycles, bool every) {
    const std::uint32_t before = machine.used[static_cast<std::size_t>(WritePolicy::non_temporal)];
    for (int c = 0; c < cycles; ++c) {
      // The others stay as much dearer, so that nothing else changes.
      machine.reading = every || c % 2 == 0 ? Times{2500, 3000, 6000} : Times{1000, 3000, 6000};
      machine.send(WritePolicyTuner::kCycle);
    }
    return (machine.used[static_cast<std::size_t>(WritePolicy::non_temporal)] - before) / WritePolicyTuner::kTimed;
  };
  EXPECT_EQ(trials(16, false), 0u);
  EXPECT_EQ(trials(4, true), 1u);
  EXPECT_EQ(trials(16, true), 0u) << "it is as it was in the last trial";
}

TEST(WritePolicyTuner, IsNotMisledByWhatElseTakesTime) {
  Machine machine{{4700, 900, 1500}, {1200, 1100, 2600}};
  machine.disturbed = .2;
  machine.send(3000);
  machine.used = {};
  machine.send(100'000);
  EXPECT_GE(machine.used[static_cast<std::size_t>(WritePolicy::rotate)], 90'000u);
}

TEST(WritePolicyTuner, BelievesNoTimesThatAreNone) {
  for (const std::uint32_t nonsense : {0u, UINT32_MAX, UINT32_MAX / 2 + 1}) {
    WritePolicyTuner choice(4);
    std::uint32_t streamed = 0;
    std::uint32_t rotate = 0;
    for (int m = 0; m < 10'000; ++m) {
      streamed += choice.next() == WritePolicy::non_temporal ? 1u : 0u;
      rotate += streamed != 0 && choice.next() == WritePolicy::rotate ? 1u : 0u;
      if (choice.written(1000))
        choice.compare({1000, nonsense, 1000}, kLeastTuned, true, {8, true}, static_cast<std::uint64_t>(m) * 100'000);
    }
    EXPECT_GE(streamed, 3 * WritePolicyTuner::kTimed) << nonsense;
    EXPECT_LE(rotate, 3 * streamed + 12) << nonsense << ": trials alone";
  }
}

TEST(LeastTime, IsTheLeastAndNeverNone) {
  EXPECT_EQ(least_time(0, 500), 500u);
  EXPECT_EQ(least_time(800, 500), 500u);
  EXPECT_EQ(least_time(800, 850), 800u);
  EXPECT_EQ(least_time(800, 0), 1u);
  EXPECT_EQ(least_time(0, 0), 1u);
  EXPECT_EQ(least_time(0, UINT64_MAX), 1'000'000'000u);
  EXPECT_EQ(least_time(UINT32_MAX, UINT64_MAX), UINT32_MAX) << "whoever wrote that";
}

TEST(SizeClass, IsAPowerOfTwo) {
  EXPECT_EQ(size_class(kLeastTuned), 0u);
  EXPECT_EQ(size_class(2 * kLeastTuned - 1), 0u);
  EXPECT_EQ(size_class(2 * kLeastTuned), 1u);
  EXPECT_EQ(size_class(256 * 1024), 6u);
  EXPECT_EQ(size_class(UINT64_MAX), kSizeClasses - 1);
}

}  // namespace
}  // namespace tutti::shm
