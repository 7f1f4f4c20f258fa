#include "src/executors/cuda/encode.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <type_traits>
#include <utility>

#include "src/executors/cuda/launch.h"
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

std::vector<BlobStep> steps_of(const Program& program, const Layouts& layouts) {
  std::vector<BlobStep> steps;
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    const Step& step = program.steps[s];
    const auto bytes_in = [s](const Layout& layout) { return layout.message_bytes.empty() ? 0 : layout.message_bytes[s]; };
    steps.push_back({{bytes_in(layouts.full), bytes_in(layouts.last)},
                     step.operands,
                     step.sources,
                     step.destinations,
                     step.dependencies,
                     step.dependency_count,
                     step.flags});
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
           sound<Dependency>(blob_.dependencies) && sound<BlobLink>(blob_.links);
  }
  template <typename T>
  std::span<const T> all(const BlobArray& array) const {
    return {reinterpret_cast<const T*>(bytes_.data() + array.begin), array.count};
  }
  static bool within(std::uint64_t first, std::uint64_t count, std::uint64_t of) {
    return first <= of && count <= of - first;
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
      if (blob_.passes == 0) continue;
      if (!within(step.operands, operands, blob_.operands.count)) return "a step has operands beyond the program's";
      if (!within(step.dependencies, step.dependency_count, blob_.dependencies.count))
        return "a step has dependencies beyond the program's";
      if (std::string why = equal_pieces(step, operands); !why.empty()) return why;
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

  std::string operands() const {
    for (const BlobOperand& operand : all<BlobOperand>(blob_.operands)) {
      if (operand.place > Place::link) return "an operand has no place";
      if (operand.place == Place::link) {
        if (operand.link >= blob_.links.count) return "an operand names a link beyond the program's";
        if (!fits_message(operand)) return "an operand leaves its message";
      } else if (!stays(operand)) {
        return "an operand leaves its buffer";
      }
    }
    return {};
  }

  bool fits_message(const BlobOperand& operand) const {
    const auto fits = [&](const BlobArray& which) {
      if (!within(operand.piece, operand.pieces, which.count)) return false;
      const auto pieces = all<BlobPiece>(which).subspan(operand.piece, operand.pieces);
      return std::all_of(pieces.begin(), pieces.end(),
                         [&](const BlobPiece& piece) { return within(piece.offset, piece.bytes, message_bytes_); });
    };
    return blob_.passes == 0 || (fits(blob_.last_pieces) && (blob_.passes < 2 || fits(blob_.full_pieces)));
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

BufferBytes buffer_bytes(const Plan& plan, int rank) {
  const std::uint64_t block = plan.problem.count * element_bytes(plan.problem.type);
  return {block * blocks_of(plan.problem, Buffer::input, rank), block * blocks_of(plan.problem, Buffer::output, rank),
          scratch_bytes(plan)};
}

Result<BlobMemory> encode(const Plan& plan, int rank, const Lowered& lowered) {
  const Program& program = lowered.program;
  // Passes are the plan's here, whichever strand runs them.
  Plan whole = plan;
  whole.strands = 1;
  const Layouts layouts = lay_out(whole, rank, program);
  Composer composer;
  Blob& blob = composer.blob();
  blob.plan_hash = plan.hash;
  blob.passes = layouts.passes;
  std::copy(layouts.stride.begin(), layouts.stride.end(), blob.stride);
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
  composer.append(&Blob::steps, steps_of(program, layouts));
  composer.append(&Blob::operands, operands_of(lowered, layouts.last));
  composer.append(&Blob::full_pieces, pieces_of(layouts.full));
  composer.append(&Blob::last_pieces, pieces_of(layouts.last));
  composer.append(&Blob::dependencies, program.dependencies);
  composer.append(&Blob::links, links);
  return composer.finish();
}

std::string check_blob(std::span<const std::byte> bytes, const BufferBytes& buffers, std::uint64_t message_bytes) {
  return Checker(bytes, buffers, message_bytes).run();
}

}  // namespace tutti
