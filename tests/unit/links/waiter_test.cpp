// What a waiter that waits without a core of its own tells its peers.
#include "src/links/waiter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

namespace tutti {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// The word by which the telling transport's peers see whether this rank yields.
std::uint32_t yielding = 0;
/// What it was each time that this rank left its core; noted while its thread watches.
std::vector<std::uint32_t>& away() {
  static std::vector<std::uint32_t> all;
  return all;
}
thread_local bool watches = false;
void note() {
  if (watches) away().push_back(yielding);
}

tutti_transport mute_transport() {
  tutti_transport transport{};
  transport.size = sizeof transport;
  transport.close = [](tutti_endpoint*) {};
  transport.properties = [](tutti_endpoint*, tutti_endpoint_properties*) {};
  transport.progress = [](tutti_endpoint*) { return TUTTI_LINK_NOT_YET; };
  transport.event_fd = [](tutti_endpoint*) { return -1; };
  transport.arm = [](tutti_endpoint*, int) {};
  return transport;
}
tutti_transport telling_transport() {
  tutti_transport transport = mute_transport();
  transport.properties = [](tutti_endpoint*, tutti_endpoint_properties* properties) { properties->yielding = &yielding; };
  return transport;
}

}  // namespace
}  // namespace tutti

// In place of the C library's, for the whole program: by these a rank leaves its core.
extern "C" int sched_yield() noexcept {
  tutti::note();
  return static_cast<int>(::syscall(SYS_sched_yield));
}
extern "C" int poll(pollfd* files, nfds_t count, int timeout_ms) {
  tutti::note();
  const timespec timeout{timeout_ms / 1000, timeout_ms % 1000 * 1'000'000L};
  return ::ppoll(files, count, timeout_ms < 0 ? nullptr : &timeout, nullptr);
}

namespace tutti {
namespace {

class WaiterWithoutACore : public ::testing::Test {
 protected:
  WaiterWithoutACore() {
    away().clear();
    yielding = 0;
    watches = true;
    for (const tutti_transport* transport : {&mute_, &telling_}) group_.endpoints.emplace_back(transport, nullptr);
    policy_.spins = false;
  }
  ~WaiterWithoutACore() override { watches = false; }
  /// What was said in a wait of many rounds, in which it yields and then naps; and while it handed its core over.
  void wait(const WaiterOptions& options) {
    Waiter waiter(group_, policy_, options);
    waiter.begin(50'000'000);
    for (std::uint32_t rounds = 1; waiter.idle(rounds, false); ++rounds) {
    }
    // Another one: what yields cost the first, on a busy machine, is no matter here.
    Waiter passer(group_, policy_, options);
    std::uint64_t since_ns = 0;
    EXPECT_TRUE(passer.yield_briefly(since_ns));
  }

  const tutti_transport mute_ = mute_transport();
  const tutti_transport telling_ = telling_transport();
  EndpointGroup group_;
  WaitPolicy policy_;
};

TEST_F(WaiterWithoutACore, SaysThatItYieldsEachTimeAndThatItIsBack) {
  wait({.tells = true});
  EXPECT_GT(away().size(), 5u);
  EXPECT_THAT(away(), Each(1u));
  EXPECT_EQ(yielding, 0u) << "it runs now";
}

TEST_F(WaiterWithoutACore, SaysNothingWhereNobodyListens) {
  wait({});
  EXPECT_GT(away().size(), 5u);
  EXPECT_THAT(away(), Each(0u));
}

TEST_F(WaiterWithoutACore, KeepsItWhereItSpins) {
  policy_.spins = true;
  Waiter waiter(group_, policy_, {.tells = true});
  waiter.begin(1'000'000'000);
  std::uint64_t since_ns = 0;
  EXPECT_FALSE(waiter.shares_core());
  EXPECT_FALSE(waiter.yield_briefly(since_ns));
  EXPECT_THAT(away(), IsEmpty());
}

TEST_F(WaiterWithoutACore, BeginsAgainWithTheTimeThatItIsGivenThen) {
  Waiter waiter(group_, policy_, {});
  const auto wait = [&waiter] {
    while (waiter.idle(1, false)) {
    }
    return waiter.gave_up();
  };
  waiter.begin(1'000'000);
  EXPECT_EQ(wait(), GaveUp::deadline);
  waiter.begin_again(3'600'000'000'000);
  EXPECT_EQ(waiter.gave_up(), GaveUp::not_yet);
  EXPECT_TRUE(waiter.idle(1, false));
  waiter.begin_again(1'000'000);
  EXPECT_EQ(wait(), GaveUp::deadline);
}

TEST_F(WaiterWithoutACore, AsksTheSameConcernAndHookWhenItBeginsAgain) {
  struct Curious final : WaitObserver {
    int asked = 0;
    bool still_waiting(std::uint64_t) override { return ++asked, true; }
  } curious;
  int polled = 0;
  const PollHook hook{[](void* count) { return ++*static_cast<int*>(count), 0; }, &polled};
  Waiter waiter(group_, policy_, {});
  waiter.begin(1'000'000'000, &curious, true, hook);
  for (int again = 0; again < 3; ++again) {
    const int asked = curious.asked, had_polled = polled;
    for (std::uint32_t rounds = 1; polled == had_polled; ++rounds) ASSERT_TRUE(waiter.idle(rounds, false));
    EXPECT_GT(curious.asked, asked);
    EXPECT_FALSE(waiter.shares_core());
    waiter.begin_again(1'000'000'000);
  }
}

TEST_F(WaiterWithoutACore, IsNotLookedForWhereItsCallerComputes) {
  Waiter waiter(group_, policy_, {});
  waiter.begin(1'000'000'000);
  EXPECT_TRUE(waiter.shares_core());
  waiter.begin(1'000'000'000, nullptr, true);
  EXPECT_FALSE(waiter.shares_core());
}

/// What was said to peers of being woken.
std::vector<int>& armed() {
  static std::vector<int> all;
  return all;
}

class SharedEndpoints : public ::testing::Test {
 protected:
  SharedEndpoints() {
    armed().clear();
    arming_.arm = [](tutti_endpoint*, int sleeping) { armed().push_back(sleeping); };
    group_.endpoints.emplace_back(&arming_, nullptr);
    policy_.spins = false;
  }
  /// Waits beside computing, so that it naps at once, until it has for n rounds.
  static void nap(Waiter& waiter, std::uint32_t n) {
    waiter.begin(60'000'000'000, nullptr, true);
    const EndpointTurn turn(waiter);
    for (std::uint32_t rounds = 1; rounds <= n; ++rounds) EXPECT_TRUE(waiter.idle(rounds, false));
  }

  tutti_transport arming_ = mute_transport();
  EndpointGroup group_;
  WaitPolicy policy_;
};

TEST_F(SharedEndpoints, AreArmedAsLongAsAnybodySleeps) {
  std::optional<Waiter> one(std::in_place, group_, policy_, WaiterOptions{}),
      other(std::in_place, group_, policy_, WaiterOptions{});
  nap(*one, 1);
  EXPECT_THAT(armed(), ElementsAre(1));
  nap(*other, 2);  // asks twice, and sleeps in between
  EXPECT_THAT(armed(), ElementsAre(1, 1, 1)) << "the first is still to be woken";
  nap(*other, 1);
  one.reset();
  EXPECT_THAT(armed(), ElementsAre(1, 1, 1, 1)) << "now the second is";
  other.reset();
  EXPECT_THAT(armed(), ElementsAre(1, 1, 1, 1, 0));
  EXPECT_EQ(group_.sleepers, 0u);
}

TEST_F(SharedEndpoints, AreOthersWhileOneWaits) {
  group_.share();
  std::atomic<bool> over{false};
  std::thread other([&] {
    Waiter waiter(group_, policy_, {});
    waiter.begin(60'000'000'000);
    for (int turn = 0; turn < 100; ++turn) {
      const EndpointTurn own(waiter);
      EXPECT_TRUE(waiter.idle(1, false));
    }
    over = true;
  });
  // Waits for it within a turn, in each way.
  for (const bool spins : {true, false}) {
    const WaitPolicy policy{.spins = spins, .failed = nullptr};
    Waiter waiter(group_, policy, {});
    waiter.begin(60'000'000'000, nullptr, !spins);
    const EndpointTurn turn(waiter);
    for (std::uint32_t rounds = 1; !over; ++rounds) ASSERT_TRUE(waiter.idle(rounds, true));
  }
  other.join();
}

TEST_F(SharedEndpoints, AreLeftWhileOthersCodeRuns) {
  group_.share();
  struct Guest final : WaitObserver {
    EndpointGroup& group;
    int visits = 0;
    explicit Guest(EndpointGroup& of) : group(of) {}
    bool still_waiting(std::uint64_t) override {
      const EndpointVisit visit(group);
      return ++visits, true;
    }
  } guest(group_);
  const PollHook hook{[](void* of) { return static_cast<Guest*>(of)->still_waiting(0) ? 0 : 1; }, &guest};
  Waiter waiter(group_, policy_, {});
  waiter.begin(60'000'000'000, &guest, false, hook);
  const EndpointTurn turn(waiter);
  for (std::uint32_t rounds = 1; guest.visits < 10; ++rounds) ASSERT_TRUE(waiter.idle(rounds, false));
}

TEST_F(SharedEndpoints, AreWaitedForWithTheHookAsked) {
  group_.share();
  std::atomic<int> polled{0};
  std::atomic<bool> held{false};
  std::thread holder([&] {
    const EndpointVisit visit(group_);
    held = true;
    while (polled < 2) sched_yield();
  });
  while (!held) sched_yield();
  // Ends the wait at its second question, which shows once the turn has come.
  const PollHook hook{[](void* count) { return ++*static_cast<std::atomic<int>*>(count) == 2 ? 1 : 0; }, &polled};
  Waiter waiter(group_, policy_, {});
  waiter.begin(60'000'000'000, nullptr, false, hook);
  EXPECT_FALSE(waiter.enter(0));
  const EndpointTurn turn(waiter);
  holder.join();
  EXPECT_FALSE(waiter.idle(1, false));
  EXPECT_EQ(waiter.gave_up(), GaveUp::hook);
}

}  // namespace
}  // namespace tutti
