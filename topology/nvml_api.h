// NVML's functions, found at run time: what NVIDIA's driver knows of GPUs and NVLinks and /sys does not say. The few types
// are declared here after NVIDIA's public documentation of the library, so that no header of theirs is needed to build.
// Tests put functions of their own in place.
#pragma once

#include <string>

#include "src/base/status.h"
#include "topology/graph.h"

namespace tutti {

namespace nvml {

using Device = struct nvmlDevice_st*;
using Return = int;  ///< 0: success
inline constexpr Return kSuccess = 0;
inline constexpr unsigned kMostLinks = 36;  ///< links that a GPU is asked for; the library refuses those that it has not
inline constexpr unsigned kNameBytes = 96;  ///< NVML_DEVICE_NAME_V2_BUFFER_SIZE

/// nvmlPciInfo_t of version 3.
struct PciInfo {
  char legacy_bus_id[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned device_id;     ///< device number << 16 | vendor
  unsigned subsystem_id;  ///< likewise of the board
  char bus_id[32];        ///< "00000000:07:00.0"
};

/// nvmlIntNvLinkDeviceType_t: what is at a link's other end.
enum class LinkEnd : int { gpu = 0, ibm_npu = 1, nv_switch = 2, unknown = 255 };

}  // namespace nvml

/// The functions that we call; the comment says which of libnvidia-ml.so.1's each is.
struct NvmlApi {
  /// nvmlInit_v2, nvmlShutdown, nvmlErrorString
  nvml::Return (*init)() = nullptr;
  nvml::Return (*shutdown)() = nullptr;
  const char* (*error_string)(nvml::Return) = nullptr;
  /// nvmlDeviceGetCount_v2, nvmlDeviceGetHandleByIndex_v2, nvmlDeviceGetPciInfo_v3
  nvml::Return (*device_count)(unsigned* count) = nullptr;
  nvml::Return (*device_by_index)(unsigned index, nvml::Device*) = nullptr;
  nvml::Return (*pci_info)(nvml::Device, nvml::PciInfo*) = nullptr;
  /// nvmlDeviceGetName, nvmlDeviceGetCudaComputeCapability
  nvml::Return (*name)(nvml::Device, char* text, unsigned bytes) = nullptr;
  nvml::Return (*capability)(nvml::Device, int* major, int* minor) = nullptr;
  /// nvmlDeviceGetNvLinkState (1: up), nvmlDeviceGetNvLinkVersion, nvmlDeviceGetNvLinkRemotePciInfo_v2
  nvml::Return (*link_state)(nvml::Device, unsigned link, int* active) = nullptr;
  nvml::Return (*link_version)(nvml::Device, unsigned link, unsigned* version) = nullptr;
  nvml::Return (*link_remote)(nvml::Device, unsigned link, nvml::PciInfo*) = nullptr;
  /// nvmlDeviceGetNvLinkRemoteDeviceType; NULL with drivers before 460.
  nvml::Return (*link_remote_type)(nvml::Device, unsigned link, nvml::LinkEnd* type) = nullptr;
};

/// Loads libnvidia-ml.so.1 once and keeps it. NULL where the machine has none, or one without these functions. Thread safe.
const NvmlApi* load_nvml();

/// Adds to a graph of this machine what NVML knows: names and compute capabilities of its GPUs, the NVLinks that are up
/// with their bandwidth by version, and NVSwitches where /sys does not show them. GPUs are found by PCI address; those that
/// the graph does not have (another container's) are passed over, and so is everything that NVML refuses to say. Links that
/// are in the graph are kept and not looked for again. Errors: TUTTI_SYSTEM_ERROR where NVML cannot start or cannot count
/// GPUs; the graph is unchanged then. A second or two where the driver has to be woken. Thread safe for different graphs.
Status complete_from_nvml(const NvmlApi& api, Graph& graph);

}  // namespace tutti
