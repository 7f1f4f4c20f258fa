// NCCL's topology XML (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE) and RCCL's, read into a graph and written from one.
//
//     system > cpu (a NUMA node) > pci (a PCIe switch or a device) > gpu > nvlink | xgmi
//                                                                  > nic > net
//
// A file may be a skeleton that leaves everything below pci to be found on the machine: what a device is then follows from
// its class code, and NVLinks are unknown. Unlike the kernel and hwloc, NCCL shows a PCIe switch as one element, and
// neither root ports nor host bridges.
#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"
#include "topology/graph.h"

namespace tutti {

/// The graph in the text of such a file. Links to devices that are not in it, and to the device itself, are left out; of a
/// pair of GPUs that tell their links differently the fewer count. Each element right below a cpu counts as behind a host
/// bridge of its own, save where the CPU is known to have but one. GPUs and NICs have the numbers that `dev` gives them,
/// or, where one lacks it, go by PCI address. Errors: TUTTI_INVALID_ARGUMENT with the place and the reason: no XML, no
/// system, no cpu, another version, values that are none, an address twice among GPUs, or more than a machine could hold
/// (65,536 CPUs, 1,024 NUMA nodes, a million CPUs listed in all of them, 64 levels, 1,024 GPUs, 4,096 NICs, 4,096
/// NVSwitches). Time about proportional to the text.
Result<Graph> parse_nccl_xml(std::string_view text);

/// The graph of the machine in a file of at most 64 MiB.
/// Errors: as above, with the file's name; TUTTI_INVALID_ARGUMENT where it cannot be read.
Result<Graph> read_nccl_xml(const std::string& path);

/// The graph of one machine as NCCL reads it. Read back by parse_nccl_xml it has the same device_paths. What NCCL has no
/// words for is written as attributes that it passes over: `package` of a cpu, `hostbridge` and `gbytes` of a pci, `busid`
/// of a net. Cores, caches and memory are left out. Errors: TUTTI_INVALID_ARGUMENT where the graph is of several machines
/// or has GPUs that are no PCI functions.
Result<std::string> write_nccl_xml(const Graph& graph);

}  // namespace tutti
