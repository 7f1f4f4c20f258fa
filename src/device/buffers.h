// What kind of memory a caller's buffer is.
#pragma once

#include "src/base/status.h"
#include "src/cuda/driver.h"

namespace tutti {

/// Where a buffer lies, as the driver knows it.
struct BufferPlace {
  enum class Kind { pageable, pinned, device, managed };
  Kind kind = Kind::pageable;
  int device = cuda::kNoDevice;  ///< of device memory: its ordinal

  /// Whether the memory is a device's, managed memory included.
  bool on_device() const { return kind == Kind::device || kind == Kind::managed; }
};

/// Asks the driver, by one call. Memory that it does not know is pageable. Errors: as Driver::call.
Result<BufferPlace> place_of(const cuda::Driver& driver, const void* buffer);

}  // namespace tutti
