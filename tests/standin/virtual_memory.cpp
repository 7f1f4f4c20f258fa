// Virtual memory management: physical memory, addresses, mappings, and who may use them.
#include "tests/standin/virtual_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "tests/standin/address_map.h"
#include "tests/standin/configuration.h"
#include "tests/standin/entry.h"
#include "tests/standin/pool.h"

using namespace standin;  // NOLINT: entry points live outside of namespaces

namespace {

std::map<AllocationHandle, std::shared_ptr<Physical>>& allocations() {
  static auto& all = *new std::map<AllocationHandle, std::shared_ptr<Physical>>;
  return all;
}

/// Reserved addresses: first, bytes.
std::map<std::uintptr_t, std::size_t>& reservations() {
  static auto& all = *new std::map<std::uintptr_t, std::size_t>;
  return all;
}

AllocationHandle add(std::shared_ptr<Physical> physical) {
  const auto handle = static_cast<AllocationHandle>(reinterpret_cast<std::uintptr_t>(physical.get()));
  allocations()[handle] = std::move(physical);
  return handle;
}

std::shared_ptr<Physical> find(AllocationHandle handle) {
  const auto found = allocations().find(handle);
  return found == allocations().end() ? nullptr : found->second;
}

bool is_device(const MemoryLocation& location) {
  return location.type == LocationType::device && find_device(location.id) != nullptr;
}

bool is_known(const AllocationProperties* properties) {
  return properties != nullptr && properties->type == AllocationType::pinned && is_device(properties->location) &&
         (properties->handle_types == ShareableType::none || properties->handle_types == ShareableType::posix_descriptor);
}

bool is_reserved(std::uintptr_t address, std::size_t bytes) {
  const auto next = reservations().upper_bound(address);
  if (next == reservations().begin()) return false;
  const auto& [first, length] = *std::prev(next);
  return address - first <= length && bytes <= length - (address - first);
}

/// The mappings that fill these bytes exactly; none where something else lies there.
std::vector<std::shared_ptr<Range>> mappings(std::uintptr_t address, std::size_t bytes) {
  auto found = address_map().within(address, bytes);
  std::size_t filled = 0;
  for (const auto& range : found) {
    if (range->kind != RangeKind::mapped || range->base != address + filled) return {};
    filled += range->bytes;
  }
  return filled == bytes ? found : std::vector<std::shared_ptr<Range>>();
}

/// Whether device memory of `owner` can be used by `user`.
bool reaches(int user, int owner) { return linked(state().configuration, user, owner); }

/// The kernel's protection is for all devices together; which device may is asked of each operation (may_access).
int protection_of(const Range& range) {
  int protection = PROT_NONE;
  for (const auto& [device, flags] : range.access) {
    if (flags != AccessFlags::none) protection |= PROT_READ;
    if (flags == AccessFlags::read_write) protection |= PROT_WRITE;
  }
  return protection;
}

}  // namespace

std::size_t standin::virtual_memory_objects() { return allocations().size() + reservations().size(); }

DriverResult cuMemGetAllocationGranularity(std::size_t* bytes, const AllocationProperties* properties, Granularity) {
  return enter(__func__, Needs::driver, [&](Call&) {
    if (bytes == nullptr || !is_known(properties)) return DriverResult::invalid_value;
    *bytes = kGranularity;
    return DriverResult::success;
  });
}

DriverResult cuMemCreate(AllocationHandle* out, std::size_t bytes, const AllocationProperties* properties,
                         unsigned long long flags) {
  return enter(__func__, Needs::driver, [&](Call&) {
    if (out == nullptr || !is_known(properties) || bytes == 0 || bytes % kGranularity != 0 || flags != 0) {
      return DriverResult::invalid_value;
    }
    Device& device = *find_device(properties->location.id);
    const int file = bytes <= kDeviceBytes - device.used_bytes ? make_memory_file(bytes) : -1;
    if (file < 0) return DriverResult::out_of_memory;
    auto physical = std::make_shared<Physical>(file, bytes, *properties);
    physical->device = &device;
    device.used_bytes += bytes;
    *out = add(std::move(physical));
    return DriverResult::success;
  });
}

DriverResult cuMemRelease(AllocationHandle handle) {
  return enter(__func__, Needs::driver, [&](Call&) {
    const auto physical = find(handle);
    if (physical == nullptr) return DriverResult::invalid_value;
    if (--physical->handles == 0) allocations().erase(handle);  // mappings keep it
    return DriverResult::success;
  });
}

DriverResult cuMemAddressReserve(DevicePointer* out, std::size_t bytes, std::size_t alignment, DevicePointer,
                                 unsigned long long flags) {
  return enter(__func__, Needs::driver, [&](Call&) {
    const bool power = (alignment & (alignment - 1)) == 0;
    if (out == nullptr || bytes == 0 || bytes % kGranularity != 0 || !power || flags != 0)
      return DriverResult::invalid_value;
    const std::uintptr_t address = pool().take(bytes, std::max(alignment, kGranularity));
    if (address == 0) return DriverResult::out_of_memory;
    reservations()[address] = bytes;
    *out = address;
    return DriverResult::success;
  });
}

DriverResult cuMemAddressFree(DevicePointer address, std::size_t bytes) {
  return enter(__func__, Needs::driver, [&](Call&) {
    const auto found = reservations().find(address);
    if (found == reservations().end() || found->second != bytes) return DriverResult::invalid_value;
    if (address_map().overlaps(address, bytes)) return DriverResult::invalid_value;  // still mapped
    reservations().erase(found);
    pool().give_back(address, bytes);
    return DriverResult::success;
  });
}

DriverResult cuMemMap(DevicePointer address, std::size_t bytes, std::size_t offset, AllocationHandle handle,
                      unsigned long long flags) {
  return enter(__func__, Needs::driver, [&](Call&) {
    const auto physical = find(handle);
    if (physical == nullptr || flags != 0 || bytes == 0 || bytes % kGranularity != 0 || offset % kGranularity != 0) {
      return DriverResult::invalid_value;
    }
    if (offset > physical->bytes || bytes > physical->bytes - offset || !is_reserved(address, bytes))
      return DriverResult::invalid_value;
    if (address_map().overlaps(address, bytes)) return DriverResult::invalid_value;
    if (!pool().map(address, bytes, physical->descriptor, offset, PROT_NONE)) return DriverResult::map_failed;
    auto range = std::make_shared<Range>();
    range->base = address;
    range->bytes = bytes;
    range->kind = RangeKind::mapped;
    range->device = physical->properties.location.id;
    range->physical = physical;
    range->offset = offset;
    address_map().add(std::move(range));
    return DriverResult::success;
  });
}

// Does not wait: who unmaps what a kernel uses gets that kernel's fault.
DriverResult cuMemUnmap(DevicePointer address, std::size_t bytes) {
  return enter(__func__, Needs::driver, [&](Call&) {
    const auto found = mappings(address, bytes);
    if (found.empty()) return DriverResult::invalid_value;
    for (const auto& range : found) {
      address_map().remove(range->base);
      pool().unmap(range->base, range->bytes);
    }
    return DriverResult::success;
  });
}

DriverResult cuMemSetAccess(DevicePointer address, std::size_t bytes, const AccessDescription* descriptions,
                            std::size_t count) {
  return enter(__func__, Needs::driver, [&](Call&) {
    const auto found = mappings(address, bytes);
    if (found.empty() || descriptions == nullptr || count == 0) return DriverResult::invalid_value;
    for (std::size_t each = 0; each < count; ++each) {
      const AccessDescription& given = descriptions[each];
      if (!is_device(given.location)) return DriverResult::invalid_value;
      for (const auto& range : found) {
        if (!reaches(given.location.id, range->device)) return DriverResult::invalid_device;
        range->access[given.location.id] = given.flags;
      }
    }
    for (const auto& range : found) {
      if (!pool().protect(range->base, range->bytes, protection_of(*range))) return DriverResult::operating_system;
    }
    return DriverResult::success;
  });
}

DriverResult cuMemGetAccess(unsigned long long* flags, const MemoryLocation* location, DevicePointer address) {
  return enter(__func__, Needs::driver, [&](Call&) {
    const auto range = address_map().find(address);
    if (flags == nullptr || location == nullptr || !is_device(*location) || range == nullptr ||
        range->kind != RangeKind::mapped) {
      return DriverResult::invalid_value;
    }
    const auto access = range->access.find(location->id);
    *flags = access == range->access.end() ? 0 : static_cast<unsigned long long>(access->second);
    return DriverResult::success;
  });
}

DriverResult cuMemExportToShareableHandle(void* out, AllocationHandle handle, ShareableType type,
                                          unsigned long long flags) {
  return enter(__func__, Needs::driver, [&](Call&) {
    const auto physical = find(handle);
    if (out == nullptr || physical == nullptr || flags != 0) return DriverResult::invalid_value;
    if (type != ShareableType::posix_descriptor) return DriverResult::not_supported;
    if (physical->properties.handle_types != type) return DriverResult::invalid_value;  // was not asked for at creation
    const int copy = ::fcntl(physical->descriptor, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) return DriverResult::operating_system;
    *static_cast<int*>(out) = copy;
    return DriverResult::success;
  });
}

DriverResult cuMemImportFromShareableHandle(AllocationHandle* out, void* os_handle, ShareableType type) {
  return enter(__func__, Needs::driver, [&](Call& call) {
    if (out == nullptr) return DriverResult::invalid_value;
    if (type != ShareableType::posix_descriptor) return DriverResult::not_supported;
    const int given = static_cast<int>(reinterpret_cast<std::intptr_t>(os_handle));
    struct stat about{};
    const bool plausible =
        ::fstat(given, &about) == 0 && about.st_size > 0 && static_cast<std::size_t>(about.st_size) % kGranularity == 0;
    const int copy = plausible ? ::fcntl(given, F_DUPFD_CLOEXEC, 0) : -1;
    if (copy < 0) return DriverResult::invalid_value;
    AllocationProperties properties;
    properties.type = AllocationType::pinned;
    properties.handle_types = type;
    // The file does not say whose memory it is: the importer's current device stands for it.
    properties.location = {LocationType::device, call.context != nullptr ? call.context->device->ordinal : 0};
    *out = add(std::make_shared<Physical>(copy, static_cast<std::size_t>(about.st_size), properties));
    return DriverResult::success;
  });
}

DriverResult cuMemRetainAllocationHandle(AllocationHandle* out, void* address) {
  return enter(__func__, Needs::driver, [&](Call&) {
    const auto range = address_map().find(reinterpret_cast<std::uintptr_t>(address));
    if (out == nullptr || range == nullptr || range->kind != RangeKind::mapped) return DriverResult::invalid_value;
    ++range->physical->handles;
    *out = add(range->physical);
    return DriverResult::success;
  });
}

DriverResult cuMemGetAllocationPropertiesFromHandle(AllocationProperties* out, AllocationHandle handle) {
  return enter(__func__, Needs::driver, [&](Call&) {
    const auto physical = find(handle);
    if (out == nullptr || physical == nullptr) return DriverResult::invalid_value;
    *out = physical->properties;
    return DriverResult::success;
  });
}

// A dma-buf of the real driver's cannot be mapped by a process; ours is the memory's file.
DriverResult cuMemGetHandleForAddressRange(void* out, DevicePointer address, std::size_t bytes, RangeHandleType type,
                                           unsigned long long flags) {
  return enter(__func__, Needs::context, [&](Call&) {
    const auto range = address_map().find(address);
    const bool aligned = address % kPage == 0 && bytes % kPage == 0 && bytes > 0;
    if (out == nullptr || type != RangeHandleType::dma_buf || flags != 0 || !aligned || range == nullptr)
      return DriverResult::invalid_value;
    if (bytes > round_up(range->bytes, kPage) - (address - range->base)) return DriverResult::invalid_value;
    const int file = range->physical != nullptr ? range->physical->descriptor : range->descriptor;
    const int copy = file >= 0 ? ::fcntl(file, F_DUPFD_CLOEXEC, 0) : -1;
    if (copy < 0) return DriverResult::not_supported;
    *static_cast<int*>(out) = copy;
    return DriverResult::success;
  });
}
