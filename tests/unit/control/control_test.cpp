#include "src/control/control.h"

#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>

#include "src/bootstrap/rendezvous_client.h"
#include "src/control/control_impl.h"
#include "tests/support/world.h"

namespace tutti::test {
namespace {

TEST(Graph, NeighboursAreMutualFewAndLeadEverywhere) {
  for (const int n : {1, 2, 3, 5, 8, 13, 64, 100, 1000}) {
    for (int rank = 0; rank < n; ++rank) {
      const auto near = neighbours(rank, n);
      EXPECT_LE(near.size(), 20u);
      for (const int other : near) {
        ASSERT_NE(other, rank);
        const auto back = neighbours(other, n);
        ASSERT_TRUE(std::find(back.begin(), back.end(), rank) != back.end()) << n << ": " << rank << " and " << other;
      }
    }
  }
}

TEST(Graph, AskingTheNearestAlwaysArrives) {
  for (const int n : {2, 3, 7, 12, 64, 100}) {
    for (int from = 0; from < n; ++from) {
      for (int to = 0; to < n; ++to) {
        int at = from;
        for (int hops = 0; at != to; ++hops) {
          ASSERT_LT(hops, 10) << n << ": " << from << " to " << to;
          const auto near = neighbours(at, n);
          at = *std::min_element(near.begin(), near.end(),
                                 [&](int a, int b) { return ring_distance(a, to, n) < ring_distance(b, to, n); });
        }
      }
    }
  }
}

// One end of a connection between two neighbours in the making.
struct End {
  std::unique_ptr<ControlPlane> control;
  Introduction self;
  std::optional<Acceptor> acceptor;
  ServerLink no_root;
  std::atomic<bool> given_up{false};
  Status status;

  explicit End(int rank) {
    ControlPlane::Options options;
    options.rank = rank;
    options.ranks = 2;
    control = std::move(ControlPlane::make(options)).value();
    auto listener = std::move(listen_on({"lo"}, 0, 0)).value();
    self.member = this_member(rank);
    self.addresses = listener.addresses;
    acceptor.emplace(std::move(listener));
  }
  void connect(const End& peer, const Key& key) {
    WaitLimits wait_limits = patience_of(20);
    wait_limits.interrupted = &given_up;
    wait_limits.hook.poll = [](void*) { return 0; };  // so that it looks at the flag each millisecond
    status = connect_neighbours(*control, *acceptor, {peer.self}, key, no_root, wait_limits);
    acceptor.reset();
    if (!status) control->leave();
  }
};

// At every moment: before the other end has the connection, and after.
TEST(Graph, WhoGivesUpIsNotTakenForDead) {
  const Key key = random_key();
  for (int i = 0; i < 200; ++i) {
    End ends[2] = {End(0), End(1)};
    End& quits = ends[i % 2];
    End& stays = ends[1 - i % 2];
    std::thread other([&] { stays.connect(quits, key); });
    std::thread quitting([&] { quits.connect(stays, key); });
    ::usleep(static_cast<useconds_t>(i * 10));
    quits.given_up.store(true);
    quitting.join();
    const Deadline moment = Deadline::in(20'000'000);
    while (!moment.passed() && !stays.control->failed().load()) ::usleep(500);
    stays.given_up.store(true);
    other.join();
    if (stays.control->failed().load()) {
      EXPECT_THAT(stays.control->first_error().error().message, testing::Not(HasSubstr("died")))
          << "given up after " << i * 10 << " us";
    }
  }
}

TEST(RankList, IsShort) {
  EXPECT_EQ(rank_list(std::vector<int>{7}), "rank 7");
  EXPECT_EQ(rank_list(std::vector<int>{0, 3, 4, 5, 9, 10}), "ranks 0, 3-5, 9, 10");
}

// The root may say that a creation has failed right behind the introduction, and end.
TEST(Errors, ThatAPeerTellsAreNeverASuccess) {
  for (const std::int32_t told : {std::int32_t{TUTTI_SUCCESS}, std::int32_t{TUTTI_IN_PROGRESS}, -1, 4711}) {
    ByteWriter out;
    pack_error(out, Error());
    std::vector<std::byte> bytes(out.bytes().begin(), out.bytes().end());
    ByteWriter word;
    word.i32(told);
    std::ranges::copy(word.bytes(), bytes.begin());  // which begin with the status
    ByteReader in(bytes);
    EXPECT_EQ(unpack_error(in).status, TUTTI_REMOTE_ERROR) << told;
  }
  for (const tutti_status told : {TUTTI_SYSTEM_ERROR, TUTTI_TIMEOUT, TUTTI_MISMATCH, TUTTI_UNSUPPORTED}) {
    Error error;
    error.status = told;
    ByteWriter out;
    pack_error(out, error);
    ByteReader in(out.bytes());
    EXPECT_EQ(unpack_error(in).status, told);
  }
}

TEST(FrameChannel, WhatWasLeftWhereAReaderStoppedIsReadBeforeTheEnd) {
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  FrameChannel writer{UniqueFd(fds[0])};
  FrameChannel reader{UniqueFd(fds[1])};
  writer.send(1, {});
  writer.send(2, {});
  std::vector<int> types;
  const auto one = [&](std::uint8_t type, std::span<const std::byte>) {
    types.push_back(type);
    return false;
  };
  EXPECT_FALSE(reader.receive(one));
  EXPECT_EQ(types, std::vector<int>{1});
  writer.close();
  EXPECT_FALSE(reader.receive(one));
  EXPECT_EQ(types, (std::vector<int>{1, 2}));
  EXPECT_FALSE(reader.receive(one));
  EXPECT_EQ(types.size(), 2u);
}

class Groups : public testing::TestWithParam<int> {};

TEST_P(Groups, AllgatherGivesEverybodysBytesInRankOrderAgainAndAgain) {
  auto world = world_of(GetParam());
  on_each(world, [&](Membership& member) {
    for (int i = 0; i < 20; ++i) {
      const std::vector<std::byte> mine(static_cast<std::size_t>(member.rank * 37 + i),
                                        static_cast<std::byte>(member.rank));
      const auto all = member.control->allgather(mine, patience_of(20));
      ASSERT_TRUE(all.ok()) << all.status().text();
      for (int r = 0; r < member.ranks; ++r) {
        const auto& blob = (*all)[static_cast<std::size_t>(r)];
        ASSERT_EQ(blob.size(), static_cast<std::size_t>(r * 37 + i));
        const std::vector<std::byte> expected(blob.size(), static_cast<std::byte>(r));
        ASSERT_EQ(blob, expected);
      }
    }
  });
}

TEST_P(Groups, TheFirstErrorReachesEveryRankAndWakesItsWaits) {
  auto world = world_of(GetParam());
  const int culprit = GetParam() / 2;
  on_each(world, [&](Membership& member) {
    if (member.rank == culprit) {
      Error error;
      error.status = TUTTI_MISMATCH;
      error.message = "different calls";
      error.operation = 12;
      error.guilty.push_back(member.members[0].guilty());
      member.control->report(error);
      error.message = "a later one";
      member.control->report(error);
      return;
    }
    const auto all = member.control->allgather({}, patience_of(20));
    ASSERT_FALSE(all.ok());
    EXPECT_EQ(all.status().error().message, "different calls");
    EXPECT_EQ(all.status().error().operation, 12u);
    EXPECT_TRUE(member.control->failed().load());
  });
  for (Membership& member : world) EXPECT_EQ(member.control->first_error().error().message, "different calls");
}

TEST_P(Groups, EverybodyCanAskWhatEverybodyDoes) {
  auto world = world_of(GetParam());
  std::vector<int> all;
  for (Membership& member : world) {
    all.push_back(member.rank);
    member.control->board().complete(static_cast<std::uint64_t>(member.rank));
    const std::uint64_t past = followed_by(0, 5, static_cast<std::uint64_t>(member.rank) + 1);
    member.control->board().start(
        {static_cast<std::uint64_t>(member.rank) + 1, past, 5, {}, KindName("barrier"), KindName("tree")});
  }
  on_each(world, [&](Membership& member) {
    const auto reports = member.control->survey(all, {Deadline::in(10'000'000'000)});
    for (int r = 0; r < member.ranks; ++r) {
      const PeerReport& report = reports[static_cast<std::size_t>(r)];
      EXPECT_EQ(report.state, PeerReport::State::kAlive) << r;
      EXPECT_EQ(report.rank, r);
      EXPECT_EQ(report.activity.completed, static_cast<std::uint64_t>(r));
      const Called* called = report.activity.called(report.activity.started);
      EXPECT_TRUE(called != nullptr && called->algorithm.text() == "tree");
    }
  });
}

TEST_P(Groups, OrAsksAndLooksForTheAnswersNowAndThen) {
  auto world = world_of(GetParam());
  std::vector<int> all;
  for (Membership& member : world) {
    all.push_back(member.rank);
    member.control->board().complete(static_cast<std::uint64_t>(member.rank));
  }
  on_each(world, [&](Membership& member) {
    // One that is given up takes no other's answers.
    member.control->inquire(all, Deadline::in(10'000'000'000)).reset();
    const auto inquiry = member.control->inquire(all, Deadline::in(10'000'000'000));
    EXPECT_TRUE(eventually([&] { return inquiry->over(); }));
    const auto reports = inquiry->reports();
    ASSERT_EQ(reports.size(), all.size());
    for (int r = 0; r < member.ranks; ++r) {
      const PeerReport& report = reports[static_cast<std::size_t>(r)];
      EXPECT_EQ(report.state, PeerReport::State::kAlive) << r;
      EXPECT_EQ(report.activity.completed, static_cast<std::uint64_t>(r));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Groups, testing::Values(1, 2, 3, 5, 8, 9));

TEST(Leaving, IsNoFailureAndIsKnownToWhoAsks) {
  auto world = world_of(7);
  for (const std::size_t leaver : {6u, 1u}) {
    world[leaver].control->board().complete(41);
    world[leaver].control->leave();
  }
  const PeerReport report = world[3].control->query(1, {Deadline::in(5'000'000'000)});
  EXPECT_EQ(report.state, PeerReport::State::kLeft);
  EXPECT_EQ(report.activity.completed, 41u);
  for (const std::size_t rank : {0u, 2u, 3u, 4u, 5u}) EXPECT_FALSE(world[rank].control->failed().load());
}

TEST(Leaving, EndsTheWaitOfThoseWhoNeededTheRank) {
  auto world = world_of(3);
  world[1].control->leave();
  on_each(world, [](Membership& member) {
    if (member.rank == 1) return;
    const auto all = member.control->allgather({}, patience_of(20));
    EXPECT_EQ(all.status().code(), TUTTI_REMOTE_ERROR);
    EXPECT_THAT(all.status().text(), HasSubstr("rank 1 ("));
    EXPECT_THAT(all.status().text(), HasSubstr("left"));
  });
}

TEST(Exchange, ATimeoutNamesTheRankThatDidNotCall) {
  auto world = world_of(5);
  on_each(world, [](Membership& member) {
    if (member.rank == 3) {
      EXPECT_TRUE(eventually([&] { return member.control->failed().load(); }));
      EXPECT_THAT(member.control->first_error().text(), HasSubstr("rank 3 ("));
      return;
    }
    const auto all = member.control->allgather({}, patience_of(0.3));
    EXPECT_EQ(all.status().code(), TUTTI_TIMEOUT) << all.status().text();
    EXPECT_THAT(all.status().text(), HasSubstr("rank 3 ("));
    EXPECT_THAT(all.status().text(), HasSubstr("300 ms"));
    ASSERT_EQ(all.status().error().guilty.size(), 1u);
    EXPECT_EQ(all.status().error().guilty[0].rank, 3);
  });
}

TEST(Silence, EndsAfterTheIdleTimeoutAndIsNoDeath) {
  ControlPlane::Options options;
  options.ranks = 2;
  options.idle_timeout_ns = 300'000'000;
  auto control = ControlPlane::make(options);
  ASSERT_TRUE(control.ok()) << control.status().text();
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd stopped(ends[1]);  // open, and nobody reads or writes there
  Member peer;
  peer.rank = 1;
  (*control)->add_link(UniqueFd(ends[0]), peer);
  const std::uint64_t begin = now_ns();
  ASSERT_TRUE(eventually([&] { return (*control)->failed().load(); }));
  EXPECT_GE(now_ns() - begin, options.idle_timeout_ns);
  const Error error = (*control)->first_error().error();
  EXPECT_EQ(error.status, TUTTI_REMOTE_ERROR);
  EXPECT_THAT(error.message, HasSubstr("was silent for 300 ms"));
  EXPECT_THAT(error.message, testing::Not(HasSubstr("died")));
  EXPECT_THAT(error.remedy, HasSubstr("TUTTI_IDLE_TIMEOUT"));
  ASSERT_EQ(error.guilty.size(), 1u);
  EXPECT_EQ(error.guilty[0].rank, 1);
}

// A rank whose only neighbour is there and says nothing, except what the test says for it.
class Silent : public testing::Test {
 protected:
  // The control plane of `rank` of `ranks`, linked to `silent`.
  std::unique_ptr<ControlPlane> linked(int rank, int ranks, int silent) {
    ControlPlane::Options options;
    options.rank = rank;
    options.ranks = ranks;
    auto control = ControlPlane::make(options);
    EXPECT_TRUE(control.ok()) << control.status().text();
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    its_end_ = FrameChannel(UniqueFd(ends[1]));
    Member peer;
    peer.rank = silent;
    (*control)->add_link(UniqueFd(ends[0]), peer);
    return std::move(control).value();
  }
  void beat(const Activity& activity) {
    ByteWriter out;
    out.u64(0);  // the context
    pack_activity(out, activity);
    its_end_.send(Mesh::kHeartbeat, out.bytes());
  }
  void die() { its_end_.close(); }
  static PeerReport ask(ControlPlane& control, int rank) { return control.query(rank, {Deadline::in(100'000'000)}); }
  // What is known of it once `fresh` is.
  static PeerReport ask_until(ControlPlane& control, int rank, const std::function<bool(const PeerReport&)>& fresh) {
    PeerReport report;
    EXPECT_TRUE(eventually([&] { return fresh(report = ask(control, rank)); }));
    return report;
  }
  static constexpr auto heard = [](const PeerReport& report) { return report.heard; };

 private:
  FrameChannel its_end_;
};

TEST_F(Silent, IsUnknownWhereNothingWasHeard) {
  const auto control = linked(0, 2, 1);
  const PeerReport report = ask(*control, 1);
  EXPECT_EQ(report.state, PeerReport::State::kUnknown);
  EXPECT_FALSE(report.heard);
}

TEST_F(Silent, AndHoldsUpNobodyWhoInquires) {
  const auto control = linked(0, 2, 1);
  constexpr std::uint64_t limit_ns = 1'000'000'000;
  const std::uint64_t begin = now_ns();
  const std::vector<int> peers = {1};
  const auto inquiry = control->inquire(peers, Deadline::in(limit_ns));
  EXPECT_FALSE(inquiry->over());
  EXPECT_LT(now_ns() - begin, limit_ns) << "it waited for the answer";
  EXPECT_EQ(inquiry->reports()[0].state, PeerReport::State::kUnknown);
  EXPECT_TRUE(eventually([&] { return inquiry->over(); }));
  EXPECT_GE(now_ns() - begin, limit_ns);
  EXPECT_FALSE(inquiry->reports()[0].heard);
}

TEST_F(Silent, ButItsHeartbeatsAreRemembered) {
  const auto control = linked(0, 2, 1);
  Activity activity;
  activity.started = 5;
  activity.completed = 4;
  activity.runs.push_back({3, 0, 1, {}, KindName("barrier"), {}});
  beat(activity);
  const PeerReport report = ask_until(*control, 1, heard);
  EXPECT_EQ(report.state, PeerReport::State::kUnknown);
  EXPECT_EQ(report.activity.started, 5u);
  EXPECT_EQ(report.activity.completed, 4u);
  EXPECT_EQ(report.activity.completed_kind().text(), "barrier");
}

TEST_F(Silent, ButItsBoardIsRead) {
  const auto control = linked(0, 2, 1);
  ActivityBoard board;
  std::vector<Member> members = {this_member(0), this_member(1)};
  members[1].activity_fd = board.fd();
  members[1].activity_inode = board.inode();
  control->set_members(members);
  Activity old;
  old.started = 2;
  old.exchanges = 3;
  beat(old);
  board.complete(8);
  board.start({9, 0, 1, {}, KindName("broadcast"), KindName("ring")});
  const PeerReport report = ask_until(*control, 1, [](const PeerReport& r) { return r.activity.exchanges == 3; });
  EXPECT_EQ(report.state, PeerReport::State::kUnknown);
  EXPECT_EQ(report.activity.started, 9u);
  EXPECT_EQ(report.activity.completed, 8u);
}

TEST_F(Silent, ButItsNeighboursTellOthers) {
  const auto between = linked(1, 6, 3);
  ControlPlane::Options options;
  options.ranks = 6;  // ranks 0 and 3 are no neighbours
  auto control = ControlPlane::make(options);
  ASSERT_TRUE(control.ok()) << control.status().text();
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  Member peer;
  peer.rank = 1;
  (*control)->add_link(UniqueFd(ends[0]), peer);
  peer.rank = 0;
  between->add_link(UniqueFd(ends[1]), peer);
  Activity activity;
  activity.started = 7;
  activity.completed = 6;
  beat(activity);
  const PeerReport report = ask_until(**control, 3, heard);
  EXPECT_EQ(report.state, PeerReport::State::kUnknown);
  EXPECT_EQ(report.activity.started, 7u);
  EXPECT_EQ(report.activity.completed, 6u);
}

TEST_F(Silent, IsNotSaidToTakeNoPartInAnExchange) {
  const auto control = linked(0, 2, 1);
  const auto all = control->allgather({}, patience_of(0.2));
  EXPECT_EQ(all.status().code(), TUTTI_TIMEOUT);
  EXPECT_THAT(all.status().text(), HasSubstr("rank 1"));
  EXPECT_THAT(all.status().text(), HasSubstr("does not answer"));
  EXPECT_THAT(all.status().text(), testing::Not(HasSubstr("did not take part")));
  ASSERT_EQ(all.status().error().guilty.size(), 1u);
  EXPECT_EQ(all.status().error().guilty[0].rank, 1);
}

// One broadcast, called with `root`.
Called broadcast_of(std::uint64_t root) {
  return {0, 0, 100 + root, {std::uint64_t{TUTTI_FLOAT32} << 32, root, 10}, KindName("broadcast"), KindName("tree")};
}

TEST_F(Silent, AndDeadAfterItCalledSomethingElseIsAMismatch) {
  for (const std::uint64_t root : {0u, 1u}) {
    const auto control = linked(0, 2, 1);
    control->board().start(broadcast_of(0));
    Activity activity;
    activity.started = activity.completed = 0;
    activity.runs.push_back(broadcast_of(root));
    beat(activity);
    ask_until(*control, 1, heard);
    die();
    ASSERT_TRUE(eventually([&] { return control->failed().load(); }));
    const Error error = control->first_error().error();
    EXPECT_EQ(error.status, root == 0 ? TUTTI_REMOTE_ERROR : TUTTI_MISMATCH);
    EXPECT_THAT(error.message, HasSubstr("died: its control connection closed without a goodbye"));
    if (root == 0) continue;
    EXPECT_THAT(error.message, HasSubstr("called broadcast of 10 float32 with root 0 as #0"));
    EXPECT_THAT(error.message, HasSubstr("called broadcast of 10 float32 with root 1 as #0; later rank 1 died"));
    EXPECT_EQ(error.operation, 0u);
  }
}

// This rank has not called what the other one did, so somebody else may know why.
TEST_F(Silent, AndDeadAheadOfThisRankIsToldOfByOthersFirst) {
  const auto control = linked(0, 3, 2);
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  FrameChannel other{UniqueFd(ends[1])};
  Member peer;
  peer.rank = 1;
  control->add_link(UniqueFd(ends[0]), peer);
  Activity activity;
  activity.started = activity.completed = 0;
  activity.runs.push_back(broadcast_of(1));
  beat(activity);
  ask_until(*control, 2, heard);
  die();
  EXPECT_TRUE(eventually([&] { return ask(*control, 2).state == PeerReport::State::kDead; }));
  EXPECT_FALSE(control->failed().load());
  Error error;
  error.status = TUTTI_MISMATCH;
  ByteWriter out;
  out.u64(0);  // the context
  pack_error(out, error);
  other.send(Mesh::kFailure, out.bytes());
  ASSERT_TRUE(eventually([&] { return control->failed().load(); }));
  EXPECT_EQ(control->first_error().code(), TUTTI_MISMATCH);
}

TEST_F(Silent, AndDeadIsToldOfWhereNobodyElseKnowsWhy) {
  const auto control = linked(0, 2, 1);
  Activity activity;
  activity.started = activity.completed = 0;
  activity.runs.push_back(broadcast_of(1));
  beat(activity);
  ask_until(*control, 1, heard);
  die();
  ASSERT_TRUE(eventually([&] { return control->failed().load(); }));
  EXPECT_EQ(control->first_error().code(), TUTTI_REMOTE_ERROR);
  EXPECT_THAT(control->first_error().text(), HasSubstr("died"));
}

// Ranks 1 and 4 of 7 are no neighbours.
TEST(Leaving, PassesAWholeHistoryOn) {
  auto world = world_of(7);
  std::uint64_t past = 0;
  for (std::uint64_t n = 0; n < 100; ++n) {
    for (const std::size_t rank : {1u, 4u}) {
      world[rank].control->board().start({n, past, n + 1, {}, KindName("barrier"), KindName("tree")});
    }
    past = followed_by(past, n + 1);
  }
  world[1].control->leave();
  const PeerReport report = world[4].control->query(1, {Deadline::in(5'000'000'000)});
  EXPECT_EQ(report.state, PeerReport::State::kLeft);
  ASSERT_NE(report.activity.called(0), nullptr);
  EXPECT_EQ(report.activity.called(0)->hash, 1u);
  EXPECT_FALSE(first_difference(world[4].control->board().read(), report.activity));
}

TEST_P(Groups, ExchangesOfDifferentHistoriesAreAMismatch) {
  if (GetParam() == 1) return;
  auto world = world_of(GetParam());
  on_each(world, [](Membership& member) {
    const std::uint64_t root = member.rank == member.ranks - 1 ? 1 : 0;
    member.control->board().start(broadcast_of(root));
    const std::uint64_t history = followed_by(0, broadcast_of(root).hash);
    const auto all = member.control->allgather({}, patience_of(20), {"split", 1, followed_by(history, 7)});
    EXPECT_EQ(all.status().code(), TUTTI_MISMATCH) << all.status().text();
    EXPECT_THAT(all.status().text(), testing::AllOf(HasSubstr("with root 0 as #0"), HasSubstr("with root 1 as #0")));
    EXPECT_EQ(all.status().error().operation, 0u);
  });
}

TEST(Split, GroupsByColorInTheOrderOfTheKey) {
  auto world = world_of(7);
  on_each(world, [](Membership& member) {
    SplitRequest request;
    request.color = member.rank == 5 ? -1 : member.rank % 2;
    request.key = -member.rank;
    request.name = "half";
    request.settings = settings_of_test();
    request.wait_limits = patience_of(20);
    auto child = split(*member.control, member.key, request);
    ASSERT_TRUE(child.ok()) << child.status().text();
    if (member.rank == 5) {
      EXPECT_EQ(*child, nullptr);
      return;
    }
    const Membership& half = **child;
    EXPECT_EQ(half.ranks, member.rank % 2 == 0 ? 4 : 2);
    EXPECT_EQ(half.rank, member.rank % 2 == 0 ? (6 - member.rank) / 2 : (3 - member.rank) / 2);
    EXPECT_NE(half.key, member.key);
    const auto all = half.control->allgather(std::as_bytes(std::span(&member.rank, 1)), patience_of(20));
    ASSERT_TRUE(all.ok()) << all.status().text();
    for (std::size_t i = 0; i < all->size(); ++i) {
      int parent_rank = -1;
      std::memcpy(&parent_rank, (*all)[i].data(), sizeof parent_rank);
      EXPECT_EQ(parent_rank % 2, member.rank % 2);
      EXPECT_EQ(half.members[i].rank, static_cast<int>(i));
    }
  });
}

}  // namespace
}  // namespace tutti::test
