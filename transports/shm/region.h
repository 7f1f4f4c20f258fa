// Registered memory: our own, which peers may map, and the peers', which we map when we hear of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/memory_file.h"
#include "src/base/unique_fd.h"
#include "transports/near/descriptor_message.h"
#include "transports/shm/layout.h"

namespace tutti::shm {

using near::SharedFd;
/// What passes over a pair's socket, with the descriptors that it speaks of.
using Packet = near::DescriptorMessage<ControlMessage>;

/// What a peer knows of a region.
enum class Told : std::uint8_t {
  kNothing,
  kAnnounced,
  kRefused,  ///< it could not take the file
};

/// Memory that was registered with this endpoint. Ids are never used twice, so that an id is its own generation: what
/// names a region that was given up finds nothing.
struct OwnRegion {
  std::uint64_t id = 0;
  unsigned char* base = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t file_offset = 0;
  SharedFd file;           ///< not closed with it
  std::vector<Told> told;  ///< by rank

  /// Whether [data, data + length) lies within.
  bool holds(const void* data, std::uint64_t length) const {
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    const auto begin = reinterpret_cast<std::uintptr_t>(base);
    return address >= begin && length <= bytes && address - begin <= bytes - length;
  }
  std::uint64_t offset_of(const void* data) const {
    return reinterpret_cast<std::uintptr_t>(data) - reinterpret_cast<std::uintptr_t>(base);
  }
};

/// Memory that a peer registered, as we see it.
class PeerRegion {
 public:
  PeerRegion(SharedFd file, std::uint64_t bytes, std::uint64_t file_offset)
      : file_(std::move(file)), bytes_(bytes), file_offset_(file_offset) {}

  /// Maps the file, and then closes it. Errors: as map_memory.
  Status map();
  /// The address of `length` bytes at `offset`, mapping the file where that has failed before; null with a sentence in
  /// `why` where that is outside the region, cannot be mapped, or is to be written and cannot be.
  unsigned char* at(std::uint64_t offset, std::uint64_t length, bool writable, std::string& why);

  /// Holds the mapping although the peer has given the region up: somebody looks at it just now.
  void hold() { ++holders_; }
  void drop() { --holders_; }
  bool held() const { return holders_ > 0; }
  /// The peer has given it up; new references are refused.
  bool forgotten = false;

 private:
  SharedFd file_;
  std::uint64_t bytes_;
  std::uint64_t file_offset_;
  Mapping mapping_;
  unsigned char* base_ = nullptr;
  bool writable_ = false;
  int holders_ = 0;
};

}  // namespace tutti::shm
