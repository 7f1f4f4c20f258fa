// Control planes of communicators that were split off: they share their parent's connections and thread.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "src/control/control.h"
#include "src/control/mesh.h"
#include "tests/support/holdings.h"
#include "tests/support/world.h"

namespace tutti::test {
namespace {

std::unique_ptr<Membership> part_of(const Membership& member, int color, int key = 0) {
  SplitRequest request;
  request.color = color;
  request.key = key;
  request.name = "part";
  request.settings = settings_of_test();
  request.wait_limits = patience_of(20);
  auto part = split(*member.control, member.key, request);
  EXPECT_TRUE(part.ok()) << part.status().text();
  return part.ok() ? std::move(*part) : nullptr;
}

/// That everybody's number comes to this rank, in the order of the ranks.
void expect_exchange(const Membership& member, std::span<const int> numbers) {
  const int own = numbers[static_cast<std::size_t>(member.rank)];
  const auto all = member.control->allgather(std::as_bytes(std::span(&own, 1)), patience_of(20));
  ASSERT_TRUE(all.ok()) << all.status().text();
  ASSERT_EQ(all->size(), numbers.size());
  for (std::size_t r = 0; r < numbers.size(); ++r) {
    int number = -1;
    std::memcpy(&number, (*all)[r].data(), sizeof number);
    EXPECT_EQ(number, numbers[r]);
  }
}

Error error_of_test(const char* message) {
  Error error;
  error.status = TUTTI_ABORTED;
  error.message = message;
  return error;
}

TEST(Parts, TakeADescriptorEachAndNoThread) {
  constexpr int parts = 100;
  auto world = world_of(4);
  const Holdings before = Holdings::now();
  std::array<std::vector<std::unique_ptr<Membership>>, 4> made;
  std::vector<std::uint64_t> took;
  on_each(world, [&](Membership& member) {
    auto& own = made[static_cast<std::size_t>(member.rank)];
    for (int i = 0; i < parts; ++i) {
      const std::uint64_t begin = now_ns();
      own.push_back(part_of(member, 0));
      if (member.rank == 0) took.push_back(now_ns() - begin);
    }
  });
  EXPECT_TRUE(holds_no_more_than({before.threads, before.descriptors + 4 * parts}));
  std::ranges::nth_element(took, took.begin() + parts / 2);
  RecordProperty("split_us", static_cast<int>(took[parts / 2] / 1000));
  const std::vector<int> numbers = {3, 1, 4, 1};
  on_each(world, [&](Membership& member) {
    for (const auto& part : made[static_cast<std::size_t>(member.rank)]) expect_exchange(*part, numbers);
  });
  on_each(world, [&](Membership& member) { made[static_cast<std::size_t>(member.rank)].clear(); });
  EXPECT_TRUE(holds_no_more_than(before));
}

/// Ranks of a part are neighbours there that were none before.
TEST(Parts, OfStrangersConnectThem) {
  auto world = world_of(11);
  std::mt19937 random(7);
  for (int round = 0; round < 12; ++round) {
    std::vector<int> colors(11), keys(11);
    for (std::size_t r = 0; r < colors.size(); ++r) {
      colors[r] = static_cast<int>(random() % 3) - (round % 4 == 3 ? 1 : 0);
      keys[r] = static_cast<int>(random() % 11);
    }
    on_each(world, [&](Membership& member) {
      const auto own = static_cast<std::size_t>(member.rank);
      const auto part = part_of(member, colors[own], keys[own]);
      ASSERT_EQ(part == nullptr, colors[own] < 0);
      if (part == nullptr) return;
      std::vector<int> numbers, ranks;
      for (const int rank : part->in_parent) {
        EXPECT_EQ(colors[static_cast<std::size_t>(rank)], colors[own]);
        numbers.push_back(100 * round + rank);
        ranks.push_back(static_cast<int>(ranks.size()));
      }
      expect_exchange(*part, numbers);
      for (const PeerReport& report : part->control->survey(ranks, patience_of(20))) {
        EXPECT_NE(report.state, PeerReport::State::kUnknown) << report.rank;
        EXPECT_NE(report.state, PeerReport::State::kDead) << report.rank;
      }
      expect_exchange(*part, numbers);  // nobody leaves before
      EXPECT_TRUE(part->control->first_error().ok()) << part->control->first_error().text();
    });
  }
  for (Membership& member : world) EXPECT_TRUE(member.control->first_error().ok());
}

// What it told is there, so that the others could make the part by that alone.
TEST(Parts, AreNotMadeWithoutOneThatGaveUp) {
  auto world = world_of(2);
  std::atomic<bool> given_up{false}, parent_failed{false};
  const auto status_of = [&](const Membership& member, WaitLimits wait_limits) {
    SplitRequest request;
    request.settings = settings_of_test();
    request.wait_limits = wait_limits;
    return split(*member.control, member.key, request).status();
  };
  std::thread first([&] {
    WaitLimits until_given_up = patience_of(20);
    until_given_up.interrupted = &given_up;
    EXPECT_EQ(status_of(world[0], until_given_up).code(), TUTTI_ABORTED);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // until it waits
  given_up = true;
  first.join();
  std::thread parent([&] {  // the communicator would be failed by rank 0, which takes a while
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    parent_failed = true;
  });
  WaitLimits until_failed = patience_of(20);
  until_failed.failed = &parent_failed;
  EXPECT_EQ(status_of(world[1], until_failed).code(), TUTTI_ABORTED);
  parent.join();
}

TEST(Parts, FailAlone) {
  auto world = world_of(5);
  std::array<std::unique_ptr<Membership>, 5> first, second;
  on_each(world, [&](Membership& member) {
    first[static_cast<std::size_t>(member.rank)] = part_of(member, 0);
    second[static_cast<std::size_t>(member.rank)] = part_of(member, 0, -member.rank);
  });
  first[3]->control->report(error_of_test("the first part's"));
  for (const auto& part : first) {
    EXPECT_TRUE(eventually([&] { return part->control->failed().load(); }));
    EXPECT_EQ(part->control->first_error().error().message, "the first part's");
  }
  world[2].control->report(error_of_test("the world's"));
  for (Membership& member : world) EXPECT_TRUE(eventually([&] { return member.control->failed().load(); }));
  const std::vector<int> numbers = {5, 4, 3, 2, 1};
  on_each(world, [&](Membership& member) {
    const Membership& part = *second[static_cast<std::size_t>(member.rank)];
    expect_exchange(part, numbers);
    EXPECT_TRUE(part.control->first_error().ok());
  });
}

TEST(Parts, OutliveTheirParentAndAreSplitAgain) {
  auto world = world_of(6);
  on_each(world, [](Membership& member) {
    const auto part = part_of(member, member.rank % 2);
    member.control->leave();
    const std::vector<int> three = {7, 8, 9};
    expect_exchange(*part, three);
    const auto pair = part_of(*part, part->rank == 1 ? -1 : 0, -part->rank);
    if (part->rank == 1) return;
    EXPECT_EQ(pair->in_parent, (std::vector<int>{2, 0}));
    part->control->leave();
    const std::vector<int> two = {1, 2};
    expect_exchange(*pair, two);
  });
}

TEST(Parts, AreLeftOneByOne) {
  auto world = world_of(3);
  std::array<std::unique_ptr<Membership>, 3> parts;
  on_each(world, [&](Membership& member) { parts[static_cast<std::size_t>(member.rank)] = part_of(member, 0); });
  parts[1]->control->leave();
  EXPECT_TRUE(eventually([&] {
    return parts[0]->control->query(1, patience_of(1)).state == PeerReport::State::kLeft &&
           parts[2]->control->query(1, patience_of(1)).state == PeerReport::State::kLeft;
  }));
  EXPECT_EQ(world[0].control->query(1, patience_of(5)).state, PeerReport::State::kAlive);
  EXPECT_TRUE(parts[0]->control->first_error().ok());
}

/// Several threads of each rank split communicators of their own at the same time.
TEST(Parts, MayBeMadeByManyThreads) {
  constexpr int ranks = 7, threads = 3;
  auto world = world_of(ranks);
  std::array<std::vector<std::unique_ptr<Membership>>, threads> copies;
  for (auto& copy : copies) {
    copy.resize(ranks);
    on_each(world, [&](Membership& member) { copy[static_cast<std::size_t>(member.rank)] = part_of(member, 0); });
  }
  on_each(world, [&](Membership& member) {
    std::vector<std::thread> running;
    for (std::size_t t = 0; t < threads; ++t) {
      running.emplace_back([&copies, t, rank = static_cast<std::size_t>(member.rank)] {
        for (int round = 0; round < 10; ++round) {
          const auto part = part_of(*copies[t][rank], static_cast<int>(rank * (t + 1) + rank / 2) % 2);
          std::vector<int> numbers(part->in_parent.size());
          std::iota(numbers.begin(), numbers.end(), static_cast<int>(t) * 1000 + round);
          expect_exchange(*part, numbers);
        }
      });
    }
    for (std::thread& thread : running) thread.join();
  });
}

/// Rank 0 of two, whose peer says what the test says.
class Peerless : public testing::Test {
 protected:
  Peerless() {
    ControlPlane::Options options;
    options.ranks = 2;
    world = std::move(ControlPlane::make(options)).value();
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    its_end = FrameChannel(UniqueFd(ends[1]));
    Member peer;
    peer.rank = 1;
    world->add_link(UniqueFd(ends[0]), peer);
  }
  std::unique_ptr<ControlPlane> part(std::uint64_t context, std::uint64_t idle_timeout_ns = 10 * kSecond) {
    ControlPlane::Options options;
    options.ranks = 2;
    options.name = "part";
    options.idle_timeout_ns = idle_timeout_ns;
    const std::vector<int> both = {0, 1};
    auto made = ControlPlane::make_part(*world, options, both, context, std::make_unique<ActivityBoard>());
    EXPECT_TRUE(made.ok()) << made.status().text();
    return std::move(made).value();
  }
  void say(std::uint64_t context, Mesh::Frame type, const std::function<void(ByteWriter&)>& payload) {
    ByteWriter out;
    out.u64(context);
    payload(out);
    its_end.send(type, out.bytes());
  }
  void say_goodbye(std::uint64_t context) {
    say(context, Mesh::kGoodbye, [](ByteWriter& out) { pack_activity(out, Activity()); });
  }
  std::unique_ptr<ControlPlane> world;
  FrameChannel its_end;
};

TEST_F(Peerless, WhatComesBeforeAPartIsThereIsKeptForIt) {
  for (const std::uint64_t context : {7u, 8u}) {
    say(context, Mesh::kGather, [&](ByteWriter& out) {
      out.u64(1);
      out.u32(0);
      out.u64(0);
      out.blob(std::as_bytes(std::span(&context, 1)));
    });
  }
  say_goodbye(9);
  for (const std::uint64_t context : {8u, 7u}) {
    const auto one = part(context);
    const auto all = one->allgather({}, patience_of(20));
    ASSERT_TRUE(all.ok()) << all.status().text();
    std::uint64_t told = 0;
    ASSERT_EQ((*all)[1].size(), sizeof told);
    std::memcpy(&told, (*all)[1].data(), sizeof told);
    EXPECT_EQ(told, context);
  }
  const auto left = part(9);
  EXPECT_TRUE(eventually([&] { return left->query(1, patience_of(.1)).state == PeerReport::State::kLeft; }));
}

TEST_F(Peerless, ADeathIsHeardOfInAllParts) {
  const auto one = part(7), left = part(8);
  say_goodbye(8);
  EXPECT_TRUE(eventually([&] { return left->query(1, patience_of(.1)).state == PeerReport::State::kLeft; }));
  its_end.close();
  for (const ControlPlane* plane : {world.get(), one.get()}) {
    ASSERT_TRUE(eventually([&] { return plane->failed().load(); }));
    EXPECT_THAT(plane->first_error().text(), HasSubstr("died: its control connection closed without a goodbye"));
  }
  EXPECT_THAT(one->first_error().text(), HasSubstr("of \"part\""));
  EXPECT_FALSE(left->failed().load());
  const auto late = part(10);
  late->set_members({this_member(0), this_member(1)});
  EXPECT_TRUE(eventually([&] { return late->failed().load(); })) << "it has no connection to its only neighbour";
}

TEST_F(Peerless, SilenceIsEachPartsOwn) {
  const auto one = part(7, 200 * kMs);
  say(7, Mesh::kHeartbeat, [](ByteWriter& out) { pack_activity(out, Activity()); });
  ASSERT_TRUE(eventually([&] { return one->failed().load(); }));
  EXPECT_THAT(one->first_error().text(), HasSubstr("was silent for 200 ms"));
  EXPECT_FALSE(world->failed().load());
}

/// Its plane may come later, and its process says each second that it lives.
TEST_F(Peerless, WhoseFirstWordIsToComeIsNotSilentYet) {
  const auto one = part(7, 200 * kMs);
  ::usleep(1'000'000);
  EXPECT_FALSE(one->failed().load());
  ASSERT_TRUE(eventually([&] { return one->failed().load(); }));
}

/// Who does without a silent peer says so: it may live.
TEST_F(Peerless, IsToldWhyOneDoesWithoutIt) {
  const auto one = part(7, 200 * kMs);
  say(7, Mesh::kHeartbeat, [](ByteWriter& out) { pack_activity(out, Activity()); });
  ASSERT_TRUE(eventually([&] { return one->failed().load(); }));
  bool told = false;
  EXPECT_TRUE(eventually([&] {
    its_end.receive([&](std::uint8_t type, std::span<const std::byte> payload) {
      ByteReader in(payload);
      told = told || (type == Mesh::kFailure && in.u64() == 7);
      return true;
    });
    return told;
  }));
}

}  // namespace
}  // namespace tutti::test
