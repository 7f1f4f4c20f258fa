// A machine as hwloc describes it, in our own terms: what the live library and its XML files have in common, so that the
// graph is made from it once.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "topology/graph.h"

namespace tutti {

enum class ObjectKind : std::uint8_t {
  machine,
  package,
  numa,
  core,
  cpu,
  cache,
  host_bridge,
  bridge,
  pci,
  network,
  verbs,
  other
};

/// One object of hwloc's tree with all its children, the CPU side, memory, I/O and others alike.
struct HwObject {
  ObjectKind kind = ObjectKind::other;
  int os_index = -1;  ///< the system's number, -1: none
  std::string name;
  std::string subtype;
  std::vector<int> cpus;    ///< empty for I/O
  std::vector<int> nodes;   ///< NUMA nodes near it, the system's numbers
  std::uint64_t bytes = 0;  ///< memory of a NUMA node, size of a cache
  int cache_level = 0;
  CacheKind cache_kind = CacheKind::unified;
  std::string pci;  ///< bridge, pci: "0000:07:00.0"
  std::uint32_t pci_class = 0;
  std::uint16_t vendor = 0;
  std::uint16_t device = 0;
  double link_gbytes = 0;
  std::vector<std::pair<std::string, std::string>> infos;
  std::vector<HwObject> children;
};

/// The graph of the machine at the root of an object tree. Bridges are kept where a GPU or NIC is behind them.
/// Errors: TUTTI_INVALID_ARGUMENT where `root` is no machine.
Result<Graph> graph_of(const HwObject& root);

/// Whether a PCI function is a GPU worth the name (not a server's console), an NVSwitch, or a network device.
bool is_gpu(std::uint32_t pci_class, std::uint16_t vendor, std::uint16_t device);
bool is_nv_switch(std::uint32_t pci_class, std::uint16_t vendor);
bool is_network(std::uint32_t pci_class);

/// Numbers GPUs, NICs, switches and bridges by PCI address (those without one last, by name), from 0; packages and NUMA
/// nodes keep the system's.
void number_devices(Graph& graph);

}  // namespace tutti
