// What links carry, as data: by generation, as the makers' data sheets say it, and between CPUs as NCCL reckons with it.
#pragma once

#include <cstdint>
#include <string>

#include "topology/graph.h"

namespace tutti {

/// NVIDIA's PCI vendor number.
constexpr std::uint16_t kNvidia = 0x10de;

/// GB/s one way of one NVLink of a GPU with this compute capability * 10; 25, which most generations have, where it is
/// unknown (0). NVIDIA's architecture white papers.
double nvlink_gbytes(int sm);

/// The same by what NVML calls the link's version (nvmlNvlinkVersion_t, 1 to 7 for NVLink 1.0 to 5.0); 25 where it is
/// unknown. Where the compute capability is known it tells better: some drivers give an H100's links version 5.0.
double nvlink_gbytes_of_version(unsigned version);

/// GB/s one way of one xGMI link of a GPU of this architecture ("gfx90a", or "910" as RCCL's older files have it); that of
/// the slowest, 46, where it is unknown. AMD's data sheets of the Instinct series.
double xgmi_gbytes(const std::string& gcn);

/// GB/s one way that PCIe traffic has between packages with this CPU; 10 where nothing is known of it. NCCL's
/// src/graph/topo.h.
double between_packages_gbytes(const CpuModel& cpu);

/// Whether all PCIe lanes of a package with this CPU are at one host bridge: Intel's before Skylake. Others have several,
/// one for each 16 lanes or so.
bool has_one_host_bridge(const CpuModel& cpu);

/// Compute capability * 10 of NVIDIA's datacenter GPUs by PCI device number, 0 for others. After the list of PCI numbers.
int sm_of_device(std::uint16_t vendor, std::uint16_t device);

/// One direction of a PCIe link in GB/s, from what sysfs writes ("16.0 GT/s PCIe", 16), after the line code; 0 where it is
/// unknown.
double pcie_gbytes(const std::string& speed, int width);

struct PcieLink {
  std::string speed;  ///< "16.0 GT/s PCIe"; empty: unknown
  int width = 0;      ///< lanes
};

/// The other way round: the link that carries nearest to `gbytes`, the widest of several; none where it misses it by 2 %.
PcieLink pcie_link(double gbytes);

}  // namespace tutti
