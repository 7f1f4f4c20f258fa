#include "src/selection/choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "src/selection/select.h"
#include "tests/support/views.h"
#include "topology/oversubscription.h"

namespace tutti {
namespace {

using testing::Levels;
using testing::Placement;

constexpr auto everything = [] {
  std::array<Collective, collectives.size()> all;
  std::ranges::transform(collectives, all.begin(), &CollectiveRow::collective);
  return all;
}();

std::string choice(Collective collective, std::uint64_t bytes, const View& view, const Tuning& tuning) {
  Problem problem;
  problem.collective = collective;
  problem.type = TUTTI_UINT8;
  problem.ranks = view.ranks();
  problem.count = bytes;
  return select(problem, view, Overrides(), "", 0, tuning)->algorithm->name;
}

Tuning parsed(const std::string& text) {
  auto tuning = Tuning::parse(text, "the text");
  EXPECT_TRUE(tuning.ok()) << tuning.status().text();
  return tuning.ok() ? *tuning : Tuning();
}

/// Sizes of all magnitudes, and those around every row's ends.
std::vector<std::uint64_t> sizes(const Tuning& table, Collective collective, int ranks) {
  std::mt19937_64 random(7);
  std::vector<std::uint64_t> out = {0};
  for (int i = 0; i < 1000; ++i) out.push_back(random() >> (8 + random() % 56));
  for (const TuningUse& use : table.uses(collective, ranks)) {
    out.push_back(use.from);
    if (use.to != UINT64_MAX) out.push_back(use.to);
  }
  return out;
}

/// Exports, reads what was written on a view that knows nothing else, and compares.
void expect_the_same_choices(const View& view, const Tuning& given, const std::string& what) {
  View used = view;
  given.apply_with_links(used);
  const Tuning table = parsed(with_every_choice(given, used, everything).text(','));
  View fresh = view;
  table.apply_with_links(fresh);
  EXPECT_EQ(with_every_choice(table, fresh, everything).text(), table.text()) << what << ": not the same once more";
  for (const Collective collective : everything) {
    for (const std::uint64_t bytes : sizes(table, collective, view.ranks())) {
      ASSERT_EQ(choice(collective, bytes, fresh, table), choice(collective, bytes, used, given))
          << what << ", " << name_of(collective) << " of " << bytes << " bytes on " << view.ranks() << " ranks";
    }
  }
}

TEST(Choices, ComeBackFromATableAtEverySize) {
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8, 13, 16, 31, 64, 100, 1000}) {
    View view = flat_view(ranks);
    expect_the_same_choices(view, Tuning(), "a core each");
    share_cores(view, std::max(1.0, ranks / 2.0));
    expect_the_same_choices(view, Tuning(), "two cores");
    view.through_memory = false;
    expect_the_same_choices(view, Tuning(), "two cores, not through memory");
  }
}

TEST(Choices, ComeBackOnMachinesRacksAndTori) {
  for (const Levels& levels :
       std::vector<Levels>{{1, 2, 1, 4}, {1, 4, 2, 2}, {2, 2, 2, 2}, {1, 5, 1, 3, Placement::shuffled}}) {
    View view = testing::view_of_levels(levels);
    expect_the_same_choices(view, Tuning(), levels.text());
    share_cores(view, 2);
    expect_the_same_choices(view,
                            parsed("tutti tuning 1\nlink tcp other_machine 5e-6 1e-9\nlink shm same_numa 1e-6 9e-11\n"),
                            levels.text() + ", a given table");
  }
  expect_the_same_choices(testing::view_of_machines({4, 2, 1}), Tuning(), "unequal machines");
  expect_the_same_choices(testing::view_of_torus({4, 4}), Tuning(), "a torus");
  expect_the_same_choices(testing::view_of_torus({3, 5}), Tuning(), "another torus");
}

TEST(Choices, KeepWhatTheTableSays) {
  const Tuning given = parsed(
      "tutti tuning 1\nlink verbs other_machine 2e-6 1e-10\nfold 3e-11\nuse all_reduce 4 1000 1010 tree\n"
      "use all_reduce 4 1005 2000 direct\nuse all_reduce 4 99 99 swing\nuse all_reduce 5 0 9 tree\n");
  expect_the_same_choices(flat_view(4), given, "rows between, over each other, and one that does not fit");
  const Tuning table = with_every_choice(given, flat_view(4), std::array{Collective::broadcast});
  EXPECT_EQ(table.link("verbs", LinkClass::other_machine), given.link("verbs", LinkClass::other_machine));
  EXPECT_EQ(table.uses(Collective::all_reduce, 4).size(), 3u) << "asked for broadcasts";
  EXPECT_EQ(table.uses(Collective::all_reduce, 5).size(), 1u) << "another number of ranks";
  EXPECT_TRUE(table.uses(Collective::reduce, 4).empty());
}

TEST(Choices, CoverEverySizeOnceAndNeighborsDiffer) {
  const Tuning table = with_every_choice(Tuning(), flat_view(8), everything);
  for (const Collective collective : everything) {
    const std::vector<TuningUse> rows = table.uses(collective, 8);
    ASSERT_FALSE(rows.empty()) << name_of(collective);
    EXPECT_EQ(rows.front().from, 0u);
    EXPECT_EQ(rows.back().to, UINT64_MAX);
    for (std::size_t r = 1; r < rows.size(); ++r) {
      EXPECT_EQ(rows[r].from, rows[r - 1].to + 1);
      EXPECT_NE(rows[r].algorithm, rows[r - 1].algorithm);
    }
  }
}

TEST(Choices, NameTheLinksThatThereAre) {
  const auto links = [](const View& view) {
    const Tuning table = with_every_choice(Tuning(), view, {});
    std::string found;
    for (const auto& [transport, near] : {std::pair{"shm", LinkClass::same_numa},
                                          {"shm", LinkClass::same_machine},
                                          {"tcp", LinkClass::other_machine},
                                          {"tcp", LinkClass::other_rack}}) {
      found += table.link(transport, near) ? '1' : '0';
    }
    return found;
  };
  EXPECT_EQ(links(flat_view(1)), "0000");
  EXPECT_EQ(links(flat_view(3)), "1000");
  EXPECT_EQ(links(uniform_view(1, 4, 4)), "0100");
  EXPECT_EQ(links(uniform_view(2, 4, 2)), "1110");
  EXPECT_EQ(links(testing::view_of_levels({2, 1, 1, 1, Placement::shuffled})), "0001");
  EXPECT_EQ(links(testing::view_of_levels({2, 2, 2, 2, Placement::round_robin})), "1111");
  View unknown = flat_view(2);
  unknown.numa = {-1, -1};
  EXPECT_EQ(links(unknown), "0100");
}

}  // namespace
}  // namespace tutti
