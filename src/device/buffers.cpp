#include "src/device/buffers.h"

#include <cstdint>
#include <iterator>

namespace tutti {

Result<BufferPlace> place_of(const cuda::Driver& driver, const void* buffer) {
  cuda::PointerAttribute attributes[] = {cuda::PointerAttribute::memory_type, cuda::PointerAttribute::device_ordinal,
                                         cuda::PointerAttribute::is_managed};
  auto type = cuda::MemoryType::none;
  int device = cuda::kNoDevice;
  unsigned managed = 0;  // the driver writes one byte or four
  void* answers[] = {&type, &device, &managed};
  const cuda::DriverResult result = driver.api().cuPointerGetAttributes(
      static_cast<unsigned>(std::size(attributes)), attributes, answers, reinterpret_cast<std::uintptr_t>(buffer));
  // Without any context there is no memory but the host's.
  if (result == cuda::DriverResult::invalid_context || result == cuda::DriverResult::invalid_value) return BufferPlace{};
  if (result != cuda::DriverResult::success) {
    return driver.failure(result, driver.api().cuPointerGetAttributes.name, cuda::kNoDevice,
                          "asking what kind of memory a buffer is");
  }
  BufferPlace place;
  if (managed != 0) {
    place.kind = BufferPlace::Kind::managed;
  } else if (type == cuda::MemoryType::device) {
    place = {BufferPlace::Kind::device, device};
  } else if (type == cuda::MemoryType::host) {
    place.kind = BufferPlace::Kind::pinned;
  }
  return place;
}

}  // namespace tutti
