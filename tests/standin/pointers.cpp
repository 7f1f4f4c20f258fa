// What the driver knows of an address.
#include <cstring>

#include "tests/standin/address_map.h"
#include "tests/standin/entry.h"

using namespace standin;  // NOLINT: entry points live outside of namespaces

namespace {

template <typename T>
bool put(void* out, T value) {
  std::memcpy(out, &value, sizeof(value));
  return true;
}

MemoryType type_of(const Range& range) { return range.on_host() ? MemoryType::host : MemoryType::device; }

/// Writes one attribute of memory that we know; false for one that we do not implement.
bool put_attribute(void* out, PointerAttribute attribute, const Range& range, DevicePointer address) {
  const bool host = range.on_host() || range.kind == RangeKind::managed;
  switch (attribute) {
    case PointerAttribute::context:
      return put(out, reinterpret_cast<ContextHandle>(range.context.get()));
    case PointerAttribute::memory_type:
      return put(out, type_of(range));
    case PointerAttribute::device_pointer:
      return put(out, address);
    case PointerAttribute::host_pointer:
      return put(out, host ? reinterpret_cast<void*>(address) : nullptr);
    case PointerAttribute::sync_memops:
      return put(out, range.sync_memops ? 1u : 0u);
    case PointerAttribute::buffer_id:
      return put(out, range.id);
    case PointerAttribute::is_managed:
      return put(out, range.kind == RangeKind::managed ? 1u : 0u);
    case PointerAttribute::device_ordinal:
      return put(out, range.device);
    case PointerAttribute::is_legacy_ipc_capable:
      return put(out, range.kind == RangeKind::device);
    case PointerAttribute::range_start_address:
      return put(out, static_cast<DevicePointer>(range.base));
    case PointerAttribute::range_size:
      return put(out, range.bytes);
    case PointerAttribute::mapped:
      return put(out, true);
    case PointerAttribute::allowed_handle_types:
      return put(out, range.physical != nullptr ? static_cast<std::uint64_t>(range.physical->properties.handle_types) : 0);
    case PointerAttribute::access_flags:
      return put(out, range.on_host() ? AccessFlags::none : AccessFlags::read_write);
  }
  return false;
}

/// Bytes of an attribute, for those that an unknown address leaves zero.
std::size_t size_of(PointerAttribute attribute) {
  switch (attribute) {
    case PointerAttribute::memory_type:
    case PointerAttribute::sync_memops:
    case PointerAttribute::is_managed:
    case PointerAttribute::access_flags:
      return 4;
    case PointerAttribute::is_legacy_ipc_capable:
    case PointerAttribute::mapped:
      return 1;
    default:
      return 8;
  }
}

/// cuPointerGetAttributes answers for any address; what the driver does not know is zero, and the device -2.
bool put_unknown(void* out, PointerAttribute attribute) {
  constexpr int no_device = -2;
  if (attribute == PointerAttribute::device_ordinal) return put(out, no_device);
  std::memset(out, 0, size_of(attribute));
  return true;
}

}  // namespace

DriverResult cuPointerGetAttribute(void* out, PointerAttribute attribute, DevicePointer address) {
  return enter(__func__, Needs::driver, [&](Call&) {
    const auto range = address_map().find(address);
    if (out == nullptr || range == nullptr) return DriverResult::invalid_value;
    return put_attribute(out, attribute, *range, address) ? DriverResult::success : DriverResult::not_supported;
  });
}

DriverResult cuPointerGetAttributes(unsigned count, PointerAttribute* attributes, void** out, DevicePointer address) {
  return enter(__func__, Needs::driver, [&](Call&) {
    if (attributes == nullptr || out == nullptr) return DriverResult::invalid_value;
    const auto range = address_map().find(address);
    for (unsigned each = 0; each < count; ++each) {
      const bool known = range != nullptr ? put_attribute(out[each], attributes[each], *range, address)
                                          : put_unknown(out[each], attributes[each]);
      if (!known) return DriverResult::invalid_value;
    }
    return DriverResult::success;
  });
}

DriverResult cuPointerSetAttribute(const void* value, PointerAttribute attribute, DevicePointer address) {
  return enter(__func__, Needs::driver, [&](Call&) {
    const auto range = address_map().find(address);
    if (value == nullptr || range == nullptr || attribute != PointerAttribute::sync_memops)
      return DriverResult::invalid_value;
    range->sync_memops = *static_cast<const unsigned*>(value) != 0;
    return DriverResult::success;
  });
}
