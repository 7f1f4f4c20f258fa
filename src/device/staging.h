// Pinned memory out of which streams write to a device: their driver need not wait for anything to read it.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "src/cuda/memory.h"
#include "src/cuda/stream.h"

namespace tutti {

/// 32 buffers of 64 KiB, made before any launch, since the driver may wait for the device where it allocates. Calls are
/// made within a scope of the context. Thread safe.
class StagingBuffers {
 public:
  /// context: outlives them. Errors: as Driver::call.
  static Result<std::unique_ptr<StagingBuffers>> make(const cuda::Context& context);
  StagingBuffers(const cuda::Context& context, cuda::PinnedMemory memory, std::vector<cuda::OwnedEvent> events);

  /// A buffer of at least `bytes`; nullptr: none is so large, or all are in use. Waits for nothing.
  std::byte* take(std::size_t bytes);
  /// Of one that no stream was made to read. No scope is needed.
  void give_back(std::byte* buffer) noexcept;
  /// Behind all that a stream was made to read of it: others get it once the stream has come so far. Errors: as
  /// Driver::call; then nobody gets it any more.
  Status give_back_behind(std::byte* buffer, cuda::StreamHandle reader);

 private:
  enum class State { free, taken, being_read };
  struct Buffer {
    std::byte* memory = nullptr;
    cuda::OwnedEvent read;  ///< comes when it has been
    State state = State::free;
  };
  bool has_been_read(const Buffer& buffer) const;
  Buffer& buffer_at(const std::byte* memory);

  const cuda::Context& context_;
  const cuda::PinnedMemory memory_;
  std::mutex mutex_;  ///< guards what follows
  std::vector<Buffer> buffers_;
};

}  // namespace tutti
