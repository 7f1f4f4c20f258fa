// The buffers of a measured operation, with guard bytes around them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "src/program/device.h"

namespace tutti::perf {

/// Where a buffer comes from: from malloc, from tutti_memory_alloc, which peers may map, or from a CUDA device.
enum class MemoryKind { host, registered, cuda };

/// Page-aligned memory with a guarded page's worth of known bytes on either side. Movable. Not thread safe. Device memory
/// has a copy on the host, which is all that is looked at here.
class GuardedBuffer {
 public:
  /// A buffer of 0 bytes has an address too. On failure data() is NULL.
  static GuardedBuffer allocate(uint64_t bytes, MemoryKind kind = MemoryKind::host);

  GuardedBuffer() = default;
  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

  /// Moves the upper guard: the bytes behind the first `used` become known ones.
  void guard(uint64_t used);
  /// Of device memory: the device's address of a byte of the host's copy; else the byte's own.
  std::byte* for_calls(std::byte* own) const { return twin_ == nullptr ? own : twin_.get() + (own - memory_.get()); }
  bool holds(const std::byte* own) const { return own >= data_ && own <= data_ + bytes_; }
  /// Of device memory, what is used and its guards: to the device, or back. Empty, or the sentence why that failed.
  std::string copy_in(program::RankDevice& device) const;
  std::string copy_out(program::RankDevice& device) const;
  /// Guard bytes that are no longer what they were.
  uint64_t trespasses() const;

 private:
  using Memory = std::unique_ptr<std::byte[], void (*)(std::byte*)>;
  Memory memory_{nullptr, nullptr};
  Memory twin_{nullptr, nullptr};  ///< the device's
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
  uint64_t used_ = 0;
};

}  // namespace tutti::perf
