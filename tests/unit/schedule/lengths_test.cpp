// Proofs of irregular plans: both ends of everything know how long it is, whatever a call's counts are.
#include "src/schedule/lengths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/support/schedules.h"

namespace tutti::testing {
namespace {

using ::testing::HasSubstr;

TEST(Lengths, AreProvedOfEveryAlgorithmThatVVariantsRunBy) {
  int proved = 0;
  std::set<std::string> refused;
  for (const Algorithm* algorithm : all_algorithms()) {
    if (info_of(algorithm->collective).v_variant == nullptr) continue;
    for (int ranks = 3; ranks <= 9; ++ranks) {
      for (const View& view : views_of(*algorithm, ranks)) {
        const Schedule schedule = make_irregular_schedule(*algorithm, view, roots_of(*algorithm, ranks) - 1, 4096);
        const Verdict verdict = verify(schedule.plan, schedule.programs);
        EXPECT_TRUE(verdict.proved() || !algorithm->irregular)
            << describe(*algorithm, ranks, 0) << ": " << verdict.fault.text();
        proved += verdict.proved() ? 1 : 0;
        if (!verdict.proved()) refused.insert(describe(*algorithm, 0, 0));
      }
    }
  }
  EXPECT_GT(proved, 40);
  // It keeps blocks of several ranks in the scratch, one behind the other.
  EXPECT_TRUE(refused.contains("all_to_all bruck, 0 ranks, root 0"));
}

std::string fault_of(const std::string& text) {
  const Result<Schedule> schedule = parse_schedule(text);
  EXPECT_TRUE(schedule.ok()) << schedule.status().text();
  return schedule.ok() ? verify(schedule->plan, schedule->programs).fault.text() : std::string();
}

/// A schedule of two ranks for blocks of other lengths, named with _v, and for equal ones. In `steps` O is the rank itself,
/// P its peer. `shape`: "lanes 1 depth 1 …".
std::string of_two_ranks(const std::string& name, const std::string& shape, const std::string& steps) {
  std::string text = "schedule " + name + " mine\nranks 2 root 0 count 100 type float32 op sum\n" + shape +
                     "\nwindow 128 grain 32 hash 0\n";
  for (int own = 0; own < 2; ++own) {
    const std::string r = std::to_string(own), peer = std::to_string(1 - own);
    std::string rank = "rank O\nlinks to:P.0 from:P.0\n" + steps;
    for (std::size_t at = 0; (at = rank.find_first_of("OP", at)) != std::string::npos;)
      rank.replace(at, 1, rank[at] == 'O' ? r : peer);
    text += rank;
  }
  return text;
}

// Right for blocks of one length, and for no others.
TEST(Lengths, AreNotProvedWhereABlockLiesInTheRoomOfAnother) {
  const auto schedule = [](const std::string& name, const std::string& steps) {
    return of_two_ranks(name, "lanes 1 depth 1 credit 2 chunks 1 scratch 1 message 1", "lane 0\n" + steps);
  };
  const std::string own = "0 send input[0;0] -> to:P.0[0;0] output[O;0]\n";
  const std::string straight = own + "1 recv from:P.0[0;0] -> output[P;0]\n";
  EXPECT_EQ(fault_of(schedule("all_gather_v", straight)), "");
  // Through the scratch nobody knows how much comes.
  const std::string aside = own + "1 recv from:P.0[0;0] -> scratch[0;0]\n2 copy scratch[0;0] -> output[P;0]\n";
  EXPECT_EQ(fault_of(schedule("all_gather", aside)), "");
  EXPECT_THAT(
      fault_of(schedule("all_gather_v", aside)),
      HasSubstr("rank 0, lane 0, step 1 moves no block of the input or output, so that nothing tells how long it is"));
  // For a while one's own data lie where the other's will.
  const std::string early =
      "0 send input[0;0] -> to:P.0[0;0] output[O;0] output[P;0]\n1 recv from:P.0[0;0] -> output[P;0]\n";
  EXPECT_EQ(fault_of(schedule("all_gather", early)), "");
  EXPECT_THAT(fault_of(schedule("all_gather_v", early)),
              HasSubstr("rank 0, lane 0, step 0 has operands in blocks whose lengths a call may make different"));
}

constexpr char one_chunk[] = "lanes 1 depth 1 credit 2 chunks 1 scratch 2 message 1";
constexpr char wrong_length[] = "reads scratch with another length than it was written with";

// The peer's block lies in the scratch where one's own did before.
TEST(Lengths, AreProvedWhereBlocksLieInOnePlaceOfTheScratchInTurn) {
  const std::string steps =
      "lane 0\n0 send input[0;0] -> output[O;0] scratch[0;0] to:P.0[0;0]\n"
      "1 recv from:P.0[0;0] -> output[P;0] scratch[0;0]\n2 copy scratch[0;0] -> output[P;0]\n";
  EXPECT_EQ(fault_of(of_two_ranks("all_gather_v", one_chunk, steps)), "");
}

TEST(Lengths, AreNotProvedWhereScratchIsReadWithAnotherLengthThanItsLastWriters) {
  const std::string after_reuse =
      "lane 0\n0 send input[0;0] -> scratch[1;0] scratch[0;0] output[O;0] to:P.0[0;0]\n"
      "1 recv from:P.0[0;0] -> output[P;0] scratch[0;0]\n2 copy scratch[0;0] -> output[O;0]\n"
      "3 copy scratch[1;0] -> output[O;0]\n";
  EXPECT_EQ(fault_of(of_two_ranks("all_gather", one_chunk, after_reuse)), "");
  EXPECT_THAT(fault_of(of_two_ranks("all_gather_v", one_chunk, after_reuse)),
              HasSubstr(std::string("rank 0, lane 0, step 2 ") + wrong_length));
  const std::string before_reuse =
      "lane 0\n0 send input[0;0] -> output[O;0] scratch[0;0] to:P.0[0;0]\n1 copy scratch[0;0] -> output[P;0]\n"
      "2 recv from:P.0[0;0] -> output[P;0] scratch[0;0]\n3 copy scratch[0;0] -> output[P;0]\n";
  EXPECT_EQ(fault_of(of_two_ranks("all_gather", one_chunk, before_reuse)), "");
  EXPECT_THAT(fault_of(of_two_ranks("all_gather_v", one_chunk, before_reuse)),
              HasSubstr(std::string("rank 0, lane 0, step 1 ") + wrong_length));
}

// Who wrote last is what steps wait for, not the number of their lane.
TEST(Lengths, AreProvedInTheOrderThatDependenciesGive) {
  const std::string shape = "lanes 2 depth 1 credit 2 chunks 1 scratch 2 message 1";
  const auto schedule = [&](const std::string& name, const std::string& read) {
    return of_two_ranks(name, shape,
                        "lane 0\n0 copy scratch[0;0] -> output[" + read +
                            ";0] after 1.0\n1 recv from:P.0[0;0] -> output[P;0] scratch[0;0]\n"
                            "lane 1\n0 send input[0;0] -> scratch[1;0] scratch[0;0] output[O;0] to:P.0[0;0]\n"
                            "1 copy scratch[0;0] -> output[P;0] after 0.1\n");
  };
  EXPECT_EQ(fault_of(schedule("all_gather", "O")), "");
  EXPECT_EQ(fault_of(schedule("all_gather_v", "O")), "");
  EXPECT_EQ(fault_of(schedule("all_gather", "P")), "");
  EXPECT_THAT(fault_of(schedule("all_gather_v", "P")), HasSubstr(std::string("rank 0, lane 0, step 0 ") + wrong_length));
}

// The second chunk of a short block begins where the first one of a long block ends, or before.
TEST(Lengths, AreNotProvedWhereChunksOfSeveralLengthsShareABlockOfTheScratch) {
  const std::string shape = "lanes 1 depth 1 credit 2 chunks 2 scratch 1 message 2";
  const std::string exchange =
      "lane 0\n0 send input[0;0+2] -> output[O;0+2] to:P.0[0;0+2]\n1 recv from:P.0[0;0+2] -> output[P;0+2]\n";
  const auto chunks = [&](const std::string& peers) {
    return exchange + "2 copy input[0;0] -> scratch[0;0]\n3 copy output[" + peers + ";1] -> scratch[0;1]\n" +
           "4 copy scratch[0;0] -> output[O;0]\n5 copy scratch[0;1] -> output[" + peers + ";1]\n";
  };
  EXPECT_EQ(fault_of(of_two_ranks("all_gather_v", shape, chunks("O"))), "");
  EXPECT_EQ(fault_of(of_two_ranks("all_gather", shape, chunks("P"))), "");
  EXPECT_THAT(
      fault_of(of_two_ranks("all_gather_v", shape, chunks("P"))),
      HasSubstr("rank 0, lane 0, step 3 touches a block of the scratch that has several lengths in turn, and is not "
                "always touched whole"));
  // The block is one's own again before it is read, but not all of it.
  const std::string overwritten = exchange +
                                  "2 copy input[0;0+2] -> scratch[0;0+2]\n3 copy output[P;1] -> scratch[0;1]\n"
                                  "4 copy input[0;1] -> scratch[0;1]\n5 copy scratch[0;0+2] -> output[O;0+2]\n";
  EXPECT_EQ(fault_of(of_two_ranks("all_gather", shape, overwritten)), "");
  EXPECT_THAT(fault_of(of_two_ranks("all_gather_v", shape, overwritten)),
              HasSubstr("rank 0, lane 0, step 3 touches a block of the scratch that has several lengths in turn"));
  const std::string whole = exchange +
                            "2 copy input[0;0+2] -> scratch[0;0+2]\n3 copy output[P;0+2] -> scratch[0;0+2]\n"
                            "4 copy scratch[0;0+2] -> output[P;0+2]\n";
  EXPECT_EQ(fault_of(of_two_ranks("all_gather_v", shape, whole)), "");
}

// Its 8 blocks of scratch hold one pair of ranks' block after another.
TEST(Lengths, AreProvedOfPairwiseExchangesOfManyRanks) {
  const Algorithm& pairwise = *find_algorithm(Collective::all_to_all, "pairwise");
  for (const int ranks : {10, 16, 17, 33, 64}) {
    const Schedule schedule = make_irregular_schedule(pairwise, flat_view(ranks), 0, 4096);
    EXPECT_EQ(verify(schedule.plan, schedule.programs).fault.text(), "") << ranks << " ranks";
  }
}

// A message that is overwritten later lands first where another rank's block belongs.
TEST(Lengths, AreNotProvedWhereTheEndsOfAMessageDisagree) {
  const std::string text =
      " mine\nranks 3 root 0 count 100 type float32 op sum\n"
      "lanes 1 depth 1 credit 2 chunks 1 scratch 0 message 1\nwindow 128 grain 32 hash 0\n"
      "rank 0\nlinks to:1.0 to:2.0 from:1.0 from:2.0\nlane 0\n"
      "0 send input[0;0] -> output[0;0] to:1.0[0;0] to:2.0[0;0]\n1 send input[0;0] -> to:1.0[0;0]\n"
      "2 recv from:1.0[0;0] -> output[1;0]\n3 recv from:2.0[0;0] -> output[2;0]\n"
      "rank 1\nlinks to:0.0 to:2.0 from:0.0 from:2.0\nlane 0\n"
      "0 send input[0;0] -> output[1;0] to:0.0[0;0] to:2.0[0;0]\n1 recv from:0.0[0;0] -> output[2;0]\n"
      "2 recv from:0.0[0;0] -> output[0;0]\n3 recv from:2.0[0;0] -> output[2;0]\n"
      "rank 2\nlinks to:0.0 to:1.0 from:0.0 from:1.0\nlane 0\n"
      "0 send input[0;0] -> output[2;0] to:0.0[0;0] to:1.0[0;0]\n"
      "1 recv from:0.0[0;0] -> output[0;0]\n2 recv from:1.0[0;0] -> output[1;0]\n";
  EXPECT_EQ(fault_of("schedule all_gather" + text), "");
  EXPECT_THAT(fault_of("schedule all_gather_v" + text),
              HasSubstr("rank 1, lane 0, step 1 takes a message from rank 0, which may be longer or shorter there"));
}

TEST(Lengths, HaveNoPlaceInCollectivesWhoseBlocksHaveOneCount) {
  Schedule schedule = make_schedule(*find_algorithm(Collective::all_reduce, "ring"), 3, 0);
  schedule.plan.problem.irregular = true;
  EXPECT_THAT(verify(schedule.plan, schedule.programs).fault.text(), HasSubstr("blocks of all_reduce have one count"));
}

}  // namespace
}  // namespace tutti::testing
