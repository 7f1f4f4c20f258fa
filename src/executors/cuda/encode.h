// Makes blobs (blob.h) of programs, and looks whether one is sound.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/executors/cuda/blob.h"
#include "src/executors/cuda/launch.h"
#include "src/schedule/layout.h"

namespace tutti {

/// The bytes of a blob, aligned as it wants to be.
class BlobMemory {
 public:
  explicit BlobMemory(std::uint64_t bytes = 0) : bytes_(bytes), memory_((bytes + sizeof(Block) - 1) / sizeof(Block)) {}
  std::span<std::byte> bytes() { return {reinterpret_cast<std::byte*>(memory_.data()), bytes_}; }
  std::span<const std::byte> bytes() const { return {reinterpret_cast<const std::byte*>(memory_.data()), bytes_}; }
  /// Of a blob that is one.
  const Blob& blob() const { return *reinterpret_cast<const Blob*>(memory_.data()); }

 private:
  struct alignas(alignof(Blob)) Block {
    std::byte bytes[alignof(Blob)];
  };
  std::uint64_t bytes_;
  std::vector<Block> memory_;
};

/// One rank's program of a plan. lowered: of that program. Pure. Errors: TUTTI_UNSUPPORTED in the unlikely case of more
/// than 4 GiB.
Result<BlobMemory> encode(const Plan& plan, int rank, const Lowered& lowered);

/// A block of a call, as an irregular plan that divides blocks so works on it. Pure.
BoundBlock bound_block(const Division& division, const tutti_block& block);

/// Bytes of the caller's buffers and the scratch, which a blob's operands must stay within. Of an irregular plan input and
/// output are counted in blocks: a kernel stays within each of these, however long it is.
using BufferBytes = std::array<std::uint64_t, 3>;
/// What calls of a plan give a rank. Pure.
BufferBytes buffer_bytes(const Plan& plan, int rank);

/// Why a kernel must not multiply a program's operands as it reads them (Problem::pre_mul). Empty where it may: none is
/// read again once a copy in place has scaled it, and a fold has those of the rank side by side. Pure.
std::string check_scaling(const Plan& plan, int rank, const Program& program);

/// Why a kernel must not run such bytes: something leads out of the blob, a buffer or a message. Empty where nothing does.
/// Looks at each step of two passes, whatever the number of passes; bytes are aligned as a Blob. Pure.
std::string check_blob(std::span<const std::byte> bytes, const BufferBytes& buffers, std::uint64_t message_bytes);

}  // namespace tutti
