// Devices: their number, names, attributes, and which reach each other.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>

#include "tests/standin/configuration.h"
#include "tests/standin/entry.h"
#include "tests/standin/pool.h"

using namespace standin;  // NOLINT: entry points live outside of namespaces

namespace {

constexpr int kFirstBus = 0x17;

DriverResult copy_text(char* out, int room, const char* text) {
  if (out == nullptr || room <= 0) return DriverResult::invalid_value;
  std::snprintf(out, static_cast<std::size_t>(room), "%s", text);
  return DriverResult::success;
}

/// Runs `body` for a device that there is.
template <typename Body>
DriverResult for_device(const char* entry, DeviceOrdinal ordinal, const Body& body) {
  return enter(entry, Needs::driver, [&](Call&) {
    Device* const device = find_device(ordinal);
    return device == nullptr ? DriverResult::invalid_device : body(*device);
  });
}

/// What we implement. All else is CUDA_ERROR_INVALID_VALUE, so that a use of it shows.
std::map<DeviceAttribute, int> attributes_of(const Device& device) {
  const Configuration& configuration = state().configuration;
  return {{DeviceAttribute::max_threads_per_block, configuration.threads},
          {DeviceAttribute::max_grid_dim_x, 2147483647},
          {DeviceAttribute::max_shared_memory_per_block, 48 * 1024},
          {DeviceAttribute::max_shared_memory_per_block_optin, 227 * 1024},
          {DeviceAttribute::multiprocessor_count, configuration.sms},
          {DeviceAttribute::can_map_host_memory, 1},
          {DeviceAttribute::compute_mode, 0},
          {DeviceAttribute::concurrent_kernels, 1},
          {DeviceAttribute::pci_bus_id, kFirstBus + device.ordinal},
          {DeviceAttribute::pci_device_id, 0},
          {DeviceAttribute::pci_domain_id, 0},
          {DeviceAttribute::unified_addressing, 1},
          {DeviceAttribute::compute_capability_major, 9},
          {DeviceAttribute::compute_capability_minor, 0},
          {DeviceAttribute::managed_memory, 1},
          {DeviceAttribute::pageable_memory_access, 0},
          {DeviceAttribute::virtual_memory_management, 1},
          {DeviceAttribute::posix_descriptors, 1},
          {DeviceAttribute::gpu_direct_rdma, 1},
          {DeviceAttribute::gpu_direct_rdma_with_vmm, 1},
          {DeviceAttribute::gpu_direct_rdma_flush_options, 1},
          {DeviceAttribute::gpu_direct_rdma_writes_ordering, 0},
          {DeviceAttribute::memory_pools, 1},
          {DeviceAttribute::stream_mem_ops_64_bit, 1},
          {DeviceAttribute::stream_wait_value_nor, 1},
          {DeviceAttribute::dma_buf, 1},
          {DeviceAttribute::mem_sync_domain_count, 4},
          {DeviceAttribute::fabric_handles, 0}};
}

}  // namespace

DriverResult cuDeviceGet(DeviceOrdinal* device, int ordinal) {
  return for_device(__func__, ordinal, [&](Device&) {
    if (device == nullptr) return DriverResult::invalid_value;
    *device = ordinal;
    return DriverResult::success;
  });
}

DriverResult cuDeviceGetCount(int* count) {
  return enter(__func__, Needs::driver, [&](Call&) {
    if (count == nullptr) return DriverResult::invalid_value;
    *count = static_cast<int>(state().devices.size());
    return DriverResult::success;
  });
}

DriverResult cuDeviceGetName(char* name, int room, DeviceOrdinal ordinal) {
  return for_device(__func__, ordinal, [&](Device&) { return copy_text(name, room, "Tutti stand-in"); });
}

DriverResult cuDeviceGetUuid_v2(DeviceUuid* uuid, DeviceOrdinal ordinal) {
  return for_device(__func__, ordinal, [&](Device&) {
    if (uuid == nullptr) return DriverResult::invalid_value;
    std::memcpy(uuid->bytes, "tutti-stand-in", 15);
    uuid->bytes[15] = static_cast<unsigned char>(ordinal);
    return DriverResult::success;
  });
}

DriverResult cuDeviceGetAttribute(int* value, DeviceAttribute attribute, DeviceOrdinal ordinal) {
  return for_device(__func__, ordinal, [&](Device& device) {
    const auto attributes = attributes_of(device);
    const auto found = attributes.find(attribute);
    if (value == nullptr || found == attributes.end()) return DriverResult::invalid_value;
    *value = found->second;
    return DriverResult::success;
  });
}

DriverResult cuDeviceTotalMem_v2(std::size_t* bytes, DeviceOrdinal ordinal) {
  return for_device(__func__, ordinal, [&](Device&) {
    if (bytes == nullptr) return DriverResult::invalid_value;
    *bytes = kDeviceBytes;
    return DriverResult::success;
  });
}

DriverResult cuDeviceGetPCIBusId(char* text, int room, DeviceOrdinal ordinal) {
  return for_device(__func__, ordinal, [&](Device&) {
    char address[32];
    std::snprintf(address, sizeof(address), "0000:%02X:00.0", static_cast<unsigned>(kFirstBus + ordinal));
    return copy_text(text, room, address);
  });
}

DriverResult cuDeviceGetByPCIBusId(DeviceOrdinal* device, const char* text) {
  return enter(__func__, Needs::driver, [&](Call&) {
    unsigned domain = 0;
    unsigned bus = 0;
    if (device == nullptr || text == nullptr || std::sscanf(text, "%x:%x", &domain, &bus) != 2)
      return DriverResult::invalid_value;
    const int ordinal = static_cast<int>(bus) - kFirstBus;
    if (find_device(ordinal) == nullptr) return DriverResult::invalid_device;
    *device = ordinal;
    return DriverResult::success;
  });
}

DriverResult cuDeviceCanAccessPeer(int* can, DeviceOrdinal device, DeviceOrdinal peer) {
  return for_device(__func__, device, [&](Device&) {
    if (can == nullptr) return DriverResult::invalid_value;
    if (find_device(peer) == nullptr) return DriverResult::invalid_device;
    *can = device != peer && linked(state().configuration, device, peer) ? 1 : 0;
    return DriverResult::success;
  });
}

DriverResult cuDeviceGetP2PAttribute(int* value, PeerAttribute attribute, DeviceOrdinal device, DeviceOrdinal peer) {
  return for_device(__func__, device, [&](Device&) {
    if (find_device(peer) == nullptr || device == peer) return DriverResult::invalid_device;
    if (value == nullptr) return DriverResult::invalid_value;
    const bool reached = linked(state().configuration, device, peer);
    *value = attribute == PeerAttribute::performance_rank ? 0 : (reached ? 1 : 0);
    return DriverResult::success;
  });
}
