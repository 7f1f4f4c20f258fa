// The graph of a machine: what is in it, what contains what, what is linked to what, and the way between two devices.
//
// Nodes form a tree by containment (machine > package > NUMA node > host bridge > bridges > devices), which is how PCIe
// reaches them; any of the levels between may be missing. Links beside the tree (NVLink, xGMI, the network) are edges of
// their own. CPUs, cores and caches are lists.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topology/cpus.h"

namespace tutti {

enum class NodeKind : std::uint8_t {
  machine,
  package,
  numa,
  host_bridge,
  bridge,
  nv_switch,
  gpu,
  nic,
  pci,  ///< a PCI function of which the source does not say what it is
};

/// What a CPU says of itself, as cpuid or the source has it.
struct CpuModel {
  std::string arch;    ///< "x86_64", "arm64", "ppc64"; empty: unknown
  std::string vendor;  ///< "GenuineIntel", "AuthenticAMD", …
  int family = 0;
  int model = 0;
};

/// What is known of a network device.
struct NicFacts {
  std::vector<std::string> interfaces;  ///< its network interfaces in this network namespace
  double speed_gbps = 0;                ///< Gbit/s of its fastest port, 0: unknown
  int ports = 0;
  bool verbs = false;      ///< it has an InfiniBand or RoCE device
  bool gdr = false;        ///< a GPU's memory can be registered with it, as far as loaded kernel modules tell
  int port = 0;            ///< which port of its device it is, 0: unknown or all of them
  std::uint64_t guid = 0;  ///< of its device, 0: unknown
};

/// A thing of the machine. Fields that make no sense for its kind keep their defaults.
struct Node {
  NodeKind kind = NodeKind::machine;
  int id = 0;        ///< number within its kind; NUMA nodes and packages: the system's
  int parent = -1;   ///< index of what contains it, -1 for a machine
  std::string name;  ///< "NVIDIA H100", "mlx5_0", "eth0", host name, …
  std::string pci;   ///< "0000:07:00.0", empty where it is no PCI function
  std::uint16_t vendor = 0;
  std::uint16_t device = 0;
  std::uint32_t pci_class = 0;     ///< 0x0302 for a 3D controller: class and subclass
  double uplink_gbytes = 0;        ///< GB/s one way of its PCIe link upwards, 0: unknown
  bool whole_switch = false;       ///< bridge: a PCIe switch with all its ports; else it is one port
  std::vector<int> cpus;           ///< machine, package, numa: those near it, sorted
  CpuModel cpu;                    ///< package, or numa where the packages are unknown
  std::uint64_t memory_bytes = 0;  ///< numa
  int sm = 0;                      ///< NVIDIA GPU: compute capability * 10, 0: unknown
  std::string gcn;                 ///< AMD GPU: architecture, "gfx90a" or "908"
  int compute_units = 0;           ///< AMD GPU: 0: unknown
  NicFacts nic;
};

enum class LinkKind : std::uint8_t { nvlink, xgmi, network };

/// An edge beside the tree, the same in both directions.
struct GraphLink {
  int a = 0;  ///< index into Graph::nodes
  int b = 0;
  LinkKind kind = LinkKind::nvlink;
  int count = 1;         ///< parallel links
  double gbytes = 0;     ///< GB/s one way of all of them together, 0: unknown
  double latency_s = 0;  ///< seconds, 0: unknown
};

struct Core {
  int id = 0;  ///< the system's number, unique within its package
  int package = 0;
  int numa = -1;  ///< the system's number of its NUMA node, -1: unknown
  std::vector<int> cpus;
};

enum class CacheKind : std::uint8_t { unified, data, instruction };

struct Cache {
  int level = 0;
  CacheKind kind = CacheKind::unified;
  std::uint64_t bytes = 0;
  std::vector<int> cpus;  ///< those that share it, sorted
};

/// One or several machines. Plain data; nodes[0] is the first machine.
struct Graph {
  std::string source;  ///< "hwloc (API 2.8)", "sysfs", a file's name
  std::vector<Node> nodes;
  std::vector<GraphLink> links;
  std::vector<Core> cores;
  std::vector<Cache> caches;
  CpuLimits limits;  ///< of this process; empty for a graph from a file

  /// Adds a node and returns its index.
  int add(Node node);
  /// Indices of the nodes of a kind, in the order of their ids.
  std::vector<int> of(NodeKind kind) const;
  /// The nearest node of `kind` that contains `node` (itself included), -1 where there is none.
  int enclosing(int node, NodeKind kind) const;
  /// The system's number of the NUMA node that a device is near; -1 where nobody knows.
  int numa_id(int node) const;
};

/// Ways between two devices in the terms of nvidia-smi, best first.
enum class PathType : std::uint8_t { self, nvlink, xgmi, pix, pxb, phb, node, sys, net };

struct Path {
  int a = 0;
  int b = 0;
  PathType type = PathType::sys;
  int links = 0;      ///< NVLinks or xGMI links side by side, for "NV12"
  double gbytes = 0;  ///< GB/s one way of the narrowest link on the way, 0: nobody knows
  int hops = 0;       ///< edges on the way
  /// "X", "NV12", "XGMI1", "PIX", "PXB", "PHB", "NODE", "SYS", "NET".
  std::string text() const;
};

/// Finds the best ways between nodes of a graph, which must outlive it and stay as it is. For many pairs: what it takes to
/// make one is about what path_between takes, and a way then depends on the depth of the tree alone.
class PathFinder {
 public:
  explicit PathFinder(const Graph& graph);
  /// The best way between two nodes of the graph.
  Path between(int a, int b) const;

 private:
  /// The links of a kind between two nodes, or from one to switches, together.
  struct Bundle {
    int a = 0;
    int b = 0;
    LinkKind kind = LinkKind::nvlink;
    int count = 0;
    double gbytes = 0;
  };
  const Bundle* direct(LinkKind kind, int a, int b) const;

  const Graph& graph_;
  std::vector<Bundle> bundles_;      // by (a, b, kind), both ways
  std::vector<Bundle> to_switches_;  // by node
};

/// The best way between two nodes of the graph, alone.
Path path_between(const Graph& graph, int a, int b);

/// The node and all that contain it, innermost first.
std::vector<int> containers(const Graph& graph, int node);

/// GB/s one way between two parts right below a machine (packages, or NUMA nodes where packages are unknown): the narrower
/// of what their CPUs can do, as far as they are known. Within a package there is no bound that would matter beside PCIe's.
double between_packages_gbytes(const Graph& graph, int a, int b);

/// The paths that tutti-topo lists: one for each unordered pair of GPUs, and of a GPU and a NIC.
std::vector<Path> device_paths(const Graph& graph);

/// "gpu0", "nic1", "numa0", …
std::string node_label(const Node& node);

}  // namespace tutti
