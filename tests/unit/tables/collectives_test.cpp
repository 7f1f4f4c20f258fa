// The table of collectives against the definitions of tutti.h, written out for three ranks.
#include "src/tables/collectives.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/tables/names.h"

namespace tutti {
namespace {

constexpr int ranks = 3;
constexpr int root = 2;

/// The output of a rank, a word a block: "r1b0" is block 0 of rank 1's input, "sum0" the fold over every rank's block 0.
std::string output(Collective collective, int rank) {
  const CollectiveInfo& info = info_of(collective);
  std::string text;
  if (!info.receives(rank, root)) return text;
  for (std::uint32_t b = 0; b < info.recv_blocks(ranks); ++b) {
    const BlockOrigin from = info.origin(rank, ranks, root, b);
    const std::string block = std::to_string(from.block);
    text += (b == 0 ? "" : " ") + (from.fold ? "sum" + block : "r" + std::to_string(from.rank) + "b" + block);
  }
  return text;
}

std::vector<std::string> outputs(Collective collective) {
  return {output(collective, 0), output(collective, 1), output(collective, 2)};
}

using Outputs = std::vector<std::string>;

TEST(Collectives, PutEveryBlockWhereTheContractSays) {
  EXPECT_EQ(outputs(Collective::all_reduce), Outputs({"sum0", "sum0", "sum0"}));
  EXPECT_EQ(outputs(Collective::reduce), Outputs({"", "", "sum0"}));
  EXPECT_EQ(outputs(Collective::broadcast), Outputs({"r2b0", "r2b0", "r2b0"}));
  EXPECT_EQ(outputs(Collective::all_gather), Outputs({"r0b0 r1b0 r2b0", "r0b0 r1b0 r2b0", "r0b0 r1b0 r2b0"}));
  EXPECT_EQ(outputs(Collective::reduce_scatter), Outputs({"sum0", "sum1", "sum2"}));
  EXPECT_EQ(outputs(Collective::all_to_all), Outputs({"r0b0 r1b0 r2b0", "r0b1 r1b1 r2b1", "r0b2 r1b2 r2b2"}));
  EXPECT_EQ(outputs(Collective::gather), Outputs({"", "", "r0b0 r1b0 r2b0"}));
  EXPECT_EQ(outputs(Collective::scatter), Outputs({"r2b0", "r2b1", "r2b2"}));
  EXPECT_EQ(outputs(Collective::barrier), Outputs({"", "", ""}));
}

TEST(Collectives, HaveTheInputsThatTheirOutputsComeFrom) {
  for (const auto& [collective, info] : collectives) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (std::uint32_t b = 0; info.receives(rank, root) && b < info.recv_blocks(ranks); ++b) {
        const BlockOrigin from = info.origin(rank, ranks, root, b);
        EXPECT_LT(from.block, info.send_blocks(ranks)) << info.name;
        EXPECT_TRUE(info.sends(from.rank, root)) << info.name;
      }
    }
    EXPECT_EQ(collective_of(info.name), collective);
  }
}

}  // namespace
}  // namespace tutti
