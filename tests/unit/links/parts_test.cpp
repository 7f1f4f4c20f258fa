// Communicators that are split off share their whole's endpoints: any threads use them in any order, and nothing is left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/random.h"
#include "src/links/transport_set.h"
#include "src/links/waiter.h"
#include "tests/support/holdings.h"
#include "tests/support/world.h"

namespace tutti::test {
namespace {

using testing::AllOf;
using testing::Not;

constexpr std::uint64_t minute = 60'000'000'000;

/// One rank's transports of one communicator, with the view that its ranks have settled.
struct End {
  std::unique_ptr<Transports> transports;
  View view;
};
/// All ranks of a communicator.
using Ends = std::vector<End>;

Settings settings_for(const std::string& transport) {
  Settings settings = settings_of_test();
  settings.transports = {transport};
  settings.plugin_path = std::filesystem::path(TUTTI_PLUGIN).parent_path();
  return settings;
}

Ends whole_of(int ranks, const Settings& settings) {
  const auto key = random_key();
  Ends ends;
  std::vector<std::vector<std::byte>> descriptions, reaches;
  for (int rank = 0; rank < ranks; ++rank) {
    auto opened = Transports::open(settings, key, rank, ranks);
    EXPECT_TRUE(opened.ok()) << opened.status().text();
    ends.push_back({std::move(*opened), flat_view(ranks)});
    descriptions.push_back(ends.back().transports->describe());
  }
  for (End& end : ends) {
    auto reach = end.transports->reach(descriptions, end.view, {}, {Deadline::in(minute)});
    EXPECT_TRUE(reach.ok()) << reach.status().text();
    reaches.push_back(std::move(*reach));
  }
  for (End& end : ends) {
    const Status settled = end.transports->settle(reaches, end.view);
    EXPECT_TRUE(settled.ok()) << settled.text();
  }
  return ends;
}

/// The part of `members`, which are ranks of whole's.
Ends part_of(const Ends& whole, const std::vector<int>& members) {
  const std::uint64_t context = random_u64();
  Ends ends;
  std::vector<std::vector<std::byte>> rows;
  for (const int member : members) {
    Transports& transports = *whole[static_cast<std::size_t>(member)].transports;
    transports.share();
    rows.push_back(transports.describe_carriers());
    ends.push_back(
        {Transports::part_of(transports, members, context, "part"), flat_view(static_cast<int>(members.size()))});
  }
  for (End& end : ends) {
    const Status settled = end.transports->settle_part(rows, end.view);
    EXPECT_TRUE(settled.ok()) << settled.text();
  }
  return ends;
}

constexpr WaitPolicy spinning{.spins = true}, yielding{.spins = false};

/// One rank's links with its neighbours in the ring of a communicator's ranks.
class RingEnd {
 public:
  RingEnd(Transports& transports, int rank, int ranks, const WaitPolicy& policy,
          TrafficClass traffic = TrafficClass::collective)
      : transports_(transports),
        waiter_(transports.endpoints(traffic), policy, {}),
        to_((rank + 1) % ranks),
        from_((rank + ranks - 1) % ranks) {
    waiter_.begin(minute);
    const EndpointTurn turn(waiter_);
    for (const bool sends : {true, false}) {
      auto link = transports.link(traffic, sends ? to_ : from_, 3, sends);
      EXPECT_TRUE(link.ok()) << link.status().text();
      (sends ? out_ : in_) = *link;
    }
  }

  /// Sends `number` on and takes the one before's; false: that cannot be, or does not come.
  bool pass(std::uint64_t number) {
    waiter_.begin(minute);
    const EndpointTurn turn(waiter_);
    return await([&] { return transports_.ready(*out_); }) && await([&] { return transports_.ready(*in_); }) &&
           await([&] { return out_->transport->send(out_->link, &number, sizeof number, number); }) && take(number) &&
           await([&] { return out_->transport->flushed(out_->link); });
  }
  /// Why its links are broken, once they are.
  std::vector<std::string> whys() {
    waiter_.begin(minute);
    const EndpointTurn turn(waiter_);
    std::vector<std::string> all;
    for (HostLink* const link : {out_, in_}) {
      EXPECT_TRUE(await([&] {
        return link->transport->failure(link->link, nullptr, 0) == TUTTI_LINK_OK ? TUTTI_LINK_NOT_YET : TUTTI_LINK_OK;
      }));
      all.push_back(transports_.why_broken(*link));
    }
    return all;
  }

 private:
  template <typename Try>
  bool await(const Try& attempt) {
    for (std::uint32_t rounds = 1;; ++rounds) {
      const tutti_link_result result = attempt();
      if (result != TUTTI_LINK_NOT_YET) return result == TUTTI_LINK_OK;
      if (!waiter_.idle(rounds, true)) return false;
    }
  }
  bool take(std::uint64_t number) {
    tutti_message message{};
    if (!await([&] { return in_->transport->view(in_->link, &message); })) return false;
    const bool same = message.bytes == sizeof number && message.fingerprint == number &&
                      std::memcmp(message.data, &number, sizeof number) == 0;
    in_->transport->release(in_->link);
    return same;
  }

  Transports& transports_;
  Waiter waiter_;
  int to_, from_;
  HostLink* out_ = nullptr;
  HostLink* in_ = nullptr;
};

/// Runs body(rank) on a thread for each.
template <typename Body>
void on_each_of(std::size_t ranks, const Body& body) {
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank) threads.emplace_back([&, rank] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

/// Passes `rounds` messages round a communicator, each rank in a thread of its own; whether all came.
bool passes(const Ends& ends, std::uint64_t rounds, const WaitPolicy& policy = yielding) {
  std::atomic<bool> good{true};
  on_each_of(ends.size(), [&](std::size_t rank) {
    RingEnd ring(*ends[rank].transports, static_cast<int>(rank), static_cast<int>(ends.size()), policy);
    for (std::uint64_t n = 0; n < rounds && good; ++n) {
      if (!ring.pass(n)) good = false;
    }
  });
  return good;
}

/// Parameter: the transport.
class Parts : public testing::TestWithParam<const char*> {
 protected:
  Ends whole(int ranks) const { return whole_of(ranks, settings_for(GetParam())); }
};
INSTANTIATE_TEST_SUITE_P(Transports, Parts, testing::Values("shm", "tcp", "faulty"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST_P(Parts, AreSettledAsTheirWholeAndAlikeOnAllMembers) {
  const Ends all = whole(3);
  const Ends part = part_of(all, {2, 0});
  const Ends of_part = part_of(part, {1, 0});
  for (const Ends* ends : {&part, &of_part}) {
    for (const End& end : *ends) {
      EXPECT_EQ(end.transports->names(), GetParam());
      EXPECT_EQ(end.view.links, all[0].view.links);
      EXPECT_EQ(end.view.through_memory, all[0].view.through_memory);
    }
    EXPECT_EQ((*ends)[0].transports->carriers()[0], nullptr);
    EXPECT_STREQ((*ends)[0].transports->carriers()[1], GetParam());
  }
}

TEST_P(Parts, AreUsedByManyThreadsAtOnceInAnyOrder) {
  constexpr std::size_t threads = 4, each = 3;
  for (const int ranks : {2, 3}) {
    const Ends all = whole(ranks);
    std::vector<int> forth(all.size()), back(all.size());
    for (int rank = 0; rank < ranks; ++rank) forth[rank] = back[all.size() - 1 - rank] = rank;
    std::vector<Ends> parts;
    for (std::size_t n = 0; n < threads * each; ++n) parts.push_back(part_of(all, n % 2 == 0 ? forth : back));
    const auto rank_in = [&](std::size_t n, std::size_t rank) { return n % 2 == 0 ? rank : all.size() - 1 - rank; };
    std::atomic<int> wrong{0};
    // Each thread goes round its parts; which threads of a rank come first is left to chance, and so is who waits how.
    on_each_of(all.size() * threads, [&](std::size_t one) {
      const std::size_t rank = one / threads, thread = one % threads;
      const WaitPolicy& policy = one % 3 == 0 ? spinning : yielding;
      std::mt19937 chance(static_cast<unsigned>(one));
      std::vector<std::unique_ptr<RingEnd>> rings;
      for (std::size_t n = thread * each; n < (thread + 1) * each; ++n) {
        const std::size_t own = rank_in(n, rank);
        rings.push_back(
            std::make_unique<RingEnd>(*parts[n][own].transports, static_cast<int>(own), ranks, policy,
                                      thread % 4 == 3 ? TrafficClass::point_to_point : TrafficClass::collective));
      }
      for (std::uint64_t number = 0; number < 200; ++number) {
        if (!rings[number % each]->pass(number * 64 + thread)) ++wrong;
        if (chance() % 16 == 0) std::this_thread::yield();
      }
    });
    EXPECT_EQ(wrong, 0);
    EXPECT_TRUE(passes(all, 20)) << "the whole is as it was";
  }
}

TEST_P(Parts, TakeNoDescriptorsThoughTheyAreMany) {
  const Ends all = whole(2);
  ASSERT_TRUE(passes(all, 5));
  ASSERT_TRUE(passes(part_of(all, {0, 1}), 5));
  const Holdings before = Holdings::now();
  std::vector<Ends> parts;
  for (int n = 0; n < 200; ++n) {
    parts.push_back(part_of(all, {0, 1}));
    ASSERT_TRUE(passes(parts.back(), 2));
  }
  EXPECT_TRUE(holds_no_more_than(before));
}

TEST_P(Parts, OutliveTheirWholeAndItThem) {
  for (const bool whole_first : {true, false}) {
    Ends all = whole(2);
    ASSERT_TRUE(passes(all, 3));
    Ends part = part_of(all, {1, 0});
    Ends of_part = part_of(part, {1, 0});
    ASSERT_TRUE(passes(part, 3));
    ASSERT_TRUE(passes(of_part, 3));
    (whole_first ? all : part).clear();
    EXPECT_TRUE(passes(of_part, 3));
    (whole_first ? part : of_part).clear();
    EXPECT_TRUE(passes(whole_first ? of_part : all, 3));
  }
}

TEST_P(Parts, BreakWhereAPeerIsGoneAndNameItByItsRankThere) {
  Ends all = whole(3);
  Ends part = part_of(all, {2, 0});  // rank 2 is 0 there, and 0 is 1
  RingEnd ring(*all[0].transports, 0, 3, yielding);
  RingEnd in_part(*part[1].transports, 1, 2, yielding);
  std::thread peer([&] {
    RingEnd own(*all[2].transports, 2, 3, yielding), own_in_part(*part[0].transports, 0, 2, yielding);
    EXPECT_TRUE(own_in_part.pass(1));
    EXPECT_TRUE(own.pass(1));
  });
  std::thread third([&] { EXPECT_TRUE(RingEnd(*all[1].transports, 1, 3, yielding).pass(1)); });
  EXPECT_TRUE(in_part.pass(1));
  EXPECT_TRUE(ring.pass(1));
  peer.join();
  third.join();
  part[0].transports.reset();
  all[2].transports.reset();
  for (const std::string& why : in_part.whys()) {
    EXPECT_THAT(why, AllOf(HasSubstr("rank 0 "), Not(HasSubstr("rank 2"))));
  }
}

TEST(PartSettings, AreThoseOfTheEndpointsOrAskForOthers) {
  const Settings settings = settings_for("shm");
  const Ends all = whole_of(2, settings);
  const auto shares = [&](const auto& change) {
    Settings other = settings;
    change(other);
    return all[0].transports->may_share_with(other);
  };
  EXPECT_TRUE(shares([](Settings& s) { s.lanes = 3, s.algorithm = "ring", s.operation_timeout_ns = 5; }));
  EXPECT_FALSE(shares([](Settings& s) { s.transports = {"tcp"}; }));
  EXPECT_FALSE(shares([](Settings& s) { s.interfaces = {}; }));
  EXPECT_FALSE(shares([](Settings& s) { s.port_range = {20000, 20100}; }));
  EXPECT_FALSE(shares([](Settings& s) { s.connect_timeout_ns += 1; }));
}

TEST(PartRows, ThatDoNotAgreeAreRefused) {
  const Ends all = whole_of(2, settings_for("shm"));
  const std::vector<int> members = {0, 1};
  const auto part = Transports::part_of(*all[0].transports, members, 5, "part");
  const std::vector<std::byte> row = all[0].transports->describe_carriers(), other = all[1].transports->describe_carriers();
  std::vector<std::byte> cut = other;
  cut.resize(3);
  View view = flat_view(2);
  using Rows = std::vector<std::vector<std::byte>>;
  for (const Rows& rows : {Rows{row, row}, Rows{row, cut}, Rows{row, {}}, Rows(1, row)}) {
    EXPECT_EQ(part->settle_part(rows, view).code(), TUTTI_INTERNAL_ERROR);
  }
  EXPECT_TRUE(part->settle_part(Rows{row, other}, view).ok());
}

TEST(HandedMutex, IsHandedToThoseThatWaitInTheirOrder) {
  HandedMutex mutex;
  ASSERT_TRUE(mutex.try_lock());
  std::vector<int> order;
  std::vector<std::thread> waiting;
  for (int n = 0; n < 4; ++n) {
    waiting.emplace_back([&, n] {
      while (!mutex.lock_for(minute)) {
      }
      order.push_back(n);
      mutex.unlock();
    });
    while (mutex.wanted() != static_cast<std::uint32_t>(n + 1)) std::this_thread::yield();
  }
  mutex.unlock();
  // The one that has just given it back comes last, though it is awake and they are not.
  while (!mutex.lock_for(minute)) {
  }
  order.push_back(4);
  mutex.unlock();
  for (std::thread& thread : waiting) thread.join();
  EXPECT_THAT(order, testing::ElementsAre(0, 1, 2, 3, 4));
}

TEST(HandedMutex, IsGivenUpByWhoeverHasWaitedEnough) {
  HandedMutex mutex;
  ASSERT_TRUE(mutex.try_lock());
  std::thread([&] {
    EXPECT_FALSE(mutex.try_lock());
    EXPECT_FALSE(mutex.lock_for(0));
    EXPECT_FALSE(mutex.lock_for(1'000'000));
    EXPECT_EQ(mutex.wanted(), 0u);
  }).join();
  mutex.unlock();
  EXPECT_TRUE(mutex.try_lock());
}

}  // namespace
}  // namespace tutti::test
