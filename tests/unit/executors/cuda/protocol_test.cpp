// What blocks share, among threads of the host: for the thread sanitizer, and for counts beyond a model checker's reach.
#include "src/executors/cuda/protocol.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <thread>
#include <vector>

#include "src/executors/cuda/words.h"

namespace tutti::testing {
namespace {

using W = SystemWords;

template <typename Ready>
void wait_until(const Ready& ready) {
  while (!ready()) std::this_thread::yield();
}

/// Runs body(0), body(1), ... at once.
template <typename Body>
void on_threads(int count, const Body& body) {
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) threads.emplace_back([&body, t] { body(t); });
  for (std::thread& thread : threads) thread.join();
}

constexpr std::uint64_t messages = 20'000;
constexpr std::uint64_t slots = 3;

// From where counts pass 2^32, too: tags come again, counts do not.
class Links : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(Links, CarryEachMessageOnceAndInOrder) {
  const std::uint64_t first = GetParam();
  std::uint64_t arrived = first, credit = first;
  std::array<std::array<std::uint64_t, 5>, slots> slot{};
  std::uint64_t wrong = 0;
  on_threads(2, [&](int side) {
    const SendingEnd<W> sender{&credit, &arrived, slots};
    const ReceivingEnd<W> receiver{&arrived, &credit};
    for (std::uint64_t n = first; n < first + messages; ++n) {
      if (side == 0) {
        wait_until([&] { return sender.has_room(n); });
        slot[n % slots].fill(n);
        sender.publish(n);
      } else {
        wait_until([&] { return receiver.has_come(n); });
        for (const std::uint64_t word : slot[n % slots]) wrong += word != n ? 1 : 0;
        receiver.release(n);
      }
    }
  });
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(arrived, first + messages);
  EXPECT_EQ(credit, first + messages);
}

TEST_P(Links, CarryLinesByTheirTags) {
  const std::uint64_t first = GetParam();
  std::uint64_t unused = 0, credit = first;
  alignas(16) std::array<std::array<std::array<std::uint64_t, 2>, 5>, slots> lines{};
  std::uint64_t wrong = 0;
  on_threads(2, [&](int side) {
    const SendingEnd<W> sender{&credit, &unused, slots};
    const ReceivingEnd<W> receiver{&unused, &credit};
    for (std::uint64_t n = first; n < first + messages; ++n) {
      auto& own = lines[n % slots];
      if (side == 0) wait_until([&] { return sender.has_room(n); });
      for (std::uint32_t i = 0; i < own.size(); ++i) {
        const std::uint64_t expected = (3 * n + i) * 0x9e3779b97f4a7c15u;
        if (side == 0) {
          Line<W>::put(own[i].data(), n, expected);
          continue;
        }
        std::uint64_t data = 0;
        wait_until([&] { return Line<W>::get(own[i].data(), n, data); });
        wrong += data != expected ? 1 : 0;
      }
      if (side == 1) receiver.release(n);
    }
  });
  EXPECT_EQ(wrong, 0u);
}

INSTANTIATE_TEST_SUITE_P(From, Links, ::testing::Values(0, (std::uint64_t{1} << 32) - 5000));

TEST(Line, ThatNobodyHasWrittenIsNoMessage) {
  alignas(16) const std::uint64_t line[2] = {0, 0};
  std::uint64_t data = 7;
  for (const int power : {0, 1, 30, 31, 32, 33, 63}) {
    for (const std::uint64_t around : {-2, -1, 0, 1}) EXPECT_FALSE(Line<W>::get(line, (1ull << power) + around, data));
  }
  EXPECT_EQ(data, 7u);
}

// A line that short messages leave alone keeps its tag until the slot is cleaned.
TEST(Line, IsCleanedBeforeItsTagComesAgain) {
  constexpr std::uint64_t again = Line<W>::tags;
  for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{5}, again / 2 - 1, again / 2, again - 1, 3 * again}) {
    EXPECT_EQ(Line<W>::tag_of(first), Line<W>::tag_of(first + again));
    // In between each slot has a message that is followed by a cleaning.
    const std::uint64_t next = (first / (again / 2) + 1) * (again / 2);
    std::set<std::uint64_t> cleaned;
    for (std::uint64_t n = next; n < next + slots; ++n) {
      EXPECT_TRUE(Line<W>::is_cleaned_behind(n, slots)) << n;
      cleaned.insert(n % slots);
    }
    EXPECT_EQ(cleaned.size(), slots);
    EXPECT_GT(next, first);
    EXPECT_LT(next + slots, first + again);
    EXPECT_FALSE(Line<W>::is_cleaned_behind(next + slots, slots)) << "now and then is enough";
  }
  EXPECT_FALSE(Line<W>::is_cleaned_behind(0, slots)) << "nothing has been there";
}

TEST(Claims, AreOneBlocksAtATime) {
  std::uint64_t claim = 0, steps = 0;
  constexpr std::uint64_t each = 5000;
  on_threads(4, [&](int) {
    for (std::uint64_t done = 0; done < each;) {
      wait_until([&] { return Claim<DeviceWords>::take(claim); });
      for (int i = 0; i < 5 && done < each; ++i, ++done) ++steps;
      Claim<DeviceWords>::put_back(claim);
    }
  });
  EXPECT_EQ(steps, 4 * each);
}

TEST(Turn, ComesToEachLaunchOnceInTheOrderOfTheirNumbers) {
  std::uint64_t next = 0, serving = 0, state = 0, wrong = 0;
  constexpr std::uint64_t each = 3000;
  on_threads(4, [&](int) {
    const Turns<DeviceWords> turns{&next, &serving};
    for (std::uint64_t i = 0; i < each; ++i) {
      const std::uint64_t number = turns.take();
      wait_until([&] { return turns.has_come(number); });
      wrong += state++ != number ? 1 : 0;
      turns.pass(number);
    }
  });
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(state, 4 * each);
}

TEST(Departure, OfTheLastBlockIsTold) {
  for (int i = 0; i < 500; ++i) {
    constexpr int blocks = 4;
    std::uint64_t left = 0, told = 0;
    std::array<int, blocks> done{};
    on_threads(blocks, [&](int block) {
      done[static_cast<std::size_t>(block)] = 1;
      if (!Departures<DeviceWords>::is_last(left, blocks)) return;
      for (const int one : done) told += static_cast<std::uint64_t>(one);
    });
    ASSERT_EQ(told, std::uint64_t{blocks});
  }
}

}  // namespace
}  // namespace tutti::testing
