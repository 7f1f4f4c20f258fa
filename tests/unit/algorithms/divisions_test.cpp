// Irregular plans: whatever the blocks' counts, each step's operands are equally long, and so are both ends of a message.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "algorithms/algorithms.h"
#include "src/schedule/layout.h"
#include "tests/support/block_counts.h"
#include "tests/support/schedules.h"

namespace tutti::testing {
namespace {

std::vector<tutti_block> blocks_of_counts(const std::vector<std::uint64_t>& counts, std::byte* base) {
  std::vector<tutti_block> blocks;
  for (const std::uint64_t count : counts) {
    blocks.push_back({base, count});
    base += count * 4 + 64;
  }
  return blocks;
}

/// Every message's length in the order in which a link carries them, by (sender, receiver, channel).
using Messages = std::map<std::tuple<int, int, std::uint32_t>, std::vector<std::uint64_t>>;

void expect_equal_operands(const Program& program, const Layout& layout, const Plan& plan, std::uint64_t pass,
                           const IrregularBuffers& buffers) {
  for (const Step& step : program.steps) {
    for (std::uint32_t o = step.operands; o < step.operands + step.sources + step.destinations; ++o) {
      const Operand& operand = program.operands[o];
      if (operand.place != Place::input && operand.place != Place::output) continue;
      const auto& blocks = operand.place == Place::input ? buffers.input : buffers.output;
      for (std::uint32_t i = 0; i < operand.range.blocks; ++i) {
        const tutti_block& block = blocks[operand.range.block_at(i, static_cast<std::uint32_t>(blocks.size()))];
        const std::uint64_t bytes =
            4 * elements_of(plan, block.count, pass, operand.range.chunk, operand.range.chunks).size();
        ASSERT_EQ(layout.pieces[layout.first_piece[o] + i].bytes, bytes) << "operand " << o << ", pass " << pass;
      }
    }
  }
}

void collect(const Program& program, const Layouts& layouts, int rank, Messages& sent, Messages& received) {
  for (std::uint64_t pass = 0; pass < layouts.passes; ++pass) {
    const Layout& layout = layouts.at(pass);
    for (const Lane& lane : program.lanes) {
      for (std::uint32_t s = lane.first; s < lane.first + lane.count; ++s) {
        const Step& step = program.steps[s];
        if (layout.message_bytes[s] == 0) continue;
        for (std::uint32_t o = step.operands; o < step.operands + step.sources + step.destinations; ++o) {
          const Operand& operand = program.operands[o];
          if (operand.place != Place::link) continue;
          const Link& link = program.links[operand.link];
          if (link.sends) {
            sent[{rank, link.peer, link.channel}].push_back(layout.message_bytes[s]);
          } else {
            received[{link.peer, rank, link.channel}].push_back(layout.message_bytes[s]);
          }
        }
      }
    }
  }
}

TEST(Divisions, PairUpForEveryAlgorithmOfVVariants) {
  std::mt19937_64 random(5);
  int divisions = 0;
  for (const Algorithm* algorithm : all_algorithms()) {
    if (!algorithm->irregular) continue;
    for (int ranks = 2; ranks <= 13; ++ranks) {
      const View view = flat_view(ranks);
      for (int root = 0; root < roots_of(*algorithm, ranks); ++root, ++divisions) {
        Problem problem;
        problem.collective = algorithm->collective;
        problem.type = TUTTI_INT32;
        problem.ranks = ranks;
        problem.root = root;
        problem.irregular = true;
        problem.count = 1;
        const Plan plan = make_plan(*algorithm, problem, view, {}, 4096);
        const BlockCounts counts = some_counts(ranks, plan.window, random);
        Messages sent, received;
        std::vector<std::byte> memory(1);
        for (int rank = 0; rank < ranks; ++rank) {
          const Program program = make_program(*algorithm, plan, view, rank);
          ASSERT_TRUE(can_be_irregular(program)) << algorithm->name;
          const auto input = blocks_of_counts(counts.of(problem, Buffer::input, rank), memory.data());
          const auto output = blocks_of_counts(counts.of(problem, Buffer::output, rank), memory.data());
          Layouts layouts;
          lay_out_irregular(plan, program, {input, output}, layouts);
          for (std::uint64_t pass = 0; pass < layouts.passes; ++pass) {
            ASSERT_NO_FATAL_FAILURE(expect_equal_operands(program, layouts.at(pass), plan, pass, {input, output}))
                << name_of(problem.collective) << " " << algorithm->name << " on " << ranks << ", rank " << rank;
          }
          collect(program, layouts, rank, sent, received);
        }
        ASSERT_EQ(sent, received) << name_of(problem.collective) << " " << algorithm->name << " on " << ranks;
      }
    }
  }
  EXPECT_GT(divisions, 100);
}

TEST(Divisions, EveryCollectiveWithBlocksHasAnAlgorithmForThem) {
  for (const CollectiveRow& row : collectives) {
    const bool has = row.info.has_send_blocks() || row.info.has_recv_blocks();
    EXPECT_EQ(row.info.v_variant != nullptr, has) << row.info.name;
    const auto all = all_algorithms();
    const bool is_there = std::any_of(all.begin(), all.end(),
                                      [&](const Algorithm* a) { return a->collective == row.collective && a->irregular; });
    EXPECT_EQ(is_there, has) << row.info.name;
  }
}

}  // namespace
}  // namespace tutti::testing
