// What a waiter that waits without a core of its own tells its peers.
#include "src/links/waiter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <vector>

namespace tutti {
namespace {

using ::testing::Each;
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
    for (const tutti_transport* transport : {&mute_, &telling_}) endpoints_.emplace_back(transport, nullptr);
    policy_.spins = false;
  }
  ~WaiterWithoutACore() override { watches = false; }
  /// What was said in a wait of many rounds, in which it yields and then naps; and while it handed its core over.
  void wait(const WaiterOptions& options) {
    Waiter waiter(endpoints_, policy_, options);
    waiter.begin(50'000'000);
    for (std::uint32_t rounds = 1; waiter.idle(rounds, false); ++rounds) {
    }
    // Another one: what yields cost the first, on a busy machine, is no matter here.
    Waiter passer(endpoints_, policy_, options);
    std::uint64_t since_ns = 0;
    EXPECT_TRUE(passer.yield_briefly(since_ns));
  }

  const tutti_transport mute_ = mute_transport();
  const tutti_transport telling_ = telling_transport();
  std::vector<OpenEndpoint> endpoints_;
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
  Waiter waiter(endpoints_, policy_, {.tells = true});
  waiter.begin(1'000'000'000);
  std::uint64_t since_ns = 0;
  EXPECT_FALSE(waiter.shares_core());
  EXPECT_FALSE(waiter.yield_briefly(since_ns));
  EXPECT_THAT(away(), IsEmpty());
}

TEST_F(WaiterWithoutACore, BeginsAgainWithTheTimeThatItIsGivenThen) {
  Waiter waiter(endpoints_, policy_, {});
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
  Waiter waiter(endpoints_, policy_, {});
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
  Waiter waiter(endpoints_, policy_, {});
  waiter.begin(1'000'000'000);
  EXPECT_TRUE(waiter.shares_core());
  waiter.begin(1'000'000'000, nullptr, true);
  EXPECT_FALSE(waiter.shares_core());
}

}  // namespace
}  // namespace tutti
