// Flat calls: what a program is taken apart into, and how a call ends on links that refuse, break or lie.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <climits>
#include <cstring>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "algorithms/algorithm.h"
#include "src/executors/host/executor.h"

namespace tutti {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using Kind = FlatCall::Kind;
using Look = FlatCall::Look;

constexpr std::uint64_t fingerprint = 77;

/// A link that answers what it is told to: each operation takes the next of its answers, and OK where there is none left.
struct Scripted {
  std::deque<tutti_link_result> reserving, committing, viewing;
  bool broken = false;
  int reserved = 0, committed = 0, viewed = 0, released = 0;
  bool streams = false;
  std::uint32_t yielding = 0;  ///< its peer has left its core to others
  int yields_after = INT_MAX;  ///< views, or has from then on
  tutti_message message{};
  alignas(64) std::array<std::byte, 16'384> room{};
};

Scripted& scripted(tutti_link* link) { return *reinterpret_cast<Scripted*>(link); }
tutti_link_result next(std::deque<tutti_link_result>& answers) {
  if (answers.empty()) return TUTTI_LINK_OK;
  const tutti_link_result answer = answers.front();
  answers.pop_front();
  return answer;
}

tutti_transport scripted_transport();

tutti_link_result send_scripted(tutti_link* link, const void* source, std::uint64_t bytes, std::uint64_t print) {
  static const tutti_transport parts = scripted_transport();
  return tutti_send_in_parts(parts.reserve, parts.commit, link, source, bytes, print);
}

tutti_transport scripted_transport() {
  tutti_transport transport{};
  transport.size = sizeof transport;
  transport.reserve = [](tutti_link* link, std::uint64_t, std::uint64_t, tutti_room* room) {
    ++scripted(link).reserved;
    const tutti_link_result result = next(scripted(link).reserving);
    const std::uint32_t flags = scripted(link).streams ? std::uint32_t{TUTTI_ROOM_NON_TEMPORAL} : 0u;
    if (result == TUTTI_LINK_OK) *room = {scripted(link).room.data(), flags};
    return result;
  };
  transport.commit = [](tutti_link* link, std::uint64_t, std::uint64_t) {
    ++scripted(link).committed;
    return next(scripted(link).committing);
  };
  transport.view = [](tutti_link* link, tutti_message* message) {
    if (++scripted(link).viewed > scripted(link).yields_after) scripted(link).yielding = 1;
    *message = scripted(link).message;
    return next(scripted(link).viewing);
  };
  transport.release = [](tutti_link* link) { ++scripted(link).released; };
  transport.send = send_scripted;
  transport.failure = [](tutti_link* link, char* why, std::size_t n) {
    if (n != 0) std::strncpy(why, "as the script says", n);
    return scripted(link).broken ? TUTTI_LINK_BROKEN : TUTTI_LINK_OK;
  };
  return transport;
}

class Patient final : public Agent {
 public:
  explicit Patient(std::uint32_t rounds, bool shares_core = true) : rounds_(rounds), shares_core_(shares_core) {}
  void progress() override {}
  bool idle(std::uint32_t rounds, bool) override { return rounds < rounds_; }
  bool shares_core() const override { return shares_core_; }

 private:
  const std::uint32_t rounds_;
  const bool shares_core_;
};

/// A call on float32 among several ranks, as rank 0 has it.
struct Prepared {
  Prepared(Collective collective, const char* name, int ranks, std::size_t count, const Cores& cores = {},
           tutti_op op = TUTTI_SUM, int root = 0, std::uint64_t slot_bytes = 256 * 1024) {
    Problem problem;
    problem.collective = collective;
    problem.type = TUTTI_FLOAT32;
    problem.op = op;
    problem.root = root;
    problem.ranks = ranks;
    problem.count = count;
    const Algorithm& algorithm = *find_algorithm(collective, name);
    const View view = flat_view(ranks);
    plan = make_plan(algorithm, problem, view, Parameters{}, slot_bytes);
    const auto program_of = [&](int rank) { return make_program(algorithm, plan, view, rank); };
    lowered = lower(plan, 0, program_of(0), program_of, cores);
    layouts = lay_out_for_host(plan, 0, lowered);
  }
  std::vector<Kind> kinds() const {
    std::vector<Kind> all;
    for (const FlatCall::Instruction& instruction : layouts.flat.instructions) all.push_back(instruction.kind);
    return all;
  }

  Plan plan;
  Lowered lowered;
  HostLayouts layouts;
};

/// Rank 0 of two, in an all-reduce of some floats in which each sends all to the other.
class FlatCallTest : public ::testing::Test {
 protected:
  explicit FlatCallTest(std::size_t count = 2, std::uint64_t slot_bytes = 256 * 1024)
      : ours_(count), theirs_(count), result_(count) {
    for (std::size_t i = 0; i < count; ++i) {
      ours_[i] = static_cast<float>(i + 1);
      theirs_[i] = static_cast<float>(10 * (i + 1));
    }
    Prepared prepared(Collective::all_reduce, "flat", 2, count, {}, TUTTI_SUM, 0, slot_bytes);
    plan_ = std::move(prepared.plan);
    lowered_ = std::move(prepared.lowered);
    layouts_ = std::move(prepared.layouts);
    scratch_.resize(scratch_bytes(plan_) + 1);
    from_.message = {theirs_.data(), count * sizeof(float), fingerprint};
    for (const Link& link : lowered_.program.links) {
      HostLink made;
      made.transport = &transport_;
      made.peer = 1;
      Scripted& scripted = link.sends ? to_ : from_;
      made.link = reinterpret_cast<tutti_link*>(&scripted);
      made.state.peer_yielding = &scripted.yielding;
      made_.push_back(made);
    }
    for (HostLink& link : made_) links_.push_back(&link);
  }

  const Outcome& run(std::uint32_t patience = 10, bool shares_core = true) {
    Binding binding;
    binding.input = reinterpret_cast<const std::byte*>(ours_.data());
    binding.output = reinterpret_cast<std::byte*>(result_.data());
    binding.scratch = scratch_.data();
    binding.fingerprint = fingerprint;
    Patient agent(patience, shares_core);
    return executor_.run(plan_, lowered_, layouts_, binding, fold_, links_, agent);
  }
  std::uint64_t offered() const {
    std::uint64_t sum = 0;
    for (const HostLink& link : made_) sum += link.offered;
    return sum;
  }

  tutti_transport transport_ = scripted_transport();
  Scripted to_, from_;
  std::vector<float> ours_, theirs_, result_;
  Plan plan_;
  Lowered lowered_;
  HostLayouts layouts_;
  HostExecutor executor_{[this](std::uint64_t touched) {
    touched_.push_back(touched);
    return use_non_temporal_;
  }};
  bool use_non_temporal_ = false;
  std::vector<std::uint64_t> touched_;  ///< what it was asked about
  FoldFunction fold_ = find_fold(TUTTI_FLOAT32, TUTTI_SUM);
  std::vector<HostLink*> links_;

 private:
  std::vector<std::byte> scratch_;
  std::vector<HostLink> made_;
};

TEST_F(FlatCallTest, IsWhatIsDoneOnLinksAndPiecesInOrder) {
  std::vector<Kind> kinds;
  for (const FlatCall::Instruction& instruction : layouts_.flat.instructions) kinds.push_back(instruction.kind);
  EXPECT_THAT(kinds, ElementsAre(Kind::send, Kind::view, Kind::fold, Kind::release));
  EXPECT_EQ(layouts_.flat.instructions[0].count, 8u);  // bytes
  EXPECT_EQ(layouts_.flat.instructions[2].count, 2u);  // elements
}

TEST_F(FlatCallTest, SendsInOneWhereItsTransportCan) {
  transport_.send = [](tutti_link* link, const void* source, std::uint64_t bytes, std::uint64_t print) {
    ++scripted(link).committed;
    EXPECT_EQ(print, fingerprint);
    const tutti_link_result answer = next(scripted(link).committing);
    if (answer == TUTTI_LINK_OK) std::memcpy(scripted(link).room.data(), source, bytes);
    return answer;
  };
  to_.committing = std::deque(3, TUTTI_LINK_NOT_YET);
  ASSERT_EQ(run().kind, Outcome::Kind::completed);
  EXPECT_THAT(result_, ElementsAre(11, 22));
  EXPECT_EQ(std::memcmp(to_.room.data(), ours_.data(), 2 * sizeof(float)), 0);
  EXPECT_THAT((std::array{to_.reserved, to_.committed}), ElementsAre(0, 4));
  EXPECT_EQ(offered(), 1u);
  to_.committing = {TUTTI_LINK_NOT_YET, TUTTI_LINK_BROKEN};
  EXPECT_EQ(run().kind, Outcome::Kind::broken);
  EXPECT_EQ(offered(), 1u);
}

TEST_F(FlatCallTest, DoesEachActOnceWhereNothingIsInTheWay) {
  ASSERT_EQ(run().kind, Outcome::Kind::completed);
  EXPECT_TRUE(executor_.may_run_again());
  EXPECT_THAT(result_, ElementsAre(11, 22));
  EXPECT_EQ(std::memcmp(to_.room.data(), ours_.data(), 2 * sizeof(float)), 0);
  EXPECT_THAT((std::array{to_.reserved, to_.committed, from_.viewed, from_.released}), ElementsAre(1, 1, 1, 1));
  EXPECT_EQ(offered(), 1u);
  Patient agent(1);
  ours_ = {5, 6};
  ASSERT_EQ(executor_.run_again(ours_.data(), ours_.data(), fingerprint, agent).kind, Outcome::Kind::completed);
  EXPECT_THAT(ours_, ElementsAre(15, 26));  // in place
  EXPECT_EQ(offered(), 2u);
}

TEST_F(FlatCallTest, FillsAFewBytesTheSameWhateverItsLinkSays) {
  to_.streams = true;
  ASSERT_EQ(run().kind, Outcome::Kind::completed);
  EXPECT_EQ(std::memcmp(to_.room.data(), ours_.data(), 2 * sizeof(float)), 0);
}

class LongFlatCallTest : public FlatCallTest {
 protected:
  LongFlatCallTest() : FlatCallTest(2003) {}
};

TEST_F(LongFlatCallTest, FillsAMessageAsItsLinkSays) {
  for (const bool streams : {true, false}) {
    to_.streams = streams;
    to_.reserved = 0;
    to_.room.fill(std::byte{0x5a});
    std::fill(result_.begin(), result_.end(), 0.f);
    ASSERT_EQ(run().kind, Outcome::Kind::completed);
    EXPECT_EQ(to_.reserved, 1);
    EXPECT_EQ(std::memcmp(to_.room.data(), ours_.data(), 8012), 0);
    EXPECT_EQ(to_.room[8012], std::byte{0x5a}) << "no byte more";
    for (std::size_t i = 0; i < result_.size(); ++i) ASSERT_EQ(result_[i], static_cast<float>(11 * (i + 1))) << i;
  }
}

/// Two passes of a whole slot each, which no flat call has.
class CallOfTwoPasses : public FlatCallTest {
 protected:
  CallOfTwoPasses() : FlatCallTest(4096, 8192) { from_.message.bytes = 8192; }
};

/// Of the folds into the result: which were to go past the caches.
std::vector<bool>& past() {
  static std::vector<bool> folds;
  return folds;
}
void noted_fold(const FoldArguments& arguments) {
  for (const FoldDestination& to : std::span(arguments.destinations, arguments.destination_count))
    past().push_back(to.streaming);
  find_fold(TUTTI_FLOAT32, TUTTI_SUM)(arguments);
}

// Asked anew by each, though nothing is offered: the last one's answer is nobody's.
TEST_F(CallOfTwoPasses, WritesItsResultPastTheCachesWhereThatIsBetter) {
  fold_ = noted_fold;
  for (const bool better : {true, false, true}) {
    use_non_temporal_ = better;
    past().clear();
    touched_.clear();
    ASSERT_EQ(run().kind, Outcome::Kind::completed);
    EXPECT_THAT(touched_, ElementsAre(2 * 16'384)) << "operand and result";
    EXPECT_THAT(past(), Contains(better));
    EXPECT_EQ(result_[0], 11);
    EXPECT_EQ(result_[4095], static_cast<float>(4096 + 10 * 2048)) << "the second pass's message is the first's";
  }
}

TEST_F(FlatCallTest, IsTooShortToAskWhereItsResultShallGo) {
  ASSERT_EQ(run().kind, Outcome::Kind::completed);
  EXPECT_THAT(touched_, ElementsAre());
}

TEST_F(FlatCallTest, TriesAgainWhatIsNotThereYet) {
  to_.reserving = std::deque(4, TUTTI_LINK_NOT_YET);
  to_.committing = std::deque(3, TUTTI_LINK_NOT_YET);
  from_.viewing = std::deque(5, TUTTI_LINK_NOT_YET);
  ASSERT_EQ(run().kind, Outcome::Kind::completed);
  EXPECT_THAT(result_, ElementsAre(11, 22));
  EXPECT_THAT((std::array{to_.reserved, to_.committed, from_.viewed, from_.released}), ElementsAre(8, 4, 6, 1));
  EXPECT_EQ(offered(), 1u);
}

TEST_F(LongFlatCallTest, TriesAgainWhatIsNotThereYet) {
  to_.reserving = std::deque(4, TUTTI_LINK_NOT_YET);
  to_.committing = std::deque(3, TUTTI_LINK_NOT_YET);
  from_.viewing = std::deque(5, TUTTI_LINK_NOT_YET);
  ASSERT_EQ(run().kind, Outcome::Kind::completed);
  EXPECT_EQ(result_[2002], 11 * 2003);
  EXPECT_THAT((std::array{to_.reserved, to_.committed, from_.viewed, from_.released}), ElementsAre(5, 4, 6, 1));
  EXPECT_EQ(offered(), 1u);
}

TEST_F(LongFlatCallTest, EndsWhereALinkHasNoRoomAndBreaks) {
  to_.reserving = {TUTTI_LINK_NOT_YET, TUTTI_LINK_NOT_YET, TUTTI_LINK_BROKEN};
  to_.broken = true;
  EXPECT_EQ(run().kind, Outcome::Kind::broken);
  EXPECT_EQ(to_.committed, 0);
}

TEST_F(FlatCallTest, EndsWhereALinkHasNoRoomAndBreaks) {
  to_.reserving = {TUTTI_LINK_NOT_YET, TUTTI_LINK_NOT_YET, TUTTI_LINK_BROKEN};
  to_.broken = true;
  const Outcome& outcome = run();
  EXPECT_EQ(outcome.kind, Outcome::Kind::broken);
  EXPECT_EQ(outcome.peer, 1);
  EXPECT_EQ(outcome.why, "as the script says");
  EXPECT_EQ(to_.committed, 0);
  EXPECT_FALSE(executor_.may_run_again());
}

TEST_F(FlatCallTest, EndsWhereALinkBreaksAsItIsToSend) {
  to_.committing = std::deque(100, TUTTI_LINK_BROKEN);
  EXPECT_EQ(run().kind, Outcome::Kind::broken);
  EXPECT_EQ(offered(), 0u);
  EXPECT_EQ(from_.viewed, 0);
}

TEST_F(FlatCallTest, EndsWhereALinkBreaksBeforeItsMessage) {
  from_.viewing = {TUTTI_LINK_NOT_YET, TUTTI_LINK_NOT_YET, TUTTI_LINK_BROKEN};
  EXPECT_EQ(run().kind, Outcome::Kind::broken);
  EXPECT_EQ(from_.released, 0);
  EXPECT_THAT(result_, ElementsAre(0, 0));
}

TEST_F(FlatCallTest, TakesNoMessageOfAnotherOperationOrLength) {
  from_.message.fingerprint = 78;
  const Outcome& other = run();
  EXPECT_EQ(other.kind, Outcome::Kind::mismatch);
  EXPECT_EQ(other.fingerprint, 78u);
  EXPECT_EQ(from_.released, 0);
  from_.message.fingerprint = fingerprint;
  from_.message.bytes = 4;
  const Outcome& shorter = run();
  EXPECT_EQ(shorter.kind, Outcome::Kind::mismatch);
  EXPECT_EQ(shorter.bytes, 4u);
  EXPECT_EQ(shorter.expected, 8u);
  EXPECT_THAT(result_, ElementsAre(0, 0));
}

TEST_F(FlatCallTest, GivesUpWithItsAgentAndSaysWhomItWaitedFor) {
  from_.viewing = std::deque(100, TUTTI_LINK_NOT_YET);
  EXPECT_EQ(run(5).kind, Outcome::Kind::interrupted);
  EXPECT_THAT(executor_.waiting_for(), ElementsAre(1));
  EXPECT_FALSE(executor_.may_run_again());
  from_.viewing.clear();
  ASSERT_EQ(run().kind, Outcome::Kind::completed);  // the executor is as good as new
  EXPECT_THAT(result_, ElementsAre(11, 22));
}

/// What rank 0 does, in order.
std::vector<Kind> acts_of(Collective collective, const char* name, int ranks, std::size_t count, tutti_op op = TUTTI_SUM,
                          int root = 1) {
  return Prepared(collective, name, ranks, count, {}, op, root).kinds();
}

TEST(FlatSends, GoToAllLinksBeforeTheCopyForOurselvesAndPassMessagesOnBeforeTheyAreLetGo) {
  using Collective::all_gather, Collective::broadcast;
  EXPECT_THAT(acts_of(broadcast, "binomial", 4, 2, TUTTI_SUM, 0), ElementsAre(Kind::send, Kind::send, Kind::copy));
  EXPECT_THAT(acts_of(broadcast, "chain", 4, 2, TUTTI_SUM, 3),
              ElementsAre(Kind::view, Kind::send, Kind::copy, Kind::release));
  const std::vector<Kind> gathers = acts_of(all_gather, "direct", 3, 2);
  ASSERT_GE(gathers.size(), 3u);
  EXPECT_THAT(std::vector(gathers.begin(), gathers.begin() + 3), ElementsAre(Kind::send, Kind::send, Kind::copy));
}

TEST(FlatSends, AreForOnePieceThatIsShortAndNeedsNoArithmetic) {
  using Collective::all_gather, Collective::all_reduce, Collective::gather;
  EXPECT_THAT(acts_of(all_gather, "direct", 2, 1024), Contains(Kind::reserve)) << "4 KiB may be streamed";
  EXPECT_THAT(acts_of(all_gather, "direct", 2, 1023), Contains(Kind::send));
  EXPECT_THAT(acts_of(gather, "binomial", 8, 2, TUTTI_SUM, 4), Contains(Kind::reserve)) << "several blocks";
  EXPECT_THAT(acts_of(all_reduce, "recursive_doubling", 4, 2, TUTTI_AVG), Contains(Kind::send));
  EXPECT_THAT(acts_of(all_reduce, "ring", 2, 64, TUTTI_AVG), Contains(Kind::reserve)) << "it divides what it sends";
}

TEST(FlatSends, AreNotSentAgainWhereTheNextLinkHasNoRoomYet) {
  const Prepared broadcast(Collective::broadcast, "binomial", 4, 2);
  const tutti_transport transport = scripted_transport();
  std::array<Scripted, 2> peers;
  std::vector<HostLink> made(2);
  std::vector<HostLink*> links;
  ASSERT_EQ(broadcast.lowered.program.links.size(), peers.size());
  for (std::size_t l = 0; l < peers.size(); ++l) {
    made[l].transport = &transport;
    made[l].peer = broadcast.lowered.program.links[l].peer;
    made[l].link = reinterpret_cast<tutti_link*>(&peers[l]);
    links.push_back(&made[l]);
  }
  const std::size_t second = broadcast.layouts.flat.instructions[1].link;
  peers[second].reserving = std::deque(4, TUTTI_LINK_NOT_YET);
  std::array<float, 2> data{3, 4};
  Binding binding;
  binding.input = reinterpret_cast<const std::byte*>(data.data());
  binding.output = reinterpret_cast<std::byte*>(data.data());
  binding.fingerprint = fingerprint;
  Patient agent(10);
  HostExecutor executor;
  ASSERT_EQ(executor.run(broadcast.plan, broadcast.lowered, broadcast.layouts, binding, find_copy(), links, agent).kind,
            Outcome::Kind::completed);
  for (std::size_t l = 0; l < peers.size(); ++l) {
    EXPECT_EQ(peers[l].committed, 1) << l;
    EXPECT_EQ(made[l].offered, 1u) << l;
    EXPECT_EQ(std::memcmp(peers[l].room.data(), data.data(), sizeof data), 0) << l;
  }
  EXPECT_EQ(peers[second].reserved, 5);
}

/// The peers of rank 0 whose messages it awaits, in order; those that it looks for anyhow are negative, those that it looks
/// for while they run are a hundred more.
std::vector<int> awaited(Collective collective, const char* name, int ranks, std::size_t count,
                         const std::vector<std::int32_t>& core, bool shared = true) {
  const Prepared call(collective, name, ranks, count, {shared, core});
  std::vector<int> peers;
  for (const FlatCall::Instruction& instruction : call.layouts.flat.instructions) {
    const int peer = call.lowered.program.links[instruction.link].peer;
    if (instruction.kind == Kind::view)
      peers.push_back(instruction.look == Look::even_if_descheduled ? -peer
                      : instruction.look == Look::running           ? 100 + peer
                                                                    : peer);
  }
  return peers;
}

TEST(FlatCallsOnSharedCores, AwaitsThoseOfTheSameCoreFirstAndExpectsTheOthersSoonOnceTheyAreHere) {
  using Collective::all_gather, Collective::all_reduce, Collective::gather;
  EXPECT_THAT(awaited(all_reduce, "flat", 4, 2, {}), ElementsAre(101, 102, 103)) << "nobody knows";
  EXPECT_THAT(awaited(all_reduce, "flat", 4, 2, {}, false), ElementsAre(1, 2, 3)) << "everybody has a core";
  EXPECT_THAT(awaited(all_reduce, "flat", 4, 2, {0, 1, 0, 1}), ElementsAre(2, -1, -3));
  EXPECT_THAT(awaited(all_reduce, "flat", 4, 2, {0, 1, 1, 0}), ElementsAre(3, -1, -2));
  EXPECT_THAT(awaited(all_reduce, "flat", 4, 2, {0, 1, 1, 1}), ElementsAre(1, 2, 3)) << "it has the core for itself";
  EXPECT_THAT(awaited(all_reduce, "flat", 4, 2, {0, 0, 0, 0}), ElementsAre(1, 2, 3)) << "there is no other core";
  EXPECT_THAT(awaited(all_gather, "direct", 4, 2, {0, 1, 0, 1}), ElementsAre(2, -3, -1)) << "in steps of their own";
  EXPECT_THAT(awaited(gather, "direct", 4, 2, {0, 1, 0, 1}), ElementsAre(2, 1, 3)) << "to whom nothing is sent";
  EXPECT_THAT(awaited(all_reduce, "direct", 4, 4096, {0, 1, 0, 1}), ElementsAre(2, 1, 3, 2, -3, -1));
  EXPECT_THAT(awaited(all_reduce, "direct", 4, 2, {0, 1, 0, 1}), ElementsAre(2, -1, -3)) << "its own chunk alone";
}

TEST_F(FlatCallTest, LooksALittleForWhatIsExpectedSoon) {
  layouts_.flat.instructions[1].look = Look::even_if_descheduled;
  from_.viewing = {TUTTI_LINK_NOT_YET};
  ASSERT_EQ(run(0).kind, Outcome::Kind::completed) << "the agent was not asked";
  EXPECT_THAT(result_, ElementsAre(11, 22));
  from_.viewing = std::deque(1'000'000, TUTTI_LINK_NOT_YET);
  EXPECT_EQ(run(3).kind, Outcome::Kind::interrupted) << "and then it was";
}

TEST_F(FlatCallTest, LooksALittleForWhatComesFromARankThatRuns) {
  layouts_.flat.instructions[1].look = Look::running;
  from_.viewing = {TUTTI_LINK_NOT_YET};
  ASSERT_EQ(run(0).kind, Outcome::Kind::completed) << "the agent was not asked";
  EXPECT_THAT(result_, ElementsAre(11, 22));
  from_.viewed = 0;
  from_.viewing = std::deque(1'000'000, TUTTI_LINK_NOT_YET);
  from_.yields_after = 3;
  EXPECT_EQ(run(0).kind, Outcome::Kind::interrupted);
  // At once, thrice while the peer ran, or less where this thread did not, once when it ran no more, and by the agent's
  // wait: five or six.
  EXPECT_LE(from_.viewed, 6);
  EXPECT_GE(from_.viewed, 3);
}

TEST_F(FlatCallTest, LooksOnceMoreForWhatWasSentBeforeItsRankStoppedRunning) {
  layouts_.flat.instructions[1].look = Look::running;
  from_.yielding = 1;
  from_.viewing = {TUTTI_LINK_NOT_YET};
  EXPECT_EQ(run(0).kind, Outcome::Kind::completed);
}

TEST_F(FlatCallTest, LooksForNobodyWhereItsCallerComputes) {
  for (const Look look : {Look::running, Look::even_if_descheduled}) {
    layouts_.flat.instructions[1].look = look;
    from_.viewed = 0;
    from_.viewing = std::deque(1'000'000, TUTTI_LINK_NOT_YET);
    EXPECT_EQ(run(0, false).kind, Outcome::Kind::interrupted);
    EXPECT_EQ(from_.viewed, 2);
  }
}

TEST_F(FlatCallTest, LooksForNobodyWhoCannotTell) {
  for (HostLink* link : links_) link->state.peer_yielding = nullptr;
  layouts_.flat.instructions[1].look = Look::running;
  from_.viewing = std::deque(1'000'000, TUTTI_LINK_NOT_YET);
  EXPECT_EQ(run(0).kind, Outcome::Kind::interrupted);
  EXPECT_EQ(from_.viewed, 3);
}

}  // namespace
}  // namespace tutti
