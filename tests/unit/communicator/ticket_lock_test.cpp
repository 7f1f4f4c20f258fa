// Turns come in the order of the tickets, one at a time, and no wait for one is slept through.
#include "src/communicator/ticket_lock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

namespace tutti {
namespace {

constexpr std::uint64_t second = 1'000'000'000;

TEST(TicketLock, ComeOneAfterTheOtherInTheOrderOfTheTickets) {
  TicketLock turns;
  constexpr int threads = 4;
  constexpr int each = 5000;
  std::vector<std::uint64_t> order;  // only touched in a turn
  std::vector<std::thread> crew;
  for (int t = 0; t < threads; ++t) {
    crew.emplace_back([&] {
      for (int i = 0; i < each; ++i) {
        const std::uint64_t ticket = turns.take();
        while (!turns.wait(ticket, second)) {
        }
        const TurnGuard turn(turns);
        order.push_back(ticket);
      }
    });
  }
  for (std::thread& one : crew) one.join();
  ASSERT_EQ(order.size(), std::size_t{threads} * each);
  for (std::size_t i = 0; i < order.size(); ++i) ASSERT_EQ(order[i], i);
}

// A sleep that nobody ends lasts a second here; ten thousand hand-overs take a few at most.
TEST(TicketLock, WakeWhoeverWaits) {
  TicketLock turns;
  constexpr int each = 5000;
  const auto begin = std::chrono::steady_clock::now();
  const auto work = [&] {
    for (int i = 0; i < each; ++i) {
      const std::uint64_t ticket = turns.take();
      while (!turns.wait(ticket, second)) {
      }
      turns.release();
    }
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

TEST(TicketLock, AreOnlyTakenAtOnceWhereNobodyHasOne) {
  TicketLock turns;
  ASSERT_TRUE(turns.try_take());
  EXPECT_FALSE(turns.try_take());
  const std::uint64_t ticket = turns.take();
  EXPECT_FALSE(turns.wait(ticket, 1'000'000));
  turns.release();
  EXPECT_TRUE(turns.wait(ticket, second));
  EXPECT_FALSE(turns.try_take());
  turns.release();
  EXPECT_TRUE(turns.try_take());
}

}  // namespace
}  // namespace tutti
