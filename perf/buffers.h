// The buffers of a measured operation, with guard bytes around them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

namespace tutti::perf {

/// Where a buffer comes from: from malloc, or from tutti_memory_alloc, which peers may map.
enum class MemoryKind { host, registered };

/// Page-aligned memory with a guarded page's worth of known bytes on either side. Movable. Not thread safe.
class GuardedBuffer {
 public:
  /// A buffer of 0 bytes has an address too. On failure data() is NULL.
  static GuardedBuffer allocate(uint64_t bytes, MemoryKind kind = MemoryKind::host);

  GuardedBuffer() = default;
  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

  /// Moves the upper guard: the bytes behind the first `used` become known ones.
  void guard(uint64_t used);
  /// Guard bytes that are no longer what they were.
  uint64_t trespasses() const;

 private:
  std::unique_ptr<std::byte[], void (*)(std::byte*)> memory_{nullptr, nullptr};
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
  uint64_t used_ = 0;
};

}  // namespace tutti::perf
