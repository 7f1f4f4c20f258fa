// Memory in pieces, read or written as if it were one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "include/tutti/tutti.h"

namespace tutti {

/// Goes through a list of blocks, which outlives it, from the first byte to the last. Not thread safe.
class PieceCursor {
 public:
  /// element: bytes that a block's count counts.
  PieceCursor(std::span<const tutti_block> blocks, std::uint64_t element) : blocks_(blocks), element_(element) {}

  /// The next `bytes` of the pieces go to `to`; there are as many.
  void copy_to(std::byte* to, std::uint64_t bytes) {
    advance(bytes, [&](std::byte* piece, std::uint64_t length) {
      std::memcpy(to, piece, length);
      to += length;
    });
  }
  /// The other way round.
  void copy_from(const std::byte* from, std::uint64_t bytes) {
    advance(bytes, [&](std::byte* piece, std::uint64_t length) {
      std::memcpy(piece, from, length);
      from += length;
    });
  }

 private:
  template <typename Take>
  void advance(std::uint64_t bytes, const Take& take) {
    while (bytes != 0) {
      const tutti_block& block = blocks_[block_];
      const std::uint64_t length = std::min(bytes, block.count * element_ - at_);
      if (length != 0) take(static_cast<std::byte*>(block.ptr) + at_, length);
      bytes -= length;
      at_ += length;
      if (at_ == block.count * element_) {
        ++block_;
        at_ = 0;
      }
    }
  }

  const std::span<const tutti_block> blocks_;
  const std::uint64_t element_;
  std::size_t block_ = 0;  ///< the one that is gone through
  std::uint64_t at_ = 0;   ///< bytes of it that are done
};

}  // namespace tutti
