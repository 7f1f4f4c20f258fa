// One rank's program as the device executor reads it: plain arrays one behind the other. There is no address in them. So
// the whole can be copied into device memory, into a block's shared memory or into a launch's parameters.
//
//     Blob | lanes | steps | operands | pieces of full passes | pieces of the last pass | blocks | dependencies | links
//
// All strands of all calls of a plan share a blob. What a call adds (addresses, its number, links) is elsewhere. The blob
// of an irregular plan has blocks in the place of pieces: how long they are comes with the call, too (BoundBlock).
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/reduction/elements.h"
#include "src/schedule/ir.h"

namespace tutti {

/// [first, first + count) of the blob's steps, as Lane.
struct BlobLane {
  std::uint32_t first;
  std::uint32_t count;
};

/// As Step. message_bytes: of its messages, in a full pass and in the last one; 0 in an irregular blob.
struct BlobStep {
  std::uint64_t message_bytes[2];
  std::uint32_t operands;
  std::uint16_t sources;
  std::uint16_t destinations;
  std::uint32_t dependencies;
  std::uint16_t dependency_count;
  std::uint16_t flags;
  // In an irregular blob: which of its operands has the blocks that it moves (block_operand), and what it moves of each.
  std::uint32_t sized_by;
  std::uint32_t chunk;
  std::uint32_t chunks;
  std::uint32_t unused;
};

/// As Operand, with its pieces in both arrays of them. In an irregular blob each piece is one of its array of blocks: an
/// index into the call's BoundBlocks, or into the scratch's blocks.
struct BlobOperand {
  std::uint32_t piece;  ///< its first
  std::uint32_t pieces;
  std::uint32_t link;  ///< where it is one: index into the blob's
  Place place;
  std::uint8_t only_offered;  ///< as Lowered's
  std::uint16_t unused;
};

/// As Layout::Piece.
struct BlobPiece {
  std::uint64_t offset;
  std::uint64_t bytes;
};

/// As Link.
struct BlobLink {
  std::int32_t peer;
  std::uint32_t channel;
  std::uint32_t sends;
};

/// An array of the blob.
struct BlobArray {
  std::uint32_t begin;  ///< bytes from the blob's beginning
  std::uint32_t count;  ///< elements
};

/// The beginning of a blob. Aligned to 16 bytes, as are all arrays. POD.
struct alignas(16) Blob {
  std::uint64_t bytes;      ///< of the whole
  std::uint64_t plan_hash;  ///< as Plan's
  std::uint64_t passes;     ///< of the plan
  std::uint64_t stride[3];  ///< bytes from one pass to the next in input and output, and of one copy of the scratch
  std::uint64_t divide_by;  ///< on the last touch; 0: nothing
  std::uint32_t unit_shift;
  std::uint32_t strands;
  std::uint32_t depth;
  std::uint32_t most_operands;  ///< of a step
  std::uint32_t protocol;       ///< a Protocol, of all links
  std::uint32_t element_bytes;  ///< of an irregular plan; else 0, as the next two
  std::uint64_t window;         ///< elements of a block that a pass covers
  std::uint64_t chunk;          ///< elements of a chunk, where the window is whole
  BlobArray lanes, steps, operands, full_pieces, last_pieces, blocks, dependencies, links;

  template <typename T>
  TUTTI_HOST_DEVICE const T* array(const BlobArray& which) const {
    return reinterpret_cast<const T*>(reinterpret_cast<const std::byte*>(this) + which.begin);
  }
  TUTTI_HOST_DEVICE bool is_irregular() const { return window != 0; }
  TUTTI_HOST_DEVICE bool is_last(std::uint64_t pass) const { return pass + 1 == passes; }
  TUTTI_HOST_DEVICE const BlobPiece* pieces_at(std::uint64_t pass) const {
    return array<BlobPiece>(is_last(pass) ? last_pieces : full_pieces);
  }
  /// Bytes from the beginning of a buffer to where a pass of the plan works in it. place: not a link.
  TUTTI_HOST_DEVICE std::uint64_t window_begin(Place place, std::uint64_t pass) const {
    const auto buffer = static_cast<std::uint32_t>(place);
    // Passes that a strand has under way use its copies of the scratch in turn.
    const std::uint64_t copy = pass % strands * depth + pass / strands % depth;
    return (place == Place::scratch ? copy : pass) * stride[buffer];
  }
};

}  // namespace tutti
