#include "src/executors/simulator/memory.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "src/tables/element_types.h"

namespace tutti::simulator {
namespace {

/// Far apart, so that buffers which nobody gave do not overlap.
constexpr std::uintptr_t nowhere = std::uintptr_t{1} << 60;

std::uintptr_t address(const std::byte* real, std::uintptr_t index) {
  return real != nullptr ? reinterpret_cast<std::uintptr_t>(real) : nowhere * index;
}

}  // namespace

std::uint64_t bytes_of(const Pieces& pieces) {
  return std::accumulate(pieces.begin(), pieces.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const Piece& piece) { return sum + piece.bytes; });
}

void load(const Pieces& pieces, std::byte* to) {
  for (const Piece& piece : pieces) {
    std::memcpy(to, reinterpret_cast<const void*>(piece.begin), piece.bytes);
    to += piece.bytes;
  }
}

void store(const std::byte* from, const Pieces& pieces) {
  for (const Piece& piece : pieces) {
    std::memcpy(reinterpret_cast<void*>(piece.begin), from, piece.bytes);
    from += piece.bytes;
  }
}

Memory::Memory(const Plan& plan, int rank, const RankMemory* real)
    : plan_(plan),
      element_(element_bytes(plan.problem.type)),
      window_(std::min(plan.window, std::max<std::uint64_t>(1, plan.problem.count))),
      blocks_{blocks_of(plan.problem, Buffer::input, rank), blocks_of(plan.problem, Buffer::output, rank),
              plan.shape.scratch_blocks},
      base_{address(real != nullptr ? real->input : nullptr, 1), address(real != nullptr ? real->output : nullptr, 2),
            address(real != nullptr ? real->scratch : nullptr, 3)} {}

std::uint64_t Memory::bytes(const Range& range, std::uint64_t pass) const {
  return elements_of(plan_, plan_.problem.count, pass, range.chunk, range.chunks).size() * range.blocks * element_;
}

const char* Memory::fault(const Operand& operand) const {
  const Range& range = operand.range;
  if (range.run == 0) return "has a range whose runs are empty";
  if (std::uint64_t{range.chunk} + range.chunks > plan_.shape.chunks) return "leaves its memory: there is no such chunk";
  if (operand.place == Place::link) return nullptr;
  const std::uint32_t total = blocks_[static_cast<std::size_t>(operand.place)];
  return range.block < total && range.blocks <= total ? nullptr : "leaves its memory: there is no such block";
}

Pieces Memory::pieces(const Operand& operand, std::uint64_t pass) const {
  const auto place = static_cast<std::size_t>(operand.place);
  const Range& range = operand.range;
  const Elements elements = elements_of(plan_, plan_.problem.count, pass, range.chunk, range.chunks);
  Pieces pieces;
  if (elements.size() == 0) return pieces;
  pieces.reserve(range.blocks);
  for (std::uint32_t i = 0; i < range.blocks; ++i) {
    const std::uint64_t block = range.block_at(i, blocks_[place]);
    std::uint64_t at = block * plan_.problem.count + elements.begin;
    if (operand.place == Place::scratch) {
      // Each strand has as many copies as passes of its own may be under way.
      const std::uint64_t strand = pass % plan_.strands;
      const std::uint64_t copy = strand * plan_.shape.depth + pass / plan_.strands % plan_.shape.depth;
      at = (copy * plan_.shape.scratch_blocks + block) * window_ + elements.begin - pass * plan_.window;
    }
    pieces.push_back({base_[place] + at * element_, elements.size() * element_});
  }
  return pieces;
}

void Memory::release(const Pieces& pieces) {
  for (const Piece& piece : pieces) {
    const auto found = std::find_if(holds_.begin(), holds_.end(), [&](const Piece& hold) {
      return hold.begin == piece.begin && hold.bytes == piece.bytes;
    });
    if (found != holds_.end()) holds_.erase(found);
  }
}

bool Memory::held(const Pieces& pieces) const {
  return std::any_of(pieces.begin(), pieces.end(), [&](const Piece& piece) {
    return std::any_of(holds_.begin(), holds_.end(), [&](const Piece& hold) {
      return hold.begin < piece.begin + piece.bytes && piece.begin < hold.begin + hold.bytes;
    });
  });
}

}  // namespace tutti::simulator
