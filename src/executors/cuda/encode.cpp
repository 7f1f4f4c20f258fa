#include "src/executors/cuda/encode.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <type_traits>
#include <utility>

#include "src/base/saturating.h"
#include "src/tables/element_types.h"

namespace tutti {
namespace {

constexpr std::uint64_t array_alignment = alignof(Blob);

/// Lays arrays out behind a blob's beginning, and fills them once the whole has its length.
class Composer {
 public:
  template <typename T>
  void append(BlobArray Blob::* which, const std::vector<T>& elements) {
    static_assert(std::is_trivially_copyable_v<T>);
    end_ = (end_ + array_alignment - 1) / array_alignment * array_alignment;
    blob_.*which = {static_cast<std::uint32_t>(end_), static_cast<std::uint32_t>(elements.size())};
    const auto bytes = std::as_bytes(std::span(elements));
    parts_.push_back({end_, {bytes.begin(), bytes.end()}});
    end_ += bytes.size();
  }
  Blob& blob() { return blob_; }
  Result<BlobMemory> finish() {
    if (end_ > UINT32_MAX) return Status(TUTTI_UNSUPPORTED, "a program of more than 4 GiB does not fit a device's launch");
    BlobMemory memory(end_);
    blob_.bytes = end_;
    std::memcpy(memory.bytes().data(), &blob_, sizeof blob_);
    for (const Part& part : parts_) std::copy(part.bytes.begin(), part.bytes.end(), memory.bytes().begin() + part.begin);
    return memory;
  }

 private:
  struct Part {
    std::ptrdiff_t begin;
    std::vector<std::byte> bytes;
    Part(std::uint64_t at, std::vector<std::byte> content)
        : begin(static_cast<std::ptrdiff_t>(at)), bytes(std::move(content)) {}
  };
  Blob blob_{};
  std::uint64_t end_ = sizeof(Blob);
  std::vector<Part> parts_;
};

/// Steps but for what they move.
std::vector<BlobStep> steps_of(const Program& program) {
  std::vector<BlobStep> steps;
  for (const Step& step : program.steps) {
    steps.push_back({.message_bytes = {0, 0},
                     .operands = step.operands,
                     .sources = step.sources,
                     .destinations = step.destinations,
                     .dependencies = step.dependencies,
                     .dependency_count = step.dependency_count,
                     .flags = step.flags,
                     .sized_by = 0,
                     .chunk = 0,
                     .chunks = 0,
                     .unused = 0});
  }
  return steps;
}

std::vector<BlobOperand> operands_of(const Lowered& lowered, const Layout& layout) {
  std::vector<BlobOperand> operands;
  const std::vector<Operand>& all = lowered.program.operands;
  for (std::size_t o = 0; o < all.size() && !layout.first_piece.empty(); ++o) {
    operands.push_back({layout.first_piece[o], layout.first_piece[o + 1] - layout.first_piece[o],
                        all[o].place == Place::link ? all[o].link : 0, all[o].place, lowered.only_offered[o], 0});
  }
  return operands;
}

std::vector<BlobPiece> pieces_of(const Layout& layout) {
  std::vector<BlobPiece> pieces;
  for (const Layout::Piece& piece : layout.pieces) pieces.push_back({piece.offset, piece.bytes});
  return pieces;
}

/// What a plan moves whose blocks are equally long: it is the same in every call.
void append_pieces(const Plan& plan, int rank, const Lowered& lowered, Composer& composer) {
  // Passes are the plan's here, whichever strand runs them.
  Plan whole = plan;
  whole.strands = 1;
  const Layouts layouts = lay_out(whole, rank, lowered.program);
  Blob& blob = composer.blob();
  blob.passes = layouts.passes;
  std::copy(layouts.stride.begin(), layouts.stride.end(), blob.stride);
  std::vector<BlobStep> steps = steps_of(lowered.program);
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const auto bytes_in = [s](const Layout& layout) { return layout.message_bytes.empty() ? 0 : layout.message_bytes[s]; };
    steps[s].message_bytes[0] = bytes_in(layouts.full);
    steps[s].message_bytes[1] = bytes_in(layouts.last);
  }
  composer.append(&Blob::steps, steps);
  composer.append(&Blob::operands, operands_of(lowered, layouts.last));
  composer.append(&Blob::full_pieces, pieces_of(layouts.full));
  composer.append(&Blob::last_pieces, pieces_of(layouts.last));
  composer.append(&Blob::blocks, std::vector<std::uint32_t>());
}

/// What an irregular plan moves, as far as it knows.
void append_blocks(const Plan& plan, int rank, const Lowered& lowered, Composer& composer) {
  const Program& program = lowered.program;
  Blob& blob = composer.blob();
  blob.stride[static_cast<std::size_t>(Place::scratch)] = scratch_bytes(plan) / plan.shape.depth / plan.strands;
  blob.element_bytes = static_cast<std::uint32_t>(element_bytes(plan.problem.type));
  blob.window = plan.window;
  blob.chunk = plan.division().chunk_size(plan.window);
  std::vector<BlobStep> steps = steps_of(program);
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const Operand* const by = block_operand(program, program.steps[s]);
    steps[s].sized_by = static_cast<std::uint32_t>(by - &program.operands[program.steps[s].operands]);
    steps[s].chunk = by->range.chunk;
    steps[s].chunks = by->range.chunks;
  }
  // The output's blocks are bound behind the input's.
  const std::uint32_t inputs = blocks_of(plan.problem, Buffer::input, rank);
  const std::uint32_t first[] = {0, inputs, 0},
                      total[] = {inputs, blocks_of(plan.problem, Buffer::output, rank), plan.shape.scratch_blocks};
  std::vector<BlobOperand> operands;
  std::vector<std::uint32_t> blocks;
  for (std::size_t o = 0; o < program.operands.size(); ++o) {
    const auto& [place, sizing, link, range] = program.operands[o];
    operands.push_back({static_cast<std::uint32_t>(blocks.size()), range.blocks, place == Place::link ? link : 0, place,
                        lowered.only_offered[o], 0});
    for (std::uint32_t i = 0; place != Place::link && i < range.blocks; ++i) {
      const auto buffer = static_cast<std::size_t>(place);
      blocks.push_back(first[buffer] + range.block_at(i, total[buffer]));
    }
  }
  composer.append(&Blob::steps, steps);
  composer.append(&Blob::operands, operands);
  composer.append(&Blob::full_pieces, std::vector<BlobPiece>());
  composer.append(&Blob::last_pieces, std::vector<BlobPiece>());
  composer.append(&Blob::blocks, blocks);
}

/// Whether two ranges of a buffer of `total` blocks share a chunk.
bool overlap(const Range& a, const Range& b, std::uint32_t total) {
  if (a.chunk + a.chunks <= b.chunk || b.chunk + b.chunks <= a.chunk) return false;
  for (std::uint32_t i = 0; i < a.blocks; ++i) {
    for (std::uint32_t j = 0; j < b.blocks; ++j) {
      if (a.block_at(i, total) == b.block_at(j, total)) return true;
    }
  }
  return false;
}

/// Looks at a blob from its beginning on; what has been found sound is used to look at the rest.
class Checker {
 public:
  Checker(std::span<const std::byte> bytes, const BufferBytes& buffers, std::uint64_t message_bytes)
      : bytes_(bytes), buffers_(buffers), message_bytes_(message_bytes) {}

  std::string run() {
    if (bytes_.size() < sizeof(Blob)) return "it is shorter than its beginning";
    std::memcpy(&blob_, bytes_.data(), sizeof blob_);
    if (blob_.bytes != bytes_.size()) return "its length is another than it says";
    if (blob_.strands == 0 || blob_.depth == 0) return "it has no strand or no depth";
    if (blob_.unit_shift > 4) return "its elements are longer than any";
    if (blob_.protocol > static_cast<std::uint32_t>(Protocol::lines)) return "its links have no protocol";
    const bool by_lines = blob_.protocol == static_cast<std::uint32_t>(Protocol::lines);
    if (by_lines && std::uint64_t{1} << blob_.unit_shift > line_data_bytes)
      return "its elements are longer than a line's data";
    if (!sound_arrays()) return "an array lies outside it";
    if (blob_.is_irregular()) return first_of({irregular(), lanes(), steps(), operands()});
    if (blob_.full_pieces.count != blob_.last_pieces.count && blob_.passes > 1) return "its passes differ in their pieces";
    return first_of({lanes(), steps(), operands()});
  }

 private:
  static std::string first_of(std::initializer_list<std::string> all) {
    for (const std::string& why : all) {
      if (!why.empty()) return why;
    }
    return {};
  }
  template <typename T>
  bool sound(const BlobArray& array) const {
    return array.begin % array_alignment == 0 && array.begin >= sizeof(Blob) && array.begin <= bytes_.size() &&
           array.count <= (bytes_.size() - array.begin) / sizeof(T);
  }
  bool sound_arrays() const {
    return sound<BlobLane>(blob_.lanes) && sound<BlobStep>(blob_.steps) && sound<BlobOperand>(blob_.operands) &&
           sound<BlobPiece>(blob_.full_pieces) && sound<BlobPiece>(blob_.last_pieces) &&
           sound<std::uint32_t>(blob_.blocks) && sound<Dependency>(blob_.dependencies) && sound<BlobLink>(blob_.links);
  }
  template <typename T>
  std::span<const T> all(const BlobArray& array) const {
    return {reinterpret_cast<const T*>(bytes_.data() + array.begin), array.count};
  }
  static bool within(std::uint64_t first, std::uint64_t count, std::uint64_t of) {
    return first <= of && count <= of - first;
  }

  /// How an irregular blob divides blocks.
  std::string irregular() const {
    // Far from where sums and products of them leave 64 bits.
    constexpr std::uint64_t most = std::uint64_t{1} << 43;
    if (blob_.window > most || blob_.chunk > most) return "its windows are longer than any";
    return blob_.element_bytes == 0 || blob_.element_bytes > 16 ? "its elements are no type's" : "";
  }

  std::string lanes() const {
    for (const BlobLane& lane : all<BlobLane>(blob_.lanes)) {
      if (!within(lane.first, lane.count, blob_.steps.count)) return "a lane has steps beyond the program's";
    }
    for (const Dependency& on : all<Dependency>(blob_.dependencies)) {
      if (on.lane >= blob_.lanes.count || on.step >= all<BlobLane>(blob_.lanes)[on.lane].count)
        return "a step waits for one that does not exist";
    }
    return {};
  }

  std::string steps() const {
    for (const BlobStep& step : all<BlobStep>(blob_.steps)) {
      const std::uint32_t operands = std::uint32_t{step.sources} + step.destinations;
      if (step.sources == 0 || step.destinations == 0) return "a step has no source or no destination";
      if (operands > blob_.most_operands) return "a step has more operands than the most";
      if (blob_.passes == 0 && !blob_.is_irregular()) continue;
      if (!within(step.operands, operands, blob_.operands.count)) return "a step has operands beyond the program's";
      if (!within(step.dependencies, step.dependency_count, blob_.dependencies.count))
        return "a step has dependencies beyond the program's";
      std::string why = blob_.is_irregular() ? equal_blocks(step, operands) : equal_pieces(step, operands);
      if (!why.empty()) return why;
    }
    return {};
  }

  /// A sweep goes through all operands' pieces side by side.
  std::string equal_pieces(const BlobStep& step, std::uint32_t operands) const {
    const auto own = all<BlobOperand>(blob_.operands).subspan(step.operands, operands);
    for (const bool last : {false, true}) {
      if (!last && blob_.passes < 2) continue;
      const auto pieces = all<BlobPiece>(last ? blob_.last_pieces : blob_.full_pieces);
      for (const BlobOperand& operand : own) {
        if (!within(operand.piece, operand.pieces, pieces.size())) return "an operand has pieces beyond the program's";
        if (operand.pieces != own[0].pieces) return "a step's operands differ in their pieces";
        if (operand.place == Place::link && step.message_bytes[last ? 1 : 0] > message_bytes_)
          return "an operand leaves its message";
        std::uint64_t sum = 0;
        for (std::uint32_t p = 0; p < operand.pieces; ++p) {
          const std::uint64_t bytes = pieces[operand.piece + p].bytes;
          if (bytes != pieces[own[0].piece + p].bytes) return "a step's operands differ in their lengths";
          if (bytes > step.message_bytes[last ? 1 : 0] - sum) return "a step's pieces are longer than its message";
          sum += bytes;
        }
        if (sum != step.message_bytes[last ? 1 : 0]) return "a step's pieces are shorter than its message";
      }
    }
    return {};
  }

  /// All of a step's pieces are as long as those of the operand that it is sized by, and its messages fit.
  std::string equal_blocks(const BlobStep& step, std::uint32_t operands) const {
    constexpr std::uint32_t most_chunks = 1 << 20;
    const auto own = all<BlobOperand>(blob_.operands).subspan(step.operands, operands);
    if (step.sized_by >= operands || own[step.sized_by].place > Place::output) return "a step is sized by no block";
    if (step.chunk > most_chunks || step.chunks > most_chunks) return "a step has more chunks than any window";
    const std::uint32_t pieces = own[step.sized_by].pieces;
    const std::uint64_t most = std::min(blob_.window, step.chunks * blob_.chunk);
    const bool fits = saturating_product(pieces, most * blob_.element_bytes) <= message_bytes_;
    for (const BlobOperand& operand : own) {
      if (operand.pieces != pieces) return "a step's operands differ in their pieces";
      if (operand.place == Place::link && !fits) return "an operand leaves its message";
    }
    return {};
  }

  /// Of the bound blocks or of the scratch's.
  bool has_blocks(const BlobOperand& operand) const {
    if (!within(operand.piece, operand.pieces, blob_.blocks.count)) return false;
    const auto blocks = all<std::uint32_t>(blob_.blocks).subspan(operand.piece, operand.pieces);
    if (operand.place != Place::scratch)
      return std::ranges::all_of(blocks, [&](std::uint32_t block) { return block < buffers_[0] + buffers_[1]; });
    const std::uint64_t bytes = blob_.window * blob_.element_bytes, stride = blob_.stride[2];
    return saturating_product(stride, std::uint64_t{blob_.strands} * blob_.depth) <= buffers_[2] &&
           std::ranges::all_of(
               blocks, [&](std::uint32_t block) { return saturating_product(block + std::uint64_t{1}, bytes) <= stride; });
  }

  std::string operands() const {
    for (const BlobOperand& operand : all<BlobOperand>(blob_.operands)) {
      if (operand.place > Place::link) return "an operand has no place";
      if (operand.place == Place::link) {
        if (operand.link >= blob_.links.count) return "an operand names a link beyond the program's";
      } else if (blob_.is_irregular()) {
        if (!has_blocks(operand)) return "an operand leaves its buffer";
      } else if (!stays(operand)) {
        return "an operand leaves its buffer";
      }
    }
    return {};
  }

  /// In the plan's last pass, in the full one before it, and in all copies of the scratch.
  bool stays(const BlobOperand& operand) const {
    const auto buffer = static_cast<std::size_t>(operand.place);
    const std::uint64_t copies = std::uint64_t{blob_.strands} * blob_.depth;
    const auto farthest = [&](std::uint64_t passes) {
      return operand.place == Place::scratch ? std::min(passes, copies) : passes;
    };
    const auto fits = [&](const BlobArray& which, std::uint64_t passes) {
      if (passes == 0) return true;
      if (!within(operand.piece, operand.pieces, which.count)) return false;
      const std::uint64_t windows = farthest(passes) - 1;
      if (blob_.stride[buffer] != 0 && windows > buffers_[buffer] / blob_.stride[buffer]) return false;
      const std::uint64_t begin = windows * blob_.stride[buffer];
      const auto pieces = all<BlobPiece>(which).subspan(operand.piece, operand.pieces);
      return std::all_of(pieces.begin(), pieces.end(), [&](const BlobPiece& piece) {
        return piece.bytes == 0 ||
               (piece.offset <= buffers_[buffer] - begin && piece.bytes <= buffers_[buffer] - begin - piece.offset);
      });
    };
    return fits(blob_.last_pieces, blob_.passes) && (blob_.passes < 2 || fits(blob_.full_pieces, blob_.passes - 1));
  }

  std::span<const std::byte> bytes_;
  const BufferBytes buffers_;
  const std::uint64_t message_bytes_;
  Blob blob_{};
};

}  // namespace

BoundBlock bound_block(const Division& division, const tutti_block& block) {
  return {static_cast<std::byte*>(block.ptr), block.count, tag_of_count(block.count),
          division.chunk_size(block.count % division.window)};
}

BufferBytes buffer_bytes(const Plan& plan, int rank) {
  if (plan.problem.irregular) {
    return {blocks_of(plan.problem, Buffer::input, rank), blocks_of(plan.problem, Buffer::output, rank),
            scratch_bytes(plan)};
  }
  const std::uint64_t block = plan.problem.count * element_bytes(plan.problem.type);
  return {block * blocks_of(plan.problem, Buffer::input, rank), block * blocks_of(plan.problem, Buffer::output, rank),
          scratch_bytes(plan)};
}

Result<BlobMemory> encode(const Plan& plan, int rank, const Lowered& lowered) {
  const Program& program = lowered.program;
  Composer composer;
  Blob& blob = composer.blob();
  blob.plan_hash = plan.hash;
  blob.divide_by = divisor(plan.problem);
  blob.unit_shift = unit_shift(plan.problem);
  blob.strands = plan.strands;
  blob.depth = plan.shape.depth;
  blob.most_operands = lowered.most_operands;
  blob.protocol = static_cast<std::uint32_t>(plan.protocol);
  std::vector<BlobLane> lanes;
  for (const Lane& lane : program.lanes) lanes.push_back({lane.first, lane.count});
  std::vector<BlobLink> links;
  for (const Link& link : program.links) links.push_back({link.peer, link.channel, link.sends ? 1u : 0u});
  composer.append(&Blob::lanes, lanes);
  plan.problem.irregular ? append_blocks(plan, rank, lowered, composer) : append_pieces(plan, rank, lowered, composer);
  composer.append(&Blob::dependencies, program.dependencies);
  composer.append(&Blob::links, links);
  return composer.finish();
}

std::string check_scaling(const Plan& plan, int rank, const Program& program) {
  const std::uint32_t inputs = blocks_of(plan.problem, Buffer::input, rank);
  const std::span<const Operand> all = program.operands;
  const auto is_input = [](const Operand& operand) { return operand.place == Place::input; };
  std::vector<const Operand*> read;
  for (const Step& step : program.steps) {
    const auto sources = all.subspan(step.operands, step.sources);
    const auto first = std::ranges::find_if(sources, is_input);
    const auto end = std::find_if_not(first, sources.end(), is_input);
    if (std::any_of(end, sources.end(), is_input)) return "a fold's own operands lie apart";
    for (auto own = first; own != end; ++own) read.push_back(&*own);
  }
  // Of a fold in place nothing is read again, or the plan would not be right. A copy changes nothing, unless it is scaled.
  for (const Step& step : program.steps) {
    const Operand& from = all[step.operands];
    const auto to = all.subspan(step.operands + step.sources, step.destinations);
    const bool copies = step.sources == 1 && is_input(from) &&
                        std::ranges::any_of(to, [](const Operand& each) { return each.place == Place::output; });
    const auto is_read_again = [&](const Operand* other) {
      return other != &from && overlap(from.range, other->range, inputs);
    };
    if (copies && std::ranges::any_of(read, is_read_again)) return "an operand that it copies in place is read again";
  }
  return {};
}

std::string check_blob(std::span<const std::byte> bytes, const BufferBytes& buffers, std::uint64_t message_bytes) {
  return Checker(bytes, buffers, message_bytes).run();
}

}  // namespace tutti
