// Transfers that are taken back, a turn at a time: on links of a few slots, with programs that compute meanwhile, and at
// random moments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <map>
#include <random>
#include <string>

#include "src/base/background_thread.h"
#include "src/base/clock.h"
#include "tests/unit/point_to_point/model/world.h"

namespace tutti {
namespace {

constexpr std::size_t kLong = 300'000;
constexpr std::uint64_t kSoft = 50 * kMs;

/// A send of rank 0 to rank 1 whose request rank 1 keeps: it took what came behind it.
std::unique_ptr<Posted> kept_request(TransferWorld& world, std::uint64_t soft_ns) {
  auto kept = world.send(0, {.peer = 1, .bytes = kLong, .number = 1, .soft_ns = soft_ns});
  const auto other = world.send(0, {.peer = 1, .tag = 9});
  const auto taken = world.receive(1, {.peer = 0, .tag = 9});
  world.step_all(4);
  EXPECT_EQ(taken->end(), TUTTI_SUCCESS);
  EXPECT_EQ(other->end(), TUTTI_SUCCESS);
  EXPECT_EQ(kept->end(), TUTTI_IN_PROGRESS);
  return kept;
}

/// Rank 0 makes progress alone.
void pass_turns(TransferWorld& world, int turns, std::uint64_t each_ns) {
  for (int i = 0; i < turns; ++i) {
    TransferWorld::pass(each_ns);
    world.step(0);
  }
}

/// Its limit passes, and the time that its receiver has to answer, who makes no progress.
void let_it_end(TransferWorld& world, const Posted& send) {
  pass_turns(world, 100, 2 * kMs);
  EXPECT_EQ(send.end(), TUTTI_TIMEOUT);
  EXPECT_EQ(EngineTurns::ghosts(world.engine(0)), 1u);
}

void expect_sound(TransferWorld& world) {
  for (int rank = 0; rank < world.ranks(); ++rank) {
    EXPECT_TRUE(world.failure(rank).ok()) << "rank " << rank << ": " << world.failure(rank).text();
    EXPECT_TRUE(EngineTurns::is_empty(world.engine(rank))) << "rank " << rank;
  }
}

TEST(TakenBack, ASoftSendThatHasEndedAnswersAReceiveAlthoughItsProgramComputes) {
  TransferWorld world(2);
  const auto soft = kept_request(world, kSoft);
  let_it_end(world, *soft);
  const auto next = world.send(0, {.peer = 1, .bytes = 8, .number = 2});
  world.step(0, 3);
  EXPECT_EQ(next->end(), TUTTI_SUCCESS);
  const auto receive = world.receive(1, {.peer = 0, .bytes = kLong});
  for (int i = 0; i < 5; ++i) {
    world.step(1);
    world.rest(0);
  }
  EXPECT_EQ(receive->end(), TUTTI_SUCCESS);
  EXPECT_EQ(receive->number(), 2u);
  expect_sound(world);
}

TEST(TakenBack, AWithdrawThatHasNoCreditLeavesAfterItsSendHasEnded) {
  TransferWorld world(2);
  const auto soft = world.send(0, {.peer = 1, .bytes = kLong, .soft_ns = kSoft});
  world.step(0);
  std::vector<std::unique_ptr<Posted>> eager;
  for (std::uint32_t i = 0; i < 3; ++i) eager.push_back(world.send(0, {.peer = 1, .number = 10 + i}));
  world.step(0);
  let_it_end(world, *soft);
  const auto receive = world.receive(1, {.peer = 0, .bytes = kLong});
  for (int i = 0; i < 10; ++i) {
    world.step(1);
    world.rest(0);
  }
  EXPECT_EQ(receive->end(), TUTTI_SUCCESS);
  EXPECT_EQ(receive->number(), 10u);
}

TEST(TakenBack, AnAnswerIsNotLeftBehindByTheCallsThatFollow) {
  TransferWorld world(2);
  const auto soft = kept_request(world, kSoft);
  let_it_end(world, *soft);
  const auto receive = world.receive(1, {.peer = 0, .bytes = kLong});
  world.step(1, 5);  // its clear is on its way
  for (std::uint32_t i = 0; i < 20 && receive->end() == TUTTI_IN_PROGRESS; ++i) {
    std::uint32_t number = i;
    Transfer transfer;
    transfer.sends = true;
    transfer.memory = reinterpret_cast<std::byte*>(&number);
    transfer.bytes = sizeof number;
    transfer.peer = 1;
    transfer.tag = i == 0 ? 0 : 5;
    EXPECT_TRUE(world.engine(0).exchange({&transfer, 1}, {}).ok());
    world.rest(0);
    world.step(1, 4);
  }
  EXPECT_EQ(receive->end(), TUTTI_SUCCESS);
  EXPECT_EQ(receive->number(), 0u);
}

TEST(TakenBack, MessagesKeepTheirOrderWhereAReceiveHasMetTheRequest) {
  TransferWorld world(2);
  const auto first = world.send(0, {.peer = 1, .bytes = kLong, .number = 1});
  const auto second = world.send(0, {.peer = 1, .number = 2});
  world.step(0, 2);
  world.engine(0).cancel(*first->work);
  world.step(0);
  const auto receive_first = world.receive(1, {.peer = 0, .bytes = kLong});
  const auto receive_second = world.receive(1, {.peer = 0, .bytes = kLong});
  world.step_all(10);
  EXPECT_EQ(first->end(), TUTTI_SUCCESS);  // it was met
  EXPECT_EQ(receive_first->number(), 1u);
  EXPECT_EQ(receive_second->number(), 2u);
  EXPECT_EQ(EngineTurns::ghosts(world.engine(0)), 0u);
  expect_sound(world);
}

TEST(TakenBack, ARequestThatNobodyHasMetIsForgotten) {
  TransferWorld world(2);
  const auto kept = kept_request(world, 0);
  world.engine(0).cancel(*kept->work);
  const auto other = world.receive(1, {.peer = 0, .tag = 4});  // its program makes progress for something else
  world.step_all(4);
  EXPECT_EQ(kept->end(), TUTTI_ABORTED);
  EXPECT_EQ(EngineTurns::ghosts(world.engine(0)), 0u);
  world.engine(1).cancel(*other->work);
  expect_sound(world);
}

TEST(TakenBack, AReceiveThatWaitsAgainHasReceivedNothing) {
  TransferWorld world(2);
  const auto soft = kept_request(world, kSoft);
  let_it_end(world, *soft);
  const auto receive = world.receive(1, {.peer = TUTTI_ANY_SOURCE, .bytes = kLong});
  world.step_all(5);
  EXPECT_EQ(EngineTurns::ghosts(world.engine(0)), 0u);
  EXPECT_EQ(receive->work->info().source, -1);
  EXPECT_EQ(receive->work->info().received_count, 0u);
  world.engine(1).cancel(*receive->work);
  EXPECT_EQ(receive->end(), TUTTI_ABORTED);
  expect_sound(world);
}

TEST(TakenBack, TooLateItGoesOnWithItsOwnLimit) {
  for (const std::uint64_t limit : {600 * kSecond, 10 * kSecond}) {
    TransferWorld world(2);
    const auto send = world.send(0, {.peer = 1, .bytes = kLong, .limit_ns = limit});
    const auto receive = world.receive(1, {.peer = 0, .bytes = kLong, .limit_ns = 2 * limit});
    world.step(0);
    world.step(1, 2);  // the clear is on its way
    world.engine(0).cancel(*send->work);
    world.link(0, 1).slots = 0;  // the link is slow
    pass_turns(world, 600, 100 * kMs);
    const bool is_longer = limit > 60 * kSecond;
    EXPECT_EQ(send->end(), is_longer ? TUTTI_IN_PROGRESS : TUTTI_TIMEOUT);
    if (is_longer) {
      EXPECT_TRUE(world.failure(0).ok()) << world.failure(0).text();
    } else {
      EXPECT_THAT(world.failure(0).text(), testing::HasSubstr("did not end within 10 s"));
    }
    world.link(0, 1).slots = 4;
    world.step_all(10);
    EXPECT_EQ(send->end(), is_longer ? TUTTI_SUCCESS : TUTTI_TIMEOUT);
    if (is_longer) expect_sound(world);
  }
}

TEST(TakenBack, WithoutMemoryNothingHasHappened) {
  for (const bool has_begun : {true, false}) {
    TransferWorld world(2);
    const auto receive = world.receive(1, {.peer = 0});
    if (has_begun) world.step(1);
    allocations_left = 0;
    EXPECT_THROW(world.engine(1).cancel(*receive->work), std::bad_alloc);
    allocations_left = -1;
    EXPECT_EQ(receive->end(), TUTTI_IN_PROGRESS);
    const auto send = world.send(0, {.peer = 1, .number = 7});
    world.step_all(3);
    EXPECT_EQ(receive->end(), TUTTI_SUCCESS);
    EXPECT_EQ(receive->number(), 7u);
    expect_sound(world);
  }
}

TEST(TakenBack, AShortSendThatIsStillToLeaveHasSucceededWhenItsLimitPasses) {
  TransferWorld world(2);
  world.link(0, 1).keeps = true;
  const auto send = world.send(0, {.peer = 1, .number = 3, .soft_ns = kSoft});
  world.step(0);
  EXPECT_EQ(send->end(), TUTTI_IN_PROGRESS);
  pass_turns(world, 100, kSecond);
  EXPECT_EQ(send->end(), TUTTI_SUCCESS);
  EXPECT_TRUE(EngineTurns::is_wanted(world.engine(0))) << "nobody sees to its leaving";
  const auto receive = world.receive(1, {.peer = 0});
  world.step(1, 2);
  world.rest(0, 2);
  EXPECT_EQ(receive->number(), 3u);
  expect_sound(world);
}

TEST(TakenBack, GhostsOfAPeerThatLeavesAreForgotten) {
  TransferWorld world(2);
  const auto soft = kept_request(world, kSoft);
  let_it_end(world, *soft);
  world.link(1, 0).broken = true;
  world.rest(0, 3);
  expect_sound(world);
}

TEST(TakenBack, WithoutAThreadASendWaitsForItsAnswer) {
  model_has_threads = false;
  TransferWorld world(2);
  const auto soft = kept_request(world, kSoft);
  pass_turns(world, 200, 2 * kMs);
  EXPECT_EQ(soft->end(), TUTTI_IN_PROGRESS);
  EXPECT_EQ(EngineTurns::ghosts(world.engine(0)), 0u);
  const auto receive = world.receive(1, {.peer = 0, .tag = 4});  // its program makes progress
  world.step_all(3);
  EXPECT_EQ(soft->end(), TUTTI_TIMEOUT);
  world.engine(1).cancel(*receive->work);
  expect_sound(world);
  model_has_threads = true;
}

TEST(TakenBack, ManyThatEndAtOnceCostLittleEach) {
  constexpr std::uint64_t count = 4000;
  TransferWorld world(2);
  std::vector<std::unique_ptr<Posted>> all;
  for (std::uint64_t i = 0; i < count; ++i) all.push_back(world.receive(1, {.peer = 0, .tag = i, .soft_ns = kSoft}));
  world.step(1);
  const std::uint64_t before = EngineTurns::steps(world.engine(1));
  TransferWorld::pass(2 * kSoft);
  world.step(1, 3);
  for (const auto& each : all) ASSERT_EQ(each->end(), TUTTI_TIMEOUT);
  EXPECT_LE(EngineTurns::steps(world.engine(1)) - before, 70 * count) << "steps are not in proportion";
  expect_sound(world);
}

/// Sends of several ranks to rank 0 and its receives, of which some are taken back, with programs that compute at times.
class Storm {
 public:
  explicit Storm(std::uint32_t seed) : random_(seed), world_(2 + pick(2), std::array{0ul, 16ul, 65536ul}[pick(3)]) {
    world_.limit_ns().store(3600 * kSecond);
    takes_back_ = pick(4) != 0;
    is_soft_ = takes_back_ && pick(2) != 0;
    for (int from = 0; from < world_.ranks(); ++from) {
      for (int to = 0; to < world_.ranks(); ++to) world_.link(from, to).slots = 1 + pick(4);
    }
  }

  void run() {
    for (int moment = 0; moment < 150; ++moment) act();
    settle();
    check_ends();
    check_order();
    expect_sound(world_);
  }
  bool had_ghosts() const { return had_ghosts_; }

 private:
  unsigned pick(unsigned of) { return static_cast<unsigned>(random_()) % of; }
  std::uint64_t soft_ns(unsigned most_ms) { return is_soft_ && pick(2) != 0 ? (1 + pick(most_ms)) * kMs : 0; }

  void act() {
    switch (pick(8)) {
      case 0:
      case 1:
        return send();
      case 2:
        return receive();
      case 3:
        return take_back(sends_);
      case 4:
        return pick(3) == 0 ? take_back(receives_) : void();
      case 5:
        return TransferWorld::pass((pick(4) == 0 ? 120 : pick(10)) * kMs);
      default:
        return turn(static_cast<int>(pick(static_cast<unsigned>(world_.ranks()))), pick(2) != 0);
    }
  }
  void send() {
    if (sends_.size() >= 12) return;
    constexpr std::array<std::size_t, 6> lengths = {4, 20, 64, 65, 3000, kLong};
    const int from = 1 + static_cast<int>(pick(static_cast<unsigned>(world_.ranks() - 1)));
    sends_.push_back(world_.send(from, {.peer = 0,
                                        .tag = pick(2),
                                        .bytes = lengths[pick(6)],
                                        .number = static_cast<std::uint32_t>(sends_.size() + 1),
                                        .soft_ns = soft_ns(80)}));
    senders_.push_back(from);
  }
  void receive() {
    if (receives_.size() >= 16) return;
    const int from =
        pick(2) != 0 ? TUTTI_ANY_SOURCE : 1 + static_cast<int>(pick(static_cast<unsigned>(world_.ranks() - 1)));
    receives_.push_back(world_.receive(0, {.peer = from, .tag = pick(2), .bytes = kLong, .soft_ns = soft_ns(300)}));
  }
  void take_back(const std::vector<std::unique_ptr<Posted>>& all) {
    if (!takes_back_ || all.empty()) return;
    const Posted& one = *all[pick(static_cast<unsigned>(all.size()))];
    if (one.end() == TUTTI_IN_PROGRESS) static_cast<void>(one.work->cancel());
  }
  void turn(int rank, bool computes) {
    if (computes) {
      world_.rest(rank, 1 + static_cast<int>(pick(3)));
    } else {
      world_.step(rank, 1 + static_cast<int>(pick(3)));
    }
    for (int r = 0; r < world_.ranks(); ++r) had_ghosts_ = had_ghosts_ || EngineTurns::ghosts(world_.engine(r)) != 0;
  }
  /// What is left is received, and what then is left is taken back.
  void settle() {
    for (int round = 0; round < 400; ++round) {
      for (int rank = 0; rank < world_.ranks(); ++rank) turn(rank, false);
      if (round > 50 && round < 90) {
        receives_.push_back(
            world_.receive(0, {.peer = TUTTI_ANY_SOURCE, .tag = static_cast<std::uint64_t>(round % 2), .bytes = kLong}));
      }
      if (round == 200) {
        for (const auto* all : {&sends_, &receives_}) {
          for (const auto& each : *all) static_cast<void>(each->work->cancel());
        }
      }
      if (round > 200) TransferWorld::pass(5 * kMs);
    }
  }
  void check_ends() {
    std::map<std::uint32_t, int> received;
    for (const auto& each : receives_) {
      if (each->end() != TUTTI_SUCCESS) {
        EXPECT_THAT(each->end(), testing::AnyOf(TUTTI_ABORTED, TUTTI_TIMEOUT));
        continue;
      }
      ++received[each->number()];
      ASSERT_TRUE(each->number() >= 1 && each->number() <= sends_.size());
      const Posted& sent = *sends_[each->number() - 1];
      EXPECT_EQ(each->work->info().source, senders_[each->number() - 1]);
      EXPECT_EQ(each->work->info().received_count, sent.transfer.bytes);
      EXPECT_EQ(each->transfer.tag, sent.transfer.tag);
    }
    for (const auto& each : sends_) {
      const int times = received[each->number()];
      if (each->end() == TUTTI_SUCCESS) {
        EXPECT_LE(times, 1) << "send " << each->number() << " of " << each->transfer.bytes << " bytes";
      } else {
        EXPECT_THAT(each->end(), testing::AnyOf(TUTTI_ABORTED, TUTTI_TIMEOUT));
        // What came with its request may have been received.
        EXPECT_LE(times, each->transfer.bytes <= longest_in_request ? 1 : 0) << "send " << each->number();
      }
      if (each->end() == TUTTI_SUCCESS && each->transfer.bytes > 65536) {
        EXPECT_EQ(times, 1) << "send " << each->number();
      }
    }
  }
  /// Where nothing stayed behind as a ghost, messages of one sender and tag are received in order.
  void check_order() {
    if (had_ghosts_) return;
    std::map<std::pair<int, std::uint64_t>, std::uint32_t> last;
    for (const auto& each : receives_) {
      if (each->end() != TUTTI_SUCCESS) continue;
      std::uint32_t& before = last[{each->work->info().source, each->transfer.tag}];
      EXPECT_GT(each->number(), before);
      before = each->number();
    }
  }

  std::mt19937 random_;
  TransferWorld world_;
  bool takes_back_ = false;
  bool is_soft_ = false;
  bool had_ghosts_ = false;
  std::vector<std::unique_ptr<Posted>> sends_, receives_;  ///< in the order of posting
  std::vector<int> senders_;
};

TEST(TakenBack, AtRandomMoments) {
  const char* const asked = std::getenv("TEST_SEEDS");
  const std::uint32_t seeds = asked != nullptr ? static_cast<std::uint32_t>(std::strtoul(asked, nullptr, 10)) : 300;
  std::uint32_t with_ghosts = 0;
  for (std::uint32_t seed = 0; seed < seeds && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Storm storm(seed);
    storm.run();
    with_ghosts += storm.had_ghosts() ? 1 : 0;
  }
  EXPECT_GT(with_ghosts, seeds / 50);
}

}  // namespace
}  // namespace tutti
