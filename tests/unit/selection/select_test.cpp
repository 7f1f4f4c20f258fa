#include "src/selection/select.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "topology/oversubscription.h"

namespace tutti {
namespace {

using testing::HasSubstr;

Overrides overrides(std::string_view text) {
  auto parsed = Overrides::parse(text);
  EXPECT_TRUE(parsed.ok()) << text << ": " << parsed.status().text();
  return parsed.ok() ? *parsed : Overrides();
}

std::string refusal(std::string_view text) {
  const auto parsed = Overrides::parse(text);
  EXPECT_EQ(parsed.status().code(), TUTTI_INVALID_ARGUMENT) << text;
  return parsed.status().text();
}

Problem all_reduce_of(std::uint64_t floats, int ranks) {
  Problem problem;
  problem.collective = Collective::all_reduce;
  problem.type = TUTTI_FLOAT32;
  problem.op = TUTTI_SUM;
  problem.ranks = ranks;
  problem.count = floats;
  return problem;
}

TEST(Overrides, ANameAloneIsForEveryCollectiveThatHasIt) {
  const Overrides ring = overrides("ring");
  EXPECT_EQ(ring.find(Collective::all_reduce, 8), "ring");
  EXPECT_EQ(ring.find(Collective::all_gather, 1 << 30), "ring");
  EXPECT_EQ(ring.find(Collective::barrier, 0), "");
  EXPECT_EQ(overrides("").find(Collective::all_reduce, 8), "");
}

TEST(Overrides, ACollectiveAndARangeNarrowARuleAndItsEndsAreIncluded) {
  const Overrides narrow = overrides("all_reduce:1K-64k:ring");
  EXPECT_EQ(narrow.find(Collective::all_reduce, 1023), "");
  EXPECT_EQ(narrow.find(Collective::all_reduce, 1024), "ring");
  EXPECT_EQ(narrow.find(Collective::all_reduce, 65536), "ring");
  EXPECT_EQ(narrow.find(Collective::all_reduce, 65537), "");
  EXPECT_EQ(narrow.find(Collective::all_gather, 2048), "");
}

TEST(Overrides, AnEndOfARangeMayBeMissing) {
  const Overrides from = overrides("all_reduce:1M-:ring");
  EXPECT_EQ(from.find(Collective::all_reduce, (1 << 20) - 1), "");
  EXPECT_EQ(from.find(Collective::all_reduce, UINT64_MAX), "ring");
  const Overrides to = overrides("all_reduce:-1M:ring");
  EXPECT_EQ(to.find(Collective::all_reduce, 0), "ring");
  EXPECT_EQ(to.find(Collective::all_reduce, (1 << 20) + 1), "");
}

TEST(Overrides, TheFirstRuleThatFitsCounts) {
  const Overrides rules = overrides("all_reduce:-1K:direct,,all_reduce:ring,");
  EXPECT_EQ(rules.find(Collective::all_reduce, 1024), "direct");
  EXPECT_EQ(rules.find(Collective::all_reduce, 1025), "ring");
}

TEST(Overrides, WhatIsWrongWithARuleIsSaidWithTheNamesThatThereAre) {
  for (const char* range : {"1K", "", "64K-1K", "x-1K", "1K-2Q", "1K-2KX", "1-2-3", "1-17179869184G"}) {
    const std::string rule = std::string("all_reduce:") + range + ":ring";
    EXPECT_THAT(refusal("ring," + rule), HasSubstr("algorithm rule \"" + rule + "\" has a malformed range")) << range;
  }
  EXPECT_THAT(refusal("some:ring"), HasSubstr("\"some:ring\" names a collective that does not exist"));
  EXPECT_THAT(refusal("all_reduce:circle"), HasSubstr("\"all_reduce:circle\" names an algorithm that does not exist"));
  EXPECT_THAT(refusal("barrier:ring"), HasSubstr("names are dissemination"));
  EXPECT_THAT(refusal("circle"), HasSubstr("tutti-plan cost"));
}

TEST(Select, ACallsOwnWishGoesBeforeTheOverrides) {
  const Problem problem = all_reduce_of(1024, 4);
  const View view = flat_view(4);
  const auto chosen = [&](std::string_view rules, std::string_view wish) {
    const auto candidate = select(problem, view, overrides(rules), wish, 0);
    EXPECT_TRUE(candidate.ok()) << candidate.status().text();
    return candidate.ok() ? std::string(candidate->algorithm->name) : std::string();
  };
  EXPECT_EQ(chosen("ring", ""), "ring");
  EXPECT_EQ(chosen("ring", "direct"), "direct");
  EXPECT_EQ(chosen("all_gather:ring", ""), rank_algorithms(problem, view, 0).front().algorithm->name);
}

TEST(Select, ANameThatTheCollectiveLacksIsRefusedWithThoseItHas) {
  const auto candidate = select(all_reduce_of(1024, 4), flat_view(4), Overrides(), "pairwise", 0);
  ASSERT_FALSE(candidate.ok());
  EXPECT_EQ(candidate.status().code(), TUTTI_INVALID_ARGUMENT);
  EXPECT_THAT(candidate.status().text(), HasSubstr("all_reduce over 4 ranks has no algorithm \"pairwise\""));
  EXPECT_THAT(candidate.status().text(), HasSubstr("ring"));
}

TEST(Select, AnAlgorithmForOtherPlacesIsRefusedWithThoseForThese) {
  const auto candidate = select(all_reduce_of(1024, 4), flat_view(4), Overrides(), "hierarchical", 0);
  ASSERT_FALSE(candidate.ok());
  EXPECT_THAT(candidate.status().text(),
              HasSubstr("cannot be done by \"hierarchical\", which wants other places of ranks"));
  EXPECT_THAT(candidate.status().text(), HasSubstr("Choose from "));
  EXPECT_THAT(candidate.status().text(), testing::Not(HasSubstr("leaders")));
  EXPECT_TRUE(select(all_reduce_of(1024, 4), uniform_view(2, 2), Overrides(), "hierarchical", 0).ok());
  EXPECT_TRUE(select(all_reduce_of(1024, 1), flat_view(1), Overrides(), "hierarchical", 0).ok());
}

TEST(RankAlgorithms, PutsTheQuickestFirstByTheSumOfItsParts) {
  double before = 0;
  for (const Candidate& candidate : rank_algorithms(all_reduce_of(1 << 20, 8), flat_view(8), 0)) {
    EXPECT_GE(candidate.seconds, before) << candidate.algorithm->name;
    EXPECT_DOUBLE_EQ(candidate.seconds,
                     candidate.latency_seconds + candidate.transfer_seconds + candidate.reduction_seconds);
    before = candidate.seconds;
  }
  EXPECT_GT(before, 0);
}

// Waits are long where ranks share cores, and bytes that stay in their cache are cheap.
TEST(RankAlgorithms, ChoosesOtherwiseWhereRanksShareCores) {
  View view = flat_view(4);
  const auto chosen = [&](std::uint64_t bytes) {
    return std::string(rank_algorithms(all_reduce_of(bytes / 4, 4), view, 0)[0].algorithm->name);
  };
  EXPECT_EQ(chosen(8192), "direct");
  EXPECT_EQ(chosen(4 << 20), "direct");
  const Terms alone = terms_of(view);
  share_cores(view, 2);
  EXPECT_GT(terms_of(view).alpha, alone.alpha);
  EXPECT_EQ(chosen(512), "flat");
  EXPECT_EQ(chosen(8192), "flat");
  EXPECT_EQ(chosen(512 << 10), "direct") << "all of it is cached";
  EXPECT_EQ(chosen(4 << 20), "ring");
  view.through_memory = false;  // sockets copy through the kernel, whose cache a ring does not spare
  EXPECT_EQ(chosen(4 << 20), "halving_doubling");
  view.link(LinkClass::same_numa) = {8e-6, 3.3e-10};  // tcp's over the loopback
  // All through one rank is six messages, and the same bytes as any.
  EXPECT_EQ(chosen(8), "direct");  // as central, where a block is one grain
  EXPECT_EQ(chosen(2048), "central");
  EXPECT_EQ(chosen(32 << 10), "central");
  EXPECT_EQ(chosen(256 << 10), "halving_doubling");
  EXPECT_GT(terms_of(view).message, 0);
  view.link(LinkClass::same_numa) = flat_view(4).link(LinkClass::same_numa);
  EXPECT_LT(terms_of(view).alpha, alone.alpha);
  EXPECT_DOUBLE_EQ(terms_of(view).message, 2 * alone.alpha);
  EXPECT_DOUBLE_EQ(terms_of(view).beta, 2 * alone.beta);
  EXPECT_DOUBLE_EQ(terms_of(view).gamma, 2 * alone.gamma);
}

// One that sums for all posts as few messages as can be, which costs little where the others wait for a core anyway.
TEST(RankAlgorithms, LetsOneRankSumForManyOnACore) {
  View view = flat_view(8);
  const auto chosen = [&](std::uint64_t bytes) {
    return std::string(rank_algorithms(all_reduce_of(bytes / 4, 8), view, 0)[0].algorithm->name);
  };
  EXPECT_NE(chosen(2048), "central");
  share_cores(view, 4);
  for (const std::uint64_t bytes : {2048, 8192, 32768}) EXPECT_EQ(chosen(bytes), "central") << bytes;
  EXPECT_EQ(chosen(128 << 10), "direct");
  EXPECT_EQ(chosen(512 << 10), "direct");
  EXPECT_EQ(chosen(2 << 20), "ring");
}

// Of two ranks one writes the next piece while the other reads, where what is sent is memory that both see.
TEST(RankAlgorithms, LetsTwoRanksWriteAndReadAtOnce) {
  for (const Collective collective : {Collective::reduce, Collective::broadcast}) {
    Problem problem = all_reduce_of(256 << 10, 2);
    problem.collective = collective;
    View view = flat_view(2);
    const auto chain = [&] {
      const auto ranked = rank_algorithms(problem, view, 0);
      return *std::find_if(ranked.begin(), ranked.end(),
                           [](const Candidate& c) { return c.algorithm->name == std::string("chain"); });
    };
    EXPECT_EQ(rank_algorithms(problem, view, 0)[0].algorithm->name, std::string("chain")) << name_of(collective);
    const double together = chain().transfer_seconds;
    view.through_memory = false;
    EXPECT_NEAR(together, .625 * chain().transfer_seconds, 1e-9) << name_of(collective);
  }
}

// Measured with 3, 4 and 8 ranks on 2 cores (docs/performance.md).
TEST(RankAlgorithms, SendsLongBlocksDownChainsWhereRanksShareCores) {
  for (const int ranks : {3, 4, 8}) {
    View view = flat_view(ranks);
    share_cores(view, ranks / 2.);
    for (const Collective collective : {Collective::reduce, Collective::broadcast}) {
      Problem problem = all_reduce_of(24 << 10, ranks);
      problem.collective = collective;
      const auto ranked = rank_algorithms(problem, view, 0);
      EXPECT_EQ(ranked[0].algorithm->name, std::string("binomial")) << name_of(collective) << ranks;
      problem.count = 3 << 18;
      EXPECT_EQ(rank_algorithms(problem, view, 0)[0].algorithm->name, std::string("chain")) << name_of(collective) << ranks;
    }
  }
}

// That ranks share a machine's cores makes waits longer, and no machine's messages another's.
TEST(RankAlgorithms, KeepsMachinesApartWhereRanksShareTheirCores) {
  for (const auto& [machines, each] : {std::pair(3, 4), std::pair(4, 8), std::pair(128, 8)}) {
    View alone = uniform_view(machines, each);
    alone.through_memory = false;
    View shared = alone;
    share_cores(shared, 1.02);
    const auto best = [&](const View& view, std::uint64_t bytes) {
      return rank_algorithms(all_reduce_of(bytes / 4, view.ranks()), view, 0)[0];
    };
    EXPECT_EQ(best(shared, 64 << 20).algorithm->name, std::string("hierarchical")) << machines;
    EXPECT_NEAR(best(shared, 64 << 20).seconds, best(alone, 64 << 20).seconds, .05 * best(alone, 64 << 20).seconds);
    for (const std::uint64_t bytes : {8u, 2048u, 65536u, 65540u}) {
      EXPECT_NE(best(shared, bytes).algorithm->name, std::string("central")) << machines << " " << bytes;
    }
  }
}

// Where networks are slower than memory, what stays on a machine counts in memory's terms.
TEST(RankAlgorithms, ChoosesHierarchiesWhereMachinesAreSeveral) {
  const View machines = uniform_view(4, 8);
  const auto chosen = [](const View& view, Collective collective, std::uint64_t bytes) {
    Problem problem = all_reduce_of(bytes / 4, view.ranks());
    problem.collective = collective;
    return std::string(rank_algorithms(problem, view, 0)[0].algorithm->name);
  };
  EXPECT_EQ(chosen(machines, Collective::all_reduce, 64 << 20), "hierarchical");
  EXPECT_EQ(chosen(machines, Collective::reduce_scatter, 1 << 20), "hierarchical");
  EXPECT_EQ(chosen(machines, Collective::all_gather, 1 << 20), "hierarchical");
  EXPECT_EQ(chosen(machines, Collective::broadcast, 1024), "leaders");
  EXPECT_EQ(chosen(machines, Collective::reduce, 1024), "leaders");
  View unequal = machines;
  unequal.machine[31] = 0;
  EXPECT_NE(chosen(unequal, Collective::all_reduce, 64 << 20), "hierarchical");
  for (const Candidate& candidate : rank_algorithms(all_reduce_of(1 << 20, 32), uniform_view(1, 32, 2), 0)) {
    EXPECT_STRNE(candidate.algorithm->name, "hierarchical");
    EXPECT_STRNE(candidate.algorithm->name, "leaders");
    EXPECT_STRNE(candidate.algorithm->name, "torus");
  }
}

// ALGORITHMS.md's row, in seconds: each level in the terms of its own links.
TEST(RankAlgorithms, CountsEachLevelOfAHierarchyByItsLinks) {
  View view = uniform_view(4, 8);
  view.link(LinkClass::same_numa) = {1e-6, 1e-10};
  view.link(LinkClass::other_machine) = {1e-5, 1e-9};
  const double m = 4e6;
  for (const Candidate& candidate : rank_algorithms(all_reduce_of(1'000'000, 32), view, 0)) {
    if (std::string_view(candidate.algorithm->name) != "hierarchical") continue;
    EXPECT_DOUBLE_EQ(candidate.latency_seconds, 2 * 7 * 1e-6 + 2 * 3 * 1e-5);
    EXPECT_DOUBLE_EQ(candidate.transfer_seconds, 2 * 7. / 8 * m * 1e-10 + 2 * 3. / 4 * m / 8 * 1e-9);
    EXPECT_DOUBLE_EQ(candidate.reduction_seconds, 31. / 32 * m * view.gamma);
    return;
  }
  FAIL() << "hierarchical is not offered";
}

TEST(RankAlgorithms, ChoosesATorusWhereThereIsOne) {
  View view = uniform_view(256, 1);
  const auto chosen = [&](std::uint64_t bytes) {
    return std::string(rank_algorithms(all_reduce_of(bytes / 4, 256), view, 0)[0].algorithm->name);
  };
  const std::string without = chosen(256 << 20);
  EXPECT_NE(without, "torus");
  view.torus = {16, 16};
  EXPECT_EQ(chosen(256 << 20), "torus");
  EXPECT_EQ(chosen(1 << 20), "swing");
}

// The fewest waits are worth its copies for the shortest blocks alone.
TEST(RankAlgorithms, CountsWhatBruckCopies) {
  View view = flat_view(16);
  share_cores(view, 8);
  const auto chosen = [&](std::uint64_t bytes) {
    Problem problem = all_reduce_of(bytes / 4, view.ranks());
    problem.collective = Collective::all_to_all;
    return std::string(rank_algorithms(problem, view, 0)[0].algorithm->name);
  };
  EXPECT_EQ(chosen(16), "bruck");
  EXPECT_EQ(chosen(8192), "pairwise");
  view = flat_view(8);
  share_cores(view, 4);
  EXPECT_EQ(chosen(16), "pairwise") << "one wait instead of three";
}

}  // namespace
}  // namespace tutti
