// Memory in one piece: of a device, in stream order, managed, pinned and registered.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "tests/standin/address_map.h"
#include "tests/standin/capture.h"
#include "tests/standin/entry.h"
#include "tests/standin/pool.h"
#include "tests/standin/queues.h"

using namespace standin;  // NOLINT: entry points live outside of namespaces

namespace {

std::shared_ptr<Range> describe(const std::shared_ptr<Context>& context, RangeKind kind, std::uintptr_t base,
                                std::size_t bytes) {
  auto range = std::make_shared<Range>();
  range->base = base;
  range->bytes = bytes;
  range->kind = kind;
  range->context = context;
  range->device = context->device->ordinal;
  return range;
}

/// Memory of the device, its file kept for importers.
DriverResult allocate_device(const std::shared_ptr<Context>& context, RangeKind kind, std::size_t bytes,
                             DevicePointer& out) {
  Device& device = *context->device;
  if (bytes > kDeviceBytes - device.used_bytes) return DriverResult::out_of_memory;
  const int file = make_memory_file(round_up(bytes, kPage));
  const std::uintptr_t base = file >= 0 ? pool().take(bytes, kPage) : 0;
  if (base == 0 || !pool().map(base, bytes, file, 0, PROT_READ | PROT_WRITE)) {
    if (base != 0) pool().give_back(base, bytes);
    if (file >= 0) ::close(file);
    return DriverResult::out_of_memory;
  }
  const auto range = describe(context, kind, base, bytes);
  range->descriptor = file;
  device.used_bytes += bytes;
  address_map().add(range);
  out = base;
  return DriverResult::success;
}

/// Memory that host and devices share: outside of the pool, so without its key.
DriverResult allocate_shared(const std::shared_ptr<Context>& context, RangeKind kind, std::size_t bytes,
                             std::uintptr_t& out) {
  void* const base = ::mmap(nullptr, round_up(bytes, kPage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return DriverResult::out_of_memory;
  ::madvise(base, round_up(bytes, kPage), MADV_DONTFORK);  // a child has none of it
  out = reinterpret_cast<std::uintptr_t>(base);
  address_map().add(describe(context, kind, out, bytes));
  return DriverResult::success;
}

/// Checks what all allocations have in common.
template <typename Body>
DriverResult allocating(const char* entry, const void* out, std::size_t bytes, const Body& body) {
  return enter(entry, Needs::context, [&](Call& call) {
    if (out == nullptr || bytes == 0) return DriverResult::invalid_value;
    if (const DriverResult refused = refuse_unsafe(); refused != DriverResult::success) return refused;
    return body(call);
  });
}

/// Frees memory of these kinds, after the device has done all it was given: frees of the real driver wait, too.
DriverResult free_waiting(const char* entry, std::uintptr_t address, std::initializer_list<RangeKind> kinds,
                          bool null_is_fine) {
  return enter(entry, Needs::context, [&](Call& call) {
    if (address == 0 && null_is_fine) return DriverResult::success;
    if (const DriverResult refused = refuse_unsafe(); refused != DriverResult::success) return refused;
    const auto range = address_map().find(address);
    const bool fits = range != nullptr && range->base == address &&
                      std::find(kinds.begin(), kinds.end(), range->kind) != kinds.end() && !range->freed;
    if (!fits) return DriverResult::invalid_value;
    wait_idle(call.lock, *range->context);
    if (range->context->error != DriverResult::success) return range->context->error;
    if (address_map().find(address) != range) return DriverResult::invalid_value;  // another thread was faster
    free_range(range);
    return DriverResult::success;
  });
}

}  // namespace

DriverResult cuMemAlloc_v2(DevicePointer* out, std::size_t bytes) {
  return allocating(__func__, out, bytes,
                    [&](Call& call) { return allocate_device(call.context, RangeKind::device, bytes, *out); });
}

DriverResult cuMemFree_v2(DevicePointer address) {
  return free_waiting(__func__, address, {RangeKind::device, RangeKind::async, RangeKind::managed}, true);
}

DriverResult cuMemAllocManaged(DevicePointer* out, std::size_t bytes, unsigned flags) {
  return allocating(__func__, out, bytes, [&](Call& call) {
    if (flags != kMemoryAttachGlobal && flags != kMemoryAttachHost) return DriverResult::invalid_value;
    std::uintptr_t base = 0;
    const DriverResult result = allocate_shared(call.context, RangeKind::managed, bytes, base);
    *out = base;
    return result;
  });
}

DriverResult cuMemHostAlloc(void** out, std::size_t bytes, unsigned flags) {
  return allocating(__func__, out, bytes, [&](Call& call) {
    constexpr unsigned known = 7;  // portable, device map, write-combined
    if ((flags & ~known) != 0) return DriverResult::invalid_value;
    std::uintptr_t base = 0;
    const DriverResult result = allocate_shared(call.context, RangeKind::pinned, bytes, base);
    *out = reinterpret_cast<void*>(base);
    return result;
  });
}

DriverResult cuMemFreeHost(void* data) {
  return free_waiting(__func__, reinterpret_cast<std::uintptr_t>(data), {RangeKind::pinned}, false);
}

DriverResult cuMemHostRegister_v2(void* data, std::size_t bytes, unsigned flags) {
  return allocating(__func__, data, bytes, [&](Call& call) {
    constexpr unsigned known = kHostPortable | kHostDeviceMap;
    if ((flags & ~known) != 0) return DriverResult::not_supported;
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    if (address_map().overlaps(address, bytes)) return DriverResult::host_memory_already_registered;
    address_map().add(describe(call.context, RangeKind::registered, address, bytes));
    return DriverResult::success;
  });
}

DriverResult cuMemHostUnregister(void* data) {
  return enter(__func__, Needs::context, [&](Call& call) {
    const auto range = address_map().find(reinterpret_cast<std::uintptr_t>(data));
    if (range == nullptr || range->kind != RangeKind::registered) return DriverResult::host_memory_not_registered;
    wait_idle(call.lock, *range->context);
    free_range(range);
    return DriverResult::success;
  });
}

DriverResult cuMemHostGetDevicePointer_v2(DevicePointer* out, void* data, unsigned flags) {
  return enter(__func__, Needs::context, [&](Call&) {
    const auto range = address_map().find(reinterpret_cast<std::uintptr_t>(data));
    if (out == nullptr || flags != 0 || range == nullptr || !range->on_host()) return DriverResult::invalid_value;
    *out = reinterpret_cast<DevicePointer>(data);
    return DriverResult::success;
  });
}

// The address is there at once; the memory may be used by what comes later in the stream.
DriverResult cuMemAllocAsync(DevicePointer* out, std::size_t bytes, StreamHandle handle) {
  return enter(__func__, Needs::context, [&](Call& call) {
    const auto stream = find_stream(call.context, handle);
    if (stream == nullptr) return DriverResult::invalid_handle;
    if (out == nullptr || bytes == 0) return DriverResult::invalid_value;
    if (stream->capture != nullptr) return DriverResult::not_supported;  // memory nodes are not implemented
    const DriverResult result = allocate_device(stream->context, RangeKind::async, bytes, *out);
    return result == DriverResult::success ? submit(stream, {}) : result;
  });
}

DriverResult cuMemFreeAsync(DevicePointer address, StreamHandle handle) {
  return enter(__func__, Needs::context, [&](Call& call) {
    const auto stream = find_stream(call.context, handle);
    const auto range = address_map().find(address);
    if (stream == nullptr) return DriverResult::invalid_handle;
    if (stream->capture != nullptr) return DriverResult::not_supported;
    const bool fits = range != nullptr && range->base == address && !range->freed &&
                      (range->kind == RangeKind::async || range->kind == RangeKind::device);
    if (!fits) return DriverResult::invalid_value;
    range->freed = true;
    Command command;
    command.work = [range] {
      const Lock lock(state().lock);
      free_range(range);
      return DriverResult::success;
    };
    return submit(stream, command);
  });
}

DriverResult cuMemGetAddressRange_v2(DevicePointer* base, std::size_t* bytes, DevicePointer address) {
  return enter(__func__, Needs::context, [&](Call&) {
    const auto range = address_map().find(address);
    if (range == nullptr || range->kind == RangeKind::registered) return DriverResult::not_found;
    if (base != nullptr) *base = range->base;
    if (bytes != nullptr) *bytes = range->bytes;
    return DriverResult::success;
  });
}

DriverResult cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  return enter(__func__, Needs::context, [&](Call& call) {
    if (free == nullptr || total == nullptr) return DriverResult::invalid_value;
    *total = kDeviceBytes;
    *free = kDeviceBytes - call.context->device->used_bytes;
    return DriverResult::success;
  });
}
