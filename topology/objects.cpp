#include "topology/objects.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <tuple>

#include "topology/index.h"
#include "topology/rates.h"

namespace tutti {
namespace {

constexpr std::uint16_t kAmd = 0x1002;
constexpr std::uint16_t kIntel = 0x8086;

struct GpuRule {
  std::uint32_t pci_class;
  std::uint16_t vendor;
};
/// Class codes of the PCI Code and ID Assignment Specification under which the vendors' GPUs appear. A VGA controller of
/// Intel's is the processor's own display, those of others are consoles.
constexpr std::array<GpuRule, 9> kGpuRules = {{{0x0300, kNvidia},
                                               {0x0302, kNvidia},
                                               {0x0380, kNvidia},
                                               {0x0300, kAmd},
                                               {0x0302, kAmd},
                                               {0x0380, kAmd},
                                               {0x1200, kAmd},
                                               {0x0302, kIntel},
                                               {0x0380, kIntel}}};

/// AMD's VGA controllers that are servers' consoles: Rage XL, ES1000 (two of them).
constexpr std::array<std::uint16_t, 3> kAmdConsoles = {0x4752, 0x515e, 0x5969};

std::string info_of(const HwObject& object, std::string_view key) {
  for (const auto& [name, value] : object.infos) {
    if (name == key) return value;
  }
  return {};
}

/// A whole number up to 65,535 among the infos, 0 where there is none.
int number_of(const HwObject& object, std::string_view key) {
  const std::string text = info_of(object, key);
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number >= 0 && number < 65536 ? number : 0;
}

/// hwloc's names of architectures are those of uname; ours are NCCL's.
std::string architecture(const std::string& name) {
  if (name == "aarch64") return "arm64";
  return name.starts_with("ppc64") ? "ppc64" : name;
}

/// The name that people use: the driver's if an inner object has it, else the one from the list of PCI names.
std::string gpu_name(const HwObject& pci) {
  for (const HwObject& inner : pci.children) {
    if (const std::string model = info_of(inner, "GPUModel"); !model.empty()) return model;
  }
  const std::string listed = info_of(pci, "PCIDevice");
  return pci.name.empty() ? listed : pci.name;
}

class GraphMaker {
 public:
  explicit GraphMaker(const HwObject& root) : architecture_(architecture(info_of(root, "Architecture"))) {
    index_numa_nodes(root);
    Node machine;
    machine.name = info_of(root, "HostName");
    machine.cpus = root.cpus;
    const int index = graph_.add(std::move(machine));
    for (const HwObject& child : root.children) walk(child, index, -1, root.nodes);
  }

  Graph take() {
    place_numa_nodes();
    for (const HwObject* host_bridge : host_bridges_) add_host_bridge(*host_bridge);
    find_numa_of_cores();
    number_devices(graph_);
    return std::move(graph_);
  }

 private:
  /// The CPU side. `package` is the node index of the package around, -1 outside any.
  void walk(const HwObject& object, int parent, int package, const std::vector<int>& near) {
    const std::vector<int>& nodes = object.nodes.empty() ? near : object.nodes;
    switch (object.kind) {
      case ObjectKind::package:
        package = parent = add_place(object, NodeKind::package, parent);
        break;
      case ObjectKind::numa:
        numa_parent_[object.os_index] = parent;
        break;
      case ObjectKind::core:
        graph_.cores.push_back({object.os_index, package < 0 ? 0 : graph_.nodes[at(package)].id, -1, object.cpus});
        break;
      case ObjectKind::cache:
        graph_.caches.push_back({object.cache_level, object.cache_kind, object.bytes, object.cpus});
        break;
      case ObjectKind::host_bridge:
      case ObjectKind::bridge:
      case ObjectKind::pci:
        host_bridges_.push_back(&object);
        near_[&object] = {parent, &nodes};
        return;
      default:
        break;
    }
    for (const HwObject& child : object.children) walk(child, parent, package, nodes);
  }

  int add_place(const HwObject& object, NodeKind kind, int parent) {
    Node node;
    node.kind = kind;
    node.id = object.os_index;
    node.parent = parent;
    node.name = kind == NodeKind::package ? info_of(object, "CPUModel") : object.name;
    if (kind == NodeKind::package) {
      node.cpu = {architecture_, info_of(object, "CPUVendor"), number_of(object, "CPUFamilyNumber"),
                  number_of(object, "CPUModelNumber")};
    }
    node.cpus = object.cpus;
    node.memory_bytes = kind == NodeKind::numa ? object.bytes : 0;
    return graph_.add(std::move(node));
  }

  void index_numa_nodes(const HwObject& object) {
    if (object.kind == ObjectKind::numa) numa_[object.os_index] = &object;
    for (const HwObject& child : object.children) index_numa_nodes(child);
  }

  /// Which of several places a CPU is in; of places that overlap the last.
  class PlaceOfCpu {
   public:
    void add(const std::vector<int>& cpus, int place) {
      for (const int cpu : cpus) {
        if (place_.size() <= at(cpu)) place_.resize(at(cpu) + 1, -1);
        place_[at(cpu)] = place;
      }
    }
    /// The place that all of these CPUs are in, -1 where there is none.
    int around(const std::vector<int>& cpus) const {
      const int place = cpus.empty() || at(cpus[0]) >= place_.size() ? -1 : place_[at(cpus[0])];
      const bool all = std::all_of(cpus.begin(), cpus.end(),
                                   [&](int cpu) { return at(cpu) < place_.size() && place_[at(cpu)] == place; });
      return all ? place : -1;
    }

   private:
    std::vector<int> place_;
  };

  /// In hwloc NUMA nodes hang beside the tree, or around packages (version 1): ours hang below what they belong to.
  void place_numa_nodes() {
    PlaceOfCpu packages;
    for (const int package : graph_.of(NodeKind::package)) packages.add(graph_.nodes[at(package)].cpus, package);
    for (const auto& [id, object] : numa_) {
      const int package = packages.around(object->cpus);
      numa_index_[id] = add_place(*object, NodeKind::numa, std::max(package < 0 ? numa_parent_[id] : package, 0));
    }
  }

  static bool leads_to_device(const HwObject& object) {
    if (object.kind == ObjectKind::pci) {
      return is_gpu(object.pci_class, object.vendor, object.device) || is_network(object.pci_class) ||
             switches_nvlinks(object) || has_network(object);
    }
    return std::any_of(object.children.begin(), object.children.end(), leads_to_device);
  }

  /// hwloc knows some switches by NVML alone, which tells no class.
  static bool switches_nvlinks(const HwObject& pci) {
    return is_nv_switch(pci.pci_class, pci.vendor) || pci.subtype == "NVSwitch";
  }

  static bool has_network(const HwObject& pci) {
    return std::any_of(pci.children.begin(), pci.children.end(),
                       [](const HwObject& o) { return o.kind == ObjectKind::network || o.kind == ObjectKind::verbs; });
  }

  /// An I/O object right below the CPU side. It is near one NUMA node, or all of a package's or the machine's.
  void add_host_bridge(const HwObject& object) {
    if (!leads_to_device(object)) return;
    const auto& [parent, nodes] = near_[&object];
    const bool one = nodes->size() == 1 && numa_index_.contains(nodes->front());
    const int above = one ? numa_index_[nodes->front()] : numa_index_.size() == 1 ? numa_index_.begin()->second : parent;
    add_io(object, above);
  }

  void add_io(const HwObject& object, int parent) {
    if (!leads_to_device(object)) return;
    Node node;
    node.parent = parent;
    node.pci = object.pci;
    node.vendor = object.vendor;
    node.device = object.device;
    node.pci_class = object.pci_class;
    node.uplink_gbytes = object.link_gbytes;
    node.name = object.name;
    if (object.kind == ObjectKind::host_bridge) {
      node.kind = NodeKind::host_bridge;
    } else if (object.kind == ObjectKind::bridge) {
      node.kind = NodeKind::bridge;
    } else if (is_gpu(object.pci_class, object.vendor, object.device)) {
      node.kind = NodeKind::gpu;
      node.name = gpu_name(object);
      node.sm = sm_of_device(object.vendor, object.device);
    } else if (switches_nvlinks(object)) {
      node.kind = NodeKind::nv_switch;
    } else {
      node.kind = NodeKind::nic;
      describe_nic(object, node);
    }
    const bool is_bridge = node.kind == NodeKind::bridge || node.kind == NodeKind::host_bridge;
    const int index = graph_.add(std::move(node));
    if (!is_bridge) return;
    for (const HwObject& child : object.children) add_io(child, index);
  }

  static void describe_nic(const HwObject& pci, Node& node) {
    std::string verbs_name;
    for (const HwObject& inner : pci.children) {
      if (inner.kind == ObjectKind::network) node.nic.interfaces.push_back(inner.name);
      if (inner.kind == ObjectKind::verbs) {
        verbs_name = inner.name;
        node.nic.verbs = true;
      }
    }
    node.nic.ports = std::max(1, static_cast<int>(node.nic.interfaces.size()));
    if (!verbs_name.empty()) {
      node.name = verbs_name;
    } else if (!node.nic.interfaces.empty()) {
      node.name = node.nic.interfaces.front();
    }
  }

  void find_numa_of_cores() {
    PlaceOfCpu numa_nodes;
    for (const auto& [id, object] : numa_) numa_nodes.add(object->cpus, id);
    for (Core& core : graph_.cores) {
      if (!core.cpus.empty()) core.numa = numa_nodes.around({core.cpus.front()});
    }
  }

  struct Near {
    int parent = 0;
    const std::vector<int>* nodes = nullptr;  // of the object tree
  };
  std::string architecture_;
  Graph graph_;
  std::map<int, const HwObject*> numa_;
  std::map<int, int> numa_parent_;
  std::map<int, int> numa_index_;
  std::vector<const HwObject*> host_bridges_;
  std::map<const HwObject*, Near> near_;
};

}  // namespace

Result<Graph> graph_of(const HwObject& root) {
  if (root.kind != ObjectKind::machine) {
    return Status(TUTTI_INVALID_ARGUMENT, "the topology's outermost object is no machine",
                  "Give a topology that lstopo wrote");
  }
  return GraphMaker(root).take();
}

bool is_gpu(std::uint32_t pci_class, std::uint16_t vendor, std::uint16_t device) {
  const bool console = vendor == kAmd && std::find(kAmdConsoles.begin(), kAmdConsoles.end(), device) != kAmdConsoles.end();
  if (console) return false;
  return std::any_of(kGpuRules.begin(), kGpuRules.end(),
                     [&](const GpuRule& rule) { return rule.pci_class == pci_class && rule.vendor == vendor; });
}

bool is_nv_switch(std::uint32_t pci_class, std::uint16_t vendor) { return pci_class == 0x0680 && vendor == kNvidia; }

bool is_network(std::uint32_t pci_class) { return pci_class >> 8 == 0x02; }

void number_devices(Graph& graph) {
  for (const NodeKind kind :
       {NodeKind::gpu, NodeKind::nic, NodeKind::nv_switch, NodeKind::host_bridge, NodeKind::bridge, NodeKind::pci}) {
    std::vector<int> found = graph.of(kind);
    std::sort(found.begin(), found.end(), [&](int a, int b) {
      const Node& left = graph.nodes[at(a)];
      const Node& right = graph.nodes[at(b)];
      if (left.pci.empty() != right.pci.empty()) return right.pci.empty();
      return std::tie(left.pci, left.name, a) < std::tie(right.pci, right.name, b);
    });
    for (std::size_t i = 0; i < found.size(); ++i) graph.nodes[at(found[i])].id = static_cast<int>(i);
  }
}

}  // namespace tutti
