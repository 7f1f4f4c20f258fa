#include "topology/nccl_xml.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "src/base/text_file.h"
#include "topology/index.h"
#include "topology/objects.h"
#include "topology/rates.h"
#include "topology/reported_links.h"
#include "topology/xml.h"

namespace tutti {
namespace {

constexpr const char* kOtherNcclFile = "Give a file as NCCL_TOPO_DUMP_FILE makes it";
constexpr int kMostGpus = 1024;
constexpr int kMostNics = 4096;
constexpr std::size_t kMostSwitches = 4096;
constexpr int kMostLinksOfAPair = 1024;
constexpr std::uint32_t kBridgeClass = 0x0604;
constexpr std::uint32_t kSwitchClass = 0x0680;
/// What NVLinks of POWER's CPUs end at.
constexpr std::uint32_t kIbmBridgeClass = 0x068001;

/// What NVML and after it NCCL call a switch that a virtual machine does not show.
constexpr std::string_view kHiddenSwitch = "fffffff:ffff:ff";

std::string lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

class NcclReader {
 public:
  Result<Graph> read(const pugi::xml_node& system) {
    graph_.add(Node());
    for (const pugi::xml_node& cpu : system.children("cpu")) {
      if (Status status = read_cpu(cpu); !status.ok()) return status;
    }
    if (graph_.nodes.size() == 1) return refusal(system, "its <system> holds no cpu");
    gather_cpus();
    if (Status status = add_switches(); !status.ok()) return status;
    for (const Side& side : sides_) {
      if (Status status = read_links(side); !status.ok()) return status;
    }
    add_links();
    number_devices(graph_);
    number_by_dev(NodeKind::gpu);
    number_by_dev(NodeKind::nic);
    return std::move(graph_);
  }

 private:
  /// A GPU's element, which has its links.
  struct Side {
    pugi::xml_node element;
    int gpu;
  };

  static Status refusal(const pugi::xml_node& element, const std::string& why) {
    return xml::refusal(element, why, kOtherNcclFile);
  }

  static Status bad_value(const pugi::xml_node& element, const char* name) {
    return refusal(element, fmt::format("{}=\"{}\" is no value for it", name, element.attribute(name).value()));
  }

  /// A number in hexadecimal, with 0x before it or not.
  template <typename T>
  static bool optional_hex(const pugi::xml_node& from, const char* name, T& out) {
    std::string_view text = from.attribute(name).value();
    if (text.empty()) return true;
    if (text.starts_with("0x")) text.remove_prefix(2);
    return xml::number_in(text, out, 16);
  }

  /// A whole number within bounds; an attribute that is missing or empty leaves `out` as it is.
  static bool optional_int(const pugi::xml_node& from, const char* name, int least, int most, int& out) {
    if (from.attribute(name).value()[0] == '\0') return true;
    return xml::optional_number(from, name, out) && out >= least && out <= most;
  }

  Status read_cpu(const pugi::xml_node& from) {
    Node node;
    node.kind = NodeKind::numa;
    int package = -1;
    if (!from.attribute("numaid") || !optional_int(from, "numaid", -1, 65535, node.id)) return bad_value(from, "numaid");
    if (++numa_nodes_ > xml::kMostNumaNodes) return refusal(from, "more NUMA nodes than a machine has");
    if (!xml::parse_mask(from.attribute("affinity").value(), node.cpus)) return bad_value(from, "affinity");
    if ((listed_cpus_ += node.cpus.size()) > xml::kMostListedCpus) return refusal(from, "more CPUs than a machine has");
    if (!optional_int(from, "familyid", 0, 65535, node.cpu.family)) return bad_value(from, "familyid");
    if (!optional_int(from, "modelid", 0, 65535, node.cpu.model)) return bad_value(from, "modelid");
    if (!optional_int(from, "package", 0, 65535, package)) return bad_value(from, "package");
    node.cpu.arch = from.attribute("arch").value();
    node.cpu.vendor = from.attribute("vendor").value();
    node.parent = package < 0 ? 0 : package_of(package, node);
    const int index = graph_.add(std::move(node));
    for (const pugi::xml_node& child : from.children("pci")) {
      if (Status status = read_pci(child, place_of(child, index), 1); !status.ok()) return status;
    }
    for (const pugi::xml_node& child : from.children("nic")) {  // in no PCI slot, or nobody knows in which
      if (Status status = read_nets(child, Node(), index); !status.ok()) return status;
    }
    return Status();
  }

  int package_of(int id, const Node& numa) {
    const auto [known, is_new] = packages_.try_emplace(id, -1);
    if (is_new) {
      Node node;
      node.kind = NodeKind::package;
      node.id = id;
      node.parent = 0;
      node.cpu = numa.cpu;
      known->second = graph_.add(std::move(node));
    }
    return known->second;
  }

  /// The machine's and the packages' CPUs are those of their NUMA nodes, which files may give several times.
  void gather_cpus() {
    for (const int numa : graph_.of(NodeKind::numa)) {
      const std::vector<int>& own = graph_.nodes[at(numa)].cpus;
      for (int above = graph_.nodes[at(numa)].parent; above >= 0; above = graph_.nodes[at(above)].parent) {
        std::vector<int>& cpus = graph_.nodes[at(above)].cpus;
        cpus.insert(cpus.end(), own.begin(), own.end());
      }
    }
    sort_once_each(graph_.nodes[0].cpus);
    for (const auto& [id, package] : packages_) sort_once_each(graph_.nodes[at(package)].cpus);
  }

  /// What an outermost pci hangs from: the host bridge that we have written, the only one that there is, or the cpu.
  int place_of(const pugi::xml_node& pci, int cpu) {
    std::string name = pci.attribute("hostbridge").value();
    if (name.empty() && !has_one_host_bridge(graph_.nodes[at(cpu)].cpu)) return cpu;
    const auto [known, is_new] = host_bridges_.try_emplace({cpu, name}, -1);
    if (is_new) {
      Node node;
      node.kind = NodeKind::host_bridge;
      node.name = name;
      node.parent = cpu;
      known->second = graph_.add(std::move(node));
    }
    return known->second;
  }

  Status read_pci(const pugi::xml_node& from, int parent, int depth) {
    if (depth > xml::kDeepest) return refusal(from, "elements within elements deeper than a machine has");
    if (graph_.nodes.size() >= xml::kMostObjects) return refusal(from, "more elements than a machine has");
    Node node;
    if (Status status = read_function(from, node); !status.ok()) return status;
    node.parent = parent;
    node.kind = kind_of(from, node);
    if (node.kind == NodeKind::nic) return read_nets(from.child("nic"), node, parent);
    if (node.kind == NodeKind::gpu) return read_gpu(from, std::move(node));
    node.whole_switch = node.kind == NodeKind::bridge;
    const bool has_inside = node.whole_switch;
    const int index = graph_.add(std::move(node));
    if (graph_.nodes[at(index)].kind == NodeKind::nv_switch) switches_.try_emplace(graph_.nodes[at(index)].pci, index);
    if (!has_inside) return Status();
    for (const pugi::xml_node& child : from.children("pci")) {
      if (Status status = read_pci(child, index, depth + 1); !status.ok()) return status;
    }
    return Status();
  }

  static Status read_function(const pugi::xml_node& from, Node& node) {
    node.pci = lower(from.attribute("busid").value());
    if (!xml::is_pci_address(node.pci)) return bad_value(from, "busid");
    std::uint32_t whole_class = 0;
    if (!optional_hex(from, "class", whole_class) || whole_class > 0xffffff) return bad_value(from, "class");
    node.pci_class = whole_class >> 8;
    if (!optional_hex(from, "vendor", node.vendor)) return bad_value(from, "vendor");
    if (!optional_hex(from, "device", node.device)) return bad_value(from, "device");
    int width = 0;
    if (!optional_int(from, "link_width", 0, 255, width)) return bad_value(from, "link_width");
    node.uplink_gbytes = pcie_gbytes(from.attribute("link_speed").value(), width);
    if (const pugi::xml_attribute exact = from.attribute("gbytes")) {
      node.uplink_gbytes = exact.as_double(-1);
      if (!(node.uplink_gbytes >= 0 && node.uplink_gbytes < 1e6)) return bad_value(from, "gbytes");
    }
    return Status();
  }

  /// What is inside tells, else the class: 03 are displays, 12 are accelerators, 02 networks.
  static NodeKind kind_of(const pugi::xml_node& from, const Node& node) {
    if (from.child("gpu")) return NodeKind::gpu;
    if (from.child("nic")) return NodeKind::nic;
    if (from.child("pci") || node.pci_class == kBridgeClass) return NodeKind::bridge;
    if (node.pci_class >> 8 == 0x03 || node.pci_class == 0x1200) return NodeKind::gpu;
    if (is_network(node.pci_class)) return NodeKind::nic;
    return node.pci_class == kSwitchClass ? NodeKind::nv_switch : NodeKind::pci;
  }

  Status read_gpu(const pugi::xml_node& from, Node node) {
    const pugi::xml_node gpu = from.child("gpu");
    int dev = -1;
    int sm = 0;
    if (!optional_int(gpu, "dev", -1, 65535, dev)) return bad_value(gpu, "dev");
    if (!optional_int(gpu, "sm", 0, 65535, sm)) return bad_value(gpu, "sm");
    node.gcn = gpu.attribute("gcn").value();
    node.sm = !node.gcn.empty() ? 0 : sm > 0 ? sm : sm_of_device(node.vendor, node.device);
    node.compute_units = node.gcn.empty() ? 0 : sm;  // RCCL has the number of its compute units there
    const auto [known, is_new] = gpus_.try_emplace(node.pci, static_cast<int>(graph_.nodes.size()));
    if (!is_new) return refusal(from, fmt::format("there are two GPUs at {}", node.pci));
    if (static_cast<int>(gpus_.size()) > kMostGpus) return refusal(from, "more GPUs than a machine has");
    dev_[known->second] = dev;
    sides_.push_back({gpu, graph_.add(std::move(node))});
    return Status();
  }

  /// A NIC for each net, as each has a device of its own; one without a name where the file is a skeleton.
  Status read_nets(const pugi::xml_node& nic, const Node& function, int parent) {
    if (!nic.child("net")) {
      if (function.pci.empty()) return Status();
      return add_nic(nic, function, -1);
    }
    for (const pugi::xml_node& net : nic.children("net")) {
      Node node = function;
      node.kind = NodeKind::nic;
      node.parent = parent;
      node.name = net.attribute("name").value();
      if (const std::string own = lower(net.attribute("busid").value()); !own.empty()) {
        if (!xml::is_pci_address(own)) return bad_value(net, "busid");
        node.pci = own;
      }
      int dev = -1;
      if (Status status = read_net(net, node, dev); !status.ok()) return status;
      if (Status status = add_nic(net, std::move(node), dev); !status.ok()) return status;
    }
    return Status();
  }

  Status add_nic(const pugi::xml_node& from, Node node, int dev) {
    if (++nics_ > kMostNics) return refusal(from, "more NICs than a machine has");
    node.nic.ports = 1;
    dev_[graph_.add(std::move(node))] = dev;
    return Status();
  }

  static Status read_net(const pugi::xml_node& from, Node& node, int& dev) {
    int mbits = 0;
    int gdr = 0;
    if (!optional_int(from, "dev", -1, 65535, dev)) return bad_value(from, "dev");
    if (!optional_int(from, "speed", 0, 100'000'000, mbits)) return bad_value(from, "speed");
    if (!optional_int(from, "port", 0, 65535, node.nic.port)) return bad_value(from, "port");
    if (!optional_int(from, "gdr", 0, 255, gdr)) return bad_value(from, "gdr");
    if (!optional_hex(from, "guid", node.nic.guid)) return bad_value(from, "guid");
    node.nic.speed_gbps = mbits / 1000.;
    node.nic.gdr = gdr != 0;
    node.nic.verbs = node.nic.port > 0;  // NCCL's sockets have port 0, verbs count from 1
    if (!node.nic.verbs && !node.name.empty()) node.nic.interfaces = {node.name};
    return Status();
  }

  /// The NVSwitches that GPUs have links to; the files do not say where they are plugged in.
  Status add_switches() {
    for (const Side& side : sides_) {
      for (const pugi::xml_node& link : side.element.children("nvlink")) {
        std::uint32_t target_class = 0;
        const std::string target = lower(link.attribute("target").value());
        const bool is_switch = optional_hex(link, "tclass", target_class) && target_class >> 8 == kSwitchClass &&
                               target_class != kIbmBridgeClass && (xml::is_pci_address(target) || target == kHiddenSwitch);
        if (is_switch) switches_.try_emplace(target, -1);
        if (switches_.size() > kMostSwitches) return refusal(link, "more NVSwitches than a machine has");
      }
    }
    for (auto& [address, index] : switches_) {
      if (index >= 0) continue;  // among the PCI functions
      Node node;
      node.kind = NodeKind::nv_switch;
      node.parent = 0;
      node.pci = address;
      node.pci_class = kSwitchClass;
      index = graph_.add(std::move(node));
    }
    return Status();
  }

  /// The NVLinks and xGMI links as one GPU tells them.
  Status read_links(const Side& side) {
    for (const auto& [name, kind] : {std::pair{"nvlink", LinkKind::nvlink}, std::pair{"xgmi", LinkKind::xgmi}}) {
      for (const pugi::xml_node& link : side.element.children(name)) {
        int count = 1;
        std::uint32_t target_class = 0;
        const std::string target = lower(link.attribute("target").value());
        if (!xml::is_pci_address(target) && target != kHiddenSwitch) return bad_value(link, "target");
        if (!optional_int(link, "count", 1, kMostLinksOfAPair, count)) return bad_value(link, "count");
        if (!optional_hex(link, "tclass", target_class)) return bad_value(link, "tclass");
        const int other = end_of(target, target_class, side.gpu);
        if (other < 0 || other == side.gpu) continue;
        links_.report(kind, side.gpu, other, count);
      }
    }
    return Status();
  }

  int end_of(const std::string& target, std::uint32_t target_class, int gpu) {
    if (const auto known = gpus_.find(target); known != gpus_.end()) return known->second;
    if (target_class == kIbmBridgeClass) return graph_.enclosing(gpu, NodeKind::numa);
    const auto known = switches_.find(target);
    return known == switches_.end() ? -1 : known->second;
  }

  void add_links() {
    links_.add_to(graph_, [](const Node& gpu, LinkKind kind) {
      return kind == LinkKind::nvlink ? nvlink_gbytes(gpu.sm) : xgmi_gbytes(gpu.gcn);
    });
  }

  void number_by_dev(NodeKind kind) {
    const std::vector<int> found = graph_.of(kind);
    std::set<int> numbers;
    for (const int index : found) numbers.insert(dev_[index]);
    if (numbers.size() != found.size() || numbers.contains(-1)) return;
    for (const int index : found) graph_.nodes[at(index)].id = dev_[index];
  }

  Graph graph_;
  std::map<int, int> packages_;
  std::map<std::pair<int, std::string>, int> host_bridges_;
  std::map<std::string, int> gpus_;
  std::map<std::string, int> switches_;
  std::map<int, int> dev_;
  ReportedLinks links_;
  std::vector<Side> sides_;
  int nics_ = 0;
  int numa_nodes_ = 0;
  std::size_t listed_cpus_ = 0;
};

Result<Graph> graph_in(const pugi::xml_document& document) {
  const pugi::xml_node system = document.child("system");
  if (!system) {
    const bool hwlocs = document.child("topology");
    return Status(TUTTI_INVALID_ARGUMENT, hwlocs ? "it has hwloc's <topology> and no <system>" : "it has no <system>",
                  hwlocs ? "Give it by --hwloc-xml" : kOtherNcclFile);
  }
  const std::string_view version = system.attribute("version").value();
  if (version != "1" && version != "2") {
    return Status(TUTTI_INVALID_ARGUMENT, fmt::format("its version is \"{}\", and versions 1 and 2 are known", version));
  }
  return NcclReader().read(system);
}

}  // namespace

Result<Graph> parse_nccl_xml(std::string_view text) {
  pugi::xml_document document;
  if (Status status = xml::load(text, kOtherNcclFile, document); !status.ok()) return status;
  return graph_in(document);
}

Result<Graph> read_nccl_xml(const std::string& path) {
  const auto text = read_text_file(path);
  if (!text.ok()) return xml::of_file(path, text.status());
  auto graph = parse_nccl_xml(*text);
  if (!graph.ok()) return xml::of_file(path, graph.status());
  graph->source = path;
  return graph;
}

}  // namespace tutti
