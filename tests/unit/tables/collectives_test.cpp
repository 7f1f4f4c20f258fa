// The table of collectives against the definitions of tutti.h: written out for three ranks, and for any number of them by
// code that knows nothing of the table. Proofs, checks and tools go by the table, so this is where it is held to account.
#include "src/tables/collectives.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/tables/names.h"

namespace tutti {
namespace {

/// The output of a rank, a word a block: "r1b0" is block 0 of rank 1's input, "sum0" the fold over every rank's block 0.
std::string output(Collective collective, int rank, int ranks, int root) {
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
  return {output(collective, 0, 3, 2), output(collective, 1, 3, 2), output(collective, 2, 3, 2)};
}

/// The same by tutti.h.
std::string by_contract(Collective collective, int rank, int ranks, int root) {
  const auto block = [](int from, int b) { return "r" + std::to_string(from) + "b" + std::to_string(b); };
  const auto from_each = [&](int b) {
    std::string text;
    for (int from = 0; from < ranks; ++from) text += (from == 0 ? "" : " ") + block(from, b);
    return text;
  };
  switch (collective) {
    case Collective::all_reduce:
      return "sum0";
    case Collective::reduce:
      return rank == root ? "sum0" : "";
    case Collective::reduce_scatter:
      return "sum" + std::to_string(rank);
    case Collective::broadcast:
      return block(root, 0);
    case Collective::scatter:
      return block(root, rank);
    case Collective::all_gather:
      return from_each(0);
    case Collective::gather:
      return rank == root ? from_each(0) : "";
    case Collective::all_to_all:
      return from_each(rank);
    case Collective::barrier:
      return "";
  }
  return "no definition";
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

TEST(Collectives, PutEveryBlockThereOnAnyNumberOfRanksAndWithAnyRoot) {
  for (const auto& [collective, info] : collectives) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      for (int root = 0; root < ranks; ++root) {
        for (int rank = 0; rank < ranks; ++rank) {
          ASSERT_EQ(output(collective, rank, ranks, root), by_contract(collective, rank, ranks, root))
              << info.name << " on rank " << rank << " of " << ranks << ", root " << root;
        }
      }
    }
  }
}

TEST(Collectives, HaveTheInputsThatTheirOutputsComeFrom) {
  constexpr int ranks = 3;
  constexpr int root = 2;
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
