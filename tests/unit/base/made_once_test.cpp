// What is made once, and the log: also in a child that was forked while another thread was at it.
#include "src/base/made_once.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <stdexcept>
#include <thread>
#include <vector>

#include "src/base/log.h"
#include "tests/support/child.h"

namespace tutti {
namespace {

using test::Child;

/// One that nobody has asked yet, whenever a test is repeated. It stays, since nothing destroys what it makes.
MadeOnce<int>& fresh() {
  static auto& all = *new std::deque<MadeOnce<int>>;
  return all.emplace_back();
}

TEST(MadeOnce, ManyThreadsAskAndOneMakes) {
  MadeOnce<int>& once = fresh();
  std::atomic<int> made{0};
  std::array<int*, 8> got{};
  {
    std::vector<std::jthread> threads;
    for (int*& each : got) {
      threads.emplace_back([&] {
        each = &once.get([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          return ++made;
        });
      });
    }
  }
  EXPECT_EQ(made, 1);
  for (const int* each : got) EXPECT_EQ(each, &once.get([] { return -1; }));
  EXPECT_EQ(*got[0], 1);
}

TEST(MadeOnce, WhatCouldNotBeMadeIsTriedAgain) {
  MadeOnce<int>& once = fresh();
  EXPECT_THROW(once.get([]() -> int { throw std::runtime_error("not now"); }), std::runtime_error);
  EXPECT_EQ(once.get([] { return 7; }), 7);
}

TEST(MadeOnce, MayBeWhatCannotBeMoved) {
  static constinit MadeOnce<std::atomic<int>> once;
  EXPECT_EQ(once.get(), 0);
}

TEST(MadeOnce, AForkedChildKeepsWhatWasMade) {
  MadeOnce<int>& once = fresh();
  const int* const there = &once.get([] { return 7; });
  const Child child([&] { EXPECT_EQ(&once.get([] { return 8; }), there); });
}

TEST(MadeOnce, AForkInTheMiddleHoldsNobodyUp) {
  MadeOnce<int>& once = fresh();
  std::atomic<bool> begun{false}, forked{false};
  std::jthread maker([&] {
    EXPECT_EQ(once.get([&] {
      begun = true;
      while (!forked) std::this_thread::yield();
      return 7;
    }),
              7);
  });
  while (!begun) std::this_thread::yield();
  {
    const Child child([&] {
      ::alarm(20);
      EXPECT_EQ(once.get([] { return 8; }), 8);
    });
    forked = true;
  }
  maker.join();
  EXPECT_EQ(once.get([] { return 9; }), 7);
}

// The lock is held during a write, thus nearly always: nearly every fork falls into it.
TEST(ALog, IsWrittenByAForkedChildTheSame) {
  const Child outer([] {
    ASSERT_TRUE(set_log(Level::warn, "/dev/null").ok());
    std::atomic<bool> over{false};
    std::jthread busy([&] {
      while (!over) log(Level::warn, "again");
    });
    for (int turn = 0; turn < 40; ++turn) {
      const Child child([] {
        ::alarm(20);
        log(Level::warn, "once more");
        log_once(Level::warn, "once");
      });
    }
    over = true;
  });
}

}  // namespace
}  // namespace tutti
