// How one rank's memory is numbered: by block and by (block, chunk) cell. Shared by whoever has to know which operands
// touch the same bytes.
#pragma once

#include <cstdint>

#include "src/schedule/ir.h"

namespace tutti {

/// Memory that a step's messages are read out of where links pull: the first copy that it keeps, or its only source; none
/// of it: nullptr. operands: the step's.
inline const Operand* offered(const Step& step, const Operand* operands) {
  for (std::uint32_t o = step.sources; o < std::uint32_t{step.sources} + step.destinations; ++o) {
    if (operands[o].place != Place::link) return &operands[o];
  }
  return step.sources == 1 && operands[0].place != Place::link ? &operands[0] : nullptr;
}

/// The memory of one rank that a program may touch, as cells of one (block, chunk) each: inputs, then outputs, then
/// scratch. In place, an input block that is also an output block has that block's cells, and its own stay unused. Plain
/// data.
class Cells {
 public:
  /// in_place: whether the input blocks of in_place_alias count as output blocks.
  Cells(const Problem& problem, const Shape& shape, int rank, bool in_place)
      : chunks_(shape.chunks),
        inputs_(blocks_of(problem, Buffer::input, rank)),
        outputs_(blocks_of(problem, Buffer::output, rank)),
        scratch_(shape.scratch_blocks) {
    if (in_place) alias_ = in_place_alias(problem, rank);
  }

  std::uint32_t chunks() const { return chunks_; }
  std::uint32_t inputs() const { return inputs_; }
  std::uint32_t outputs() const { return outputs_; }
  std::uint32_t scratch() const { return scratch_; }
  /// Cells in all, of one copy of the scratch.
  std::size_t size() const { return (std::size_t{inputs_} + outputs_ + scratch_) * chunks_; }

  /// Blocks of a buffer; 0 for links.
  std::uint32_t blocks(Place place) const {
    switch (place) {
      case Place::input:
        return inputs_;
      case Place::output:
        return outputs_;
      case Place::scratch:
        return scratch_;
      case Place::link:
        return 0;
    }
    return 0;
  }

  /// The output block that an input block is, or UINT32_MAX.
  std::uint32_t alias_of_input(std::uint32_t block) const {
    if (!alias_.any) return UINT32_MAX;
    if (alias_.all) return block;
    return block == alias_.input_block ? alias_.output_block : UINT32_MAX;
  }

  /// Number of the cell of chunk 0 of a block. place: not a link. block: within the buffer.
  std::size_t first(Place place, std::uint32_t block) const {
    std::size_t at = block;
    if (place == Place::input) {
      const std::uint32_t alias = alias_of_input(block);
      if (alias != UINT32_MAX) at = std::size_t{inputs_} + alias;
    } else {
      at += place == Place::output ? std::size_t{inputs_} : std::size_t{inputs_} + outputs_;
    }
    return at * chunks_;
  }

  /// Calls visit(cell) for every cell of an operand in memory, in the order of the message.
  template <typename Visit>
  void each(const Operand& operand, Visit visit) const {
    const std::uint32_t total = blocks(operand.place);
    for (std::uint32_t i = 0; i < operand.range.blocks; ++i) {
      const std::size_t base = first(operand.place, operand.range.block_at(i, total)) + operand.range.chunk;
      for (std::uint32_t c = 0; c < operand.range.chunks; ++c) visit(base + c);
    }
  }

 private:
  std::uint32_t chunks_, inputs_, outputs_, scratch_;
  Alias alias_;
};

}  // namespace tutti
