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

Problem device_problem(const Algorithm& algorithm, int ranks) {
  Problem problem;
  problem.collective = algorithm.collective;
  problem.ranks = ranks;
  problem.root = rooted(algorithm.collective) ? ranks - 1 : 0;
  problem.op = reduces(algorithm.collective) ? TUTTI_AVG : TUTTI_SUM;
  problem.processor = Processor::cuda;
  return problem;
}

Encoded encode_for(int rank, const Algorithm& algorithm, Plan plan) {
  Encoded out{std::move(plan), rank, {}, BlobMemory()};
  const View view = flat_view(out.plan.problem.ranks);
  const auto program_of = [&](int r) { return make_program(algorithm, out.plan, view, r); };
  out.lowered = lower(out.plan, rank, program_of(rank), program_of);
  auto memory = encode(out.plan, rank, out.lowered);
  EXPECT_TRUE(memory.ok()) << memory.status().text();
  out.memory = std::move(*memory);
  return out;
}

Encoded encoded(const Algorithm& algorithm, int ranks, int rank, std::uint64_t passes, std::uint32_t strands) {
  Problem problem = device_problem(algorithm, ranks);
  const auto plan_of = [&](std::uint64_t count) {
    problem.count = count;
    if (problem.collective == Collective::barrier) {
      problem.count = 1;
      problem.type = TUTTI_UINT8;
      problem.op = TUTTI_MAX;
    }
    return make_plan(algorithm, problem, flat_view(ranks), {.strands = strands}, 1024);
  };
  const std::uint64_t window = plan_of(1).window;
  return encode_for(rank, algorithm, plan_of(passes == 0 ? 0 : (passes - 1) * window + window / 2 + 1));
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
          ASSERT_EQ(check_blob(one.memory.bytes(), buffer_bytes(one.plan, one.rank), one.plan.message_bytes), "")
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

/// Follows an accepted blob wherever a kernel would go.
class Walk {
 public:
  Walk(std::span<const std::byte> bytes, const BufferBytes& buffers, std::uint64_t message_bytes)
      : bytes_(bytes),
        buffers_(buffers),
        message_bytes_(message_bytes),
        blob_(*reinterpret_cast<const Blob*>(bytes.data())) {}

  /// Whether the first and the last passes lead nowhere else.
  bool stays_inside() const {
    bool stays = true;
    for (std::uint64_t pass = 0; stays && pass < blob_.passes; pass = next(pass)) {
      for (std::uint32_t lane = 0; lane < blob_.lanes.count; ++lane) stays = stays && lane_stays(lane, pass);
    }
    return stays;
  }

 private:
  static constexpr std::uint64_t looked_at = 20;  ///< at either end
  std::uint64_t next(std::uint64_t pass) const {
    return pass == looked_at && blob_.passes > 2 * looked_at ? blob_.passes - looked_at : pass + 1;
  }
  /// The elements of an array, none where they are not all inside.
  template <typename T>
  std::span<const T> elements(const BlobArray& which, std::uint64_t first, std::uint64_t count) const {
    const std::uint64_t end = which.begin + (first + count) * sizeof(T);
    if (end > bytes_.size()) return {};
    return {blob_.array<T>(which) + first, count};
  }
  bool lane_stays(std::uint32_t number, std::uint64_t pass) const {
    const auto lane = elements<BlobLane>(blob_.lanes, number, 1);
    if (lane.empty()) return false;
    const auto steps = elements<BlobStep>(blob_.steps, lane[0].first, lane[0].count);
    return steps.size() == lane[0].count &&
           std::all_of(steps.begin(), steps.end(), [&](const BlobStep& step) { return step_stays(step, pass); });
  }
  bool step_stays(const BlobStep& step, std::uint64_t pass) const {
    const std::uint64_t count = std::uint64_t{step.sources} + step.destinations;
    const auto operands = elements<BlobOperand>(blob_.operands, step.operands, count);
    const auto waits = elements<Dependency>(blob_.dependencies, step.dependencies, step.dependency_count);
    return operands.size() == count && waits.size() == step.dependency_count &&
           std::all_of(operands.begin(), operands.end(),
                       [&](const BlobOperand& each) { return operand_stays(each, pass); });
  }
  bool operand_stays(const BlobOperand& operand, std::uint64_t pass) const {
    const bool linked = operand.place == Place::link;
    if (linked && elements<BlobLink>(blob_.links, operand.link, 1).empty()) return false;
    const BlobArray& which = blob_.is_last(pass) ? blob_.last_pieces : blob_.full_pieces;
    const auto pieces = elements<BlobPiece>(which, operand.piece, operand.pieces);
    if (pieces.size() != operand.pieces) return false;
    std::uint64_t message = 0;
    for (const BlobPiece& piece : pieces) message += piece.bytes;
    if (linked && message > message_bytes_) return false;
    return std::all_of(pieces.begin(), pieces.end(), [&](const BlobPiece& piece) {
      return linked || piece.bytes == 0 || piece_stays(piece, operand.place, pass);
    });
  }
  bool piece_stays(const BlobPiece& piece, Place place, std::uint64_t pass) const {
    const std::uint64_t begin = blob_.window_begin(place, pass);
    const std::uint64_t buffer = buffers_[static_cast<std::size_t>(place)];
    return begin <= buffer && piece.offset <= buffer - begin && piece.bytes <= buffer - begin - piece.offset;
  }

  std::span<const std::byte> bytes_;
  const BufferBytes& buffers_;
  const std::uint64_t message_bytes_;
  const Blob& blob_;
};

/// Plants a few faults.
void change(std::span<std::byte> bytes, std::mt19937_64& random) {
  const std::size_t changes = 1 + random() % 3;
  for (std::size_t c = 0; c < changes; ++c) {
    // Every other one in the beginning, where all arrays hang; and small changes, which are the likeliest to pass.
    const std::size_t at = random() % (c % 2 == 0 ? sizeof(Blob) : bytes.size());
    const auto small = static_cast<std::byte>(1u << random() % 8);
    bytes[at] = random() % 2 == 0 ? bytes[at] ^ small : static_cast<std::byte>(random());
  }
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
        change(changed.bytes(), random);
        const bool sound = check_blob(changed.bytes(), buffers, one.plan.message_bytes).empty();
        ++(sound ? accepted : refused);
        ASSERT_TRUE(!sound || Walk(changed.bytes(), buffers, one.plan.message_bytes).stays_inside()) << algorithm->name;
      }
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(accepted, 100);
}

Encoded irregular(const Algorithm& algorithm, int ranks, int rank, std::uint32_t strands) {
  Problem problem = device_problem(algorithm, ranks);
  problem.irregular = true;
  problem.count = 1;
  return encode_for(rank, algorithm, make_plan(algorithm, problem, flat_view(ranks), {.strands = strands}, 1024));
}

/// Follows an accepted blob of an irregular plan, as the kernel does, over blocks of any lengths.
class IrregularWalk {
 public:
  IrregularWalk(const Encoded& one, std::span<const std::byte> bytes, std::mt19937_64& random)
      : buffers_(buffer_bytes(one.plan, one.rank)),
        message_bytes_(one.plan.message_bytes),
        bytes_(bytes),
        blob_(*reinterpret_cast<const Blob*>(bytes.data())) {
    const std::uint64_t window = one.plan.window;
    for (std::uint64_t b = 0; b < buffers_[0] + buffers_[1]; ++b) {
      const std::uint64_t some[] = {0, 1, window, random() % (4 * window)};
      blocks_.push_back(bound_block(one.plan.division(), {nullptr, some[random() % 4]}));
    }
  }

  /// Why it would not stay inside of its blocks, scratch and messages; "" where it does.
  std::string run() const {
    for (std::uint32_t s = 0; s < blob_.steps.count; ++s) {
      for (std::uint64_t pass = 0; pass < 5; ++pass) {
        const auto* const step = at<BlobStep>(blob_.steps, s);
        if (step == nullptr) return "steps";
        if (std::string why = walk(*step, pass); !why.empty()) return why;
      }
    }
    return "";
  }

 private:
  template <typename T>
  const T* at(const BlobArray& which, std::uint64_t index) const {
    return which.begin + (index + 1) * sizeof(T) <= bytes_.size() ? blob_.array<T>(which) + index : nullptr;
  }
  static std::uint32_t operands_of(const BlobStep& step) { return std::uint32_t{step.sources} + step.destinations; }
  const BlobOperand* operand(const BlobStep& step, std::uint32_t o) const {
    return at<BlobOperand>(blob_.operands, std::uint64_t{step.operands} + o);
  }
  std::string walk(const BlobStep& step, std::uint64_t pass) const {
    const BlobOperand *const by = operand(step, step.sized_by), *const first = operand(step, 0);
    if (step.sized_by >= operands_of(step) || by == nullptr || first == nullptr) return "sized by nothing";
    std::uint64_t message = 0;
    for (std::uint32_t p = 0; p < first->pieces; ++p) {
      const auto* const block = at<std::uint32_t>(blob_.blocks, std::uint64_t{by->piece} + p);
      if (block == nullptr || *block >= blocks_.size()) return "sized by no block";
      const BoundBlock& bound = blocks_[*block];
      const std::uint64_t start = std::min(bound.count, pass * blob_.window);
      const std::uint64_t here = std::min(blob_.window, bound.count - start);
      const std::uint64_t chunk = here == blob_.window ? blob_.chunk : bound.chunk;
      const Elements moved = Elements::chunks_of(start, here, chunk, step.chunk, step.chunks);
      if (moved.begin > moved.end || moved.end > bound.count) return "elements beyond the block";
      message += moved.size() * blob_.element_bytes;
      if (std::string why = moved.size() == 0 ? "" : walk_piece(step, pass, p, moved); !why.empty()) return why;
    }
    for (std::uint32_t o = 0; o < operands_of(step); ++o) {
      const BlobOperand* const own = operand(step, o);
      if (own == nullptr) return "operands";
      if (own->place == Place::link && message > message_bytes_) return "a message that is too long";
    }
    return "";
  }
  std::string walk_piece(const BlobStep& step, std::uint64_t pass, std::uint32_t piece, const Elements& moved) const {
    for (std::uint32_t o = 0; o < operands_of(step); ++o) {
      const BlobOperand* const own = operand(step, o);
      if (own == nullptr) return "operands";
      if (own->place == Place::link) {
        if (at<BlobLink>(blob_.links, own->link) == nullptr) return "links";
        continue;
      }
      const auto* const block = at<std::uint32_t>(blob_.blocks, std::uint64_t{own->piece} + piece);
      if (block == nullptr || (own->place != Place::scratch && *block >= blocks_.size())) return "blocks";
      const std::uint64_t end = blob_.window_begin(Place::scratch, pass) +
                                (*block * blob_.window + moved.end - pass * blob_.window) * blob_.element_bytes;
      if (own->place == Place::scratch && end > buffers_[2]) return "scratch";
    }
    return "";
  }

  const BufferBytes buffers_;
  const std::uint64_t message_bytes_;
  const std::span<const std::byte> bytes_;
  const Blob& blob_;
  std::vector<BoundBlock> blocks_;
};

TEST(Blob, OfAnIrregularPlanStaysWithinBlocksOfAnyLength) {
  std::mt19937_64 random(3);
  int refused = 0, accepted = 0;
  for (const Algorithm* algorithm : all_algorithms()) {
    for (const int ranks : {1, 2, 5}) {
      if (!algorithm->irregular || !takes(*algorithm, ranks)) continue;
      const Encoded one = irregular(*algorithm, ranks, ranks - 1, 2);
      const BufferBytes buffers = buffer_bytes(one.plan, one.rank);
      ASSERT_EQ(check_blob(one.memory.bytes(), buffers, one.plan.message_bytes), "") << algorithm->name << " " << ranks;
      ASSERT_EQ(IrregularWalk(one, one.memory.bytes(), random).run(), "") << algorithm->name << " " << ranks;
      for (int i = 0; i < 300; ++i) {
        BlobMemory changed = one.memory;
        change(changed.bytes(), random);
        const bool sound = check_blob(changed.bytes(), buffers, one.plan.message_bytes).empty();
        ++(sound ? accepted : refused);
        // What has become another kind of blob is looked at above.
        if (!sound || !changed.blob().is_irregular()) continue;
        ASSERT_EQ(IrregularWalk(one, changed.bytes(), random).run(), "") << algorithm->name << " on " << ranks;
      }
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(accepted, 100);
}

TEST(Scaling, IsRightForEveryAlgorithmThatReduces) {
  for (const Algorithm* algorithm : all_algorithms()) {
    if (!reduces(algorithm->collective)) continue;
    for (int ranks = 1; ranks <= 13; ++ranks) {
      if (!takes(*algorithm, ranks)) continue;
      for (int rank = 0; rank < ranks; ++rank) {
        const Encoded one = encoded(*algorithm, ranks, rank, 1, 1);
        EXPECT_EQ(check_scaling(one.plan, rank, one.lowered.program), "")
            << algorithm->name << ", " << rank << " of " << ranks;
      }
    }
  }
}

TEST(Scaling, OfWhatIsCopiedInPlaceAndReadAgainIsRefused) {
  const Encoded one = encoded(*find_algorithm(Collective::all_reduce, "ring"), 3, 0, 1, 1);
  Program program;
  program.operands = {{.place = Place::input}, {.place = Place::output}, {.place = Place::input}, {.place = Place::link}};
  program.steps = {{.operands = 0, .sources = 1, .destinations = 1}, {.operands = 2, .sources = 1, .destinations = 1}};
  EXPECT_EQ(check_scaling(one.plan, 0, program), "an operand that it copies in place is read again");
  program.operands[2].range.chunk = 1;
  EXPECT_EQ(check_scaling(one.plan, 0, program), "");
  program.operands = {{.place = Place::input}, {.place = Place::link}, {.place = Place::input}, {.place = Place::output}};
  program.steps = {{.operands = 0, .sources = 3, .destinations = 1}};
  EXPECT_EQ(check_scaling(one.plan, 0, program), "a fold's own operands lie apart");
}

TEST(Blob, ThatIsCutShortIsRefused) {
  const Encoded one = encoded(*find_algorithm(Collective::all_reduce, "ring"), 3, 0, 3, 1);
  const BufferBytes buffers = buffer_bytes(one.plan, 0);
  for (std::size_t bytes = 0; bytes < one.memory.bytes().size(); ++bytes)
    ASSERT_NE(check_blob(one.memory.bytes().first(bytes), buffers, one.plan.message_bytes), "") << bytes;
}

TEST(Blob, WhoseElementsNoLineHoldsIsRefused) {
  const Encoded one = encoded(*find_algorithm(Collective::all_reduce, "ring"), 3, 0, 1, 1);
  const auto checked = [&](Protocol protocol, std::uint32_t unit_shift) {
    std::vector<std::byte> bytes(one.memory.bytes().begin(), one.memory.bytes().end());
    Blob blob;
    std::memcpy(&blob, bytes.data(), sizeof blob);
    blob.protocol = static_cast<std::uint32_t>(protocol);
    blob.unit_shift = unit_shift;
    std::memcpy(bytes.data(), &blob, sizeof blob);
    return check_blob(bytes, buffer_bytes(one.plan, one.rank), one.plan.message_bytes);
  };
  EXPECT_EQ(checked(Protocol::lines, 3), "");
  EXPECT_EQ(checked(Protocol::lines, 4), "its elements are longer than a line's data");
  EXPECT_EQ(checked(Protocol::messages, 4), "");
}

TEST(Blob, IsRefusedForSmallerBuffers) {
  const Encoded one = encoded(*find_algorithm(Collective::all_reduce, "double_tree"), 5, 2, 4, 2);
  const BufferBytes exact = buffer_bytes(one.plan, one.rank);
  ASSERT_EQ(check_blob(one.memory.bytes(), exact, one.plan.message_bytes), "");
  for (std::size_t b = 0; b < exact.size(); ++b) {
    if (exact[b] == 0) continue;
    BufferBytes less = exact;
    --less[b];
    EXPECT_EQ(check_blob(one.memory.bytes(), less, one.plan.message_bytes), "an operand leaves its buffer") << b;
  }
}

}  // namespace
}  // namespace tutti::testing
