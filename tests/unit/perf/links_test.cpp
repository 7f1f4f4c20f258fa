#include "perf/links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <set>

namespace tutti::perf {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(MeasuredLinks, AreAllPairsOfAFewRanks) {
  EXPECT_THAT(pairs_of(1), IsEmpty());
  EXPECT_THAT(pairs_of(3), ElementsAre(Pair(0, 1), Pair(0, 2), Pair(1, 2)));
  EXPECT_EQ(pairs_of(8).size(), 28u);
}

TEST(MeasuredLinks, AreASampleOfManyRanksWithEveryDistance) {
  for (const int ranks : {9, 10, 64, 100, 4096, 65537, 1 << 30}) {
    const auto pairs = pairs_of(ranks);
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
              ::testing::HasSubstr("\n# the middle batch took up to 24.3 times as long as the quickest: measure again on a "
                                   "quiet machine\n#"));
}

}  // namespace
}  // namespace tutti::perf
