#include "src/schedule/lowering.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/schedules.h"

namespace tutti::testing {
namespace {

// The copies that let go of the input, in place, and a sum that a leaf only hands on.
TEST(OnlyOffered, FindsTheScratchThatNoStepReads) {
  std::set<std::string> some;
  for (const Algorithm* algorithm : all_algorithms()) {
    const Schedule schedule = make_schedule(*algorithm, 8, 0);
    for (int rank = 0; rank < 8; ++rank) {
      const Program& program = schedule.programs[static_cast<std::size_t>(rank)];
      const std::vector<std::uint8_t> offered = only_offered(schedule.plan, rank, program);
      ASSERT_EQ(offered.size(), program.operands.size());
      if (std::count(offered.begin(), offered.end(), 1) != 0) {
        some.insert(std::string(name_of(algorithm->collective)) + " " + algorithm->name);
      }
    }
  }
  EXPECT_EQ(some, (std::set<std::string>{"all_reduce flat", "all_reduce recursive_doubling", "all_to_all pairwise",
                                         "all_to_all bruck", "barrier dissemination", "reduce reduce_scatter_gather"}));
}

// What direct all-reduce takes of the sums nobody else touches; a ring's sums pass through the output on their way.
TEST(Receives, AreListedInOrderAndKnowWhetherTheirMemoryIsTheirsAlone) {
  for (const Algorithm* algorithm : all_algorithms()) {
    const int ranks = ranks_fit(*algorithm, 5) ? 5 : 4;
    const Schedule schedule = make_schedule(*algorithm, ranks, 0);
    for (int rank = 0; rank < ranks; ++rank) {
      const Program& program = schedule.programs[static_cast<std::size_t>(rank)];
      const auto lists = receives(schedule.plan, rank, program);
      ASSERT_EQ(lists.size(), program.links.size());
      for (std::size_t l = 0; l < lists.size(); ++l) {
        EXPECT_EQ(lists[l].empty(), program.links[l].sends) << algorithm->name;
        for (std::size_t i = 1; i < lists[l].size(); ++i) {
          EXPECT_EQ(lists[l][i].lane, lists[l][0].lane);
          EXPECT_LT(lists[l][i - 1].step, lists[l][i].step);
        }
      }
    }
  }
  const auto count = [](const char* name, Collective collective, bool Receive::* early) {
    for (const Algorithm* algorithm : all_algorithms()) {
      if (std::string(algorithm->name) != name || algorithm->collective != collective) continue;
      const Schedule schedule = make_schedule(*algorithm, 5, 0);
      const auto program_of = [&](int rank) { return schedule.programs[static_cast<std::size_t>(rank)]; };
      std::ptrdiff_t sum = 0;
      for (const auto& list : receives(schedule.plan, 2, schedule.programs[2], program_of))
        sum += std::count_if(list.begin(), list.end(), [early](const Receive& r) { return r.*early; });
      return sum;
    }
    return std::ptrdiff_t{-1};
  };
  EXPECT_EQ(count("direct", Collective::all_reduce, &Receive::early), 4);  // the four others' sums; their shares are folded
  EXPECT_EQ(count("direct", Collective::all_gather, &Receive::early), 4);
  EXPECT_EQ(count("flat", Collective::all_reduce, &Receive::early), 0);  // everything is folded
  EXPECT_EQ(count("ring", Collective::reduce_scatter, &Receive::early), 0);
  // In place a sum is its sender's answer to this rank's share; what a swap brings overwrites what the peer may still read.
  EXPECT_EQ(count("direct", Collective::all_reduce, &Receive::early_in_place), 4);
  EXPECT_EQ(count("direct", Collective::all_gather, &Receive::early_in_place), 4);
  EXPECT_EQ(count("pairwise", Collective::all_to_all, &Receive::early_in_place), 0);
}

/// Receives, each from a link of its own into the output: what it takes by `ranges`, link 1 or 2 for two messages where a
/// number comes again.
Program receiving(const std::vector<std::pair<std::uint32_t, Range>>& messages, Place into = Place::output) {
  Program program;
  for (const auto& [link, range] : messages) {
    program.steps.push_back({static_cast<std::uint32_t>(program.operands.size()), 1, 1, 0, 0, 0});
    program.operands.push_back({.place = Place::link, .link = link, .range = range});
    program.operands.push_back({.place = into, .range = range});
    while (program.links.size() <= link)
      program.links.push_back({static_cast<std::int32_t>(program.links.size()) + 1, 0, false});
  }
  program.lanes = {{0, static_cast<std::uint32_t>(program.steps.size())}};
  return program;
}

TEST(NearFirst, MovesReceivesFromPeersOnTheSameCoreBeforeTheOthers) {
  const std::vector<std::uint32_t> order{0, 1, 2, 3};
  const std::vector<std::uint8_t> same_core{0, 1, 0, 1};
  const auto block = [](std::uint32_t n) { return Range{.block = n}; };
  const auto ordered = [&](const Program& program, std::uint32_t blocks = 8) {
    return same_core_first(order, program, same_core, blocks);
  };
  using Order = std::vector<std::uint32_t>;
  EXPECT_EQ(ordered(receiving({{0, block(0)}, {1, block(1)}, {2, block(2)}, {3, block(3)}})), (Order{1, 3, 0, 2}));
  EXPECT_EQ(ordered(receiving({{0, block(0)}, {1, block(1)}, {2, block(2)}, {3, block(9)}})), order) << "block 9 of 8 is 1";
  EXPECT_EQ(ordered(receiving({{0, block(0)}, {1, block(1)}, {2, block(2)}, {1, block(3)}})), order)
      << "a link's messages keep their order, and what lies between them stays there";
  EXPECT_EQ(ordered(receiving({{0, block(0)}, {1, block(1)}, {2, block(2)}, {3, block(3)}}, Place::scratch)), order);
  const auto chunk = [](std::uint32_t n) { return Range{.chunk = n, .chunks = 2}; };
  EXPECT_EQ(ordered(receiving({{0, chunk(0)}, {1, chunk(2)}, {2, chunk(4)}, {3, chunk(6)}}), 1), (Order{1, 3, 0, 2}));
  EXPECT_EQ(ordered(receiving({{0, chunk(0)}, {1, chunk(2)}, {2, chunk(4)}, {3, chunk(5)}}), 1), order);
  Program sends = receiving({{0, block(0)}, {1, block(1)}, {2, block(2)}, {3, block(3)}});
  sends.operands[3].place = Place::link;  // step 1 passes on what it gets
  EXPECT_EQ(ordered(sends), (Order{0, 1, 3, 2}));
}

}  // namespace
}  // namespace tutti::testing
