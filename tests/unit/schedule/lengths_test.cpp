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

// Right for blocks of one length, and for no others.
TEST(Lengths, AreNotProvedWhereABlockLiesInTheRoomOfAnother) {
  const std::string head =
      "ranks 2 root 0 count 100 type float32 op sum\n"
      "lanes 1 depth 1 credit 2 chunks 1 scratch 1 message 1\nwindow 128 grain 32 hash 0\n";
  const auto rank = [](int own, const std::string& steps) {
    const std::string r = std::to_string(own), peer = std::to_string(1 - own);
    std::string text = "rank " + r + "\nlinks to:" + peer + ".0 from:" + peer + ".0\nlane 0\n" + steps;
    for (std::size_t at = 0; (at = text.find_first_of("OP", at)) != std::string::npos;)
      text.replace(at, 1, text[at] == 'O' ? r : peer);
    return text;
  };
  const std::string own = "0 send input[0;0] -> to:P.0[0;0] output[O;0]\n";
  const auto schedule = [&](const std::string& name, const std::string& steps) {
    return "schedule " + name + " mine\n" + head + rank(0, steps) + rank(1, steps);
  };
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
