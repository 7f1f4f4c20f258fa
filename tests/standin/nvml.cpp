// libnvidia-ml.so.1 for the stand-in's devices: their places, and the NVLinks that STANDIN_LINKS says. Link n of a device
// leads to the n-th other device. What topology/nvml_api.h declares is what there is.
#include <cstdio>
#include <cstring>

#include "tests/standin/configuration.h"
#include "topology/nvml_api.h"

using namespace standin;  // NOLINT: entry points live outside of namespaces
using tutti::nvml::LinkEnd;
using tutti::nvml::PciInfo;
using tutti::nvml::Return;

#define NVML_ENTRY extern "C" __attribute__((visibility("default")))

namespace {

constexpr Return kInvalidArgument = 2;
constexpr Return kNotSupported = 3;
constexpr unsigned kFirstBus = 0x17;  // as the driver's
constexpr unsigned kLinkVersion = 5;  // NVLink 4
constexpr unsigned kDeviceId = 0x233010de;

const Configuration& configuration() {
  static const Configuration& read = *new Configuration(read_environment());
  return read;
}

/// A handle is the index and one.
tutti::nvml::Device handle_of(unsigned index) {
  return reinterpret_cast<tutti::nvml::Device>(static_cast<std::uintptr_t>(index) + 1);
}
int index_of(tutti::nvml::Device device) { return static_cast<int>(reinterpret_cast<std::uintptr_t>(device)) - 1; }
bool is_device(int index) { return index >= 0 && index < configuration().devices; }

/// The device at the end of a link; -1: there is no such link.
int other_end(tutti::nvml::Device device, unsigned link) {
  const int own = index_of(device);
  const int other = static_cast<int>(link) < own ? static_cast<int>(link) : static_cast<int>(link) + 1;
  return is_device(own) && is_device(other) ? other : -1;
}

bool is_up(tutti::nvml::Device device, unsigned link) {
  const int other = other_end(device, link);
  return other >= 0 && linked(configuration(), index_of(device), other);
}

void describe(int index, PciInfo& info) {
  info = {};
  info.bus = kFirstBus + static_cast<unsigned>(index);
  info.device_id = kDeviceId;
  std::snprintf(info.bus_id, sizeof(info.bus_id), "00000000:%02X:00.0", info.bus);
  std::snprintf(info.legacy_bus_id, sizeof(info.legacy_bus_id), "0000:%02X:00.0", info.bus);
}

}  // namespace

NVML_ENTRY Return nvmlInit_v2() { return tutti::nvml::kSuccess; }
NVML_ENTRY Return nvmlShutdown() { return tutti::nvml::kSuccess; }
NVML_ENTRY const char* nvmlErrorString(Return code) { return code == tutti::nvml::kSuccess ? "Success" : "Not as asked"; }

NVML_ENTRY Return nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(configuration().devices);
  return tutti::nvml::kSuccess;
}

NVML_ENTRY Return nvmlDeviceGetHandleByIndex_v2(unsigned index, tutti::nvml::Device* device) {
  if (!is_device(static_cast<int>(index))) return kInvalidArgument;
  *device = handle_of(index);
  return tutti::nvml::kSuccess;
}

NVML_ENTRY Return nvmlDeviceGetPciInfo_v3(tutti::nvml::Device device, PciInfo* info) {
  if (!is_device(index_of(device))) return kInvalidArgument;
  describe(index_of(device), *info);
  return tutti::nvml::kSuccess;
}

NVML_ENTRY Return nvmlDeviceGetName(tutti::nvml::Device device, char* text, unsigned bytes) {
  if (!is_device(index_of(device))) return kInvalidArgument;
  std::snprintf(text, bytes, "Tutti stand-in");
  return tutti::nvml::kSuccess;
}

NVML_ENTRY Return nvmlDeviceGetCudaComputeCapability(tutti::nvml::Device device, int* major, int* minor) {
  if (!is_device(index_of(device))) return kInvalidArgument;
  *major = 9;
  *minor = 0;
  return tutti::nvml::kSuccess;
}

NVML_ENTRY Return nvmlDeviceGetNvLinkState(tutti::nvml::Device device, unsigned link, int* active) {
  if (other_end(device, link) < 0) return kNotSupported;
  *active = is_up(device, link) ? 1 : 0;
  return tutti::nvml::kSuccess;
}

NVML_ENTRY Return nvmlDeviceGetNvLinkVersion(tutti::nvml::Device device, unsigned link, unsigned* version) {
  if (!is_up(device, link)) return kNotSupported;
  *version = kLinkVersion;
  return tutti::nvml::kSuccess;
}

NVML_ENTRY Return nvmlDeviceGetNvLinkRemotePciInfo_v2(tutti::nvml::Device device, unsigned link, PciInfo* info) {
  if (!is_up(device, link)) return kNotSupported;
  describe(other_end(device, link), *info);
  return tutti::nvml::kSuccess;
}

NVML_ENTRY Return nvmlDeviceGetNvLinkRemoteDeviceType(tutti::nvml::Device device, unsigned link, LinkEnd* type) {
  if (!is_up(device, link)) return kNotSupported;
  *type = LinkEnd::gpu;
  return tutti::nvml::kSuccess;
}
