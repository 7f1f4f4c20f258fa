#include "tools/plan/schedule_svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <pugixml.hpp>
#include <string>

#include "algorithms/algorithm.h"
#include "src/schedule/text.h"
#include "tests/support/readable_svg.h"
#include "tests/support/views.h"

namespace tutti::plan_tool {
namespace {

using testing::expect_readable;
using ::testing::HasSubstr;
using ::testing::Not;

struct Drawn {
  SvgDrawing drawing;
  SimulatorReport report;
};

Drawn draw(const Algorithm& algorithm, int ranks, std::uint64_t count) {
  Problem problem;
  problem.collective = algorithm.collective;
  problem.ranks = ranks;
  problem.count = count;
  problem.root = rooted(problem.collective) ? ranks - 1 : 0;
  SimulatorConfig config;
  config.view = *testing::usual_view(algorithm, ranks);
  config.timeline = true;
  const Plan plan = make_plan(algorithm, problem, config.view, {}, 256 * 1024);
  std::vector<Program> programs;
  for (int r = 0; r < ranks; ++r) programs.push_back(make_program(algorithm, plan, config.view, r));
  Drawn drawn;
  drawn.report = simulate(plan, programs, config);
  drawn.drawing = schedule_svg(plan, programs, drawn.report, "a <test> network");
  return drawn;
}

Drawn draw(Collective collective, const char* name, int ranks, std::uint64_t count) {
  return draw(*find_algorithm(collective, name), ranks, count);
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST(ScheduleSvg, NoTextCoversAnotherWhateverTheAlgorithm) {
  for (const Algorithm* algorithm : all_algorithms()) {
    for (const int ranks : {2, 6, 16}) {
      if (!testing::usual_view(*algorithm, ranks)) continue;
      for (const std::uint64_t elements : {std::uint64_t{1}, std::uint64_t{3000}, std::uint64_t{200000}}) {
        const Drawn drawn = draw(*algorithm, ranks, elements);
        if (drawn.report.steps.size() > kMostMovesDrawn) continue;
        expect_readable(drawn.drawing, std::string(name_of(algorithm->collective)) + " by " + algorithm->name + " on " +
                                           std::to_string(ranks) + " ranks, " + std::to_string(elements));
      }
    }
  }
  expect_readable(draw(Collective::broadcast, "chain", 64, 1 << 16).drawing, "64 ranks");
  expect_readable(draw(Collective::all_reduce, "ring", 2, 0).drawing, "nothing to move");
}

TEST(ScheduleSvg, DrawsEveryMessageAsAnArrowAndEveryMoveInItsColour) {
  const Drawn ring = draw(Collective::all_reduce, "ring", 4, 16384);
  EXPECT_EQ(ring.report.messages, 24u);
  EXPECT_EQ(count(ring.drawing.svg, "<polygon"), 24u + 1) << "and the legend's";
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_THAT(ring.drawing.svg, HasSubstr(">rank " + std::to_string(rank) + "<"));
  }
  for (const char* text :
       {">all_reduce by ring on 4 ranks<",
        ">65536 bytes a block of float32 by sum: 28 moves, 24 messages of 393216 bytes in all, 1 pass; 14.09 us in virtual "
        "time<",
        ">time from left to right, simulated on a &lt;test&gt; network<", ">2 us<", ">14 us<", ">recv_reduce_send<",
        ">relay<", ">(pale while it waits)<",
        "rank 1, lane 0, step 1, pass 0: recv_reduce_send from:0.0[0;0] input[0;0] -&gt; to:2.0[0;0]; 16384 bytes, "}) {
    EXPECT_THAT(ring.drawing.svg, HasSubstr(text));
  }
  EXPECT_THAT(ring.drawing.svg, Not(HasSubstr(">copy<"))) << "no move is one";
  EXPECT_THAT(ring.drawing.svg, Not(HasSubstr(">lane 0<"))) << "there is only one";
  const Drawn trees = draw(Collective::all_reduce, "double_tree", 16, 16384);
  EXPECT_EQ(count(trees.drawing.svg, "<polygon"), trees.report.messages + 1);
  EXPECT_EQ(count(trees.drawing.svg, ">lane 3<"), 16u);
  EXPECT_THAT(draw(Collective::broadcast, "binomial", 5, 10).drawing.svg,
              HasSubstr(">broadcast by binomial on 5 ranks, root 4<"));
}

/// x of an arrow's two ends.
std::vector<std::pair<double, double>> arrows(const SvgDrawing& drawing) {
  pugi::xml_document document;
  document.load_string(drawing.svg.c_str());
  std::vector<std::pair<double, double>> out;
  for (const pugi::xpath_node& found : document.select_nodes("//line[following-sibling::*[1][self::polygon]]")) {
    out.emplace_back(found.node().attribute("x1").as_double(), found.node().attribute("x2").as_double());
  }
  return out;
}

TEST(ScheduleSvg, NoMessageIsTakenBeforeItIsSent) {
  for (const Algorithm* algorithm : all_algorithms()) {
    const Drawn drawn = draw(*algorithm, 8, 40000);
    const auto ends = arrows(drawn.drawing);
    EXPECT_EQ(ends.size(), drawn.report.messages + 1) << algorithm->name;
    // A box that takes no time has a width, by which an arrow may seem to go back.
    for (const auto& [from, to] : ends) EXPECT_GE(to, from - 4) << name_of(algorithm->collective) << algorithm->name;
  }
}

}  // namespace
}  // namespace tutti::plan_tool
