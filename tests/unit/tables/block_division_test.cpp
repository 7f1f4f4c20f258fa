// How elements are divided into blocks.
#include "src/tables/block_division.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti {
namespace {

using testing::ElementsAre;

TEST(BlockDivision, HasAsManyElementsAsTheEvenOne) {
  const auto lengths = [](BlockDivision division, std::uint64_t count, int ranks) {
    std::vector<std::uint64_t> found;
    for (int b = 0; b < ranks; ++b)
      found.push_back(block_begin(division, count, ranks, b + 1) - block_begin(division, count, ranks, b));
    return found;
  };
  EXPECT_THAT(lengths(BlockDivision::even, 5, 4), ElementsAre(5, 5, 5, 5));
  EXPECT_THAT(lengths(BlockDivision::skewed, 5, 4), ElementsAre(2, 4, 6, 8));
  EXPECT_THAT(lengths(BlockDivision::skewed, 1, 4), ElementsAre(0, 1, 1, 2));
  EXPECT_THAT(lengths(BlockDivision::zeros, 5, 4), ElementsAre(10, 0, 10, 0));
  EXPECT_THAT(lengths(BlockDivision::zeros, 5, 3), ElementsAre(7, 0, 8)) << "15 elements in two blocks";
  EXPECT_THAT(lengths(BlockDivision::one, 5, 4), ElementsAre(0, 0, 0, 20));
  for (const BlockDivision division : block_divisions) {
    EXPECT_THAT(lengths(division, 7, 1), ElementsAre(7)) << name_of(division);
    EXPECT_EQ(block_begin(division, std::uint64_t{1} << 48, 4096, 4096), std::uint64_t{1} << 60) << name_of(division);
  }
}

// An all_to_all_v's blocks wrap around, so that none of its ranks has all of the long ones.
TEST(DividedCall, GivesTwoRanksEquallyLongBlocksForEachOther) {
  for (const auto& [collective, info] : collectives) {
    if (!info.has_send_blocks() || !info.has_recv_blocks()) continue;
    for (const BlockDivision division : block_divisions) {
      const DividedCall call = {&info, division, 5, 7};
      for (int r = 0; r < 5; ++r) {
        EXPECT_EQ(call.begin_of(r, 5), 35u) << name_of(division);
        for (int peer = 0; peer < 5; ++peer) {
          const auto of = [&](int rank, int block) {
            const auto b = static_cast<std::uint64_t>(block);
            return call.begin_of(rank, b + 1) - call.begin_of(rank, b);
          };
          EXPECT_EQ(of(r, peer), of(peer, r)) << name_of(division);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tutti
