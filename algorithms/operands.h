// The operands of one fold, which algorithms that fold once share. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "src/schedule/builder.h"
#include "src/tables/element_types.h"

namespace tutti {

/// One chunk of every block of this rank's input: one, or one per share.
inline Ref own_operands(const Builder& builder, std::uint32_t chunk) {
  return input(Range{.blocks = builder.problem().local_operands, .chunk = chunk});
}

/// Blocks of scratch that taken_operands needs.
inline std::uint32_t blocks_of_taken(const Problem& problem) {
  return problem.local_operands == 1 ? 0 : problem.local_operands * static_cast<std::uint32_t>(problem.ranks - 1);
}

/// Cells that the longest message is taken to have, where a window has `parts` chunks and each message one of them. With
/// several operands the scratch has whole windows, of which a rank uses a chunk: so they are shorter by as much, as far as
/// chunks of a grain allow.
inline std::uint32_t cells_of_message(const Problem& problem, std::uint32_t parts) {
  constexpr std::uint64_t slot = 256 * 1024, grain = 128;
  if (problem.local_operands == 1) return 1;
  const std::uint64_t most = slot / std::max<std::uint64_t>(grain, element_bytes(problem.type));
  const std::uint64_t wanted = std::min(most, std::uint64_t{problem.local_operands} * parts);
  return std::max(problem.local_operands, static_cast<std::uint32_t>(wanted));
}

/// One chunk of every rank's operands, in rank order, to be folded on `lane`. Other ranks send theirs on `channel`, each in
/// one message. A fold reads a message as one operand. So where each rank has several, the messages are taken into the
/// scratch first, from block `kept` on.
inline std::vector<Ref> taken_operands(const Builder& builder, const LaneBuilder& lane, std::uint32_t channel,
                                       std::uint32_t chunk, std::uint32_t kept = 0) {
  const std::uint32_t local_operands = builder.problem().local_operands;
  std::vector<Ref> all;
  for (int r = 0; r < builder.ranks(); ++r) {
    if (r != builder.rank() && local_operands == 1) {
      all.push_back(lane.from(r, channel));
      continue;
    }
    Ref block = input(Range{.chunk = chunk});
    if (r != builder.rank()) {
      block = scratch(Range{.block = kept, .chunk = chunk});
      lane.move({lane.from(r, channel)}, {scratch(Range{.block = kept, .blocks = local_operands, .chunk = chunk})});
      kept += local_operands;
    }
    for (std::uint32_t s = 0; s < local_operands; ++s, ++block.range.block) all.push_back(block);
  }
  return all;
}

}  // namespace tutti
