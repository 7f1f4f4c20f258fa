#include "perf/links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <set>
#include <vector>

namespace tutti::perf {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(MeasuredLinks, AreAllPairsOfAFewRanks) {
  EXPECT_THAT(pairs_of({0}), IsEmpty());
  EXPECT_THAT(pairs_of({0, 0, 2}), ElementsAre(Pair(0, 1), Pair(0, 2), Pair(1, 2)));
  EXPECT_EQ(pairs_of(std::vector<int>(8)).size(), 28u);
}

TEST(MeasuredLinks, AreASampleOfManyRanksWithEveryDistance) {
  for (const int ranks : {9, 10, 64, 100, 4096, 65537, 1 << 20}) {
    const auto pairs = pairs_of(std::vector<int>(static_cast<std::size_t>(ranks)));
    EXPECT_LE(pairs.size(), 32u) << ranks;
    EXPECT_GE(pairs.size(), 15u) << ranks;
    std::set<int> distances;
    for (const auto& [a, b] : pairs) {
      EXPECT_TRUE(0 <= a && a < b && b < ranks) << ranks;
      for (const int distance : {b - a, ranks - (b - a)}) {
        if (std::has_single_bit(static_cast<unsigned>(distance))) distances.insert(distance);
      }
    }
    for (std::int64_t d = 1; d < ranks; d *= 2) EXPECT_TRUE(distances.count(static_cast<int>(d))) << ranks << ", " << d;
  }
}

TEST(MeasuredLinks, AreWithinMachinesAndBetweenThemHoweverRanksAreDealtOut) {
  for (const int ranks : {9, 12, 20, 24, 48, 96, 1000}) {
    for (int count = 2; count <= ranks / 2; ++count) {
      std::vector<int> in_turns, in_blocks;
      for (int r = 0; r < ranks; ++r) {
        in_turns.push_back(r % count);
        in_blocks.push_back(static_cast<int>(std::int64_t{r} * count / ranks));
      }
      for (const auto& machines : {in_turns, in_blocks}) {
        const auto pairs = pairs_of(machines);
        EXPECT_LE(pairs.size(), 32u);
        const auto within = std::count_if(pairs.begin(), pairs.end(), [&](const auto& pair) {
          return machines[static_cast<std::size_t>(pair.first)] == machines[static_cast<std::size_t>(pair.second)];
        });
        EXPECT_GT(within, 0) << ranks << " on " << count;
        EXPECT_LT(within, static_cast<std::ptrdiff_t>(pairs.size())) << ranks << " on " << count;
      }
    }
  }
}

TEST(MeasuredLinks, AreMediansOfEachTransportAndClass) {
  EXPECT_EQ(table_of({{"shm", "same_numa", 3e-7, 1e-10, 1},
                      {"tcp", "other_machine", 2e-5, 8e-10, 1},
                      {"shm", "same_numa", 1e-7, 5e-10, 1},
                      {"shm", "same_machine", 4e-7, 2e-10, 1},
                      {"shm", "same_numa", 2e-7, 2e-10, 1},
                      {"shm", "same_machine", 8e-7, 1e-10, 1}},
                     "a machine"),
            "tutti tuning 1\n# measured by tutti-perf --measure-links on a machine\n"
            "# 2 pairs: 0.4 to 0.8 us a message, 0.1 to 0.2 ns a byte\nlink shm same_machine 6e-07 1.5e-10\n"
            "# 3 pairs: 0.1 to 0.3 us a message, 0.1 to 0.5 ns a byte\nlink shm same_numa 2e-07 2e-10\n"
            "# 1 pair: 20 to 20 us a message, 0.8 to 0.8 ns a byte\nlink tcp other_machine 2e-05 8e-10\n");
}

TEST(MeasuredLinks, SayThatTheMachineWasBusy) {
  EXPECT_EQ(table_of({{"shm", "same_numa", 3e-7, 1e-10, 1.9}}, "a machine").find("quiet"), std::string::npos);
  EXPECT_THAT(table_of({{"shm", "same_numa", 3e-7, 1e-10, 1.9}, {"shm", "same_numa", 3e-4, 1e-10, 24.31}}, "a machine"),
              ::testing::HasSubstr("\n# the middle batch took up to 24.3 times as long as the quickest, pairs of one class "
                                   "differ 1e+03 times: measure again on a "
                                   "quiet machine\n#"));
  EXPECT_THAT(table_of({{"tcp", "same_numa", 3e-5, 1e-10, 1}, {"tcp", "same_numa", 3e-5, 3.1e-9, 1}}, "a machine"),
              ::testing::HasSubstr("\n# pairs of one class differ 31 times: measure again on a quiet machine\n#"));
  EXPECT_THAT(table_of({{"shm", "same_numa", 3e-7, 1e-10, 1, true}}, "a machine"),
              ::testing::HasSubstr("\n# for 1 pair more bytes took no longer: measure again on a quiet machine\n#"));
}

}  // namespace
}  // namespace tutti::perf
