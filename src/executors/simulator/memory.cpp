#include "src/executors/simulator/memory.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "src/tables/element_types.h"

namespace tutti::simulator {
namespace {

/// Far apart, so that buffers which nobody gave do not overlap.
constexpr std::uintptr_t nowhere = std::uintptr_t{1} << 60;

std::uintptr_t begin_of(const std::byte* real, std::uintptr_t index) {
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

Memory::Memory(const Plan& plan, int rank, const RankMemory* real, const IrregularBuffers* irregular)
    : plan_(plan),
      irregular_(irregular != nullptr),
      element_(element_bytes(plan.problem.type)),
      window_(irregular_ ? plan.window : std::min(plan.window, std::max<std::uint64_t>(1, plan.problem.count))),
      blocks_{blocks_of(plan.problem, Buffer::input, rank), blocks_of(plan.problem, Buffer::output, rank),
              plan.shape.scratch_blocks},
      base_{begin_of(real != nullptr ? real->input : nullptr, 1), begin_of(real != nullptr ? real->output : nullptr, 2),
            begin_of(real != nullptr ? real->scratch : nullptr, 3)},
      passes_(irregular_ ? 0 : plan.passes(plan.problem.count)) {
  if (!irregular_) return;
  for (std::size_t buffer = 0; buffer < 2; ++buffer) {
    std::uintptr_t next = base_[buffer];  // without data, behind one another
    for (const tutti_block& block : buffer == 0 ? irregular->input : irregular->output) {
      block_counts_[buffer].push_back(block.count);
      block_begins_[buffer].push_back(real != nullptr ? reinterpret_cast<std::uintptr_t>(block.ptr) : next);
      next += block.count * element_;
      passes_ = std::max(passes_, plan.passes(block.count));
    }
  }
}

const Operand* Memory::sizing(std::span<const Operand> operands) const {
  if (!irregular_) return &operands[0];
  const auto found = std::find_if(operands.begin(), operands.end(), [](const Operand& each) {
    return each.place == Place::input || each.place == Place::output;
  });
  return found != operands.end() ? &*found : nullptr;
}

const char* Memory::length_fault(std::span<const Operand> operands) const {
  if (!irregular_) return nullptr;
  const Operand* const of = sizing(operands);
  return of == nullptr ? "moves no block of the input or output, and only those have lengths" : fault(*of);
}

Elements Memory::elements(const Operand& operand, std::uint32_t i, std::uint64_t pass) const {
  const Range& range = operand.range;
  const std::uint64_t block = irregular_ ? range.block_at(i, blocks_[static_cast<std::size_t>(operand.place)]) : 0;
  return elements_of(plan_, count_of(operand.place, block), pass, range.chunk, range.chunks);
}

std::uint64_t Memory::bytes(std::span<const Operand> operands, std::uint64_t pass) const {
  const Operand& of = *sizing(operands);
  if (!irregular_) return elements(of, 0, pass).size() * of.range.blocks * element_;
  std::uint64_t all = 0;
  for (std::uint32_t i = 0; i < of.range.blocks; ++i) all += elements(of, i, pass).size();
  return all * element_;
}

const char* Memory::fault(const Operand& operand) const {
  const Range& range = operand.range;
  if (range.run == 0) return "has a range whose runs are empty";
  if (std::uint64_t{range.chunk} + range.chunks > plan_.shape.chunks) return "leaves its memory: there is no such chunk";
  if (operand.place == Place::link) return nullptr;
  const std::uint32_t total = blocks_[static_cast<std::size_t>(operand.place)];
  return range.block < total && range.blocks <= total ? nullptr : "leaves its memory: there is no such block";
}

bool Memory::fits(std::span<const Operand> operands, std::size_t o, std::uint64_t pass) const {
  const Operand& operand = operands[o];
  const Operand& of = *sizing(operands);
  if (!irregular_) return operand.range == of.range || bytes(operands.subspan(o, 1), pass) == bytes(operands, pass);
  if (operand.range.blocks != of.range.blocks || operand.range.chunk != of.range.chunk ||
      operand.range.chunks != of.range.chunks) {
    return false;
  }
  if (operand.place != Place::input && operand.place != Place::output) return true;
  for (std::uint32_t i = 0; i < of.range.blocks; ++i) {
    if (elements(operand, i, pass).size() != elements(of, i, pass).size()) return false;
  }
  return true;
}

std::uintptr_t Memory::address(Place place, std::uint64_t block, std::uint64_t at, std::uint64_t pass) const {
  const auto p = static_cast<std::size_t>(place);
  if (place == Place::scratch) {
    // Each strand has as many copies as passes of its own may be under way.
    const std::uint64_t strand = pass % plan_.strands;
    const std::uint64_t copy = strand * plan_.shape.depth + pass / plan_.strands % plan_.shape.depth;
    return base_[p] + ((copy * plan_.shape.scratch_blocks + block) * window_ + at - pass * plan_.window) * element_;
  }
  if (irregular_) return block_begins_[p][block] + at * element_;
  return base_[p] + (block * plan_.problem.count + at) * element_;
}

Pieces Memory::pieces(std::span<const Operand> operands, std::size_t o, std::uint64_t pass) const {
  const Operand& operand = operands[o];
  const Operand& of = irregular_ && operand.place == Place::scratch ? *sizing(operands) : operand;
  Pieces pieces;
  if (!irregular_ && elements(of, 0, pass).size() == 0) return pieces;
  pieces.reserve(operand.range.blocks);
  for (std::uint32_t i = 0; i < operand.range.blocks; ++i) {
    const Elements here = elements(of, i, pass);
    if (here.size() == 0) continue;
    const std::uint64_t block = operand.range.block_at(i, blocks_[static_cast<std::size_t>(operand.place)]);
    pieces.push_back({address(operand.place, block, here.begin, pass), here.size() * element_});
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
