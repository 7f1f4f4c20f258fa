#include "tools/plan/load_svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "algorithms/algorithm.h"
#include "src/schedule/text.h"
#include "tests/support/readable_svg.h"
#include "tools/plan/networks.h"

namespace tutti::plan_tool {
namespace {

using testing::expect_readable;
using ::testing::HasSubstr;

SvgDrawing draw(const std::string& topology, const char* name, int ranks, std::uint64_t count,
                const std::string& title = "a title") {
  const Result<NamedNetwork> named = open_network(topology);
  EXPECT_TRUE(named.ok()) << topology;
  Problem problem;
  problem.collective = Collective::all_reduce;
  problem.ranks = ranks;
  problem.count = count;
  SimulatorConfig config;
  config.view = named->view(ranks);
  config.network = named->network.get();
  const Algorithm& algorithm = *find_algorithm(problem.collective, name);
  const Plan plan = make_plan(algorithm, problem, config.view, {}, 256 * 1024);
  std::vector<Program> programs;
  for (int r = 0; r < ranks; ++r) programs.push_back(make_program(algorithm, plan, config.view, r));
  return link_load_svg(title, *config.network, simulate(plan, programs, config));
}

TEST(LoadSvg, NoTextCoversAnotherWhateverTheNetwork) {
  for (const char* topology : {"switch:2", "fat_tree:4x4,oversubscription=3", "torus:4x4x4", "dragonfly:5x2x2", "pod:16x8",
                               "switch:2,GBps=0.0000125", "fat_tree:512x32", "switch:4,GBps=99999"}) {
    for (const char* algorithm : {"ring", "direct"}) {
      for (const int ranks : {2, 4, 16}) {
        const Result<NamedNetwork> named = open_network(topology);
        ASSERT_TRUE(named.ok());
        if (named->network->endpoints() < ranks) continue;
        for (const std::uint64_t count : {std::uint64_t{1}, std::uint64_t{25000000}}) {
          SCOPED_TRACE(std::string(topology) + " " + algorithm);
          expect_readable(draw(topology, algorithm, ranks, count), topology);
        }
      }
    }
  }
}

TEST(LoadSvg, TitlesOfAnyLengthStayOnThePage) {
  const SvgDrawing drawing = draw("switch:2", "ring", 2, 1000, std::string(500, 'w') + " <&> \"");
  expect_readable(drawing, "long title");
  EXPECT_THAT(draw("switch:2", "ring", 2, 1000, "a <title> & \"more\"").svg, HasSubstr("a &lt;title&gt; &amp; "));
}

TEST(LoadSvg, TellsWhatTheBusiestLinkCarried) {
  // A trunk for 2 ranks of each leaf with a fourth of their links' bandwidth is always busier than those.
  const SvgDrawing drawing = draw("fat_tree:2x2,oversubscription=4", "direct", 4, 1000000);
  EXPECT_THAT(drawing.svg, HasSubstr("share of its bandwidth used:"));
  const auto first = std::find_if(drawing.texts.begin(), drawing.texts.end(),
                                  [](const SvgText& text) { return text.text.find("GB/s") != std::string::npos; });
  ASSERT_NE(first, drawing.texts.end());
  EXPECT_THAT(first->text, HasSubstr("8 MB, "));  // from each of 2 ranks to each of 2 a fourth, to and fro: 2·2·1 MB·2
  EXPECT_THAT(first->text, HasSubstr(" of 25 GB/s"));
}

}  // namespace
}  // namespace tutti::plan_tool
