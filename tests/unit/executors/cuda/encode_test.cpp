// Blobs say what the host's layouts say; and what is accepted as one leads nowhere else, whatever its bytes.
#include "src/executors/cuda/encode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "algorithms/algorithm.h"
#include "src/tables/element_types.h"

namespace tutti::testing {
namespace {

struct Encoded {
  Plan plan;
  int rank = 0;
  Lowered lowered;
  BlobMemory memory;
};

bool takes(const Algorithm& algorithm, int ranks) {
  Problem problem;
  problem.collective = algorithm.collective;
  problem.ranks = ranks;
  return ranks == 1 || algorithm.fits(problem, flat_view(ranks));
}

Encoded encoded(const Algorithm& algorithm, int ranks, int rank, std::uint64_t passes, std::uint32_t strands) {
  Problem problem;
  problem.collective = algorithm.collective;
  problem.ranks = ranks;
  problem.root = rooted(algorithm.collective) ? ranks - 1 : 0;
  problem.op = reduces(algorithm.collective) ? TUTTI_AVG : TUTTI_SUM;
  problem.processor = Processor::cuda;
  const View view = flat_view(ranks);
  const auto plan_of = [&](std::uint64_t count) {
    problem.count = count;
    if (problem.collective == Collective::barrier) {
      problem.count = 1;
      problem.type = TUTTI_UINT8;
      problem.op = TUTTI_MAX;
    }
    return make_plan(algorithm, problem, view, {.strands = strands}, 1024);
  };
  const std::uint64_t window = plan_of(1).window;
  Encoded out{plan_of(passes == 0 ? 0 : (passes - 1) * window + window / 2 + 1), rank, {}, BlobMemory()};
  const auto program_of = [&](int r) { return make_program(algorithm, out.plan, view, r); };
  out.lowered = lower(out.plan, rank, program_of(rank), program_of);
  auto memory = encode(out.plan, rank, out.lowered);
  EXPECT_TRUE(memory.ok()) << memory.status().text();
  out.memory = std::move(*memory);
  return out;
}

/// Compares one pass of one strand with the layouts that the host runs.
void expect_same_pass(const Encoded& encoded, const Layouts& layouts, const Strand& strand, std::uint64_t own) {
  const Blob& blob = encoded.memory.blob();
  const Program& program = encoded.lowered.program;
  const std::uint64_t pass = strand.pass(own);
  const Layout& layout = own + 1 == layouts.passes ? layouts.last : layouts.full;
  const BlobPiece* const pieces = blob.pieces_at(pass);
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    const BlobStep& step = blob.array<BlobStep>(blob.steps)[s];
    ASSERT_EQ(step.message_bytes[blob.is_last(pass) ? 1 : 0], layout.message_bytes[s]);
  }
  for (std::size_t o = 0; o < program.operands.size(); ++o) {
    const BlobOperand& operand = blob.array<BlobOperand>(blob.operands)[o];
    ASSERT_EQ(operand.place, program.operands[o].place);
    ASSERT_EQ(operand.only_offered, encoded.lowered.only_offered[o]);
    ASSERT_EQ(operand.pieces, layout.first_piece[o + 1] - layout.first_piece[o]);
    std::uint64_t window = 0;
    if (operand.place == Place::link) {
      ASSERT_EQ(operand.link, program.operands[o].link);
    } else {
      const auto buffer = static_cast<std::size_t>(operand.place);
      const std::uint64_t turn = operand.place == Place::scratch ? own % layouts.copies : own;
      window = layouts.begin[buffer] + turn * layouts.stride[buffer];
      ASSERT_EQ(blob.window_begin(operand.place, pass), window);
    }
    for (std::uint32_t p = 0; p < operand.pieces; ++p) {
      const Layout::Piece& expected = layout.pieces[layout.first_piece[o] + p];
      ASSERT_EQ(pieces[operand.piece + p].bytes, expected.bytes);
      if (expected.bytes == 0) continue;
      ASSERT_EQ(pieces[operand.piece + p].offset, expected.offset);
    }
  }
}

TEST(Blob, SaysWhatTheHostsLayoutsSay) {
  int blobs = 0;
  for (const Algorithm* algorithm : all_algorithms()) {
    for (const int ranks : {1, 2, 3, 5, 8}) {
      if (!takes(*algorithm, ranks)) continue;
      for (const std::uint32_t strands : {1u, 2u, 5u}) {
        for (const std::uint64_t passes : {0, 1, 3, 12}) {
          const Encoded one = encoded(*algorithm, ranks, ranks - 1, passes, strands);
          ASSERT_EQ(check_blob(one.memory.bytes(), buffer_bytes(one.plan, one.rank)), "")
              << algorithm->name << " " << ranks << " ranks, " << passes << " passes";
          EXPECT_EQ(one.memory.blob().plan_hash, one.plan.hash);
          for (std::uint32_t s = 0; s < strands; ++s) {
            const Layouts layouts = lay_out(one.plan, one.rank, one.lowered.program, s);
            for (std::uint64_t own = 0; own < layouts.passes; ++own)
              ASSERT_NO_FATAL_FAILURE(expect_same_pass(one, layouts, {s, strands}, own));
          }
          ++blobs;
        }
      }
    }
  }
  EXPECT_GT(blobs, 1000);
}

/// Follows an accepted blob in its first and its last passes wherever a kernel would go. False: somewhere else.
bool stays_inside(std::span<const std::byte> bytes, const BufferBytes& buffers) {
  const Blob& blob = *reinterpret_cast<const Blob*>(bytes.data());
  const auto inside = [&](const auto* element) {
    const auto* const at = reinterpret_cast<const std::byte*>(element);
    return at >= bytes.data() && at + sizeof *element <= bytes.data() + bytes.size();
  };
  const auto operand_stays = [&](const BlobOperand& operand, std::uint64_t pass) {
    for (std::uint32_t p = 0; p < operand.pieces; ++p) {
      const BlobPiece* const piece = blob.pieces_at(pass) + operand.piece + p;
      if (!inside(piece)) return false;
      if (operand.place == Place::link || piece->bytes == 0) continue;
      const std::uint64_t begin = blob.window_begin(operand.place, pass);
      const std::uint64_t buffer = buffers[static_cast<std::size_t>(operand.place)];
      if (begin > buffer || piece->offset > buffer - begin || piece->bytes > buffer - begin - piece->offset) return false;
    }
    return true;
  };
  for (std::uint64_t pass = 0; pass < blob.passes; pass += pass == 20 && blob.passes > 40 ? blob.passes - 40 : 1) {
    for (std::uint32_t l = 0; l < blob.lanes.count; ++l) {
      const BlobLane* const lane = blob.array<BlobLane>(blob.lanes) + l;
      if (!inside(lane)) return false;
      for (std::uint32_t s = lane->first; s < lane->first + lane->count; ++s) {
        const BlobStep* const step = blob.array<BlobStep>(blob.steps) + s;
        if (!inside(step)) return false;
        for (std::uint32_t o = step->operands; o < step->operands + step->sources + step->destinations; ++o) {
          const BlobOperand* const operand = blob.array<BlobOperand>(blob.operands) + o;
          if (!inside(operand) || !operand_stays(*operand, pass)) return false;
          if (operand->place == Place::link && !inside(blob.array<BlobLink>(blob.links) + operand->link)) return false;
        }
        for (std::uint32_t d = step->dependencies; d < step->dependencies + step->dependency_count; ++d) {
          if (!inside(blob.array<Dependency>(blob.dependencies) + d)) return false;
        }
      }
    }
  }
  return true;
}

TEST(Blob, IsRefusedWhereItWouldLeadAnywhereElse) {
  std::mt19937_64 random(7);
  int refused = 0, accepted = 0;
  for (const Algorithm* algorithm : all_algorithms()) {
    const int ranks = 4;
    if (!takes(*algorithm, ranks)) continue;
    for (const std::uint64_t passes : {1, 3}) {
      const Encoded one = encoded(*algorithm, ranks, 1, passes, 2);
      const BufferBytes buffers = buffer_bytes(one.plan, one.rank);
      for (int i = 0; i < 200; ++i) {
        BlobMemory changed = one.memory;
        const auto bytes = changed.bytes();
        const std::size_t changes = 1 + random() % 3;
        for (std::size_t c = 0; c < changes; ++c) {
          // Every other one in the beginning, where all arrays hang; and small changes, which are the likeliest to pass.
          const std::size_t at = random() % (c % 2 == 0 ? sizeof(Blob) : bytes.size());
          const auto small = static_cast<std::byte>(1u << random() % 8);
          bytes[at] = random() % 2 == 0 ? bytes[at] ^ small : static_cast<std::byte>(random());
        }
        const bool sound = check_blob(bytes, buffers).empty();
        ++(sound ? accepted : refused);
        ASSERT_TRUE(!sound || stays_inside(bytes, buffers)) << algorithm->name;
      }
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(accepted, 100);
}

TEST(Blob, ThatIsCutShortIsRefused) {
  const Encoded one = encoded(*find_algorithm(Collective::all_reduce, "ring"), 3, 0, 3, 1);
  const BufferBytes buffers = buffer_bytes(one.plan, 0);
  for (std::size_t bytes = 0; bytes < one.memory.bytes().size(); ++bytes)
    ASSERT_NE(check_blob(one.memory.bytes().first(bytes), buffers), "") << bytes;
}

TEST(Blob, IsRefusedForSmallerBuffers) {
  const Encoded one = encoded(*find_algorithm(Collective::all_reduce, "double_tree"), 5, 2, 4, 2);
  const BufferBytes exact = buffer_bytes(one.plan, one.rank);
  ASSERT_EQ(check_blob(one.memory.bytes(), exact), "");
  for (std::size_t b = 0; b < exact.size(); ++b) {
    if (exact[b] == 0) continue;
    BufferBytes less = exact;
    --less[b];
    EXPECT_EQ(check_blob(one.memory.bytes(), less), "an operand leaves its buffer") << b;
  }
}

}  // namespace
}  // namespace tutti::testing
