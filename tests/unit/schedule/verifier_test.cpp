// What the verifier refuses, each in a schedule of a few steps, and what it says.
#include "src/schedule/verifier.h"

#include <gtest/gtest.h>

#include <ctime>

#include "src/schedule/text.h"
#include "tests/support/schedules.h"

namespace tutti::testing {
namespace {

/// The verdict on a schedule of two ranks, one pass of one chunk unless `shape` says otherwise.
std::string verdict(const std::string& collective, const std::string& rank0, const std::string& rank1,
                    const std::string& shape = "lanes 1 depth 1 credit 1 chunks 1 scratch 1 message 1") {
  const std::string text = "schedule " + collective + " mine\nranks 2 root 0 count 100 type int32 op sum window 32\n" +
                           shape + "\nrank 0\n" + rank0 + "\nrank 1\n" + rank1 + "\n";
  const Result<Schedule> read = parse_schedule(text);
  if (!read.ok()) return read.status().text();
  return verify(read->plan, read->programs).fault.text();
}

const char* const kSend = "links to:1.0\nlane 0\n0 move input[0;0] -> output[0;0] to:1.0[0;0]";
const char* const kTake = "links from:0.0\nlane 0\n0 move from:0.0[0;0] -> output[0;0]";

TEST(Verifier, ProvesABroadcastOfTwo) { EXPECT_EQ(verdict("broadcast", kSend, kTake), ""); }

TEST(Verifier, NamesAnOutputThatIsNeverWritten) {
  EXPECT_EQ(verdict("broadcast", "links to:1.0\nlane 0\n0 move input[0;0] -> to:1.0[0;0]", kTake),
            "rank 0, pass 0 ends with output block 0, chunk 0 wrong: it is never written");
}

TEST(Verifier, NamesAMessageThatNobodySends) {
  EXPECT_EQ(verdict("broadcast", "lane 0\n0 move input[0;0] -> output[0;0]", kTake),
            "rank 1, lane 0 receives from rank 0 on channel 0, which sends nothing there");
}

TEST(Verifier, NamesADeadlock) {
  const std::string swap =
      "lane 0\n0 recv from:%.0[0;0] -> scratch[0;0]\n1 send input[0;0] -> to:%.0[0;0]\n"
      "2 reduce input[0;0] scratch[0;0] -> output[0;0] complete";
  const auto of = [&](const std::string& peer) {
    std::string text = "links from:%.0 to:%.0\n" + swap;
    for (std::size_t at = 0; (at = text.find('%', at)) != std::string::npos;) text.replace(at, 1, peer);
    return text;
  };
  EXPECT_EQ(verdict("all_reduce", of("1"), of("0")),
            "rank 0, lane 0, step 0, pass 0 waits for ever for a message from rank 1 on channel 0 (its lane 0 stands at "
            "step 0 of "
            "pass 0) at credit 1");
}

// Both fold into their output, which in place is the input that the other may still be pulling.
TEST(Verifier, FindsTheDeadlockOfPulledMessagesInPlace) {
  const auto of = [](const std::string& peer, const std::string& fold) {
    return "links from:" + peer + ".0 to:" + peer + ".0\nlane 0\n0 send input[0;0] -> to:" + peer + ".0[0;0]\n1 move " +
           fold + " -> output[0;0] complete";
  };
  EXPECT_EQ(
      verdict("all_reduce", of("1", "input[0;0] from:1.0[0;0]"), of("0", "from:0.0[0;0] input[0;0]")),
      "rank 0, lane 0, step 1, pass 0 waits for ever to overwrite memory that a message it offered is still read from at "
      "credit 1");
}

TEST(Verifier, RefusesResultsWhoseBitsDifferBetweenRanks) {
  const auto of = [](const std::string& peer) {
    return "links from:" + peer + ".0 to:" + peer + ".0\nlane 0\n0 move input[0;0] -> scratch[0;0] to:" + peer +
           ".0[0;0]\n1 move input[0;0] from:" + peer + ".0[0;0] -> output[0;0] complete";
  };
  EXPECT_EQ(verdict("all_reduce", of("1"), of("0")),
            "rank 0, pass 0 ends with output block 0, chunk 0 wrong: it is folded as complete(x0 + x1), elsewhere as "
            "complete(x1 + "
            "x0), so that ranks get different bits");
}

TEST(Verifier, RefusesAFoldThatLacksARank) {
  EXPECT_EQ(verdict("reduce", "lane 0\n0 copy input[0;0] -> output[0;0] complete", "lane 0"),
            "rank 0, lane 0, step 0, pass 0 completes x0 …, which lacks the share of rank 1 out of place");
}

TEST(Verifier, RefusesAFoldThatIsNotCompleted) {
  EXPECT_EQ(verdict("reduce", "links from:1.0\nlane 0\n0 move input[0;0] from:1.0[0;0] -> output[0;0]",
                    "links to:0.0\nlane 0\n0 send input[0;0] -> to:0.0[0;0]"),
            "rank 0, pass 0 ends with output block 0, chunk 0 wrong: it is (x0 + x1), which did not pass the last touch");
}

TEST(Verifier, RefusesMessagesOfDifferentShape) {
  EXPECT_EQ(verdict("broadcast",
                    "links to:1.0\nlane 0\n0 move input[0;0] -> output[0;0] to:1.0[0;0]\n"
                    "1 move input[0;1] -> output[0;1] to:1.0[0;1]",
                    "links from:0.0\nlane 0\n0 move from:0.0[0;1] -> output[0;1]\n1 move from:0.0[0;0] -> output[0;0]",
                    "lanes 1 depth 1 credit 1 chunks 2 scratch 0 message 1"),
            "rank 1, lane 0, step 0, pass 0 receives from rank 0 on channel 0 chunk 1 of 1 block, but chunk 0 of 1 block "
            "were sent");
}

TEST(Verifier, RefusesLanesThatRace) {
  const std::string two = "lanes 2 depth 1 credit 1 chunks 1 scratch 1 message 1";
  const std::string take =
      "links from:0.0\nlane 0\n0 recv from:0.0[0;0] -> scratch[0;0]\nlane 1\n0 copy scratch[0;0] -> output[0;0]";
  EXPECT_EQ(verdict("broadcast", std::string(kSend) + "\nlane 1", take, two),
            "rank 1, lane 1, step 0, pass 0 reads a chunk that lane 0, step 0 writes, and does not wait for it");
  EXPECT_EQ(verdict("broadcast", std::string(kSend) + "\nlane 1", take + " after 0.0", two), "");
  EXPECT_EQ(verdict("broadcast", std::string(kSend) + "\nlane 1", take + " after 0.0-1", two),
            "rank 1, lane 1, step 0, pass 0 reads a chunk that lane 0, step 0 writes, and does not wait for it");
}

TEST(Verifier, RefusesDependenciesInACircle) {
  EXPECT_EQ(verdict("broadcast", std::string(kSend) + "\nlane 1",
                    "links from:0.0\nlane 0\n0 recv from:0.0[0;0] -> output[0;0] after 1.0\nlane 1\n0 copy output[0;0] -> "
                    "scratch[0;0] after 0.0",
                    "lanes 2 depth 1 credit 1 chunks 1 scratch 1 message 1"),
            "rank 1, lane 0, step 0, pass 0 waits for itself by its dependencies");
}

TEST(Verifier, RefusesUnwrittenMemory) {
  EXPECT_EQ(verdict("broadcast", "links to:1.0\nlane 0\n0 send scratch[0;0] -> to:1.0[0;0]", kTake),
            "rank 0, lane 0, step 0, pass 0 reads memory that nobody wrote out of place");
}

// Right out of place; in place block 1 is overwritten before it is sent.
TEST(Verifier, RefusesWhatIsWrongInPlaceOnly) {
  const auto of = [](const std::string& own, const std::string& peer) {
    return "links from:" + peer + ".0 to:" + peer + ".0\nlane 0\n0 copy input[" + own + ";0] -> output[" + own +
           ";0]\n1 copy input[" + own + ";0] -> output[" + peer + ";0]\n2 send input[" + peer + ";0] -> to:" + peer +
           ".0[0;0]\n3 recv from:" + peer + ".0[0;0] -> output[" + peer + ";0]";
  };
  EXPECT_EQ(verdict("all_to_all", of("0", "1"), of("1", "0")),
            "rank 0, lane 0, step 2, pass 0 sends x0[1], but in place x0[0]");
}

TEST(Verifier, RefusesMalformedSteps) {
  const std::string one = "links to:1.0\nlane 0\n0 move ";
  const auto rank0 = [&](const std::string& step) { return verdict("broadcast", one + step, kTake); };
  EXPECT_EQ(rank0("input[0;0] -> input[0;0] to:1.0[0;0]"), "rank 0, lane 0, step 0 writes the input");
  EXPECT_EQ(rank0("input[1;0] -> output[0;0] to:1.0[0;0]"),
            "rank 0, lane 0, step 0 touches block 1 of the input, which has 1");
  EXPECT_EQ(rank0("input[0;1] -> output[0;1] to:1.0[0;1]"), "rank 0, lane 0, step 0 touches chunk 1 of 1");
  EXPECT_EQ(rank0("input[0;0] -> output[0;0] output[0;0] to:1.0[0;0]"), "rank 0, lane 0, step 0 writes a chunk twice");
  EXPECT_EQ(rank0("input[0;0] -> output[0;0] to:1.0[0;0] to:1.0[0;0]"), "rank 0, lane 0, step 0 uses a link twice");
  EXPECT_EQ(rank0("input[0;0] -> output[0;0] to:1.0[0+2;0]"), "rank 0, lane 0, step 0 has operands of different shapes");
  EXPECT_EQ(rank0("input[0;0] -> output[0;0] to:1.0[0;0] complete"),
            "rank 0, lane 0, step 0 completes a fold in a collective that does not reduce");
  EXPECT_EQ(rank0("input[0;0] scratch[0;0] -> output[0;0] to:1.0[0;0]"),
            "rank 0, lane 0, step 0 folds in a collective that does not reduce");
  EXPECT_EQ(rank0("to:1.0[0;0] -> output[0;0]"), "rank 0, lane 0, step 0 receives on a sending link");
  EXPECT_EQ(rank0("input[0;0] -> output[0;0] to:1.0[0;0] after 0.7"),
            "rank 0, lane 0, step 0 depends on lane 0, step 7, which does not exist");
  EXPECT_EQ(verdict("broadcast", "links to:7.0\nlane 0", kTake), "rank 0 has a link to rank 7, which does not exist");
  EXPECT_EQ(verdict("broadcast", "links to:0.0\nlane 0", kTake), "rank 0 has a link to itself");
  EXPECT_EQ(verdict("broadcast", kSend, std::string(kTake) + "\nlane 1"), "rank 1 has 2 lanes, the plan 1");
}

TEST(Verifier, RefusesALinkThatTwoLanesUse) {
  EXPECT_EQ(
      verdict(
          "broadcast",
          "links to:1.0\nlane 0\n0 move input[0;0] -> output[0;0] to:1.0[0;0]\nlane 1\n0 send input[0;0] -> to:1.0[0;0]",
          std::string(kTake) + "\nlane 1", "lanes 2 depth 1 credit 1 chunks 1 scratch 1 message 1"),
      "rank 0, lane 1, step 0 uses a link of lane 0");
}

TEST(Verifier, RefusesMessagesLargerThanThePlanSays) {
  EXPECT_EQ(verdict("broadcast", "links to:1.0\nlane 0\n0 move input[0;0+2] -> output[0;0+2] to:1.0[0;0+2]",
                    "links from:0.0\nlane 0\n0 move from:0.0[0;0+2] -> output[0;0+2]",
                    "lanes 1 depth 1 credit 1 chunks 2 scratch 0 message 1"),
            "rank 0, lane 0, step 0 has a message of 2 cells, the plan allows 1");
}

TEST(Verifier, RefusesBarriersThatSomebodyIsNotHeardIn) {
  EXPECT_EQ(verdict("barrier", "links to:1.0\nlane 0\n0 send scratch[0;0] -> to:1.0[0;0]",
                    "links from:0.0\nlane 0\n0 move scratch[0;0] from:0.0[0;0] -> scratch[0;0]"),
            "rank 0, pass 0 ends with scratch block 0, chunk 0 wrong: it lacks the token of rank 1");
}

TEST(Verifier, RefusesSchedulesThatAreTooLargeToProve) {
  EXPECT_EQ(verdict("broadcast", kSend, kTake, "lanes 1 depth 1 credit 1 chunks 4000000000 scratch 4000000000 message 1"),
            "it has too many chunks to be proved");
  EXPECT_EQ(verdict("broadcast", kSend, kTake, "lanes 1 depth 5000 credit 1 chunks 1 scratch 1 message 1"),
            "depth or credit are too large to be proved");
}

// 100 elements in chunks of 32 would be a message of 32 and one of 4 where there is room for 16 of each.
TEST(Verifier, RefusesAWindowThatIsNoMultipleOfItsChunks) {
  EXPECT_EQ(verdict("broadcast", kSend, kTake, "lanes 1 depth 1 credit 1 chunks 1 scratch 1 message 1 grain 64"),
            "the window is no multiple of chunks times grain, so messages would be longer than their share of it");
}

// A ring sums to the same value, by folds of its own.
TEST(Verifier, RefusesSeveralFoldsWhereOneIsAskedFor) {
  Schedule ring = make_schedule(*find_algorithm(Collective::all_reduce, "ring"), 3, 0);
  EXPECT_EQ(verify(ring.plan, ring.programs).status().code(), TUTTI_SUCCESS);
  ring.plan.problem.one_fold = true;
  EXPECT_NE(verify(ring.plan, ring.programs).fault.text().find("which is no single fold in rank order"), std::string::npos);
}

TEST(Verifier, TakesNoLongerForLanesWithoutSteps) {
  Schedule schedule = make_schedule(*find_algorithm(Collective::all_reduce, "ring"), 64, 0);
  schedule.plan.shape.lanes = 16384;
  for (Program& program : schedule.programs) {
    const auto steps = static_cast<std::uint32_t>(program.steps.size());
    program.lanes.resize(schedule.plan.shape.lanes, {steps, 0});
  }
  const std::clock_t begun = std::clock();
  EXPECT_TRUE(verify(schedule.plan, schedule.programs).proved());
  EXPECT_LT((std::clock() - begun) / CLOCKS_PER_SEC, 20) << "four times as much where every lane looks at every other";
}

TEST(Verifier, FindsTheLeastCreditThatWorks) {
  const Schedule ring = make_schedule(*find_algorithm(Collective::all_reduce, "ring"), 5, 0);
  EXPECT_EQ(least_credit(ring.plan, ring.programs, 8), 2u);
  const Schedule tree = make_schedule(*find_algorithm(Collective::all_reduce, "tree"), 5, 0);
  EXPECT_EQ(least_credit(tree.plan, tree.programs, 8), 1u);
}

// Any credit above the least, and any depth above the plan's own, stays right: links are first in, first out.
TEST(Verifier, ProvesEveryAlgorithmAtMoreCredit) {
  for (const Algorithm* algorithm : all_algorithms()) {
    const int ranks = ranks_fit(*algorithm, 7) ? 7 : 8;
    Schedule schedule = make_schedule(*algorithm, ranks, 3);
    if (!rooted(algorithm->collective)) schedule = make_schedule(*algorithm, ranks, 0);
    for (const std::uint32_t more : {1u, 5u}) {
      schedule.plan.shape.credit += more;
      EXPECT_EQ(verify(schedule.plan, schedule.programs).fault.text(), "") << algorithm->name;
    }
  }
}

}  // namespace
}  // namespace tutti::testing
