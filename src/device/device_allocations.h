// Memory that tutti_memory_alloc_kind gave out on devices.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <mutex>
#include <variant>

#include "include/tutti/tutti.h"
#include "src/base/status.h"
#include "src/cuda/memory.h"

namespace tutti {

/// All such blocks of this process. Thread safe.
class DeviceAllocations {
 public:
  static DeviceAllocations& instance();

  /// At least `bytes` of device memory, which every device that reaches this one may use, or of managed memory.
  ///
  /// kind    TUTTI_MEMORY_CUDA or TUTTI_MEMORY_MANAGED
  /// device  the ordinal; cuda::kNoDevice: the current context's, or 0 where there is none
  /// Errors: as cuda::Driver::get and Driver::call.
  Result<void*> allocate(std::size_t bytes, tutti_memory_kind kind, int device);
  /// Frees a block: a device's at once; managed memory now or, while a communicator uses a device, with a later call.
  /// Whether `data` is such a block; in a forked child there is none.
  bool free(void* data);

  /// A communicator uses a device from now on: the driver must not be made to wait for it.
  void begin_use();
  void end_use();

 private:
  /// Managed memory, whose release is deferred, since cuMemFree waits.
  static void release(const cuda::Driver& driver, const cuda::MemoryBlock& memory);
  using ManagedMemory = cuda::DriverHandle<cuda::MemoryBlock, release>;
  Result<cuda::Context> context_of(const cuda::Driver& driver, int device);
  /// What waited for the driver may be released, where no communicator uses a device.
  void release_deferred(const cuda::Driver& driver);
  static Result<cuda::MappedMemory> map(const cuda::Context& context, std::size_t bytes);
  static Result<ManagedMemory> manage(const cuda::Context& context, std::size_t bytes);

  std::atomic<bool> any_{false};  ///< was there ever one
  std::mutex mutex_;              ///< guards what follows
  std::map<void*, std::variant<cuda::MappedMemory, ManagedMemory>> blocks_;
  std::map<int, cuda::Context> primaries_;  ///< kept: their release might wait, and comes behind all blocks'
  int uses_ = 0;
};

}  // namespace tutti
