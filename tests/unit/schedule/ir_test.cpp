#include "src/schedule/ir.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

namespace tutti {
namespace {

Plan plan_of(std::uint32_t chunks, std::uint32_t cells, std::uint64_t slot_bytes) {
  Plan plan;
  plan.shape.chunks = chunks;
  plan.shape.message_cells = cells;
  finish_plan(plan, slot_bytes);
  return plan;
}

TEST(Range, WrapsAroundTheBufferAndStrides) {
  Range range;
  range.block = 5;
  range.blocks = 4;
  EXPECT_EQ(range.block_at(3, 7), 1u);
  range.run = 2;
  range.stride = 4;  // 5 6 9 10 mod 7
  EXPECT_EQ(range.block_at(1, 7), 6u);
  EXPECT_EQ(range.block_at(2, 7), 2u);
  range.run = 1;
  range.stride = 6;  // downwards: 5 4 3 2
  EXPECT_EQ(range.block_at(3, 7), 2u);
}

// Whatever the count, the chunks of all passes are the block, once, in order, and no chunk but the last of a window is
// off the grain.
TEST(Elements, OfAllChunksAndPassesAreTheBlockOnce) {
  for (const std::uint32_t chunks : {1u, 3u, 8u}) {
    const Plan plan = plan_of(chunks, 1, 1024);
    for (const std::uint64_t count : {1ull, 31ull, 32ull, 33ull, 255ull, 256ull, 257ull, 2048ull, 4099ull, 10007ull}) {
      std::uint64_t next = 0;
      for (std::uint64_t pass = 0; pass < plan.passes(count); ++pass) {
        for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
          const Elements e = elements_of(plan, count, pass, chunk, 1);
          ASSERT_EQ(e.begin, next);
          ASSERT_LE(e.size() * 4, 1024u) << "a message is longer than its slot";
          ASSERT_TRUE(e.size() == 0 || (e.begin - pass * plan.window) % plan.grain == 0);
          next = e.end;
        }
      }
      ASSERT_EQ(next, count);
    }
  }
}

TEST(Plan, FitsItsLongestMessageIntoASlot) {
  const Plan plan = plan_of(8, 4, 64 * 1024);
  const Elements half = elements_of(plan, 1'000'000, 0, 0, 4);
  EXPECT_EQ(half.size() * 4, 64u * 1024);
  EXPECT_EQ(plan.window, 8u * 4096);
}

TEST(Plan, HashTellsPlansApart) {
  const Plan plan = plan_of(4, 1, 1 << 16);
  Plan other = plan;
  finish_plan(other, 1 << 16);
  EXPECT_EQ(other.hash, plan.hash);
  const auto hash_with = [&plan](const std::function<void(Plan&)>& change, std::uint64_t message_bytes = 1 << 16) {
    Plan copy = plan;
    change(copy);
    finish_plan(copy, message_bytes);
    return copy.hash;
  };
  std::set<std::uint64_t> hashes = {plan.hash};
  hashes.insert(hash_with([](Plan& p) { p.problem.count = 5; }));
  hashes.insert(hash_with([](Plan& p) { p.problem.processor = Processor::cuda; }));
  hashes.insert(hash_with([](Plan& p) { p.strands = 2; }));
  hashes.insert(hash_with([](Plan& p) { p.protocol = Protocol::lines; }));
  hashes.insert(hash_with([](Plan&) {}, (1 << 16) + 1));  // the same window
  EXPECT_EQ(hashes.size(), 6u);
}

}  // namespace
}  // namespace tutti
