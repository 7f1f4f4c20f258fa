// The graph of the machine that this process runs on.
#pragma once

#include "topology/graph.h"
#include "topology/hwloc_api.h"
#include "topology/sysfs.h"

namespace tutti {

/// This machine: by hwloc where it is there and works, else by sysfs, completed by sysfs, with this process's CPU limits.
///
/// hwloc  NULL: as if it were not installed.
/// files  where /proc and /sys are; with another root than the machine's, hwloc is not asked.
/// Never fails: what cannot be read is left out. Tens of milliseconds with hwloc. Thread safe.
Graph read_live(const HwlocApi* hwloc = load_hwloc(), const Sysfs& files = Sysfs());

}  // namespace tutti
