// The graph of this machine from /sys and /proc alone, and what they know beyond hwloc.
#pragma once

#include "topology/graph.h"
#include "topology/sysfs.h"

namespace tutti {

/// Everything that sysfs says: packages, NUMA nodes, cores, caches, PCIe, GPUs, NICs. What cannot be read is left out; a
/// machine without /sys has one NUMA node with the CPUs this process may use.
Graph read_sysfs(const Sysfs& files);

/// Adds to a graph of this machine, from hwloc or read_sysfs: the names of GPUs, PCIe speeds, and speeds, ports and verbs
/// devices of NICs.
void complete_from_sysfs(const Sysfs& files, Graph& graph);

}  // namespace tutti
