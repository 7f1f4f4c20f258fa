// The graph of the machine that this process runs on.
#pragma once

#include "topology/graph.h"
#include "topology/hwloc_api.h"
#include "topology/nvml_api.h"
#include "topology/sysfs.h"

namespace tutti {

/// This machine: by hwloc where it is there and works, else by sysfs, completed by sysfs and, where it has NVIDIA's GPUs,
/// by NVML, with this process's CPU limits.
///
/// hwloc, nvml  NULL: as if it were not installed.
/// files        where /proc and /sys are; with another root than the machine's, neither hwloc nor NVML is asked.
/// Never fails: what cannot be read is left out. Tens of milliseconds with hwloc, a second or two with GPUs whose driver
/// sleeps. Thread safe.
Graph read_live(const HwlocApi* hwloc = load_hwloc(), const Sysfs& files = Sysfs(), const NvmlApi* nvml = load_nvml());

}  // namespace tutti
