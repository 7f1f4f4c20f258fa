// Writing NCCL's XML: nccl_xml.h.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "topology/index.h"
#include "topology/nccl_xml.h"
#include "topology/rates.h"
#include "topology/xml.h"

namespace tutti {
namespace {

/// "000000ff,ffff0000", the most significant word first.
std::string mask_text(const std::vector<int>& cpus) {
  std::vector<std::uint32_t> words(cpus.empty() ? 1 : at(cpus.back()) / 32 + 1);
  for (const int cpu : cpus) words[at(cpu) / 32] |= 1u << (cpu % 32);
  std::reverse(words.begin(), words.end());
  return fmt::format("{:08x}", fmt::join(words, ","));
}

std::string hex(std::uint64_t value, int digits) { return fmt::format("0x{:0{}x}", value, digits); }

void set(pugi::xml_node element, const char* name, const std::string& value) {
  element.append_attribute(name).set_value(value.c_str());
}
void set(pugi::xml_node element, const char* name, int value) { set(element, name, std::to_string(value)); }

class Writer {
 public:
  explicit Writer(const Graph& graph) : graph_(graph), children_(graph.nodes.size()) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      if (graph.nodes[i].parent >= 0) children_[at(graph.nodes[i].parent)].push_back(static_cast<int>(i));
    }
  }

  std::string text() {
    system_ = document_.append_child("system");
    set(system_, "version", 1);
    write_places(0);
    std::ostringstream out;
    document_.save(out, "  ", pugi::format_indent | pugi::format_no_declaration);
    return out.str();
  }

 private:
  /// The bridges since the last element that was written, which all have one child on the way.
  struct Way {
    int bridges = 0;
    double gbytes = 0;        ///< of the narrowest of them, 0: unknown
    std::string host_bridge;  ///< that the outermost is behind; empty further inside
  };

  const Node& node(int index) const { return graph_.nodes[at(index)]; }

  static double narrower(double a, double b) { return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b); }

  bool leads_to_device(int index) const {
    const NodeKind kind = node(index).kind;
    if (kind == NodeKind::gpu || kind == NodeKind::nic || kind == NodeKind::pci) return true;
    return std::any_of(children_[at(index)].begin(), children_[at(index)].end(), [&](int c) { return leads_to_device(c); });
  }

  /// Packages and NUMA nodes; each host bridge that belongs to none gets a cpu of its own, so that what is behind two of
  /// them stays as far apart as it is.
  void write_places(int place) {
    for (const int child : children_[at(place)]) {
      const Node& inner = node(child);
      if (inner.kind == NodeKind::package) {
        write_places(child);
      } else if (inner.kind == NodeKind::numa) {
        const pugi::xml_node cpu = add_cpu(child);
        for (const int device : children_[at(child)]) write_io(cpu, device, Way());
      } else if (leads_to_device(child)) {
        write_io(add_cpu(place), child, Way());
      }
    }
  }

  /// The element of a NUMA node, or of a package or machine of which nobody knows the node.
  pugi::xml_node add_cpu(int place) {
    const int package = graph_.enclosing(place, NodeKind::package);
    const Node& from = node(place);
    const CpuModel& model = from.cpu.arch.empty() && package >= 0 ? node(package).cpu : from.cpu;
    pugi::xml_node cpu = system_.append_child("cpu");
    const auto is_number = [](int id) { return id >= 0 && id < 65536; };
    set(cpu, "numaid", from.kind == NodeKind::numa && is_number(from.id) ? from.id : -1);
    set(cpu, "affinity", mask_text(from.cpus));
    if (!model.arch.empty()) {
      set(cpu, "arch", model.arch);
      set(cpu, "vendor", model.vendor);
      set(cpu, "familyid", model.family);
      set(cpu, "modelid", model.model);
    }
    if (package >= 0 && is_number(node(package).id)) set(cpu, "package", node(package).id);
    return cpu;
  }

  void write_io(pugi::xml_node above, int index, Way way) {
    const Node& from = node(index);
    if (from.kind == NodeKind::host_bridge) {
      way.host_bridge = from.name.empty() ? fmt::format("pci{}", from.id) : from.name;
      for (const int child : children_[at(index)]) write_io(above, child, way);
    } else if (from.kind == NodeKind::bridge) {
      write_bridge(above, index, way);
    } else if (from.kind == NodeKind::nic) {
      write_nic(above, from, way);
    } else if (from.kind == NodeKind::gpu) {
      write_gpu(add_pci(above, from, way), index);
    } else if (from.kind == NodeKind::pci) {
      add_pci(above, from, way);
    }
  }

  /// A switch is one element with NCCL, and two bridges deep with the kernel: the root port is none, the upward port is the
  /// switch, its downward ports are none. A root port is one all the same where several ways meet at it.
  void write_bridge(pugi::xml_node above, int index, Way way) {
    const Node& from = node(index);
    if (!leads_to_device(index)) return;
    const auto ways = std::count_if(children_[at(index)].begin(), children_[at(index)].end(),
                                    [&](int child) { return leads_to_device(child); });
    const bool outermost = std::string_view(above.name()) == "cpu";
    const bool is_element = from.whole_switch || way.bridges % 2 == 1 || (outermost && ways > 1);
    if (is_element) {
      above = add_pci(above, from, way);
      way = Way();
    } else {
      ++way.bridges;
      way.gbytes = narrower(way.gbytes, from.uplink_gbytes);
    }
    for (const int child : children_[at(index)]) write_io(above, child, way);
  }

  static pugi::xml_node add_pci(pugi::xml_node above, const Node& from, const Way& way) {
    pugi::xml_node pci = above.append_child("pci");
    set(pci, "busid", from.pci);
    const std::uint32_t bridge_class = 0x0604;
    const std::uint32_t known_class = from.kind == NodeKind::bridge ? bridge_class : from.pci_class;
    if (known_class != 0) set(pci, "class", hex(std::uint64_t{known_class} << 8, 6));
    if (from.vendor != 0) {
      set(pci, "vendor", hex(from.vendor, 4));
      set(pci, "device", hex(from.device, 4));
    }
    const double gbytes = narrower(from.uplink_gbytes, way.gbytes);
    const PcieLink link = pcie_link(gbytes);
    set(pci, "link_speed", link.speed);
    set(pci, "link_width", link.width);
    if (gbytes > 0 && link.width == 0) set(pci, "gbytes", fmt::format("{}", gbytes));
    if (!way.host_bridge.empty()) set(pci, "hostbridge", way.host_bridge);
    return pci;
  }

  /// NICs that are functions of one device share its elements, as NCCL has it. One of which nothing is known but its place
  /// is left for NCCL to look at.
  void write_nic(pugi::xml_node above, const Node& from, const Way& way) {
    if (from.pci.empty()) return add_net(nic_in(above), from, std::string());
    if (from.name.empty() && from.nic.speed_gbps == 0) {
      add_pci(above, from, way).append_child("nic");
      return;
    }
    const std::string device = from.pci.substr(0, from.pci.rfind('.'));
    pugi::xml_node pci;
    for (const pugi::xml_node& known : above.children("pci")) {
      if (known.child("nic").child("net") && std::string_view(known.attribute("busid").value()).starts_with(device))
        pci = known;
    }
    if (!pci) pci = add_pci(above, from, way);
    const std::string own = from.pci == pci.attribute("busid").value() ? std::string() : from.pci;
    add_net(nic_in(pci), from, own);
  }

  static pugi::xml_node nic_in(pugi::xml_node above) {
    const pugi::xml_node known = above.child("nic");
    return known ? known : above.append_child("nic");
  }

  static void add_net(pugi::xml_node nic, const Node& from, const std::string& own_address) {
    pugi::xml_node net = nic.append_child("net");
    set(net, "name", from.name);
    set(net, "dev", from.id);
    set(net, "speed", static_cast<int>(from.nic.speed_gbps * 1000 + .5));
    set(net, "port", from.nic.verbs ? std::max(1, from.nic.port) : 0);
    set(net, "guid", hex(from.nic.guid, 1));
    set(net, "gdr", from.nic.gdr ? 1 : 0);
    if (!own_address.empty()) set(net, "busid", own_address);
  }

  void write_gpu(pugi::xml_node pci, int index) {
    const Node& from = node(index);
    pugi::xml_node gpu = pci.append_child("gpu");
    set(gpu, "dev", from.id);
    if (from.sm > 0) set(gpu, "sm", from.sm);
    if (!from.gcn.empty()) {
      set(gpu, "sm", from.compute_units);
      set(gpu, "gcn", from.gcn);
    }
    write_links(gpu, index);
  }

  /// By address, whatever order the graph has them in.
  void write_links(pugi::xml_node gpu, int index) {
    std::multimap<std::string, const GraphLink*> links;
    for (const GraphLink& link : graph_.links) {
      if (link.kind == LinkKind::network || (link.a != index && link.b != index)) continue;
      const Node& other = node(link.a == index ? link.b : link.a);
      links.emplace(other.kind == NodeKind::numa ? "ffff:ff:ff.f" : other.pci, &link);
    }
    for (const auto& [target, link] : links) {
      pugi::xml_node element = gpu.append_child(link->kind == LinkKind::nvlink ? "nvlink" : "xgmi");
      set(element, "target", target);
      set(element, "count", link->count);
      set(element, "tclass", hex(link_class(node(link->a == index ? link->b : link->a)), 6));
    }
  }

  static std::uint64_t link_class(const Node& other) {
    if (other.kind == NodeKind::numa) return 0x068001;
    if (other.kind == NodeKind::nv_switch) return 0x068000;
    return other.pci_class == 0 ? 0x030200 : std::uint64_t{other.pci_class} << 8;
  }

  const Graph& graph_;
  std::vector<std::vector<int>> children_;
  pugi::xml_document document_;
  pugi::xml_node system_;
};

}  // namespace

Result<std::string> write_nccl_xml(const Graph& graph) {
  int machines = 0;
  std::set<std::string> addresses;
  for (const Node& node : graph.nodes) {
    machines += node.parent < 0 ? 1 : 0;
    if (node.kind != NodeKind::gpu) continue;
    const bool is_new = addresses.insert(node.pci).second;
    if (node.pci.empty() || !is_new) {
      return Status(TUTTI_INVALID_ARGUMENT, fmt::format("{} has {} PCI address, by which NCCL's XML knows a GPU",
                                                        node_label(node), node.pci.empty() ? "no" : "another GPU's"));
    }
  }
  if (machines != 1) {
    return Status(TUTTI_INVALID_ARGUMENT, fmt::format("the graph is of {} machines, and NCCL's XML is of one", machines));
  }
  return Writer(graph).text();
}

}  // namespace tutti
