// hwloc's functions, found at run time: loading the library costs 15 ms, which only those who look at the machine's graph
// should pay. Tests put functions of their own in place.
#pragma once

#include <hwloc.h>

#include <string>

#include "src/base/status.h"
#include "topology/objects.h"

namespace tutti {

/// The functions that we call, as hwloc.h declares them.
struct HwlocApi {
  decltype(&hwloc_get_api_version) get_api_version = nullptr;
  decltype(&hwloc_topology_init) topology_init = nullptr;
  decltype(&hwloc_topology_destroy) topology_destroy = nullptr;
  decltype(&hwloc_topology_set_flags) topology_set_flags = nullptr;
  decltype(&hwloc_topology_set_io_types_filter) topology_set_io_types_filter = nullptr;
  decltype(&hwloc_topology_set_components) topology_set_components = nullptr;
  decltype(&hwloc_topology_set_synthetic) topology_set_synthetic = nullptr;
  decltype(&hwloc_topology_load) topology_load = nullptr;
  decltype(&hwloc_get_obj_by_depth) get_obj_by_depth = nullptr;
  decltype(&hwloc_bitmap_next) bitmap_next = nullptr;
};

/// Loads libhwloc.so.15 (interface version 2) once and keeps it. NULL where the machine has none. Thread safe.
const HwlocApi* load_hwloc();

/// The machine as hwloc sees it, CPUs that this process may not use included, and its plugins for OpenCL, CUDA and the
/// like left out, which are slow and start drivers.
/// synthetic  a description as hwloc takes it ("pack:2 core:2 pu:1") instead of this machine; empty: this machine.
/// Errors: TUTTI_SYSTEM_ERROR. Some milliseconds. Thread safe.
Result<HwObject> read_hwloc(const HwlocApi& api, const std::string& synthetic = {});

/// "hwloc (API 2.8)": releases 2.8 and later 2.x, whose own number hwloc does not tell.
std::string hwloc_name(const HwlocApi& api);

}  // namespace tutti
