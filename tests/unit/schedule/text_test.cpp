#include "src/schedule/text.h"

#include <gtest/gtest.h>

#include "src/tables/operators.h"
#include "tests/support/schedules.h"

namespace tutti::testing {
namespace {

bool same(const Program& a, const Program& b) {
  const auto lanes = [](const Lane& x, const Lane& y) { return x.first == y.first && x.count == y.count; };
  const auto steps = [](const Step& x, const Step& y) {
    return std::tie(x.operands, x.sources, x.destinations, x.dependencies, x.dependency_count, x.flags) ==
           std::tie(y.operands, y.sources, y.destinations, y.dependencies, y.dependency_count, y.flags);
  };
  return std::equal(a.lanes.begin(), a.lanes.end(), b.lanes.begin(), b.lanes.end(), lanes) &&
         std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(), b.steps.end(), steps) && a.operands == b.operands &&
         a.dependencies == b.dependencies && a.links == b.links;
}

bool same(const Shape& a, const Shape& b) {
  return std::tie(a.chunks, a.lanes, a.depth, a.credit, a.scratch_blocks, a.message_cells) ==
         std::tie(b.chunks, b.lanes, b.depth, b.credit, b.scratch_blocks, b.message_cells);
}

TEST(Text, ReadsBackWhatItPrinted) {
  for (const Algorithm* algorithm : all_algorithms()) {
    for (const int ranks : {1, 2, 5, 8}) {
      if (!ranks_fit(*algorithm, ranks)) continue;
      const Schedule schedule = make_schedule(*algorithm, ranks, ranks - 1, 12345, 1 << 14, {2, 3});
      const std::string text = print_schedule(schedule.plan, schedule.programs);
      const Result<Schedule> read = parse_schedule(text);
      ASSERT_TRUE(read.ok()) << read.status().text() << "\n" << text;
      EXPECT_EQ(read->plan.problem, schedule.plan.problem);
      EXPECT_EQ(read->plan.algorithm, schedule.plan.algorithm);
      EXPECT_EQ(read->plan.parameters, schedule.plan.parameters);
      EXPECT_TRUE(same(read->plan.shape, schedule.plan.shape));
      EXPECT_EQ(read->plan.window, schedule.plan.window);
      EXPECT_EQ(read->plan.hash, schedule.plan.hash);
      ASSERT_EQ(read->programs.size(), schedule.programs.size());
      for (std::size_t r = 0; r < read->programs.size(); ++r)
        EXPECT_TRUE(same(read->programs[r], schedule.programs[r])) << text;
      EXPECT_EQ(print_schedule(read->plan, read->programs), text);
    }
  }
}

TEST(Text, ReadsBackWhatSetsADevicesPlanApart) {
  Schedule schedule = make_schedule(*find_algorithm(Collective::all_reduce, "ring"), 2, 0);
  schedule.plan.problem.processor = Processor::cuda;
  schedule.plan.strands = 3;
  schedule.plan.protocol = Protocol::lines;
  finish_plan(schedule.plan, 1 << 15);
  const Result<Schedule> read = parse_schedule(print_schedule(schedule.plan, schedule.programs));
  ASSERT_TRUE(read.ok()) << read.status().text();
  EXPECT_EQ(read->plan.problem, schedule.plan.problem);
  EXPECT_EQ(read->plan.strands, 3u);
  EXPECT_EQ(read->plan.protocol, Protocol::lines);
  EXPECT_EQ(read->plan.message_bytes, std::uint64_t{1} << 15);
}

TEST(Text, ReadsBackVVariantsAndWhatOperatorsAndOpaqueElementsAre) {
  Schedule schedule =
      make_irregular_schedule(*find_algorithm(Collective::reduce_scatter, "ring"), flat_view(3), 0, 1 << 14);
  schedule.plan.problem.op = user_operator;
  schedule.plan.problem.type = static_cast<tutti_type>(TUTTI_OPAQUE + 24);
  std::string text = print_schedule(schedule.plan, schedule.programs);
  EXPECT_TRUE(text.starts_with("schedule reduce_scatter_v ring\n")) << text;
  EXPECT_NE(text.find(" type opaque24 op user_defined\n"), std::string::npos) << text;
  Result<Schedule> read = parse_schedule(text);
  ASSERT_TRUE(read.ok()) << read.status().text();
  EXPECT_EQ(read->plan.problem, schedule.plan.problem);
  schedule.plan.problem = {
      .collective = Collective::all_to_all, .type = TUTTI_UINT8, .ranks = 3, .count = 48, .opaque = 24};
  text = print_schedule(schedule.plan, schedule.programs);
  read = parse_schedule(text);
  ASSERT_TRUE(read.ok()) << read.status().text();
  EXPECT_EQ(read->plan.problem, schedule.plan.problem) << text;
  EXPECT_FALSE(parse_schedule("schedule all_reduce_v mine\n").ok());
}

TEST(Text, LooksAsDocumented) {
  const Schedule schedule = make_schedule(*find_algorithm(Collective::all_reduce, "ring"), 2, 0);
  EXPECT_EQ(print_program(schedule.programs[0], 0),
            "\n"
            "rank 0\n"
            "links from:1.0 to:1.0\n"
            "lane 0\n"
            "  0 send input[0;0] -> to:1.0[0;0]\n"
            "  1 recv_reduce_send from:1.0[0;1] input[0;1] -> output[0;1] to:1.0[0;1] complete\n"
            "  2 recv from:1.0[0;0]@output -> output[0;0]\n");
}

TEST(Text, IsReadWithCommentsAndPlainMoves) {
  const Result<Schedule> read = parse_schedule(
      "# by hand\n"
      "schedule broadcast mine\n"
      "ranks 2 root 0 count 100 type opaque12 op sum   # a comment\n"
      "lanes 1 depth 1 credit 1 chunks 1 scratch 0 message 1 window 128\n"
      "rank 0\nlinks to:1.0\nlane 0\n0 move input[0;0] -> output[0;0] to:1.0[0;0]\n"
      "rank 1\nlinks from:0.0\nlane 0\n0 recv from:0.0[0;0] -> output[0;0]\n");
  ASSERT_TRUE(read.ok()) << read.status().text();
  EXPECT_TRUE(verify(read->plan, read->programs).proved()) << verify(read->plan, read->programs).fault.text();
}

struct Bad {
  const char* from;
  const char* to;
  const char* error;
};

class BadText : public ::testing::TestWithParam<Bad> {};

TEST_P(BadText, IsRefusedNamingLineAndReason) {
  std::string text =
      "schedule broadcast mine\n"
      "ranks 2 root 0 count 100 type int32 op sum\n"
      "lanes 1 depth 1 credit 1 chunks 1 scratch 0 message 1 window 128\n"
      "rank 0\n"
      "links to:1.0\n"
      "lane 0\n"
      "  0 move input[0;0] -> output[0;0] to:1.0[0;0]\n"
      "rank 1\n"
      "links from:0.0\n"
      "lane 0\n"
      "  0 recv from:0.0[0;0] -> output[0;0] after 0.0-1\n";
  ASSERT_TRUE(parse_schedule(text).ok()) << parse_schedule(text).status().text();
  const std::size_t at = text.find(GetParam().from);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, std::string(GetParam().from).size(), GetParam().to);
  const Result<Schedule> read = parse_schedule(text);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.status().code(), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(read.status().error().message, std::string("schedule text, line ") + GetParam().error);
}

INSTANTIATE_TEST_SUITE_P(
    All, BadText,
    ::testing::Values(Bad{"schedule broadcast", "shedule broadcast", "1: a schedule begins with the word 'schedule'"},
                      Bad{"broadcast", "broadcats", "1: there is no collective 'broadcats'"},
                      Bad{" mine", "", "1: expected 'schedule COLLECTIVE ALGORITHM'"},
                      Bad{"int32", "int33", "2: there is no type 'int33'"},
                      Bad{"op sum", "op add", "2: there is no operator 'add'"}, Bad{"op sum", "op", "2: 'op' has no value"},
                      Bad{"root 0", "root x", "2: there is no setting 'root' of this value: 'x'"},
                      Bad{"depth 1", "depht 1", "3: there is no setting 'depht' of this value: '1'"},
                      Bad{"depth 1", "lanes 1", "3: 'lanes' is there twice"},
                      Bad{" credit 1", "", "4: 'credit' is missing above"}, Bad{"rank 0", "rank 1", "4: expected 'rank 0'"},
                      Bad{"window 128", "window 128 processor gpu", "3: the processor is 'cpu' or 'cuda', not 'gpu'"},
                      Bad{"window 128", "protocol words", "3: the protocol is 'messages' or 'lines', not 'words'"},
                      Bad{"ranks 2", "ranks 3", "11: it ends after 2 of 3 ranks"},
                      Bad{"ranks 2", "ranks -3", "11: there are -3 ranks"},
                      Bad{"links to:1.0", "links up:1.0", "5: 'up:1.0' is no link, as in to:3.0 or from:3.0"},
                      Bad{"links to:1.0", "links to:1.0 to:1.0", "5: link 'to:1.0' is there twice"},
                      Bad{"lane 0", "lane 1", "6: expected 'lane 0'"},
                      Bad{"  0 move", "  1 move", "7: expected step 0 or a lane or rank"},
                      Bad{"  0 move", "  0 recv", "7: 'recv' is a 'send' by its operands"},
                      Bad{"input[0;0]", "input[0,0]", "7: 'input[0,0]' is no operand, as in input[0;3] or to:1.0[0;3]"},
                      Bad{"to:1.0[0;0]", "to:1.1[0;0]", "7: 'to:1.1[0;0]' is no operand, as in input[0;3] or to:1.0[0;3]"},
                      Bad{"input[0;0] -> ", "input[0;0] ", "7: a step is 'NUMBER MOVE sources -> destinations'"},
                      Bad{"after 0.0-1", "after 0", "11: '0' is no step of a lane, as in 1.4 or 1.4-2"},
                      Bad{"after 0.0-1", "before 0.0", "11: 'before' is no operand, as in input[0;3] or to:1.0[0;3]"}));

}  // namespace
}  // namespace tutti::testing
