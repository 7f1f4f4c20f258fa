#include "topology/machine_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <tuple>

#include "topology/index.h"
#include "topology/rates.h"

namespace tutti {
namespace {

// ---- Rules, as data --------------------------------------------------------------------------------------------------

constexpr double kGiga = 1e9;

/// GB/s one way of a PCIe link of which nothing is known: NCCL takes it for 16 lanes of the third generation, 60 * 100
/// Mbit/s each (kvDictPciGen in src/graph/topo.cc).
constexpr double kUnknownPcie = 12;
/// GB/s one way of a NIC of which nothing is known, not even its slot: 10 Gbit/s, as in NCCL (ncclTopoAddNet).
constexpr double kUnknownNic = 1.25;
/// Seconds: what NCCL's model has for a hop of a tree by the quickest protocol (hwLat in src/graph/tuning.cc: .6 us NVLink,
/// 1 us PCIe, 5 us network), shared out over the links that make a hop.
constexpr double kNvlinkLatency = .6e-6;
constexpr double kSwitchLatency = .3e-6;
constexpr double kPcieLatency = .25e-6;
constexpr double kPortLatency = 2.5e-6;

/// Ways from a GPU to a NIC that are as good as each other where another is missing: NICs behind the GPU's own switches
/// come first, since they need not pass the host bridge.
int nearness(PathType type) { return static_cast<int>(type == PathType::pix ? PathType::pxb : type); }

bool has_pcie_link(NodeKind kind) {
  return kind != NodeKind::machine && kind != NodeKind::package && kind != NodeKind::numa && kind != NodeKind::host_bridge;
}

}  // namespace

/// Makes the links of a graph that chosen devices use, and what finds ways over them.
class MachineNetworkMaker {
 public:
  explicit MachineNetworkMaker(const Graph& graph)
      : graph_(graph), finder_(graph), several_(graph.of(NodeKind::machine).size() > 1), nics_(graph.of(NodeKind::nic)) {}

  Result<MachineNetwork> make(const std::vector<int>& devices) {
    if (Status status = check(devices); !status.ok()) return status;
    network_.edges_.resize(graph_.nodes.size());
    for (const Node& node : graph_.nodes) network_.inside_pcie_.push_back(has_pcie_link(node.kind));
    find_widths();
    find_fabrics();
    find_switch_links();
    for (const int device : devices) add_end(device);
    add_bundles();
    for (MachineNetwork::End& end : network_.ends_) add_switch_links(end);
    for (const MachineNetwork::End& end : network_.ends_) add_edges(end.chain);
    if (network_.machines_ > 1) {
      if (Status status = add_ports(); !status.ok()) return status;
    }
    add_between_cpus();
    if (network_.machines_ > 1) add_nic_ways();
    return std::move(network_);
  }

 private:
  Status check(const std::vector<int>& devices) const {
    std::set<int> seen;
    for (const int device : devices) {
      const bool inside = device >= 0 && device < static_cast<int>(graph_.nodes.size());
      const NodeKind kind = inside ? graph_.nodes[at(device)].kind : NodeKind::machine;
      if (kind != NodeKind::gpu && kind != NodeKind::nic) {
        return Status(TUTTI_INVALID_ARGUMENT, fmt::format("node {} of the graph is no GPU and no NIC", device),
                      "Give indices that Graph::of returned");
      }
      if (!seen.insert(device).second) {
        return Status(TUTTI_INVALID_ARGUMENT, fmt::format("{} is given twice", node_label(graph_.nodes[at(device)])),
                      "Give each device once");
      }
    }
    return Status();
  }

  std::uint32_t add_link(std::string name, double gbytes, double latency, bool assumed = false) {
    network_.links_.push_back({std::move(name), gbytes * kGiga, latency, assumed});
    return static_cast<std::uint32_t>(network_.links_.size()) - 1;
  }

  /// "gpu0", and "machine1/gpu0" where there are several machines.
  std::string label(int node) const {
    const std::string own = node_label(graph_.nodes[at(node)]);
    const int machine = graph_.enclosing(node, NodeKind::machine);
    return several_ && machine != node && machine >= 0 ? node_label(graph_.nodes[at(machine)]) + '/' + own : own;
  }

  /// GB/s of every node's PCIe link upwards, guesses included.
  void find_widths() {
    widths_.resize(graph_.nodes.size());
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) widths_[i] = graph_.nodes[i].uplink_gbytes;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (graph_.nodes[i].uplink_gbytes <= 0) continue;
      const double width = graph_.nodes[i].uplink_gbytes;
      for (int n = graph_.nodes[i].parent; n >= 0 && has_pcie_link(graph_.nodes[at(n)].kind);
           n = graph_.nodes[at(n)].parent) {
        if (graph_.nodes[at(n)].uplink_gbytes <= 0) widths_[at(n)] = std::max(widths_[at(n)], width);
      }
    }
  }

  double width(int node) const {
    if (widths_[at(node)] > 0) return widths_[at(node)];
    const int parent = graph_.nodes[at(node)].parent;
    const bool bridged = parent >= 0 && has_pcie_link(graph_.nodes[at(parent)].kind);
    return bridged ? width(parent) : kUnknownPcie;
  }

  /// NVSwitches of a machine are one fabric, and so are those of several machines that NVLinks join.
  void find_fabrics() {
    fabric_.assign(graph_.nodes.size(), -1);
    for (const int nv_switch : graph_.of(NodeKind::nv_switch)) {
      fabric_[at(nv_switch)] = std::max(0, graph_.enclosing(nv_switch, NodeKind::machine));
    }
    bool changed = true;
    while (changed) {
      changed = false;
      for (const GraphLink& link : graph_.links) {
        if (link.kind == LinkKind::nvlink) changed = join_fabrics(link.a, link.b) || changed;
      }
    }
  }

  /// A GPU takes on the fabric of its switch, two switches that of the lower number. Whether anything changed.
  bool join_fabrics(int a, int b) {
    if (fabric_[at(a)] == fabric_[at(b)]) return false;
    const bool switch_a = graph_.nodes[at(a)].kind == NodeKind::nv_switch;
    const bool switch_b = graph_.nodes[at(b)].kind == NodeKind::nv_switch;
    if (!switch_a && !switch_b) return false;
    const int high = std::max(fabric_[at(a)], fabric_[at(b)]);
    const int low = std::min(fabric_[at(a)], fabric_[at(b)]);
    if (low < 0) {
      (fabric_[at(a)] < 0 ? fabric_[at(a)] : fabric_[at(b)]) = high;
    } else {
      std::replace(fabric_.begin(), fabric_.end(), high, low);
    }
    return true;
  }

  void add_end(int device) {
    MachineNetwork::End end;
    end.device = device;
    end.label = label(device);
    end.chain = containers(graph_, device);
    const auto [machine, added] = machine_.emplace(end.chain.back(), network_.machines_);
    if (added) ++network_.machines_;
    end.machine = machine->second;
    network_.ends_.push_back(std::move(end));
  }

  double bandwidth(const GraphLink& link) const {
    if (link.gbytes > 0) return link.gbytes;
    const Node& gpu = graph_.nodes[at(graph_.nodes[at(link.a)].kind == NodeKind::gpu ? link.a : link.b)];
    return std::max(1, link.count) * (link.kind == LinkKind::nvlink ? nvlink_gbytes(gpu.sm) : xgmi_gbytes(gpu.gcn));
  }

  /// Links between two endpoints; NVLinks where there are links of both kinds, as in path_between.
  void add_bundles() {
    std::vector<int> end_of(graph_.nodes.size(), -1);
    for (std::size_t e = 0; e < network_.ends_.size(); ++e) end_of[at(network_.ends_[e].device)] = static_cast<int>(e);
    using Told = std::tuple<int, int, LinkKind, const GraphLink*>;
    std::vector<Told> told;
    for (const GraphLink& link : graph_.links) {
      if (link.kind == LinkKind::network || end_of[at(link.a)] < 0 || end_of[at(link.b)] < 0) continue;
      told.emplace_back(link.a, link.b, link.kind, &link);
      told.emplace_back(link.b, link.a, link.kind, &link);
    }
    std::sort(told.begin(), told.end());  // by the last, too: as the graph has them
    for (std::size_t i = 0; i < told.size();) {
      const auto [a, b, kind, first] = told[i];
      double gbytes = 0;
      double latency = 0;
      bool assumed = false;
      for (; i < told.size() && std::get<0>(told[i]) == a && std::get<1>(told[i]) == b; ++i) {
        if (std::get<2>(told[i]) != kind) continue;
        gbytes += bandwidth(*std::get<3>(told[i]));
        latency = std::get<3>(told[i])->latency_s;
        assumed = assumed || std::get<3>(told[i])->gbytes <= 0;
      }
      MachineNetwork::End& from = network_.ends_[at(end_of[at(a)])];
      const std::string name =
          fmt::format("{} > {} ({})", from.label, label(b), kind == LinkKind::nvlink ? "NVLink" : "xGMI");
      from.bundles.emplace_back(b, add_link(name, gbytes, latency > 0 ? latency : kNvlinkLatency, assumed));
    }
  }

  void find_switch_links() {
    to_switches_.assign(graph_.nodes.size(), {});
    const auto add = [this](int device, int other, const GraphLink& link) {
      if (graph_.nodes[at(other)].kind != NodeKind::nv_switch) return;
      to_switches_[at(device)].first += bandwidth(link);
      to_switches_[at(device)].second = to_switches_[at(device)].second || link.gbytes <= 0;
    };
    for (const GraphLink& link : graph_.links) {
      if (link.kind != LinkKind::nvlink) continue;
      add(link.a, link.b, link);
      add(link.b, link.a, link);
    }
  }

  void add_switch_links(MachineNetwork::End& end) {
    if (graph_.nodes[at(end.device)].kind == NodeKind::nv_switch || fabric_[at(end.device)] < 0) return;
    const auto [gbytes, assumed] = to_switches_[at(end.device)];
    end.fabric = fabric_[at(end.device)];
    end.up = add_link(end.label + " > NVSwitch", gbytes, kSwitchLatency, assumed);
    end.down = add_link("NVSwitch > " + end.label, gbytes, kSwitchLatency, assumed);
  }

  /// The links of the tree from a device upwards, as far as they are not there yet.
  void add_edges(const std::vector<int>& chain) {
    for (std::size_t i = 0; i + 1 < chain.size(); ++i) {
      MachineNetwork::Edge& edge = network_.edges_[at(chain[i])];
      const bool pcie = network_.inside_pcie_[at(chain[i])];
      if (edge.up >= 0 || (!pcie && graph_.nodes[at(chain[i])].uplink_gbytes <= 0)) continue;
      // Ports of one card are nodes of their own, but share its link.
      const Node& node = graph_.nodes[at(chain[i])];
      if (node.kind == NodeKind::nic && !node.pci.empty()) {
        const auto [card, first] = cards_.emplace(std::pair(chain[i + 1], node.pci), chain[i]);
        if (!first) {
          edge = network_.edges_[at(card->second)];
          continue;
        }
      }
      const double gbytes = pcie ? width(chain[i]) : node.uplink_gbytes;
      const bool assumed = node.uplink_gbytes <= 0;
      const std::string own = label(chain[i]);
      const std::string above = node_label(graph_.nodes[at(chain[i + 1])]);
      edge.up = static_cast<int>(add_link(fmt::format("{} > {} (PCIe)", own, above), gbytes, kPcieLatency, assumed));
      edge.down = static_cast<int>(add_link(fmt::format("{} < {} (PCIe)", own, above), gbytes, kPcieLatency, assumed));
    }
    if (chain.size() > 1) parts_[chain.back()].insert(chain[chain.size() - 2]);
  }

  /// Links between the parts right below a machine: packages, or NUMA nodes where the packages are unknown.
  void add_between_cpus() {
    for (const auto& [machine, parts] : parts_) {
      for (const int a : parts) {
        for (const int b : parts) {
          if (a == b) continue;
          const std::string name = fmt::format("{} > {}", label(a), node_label(graph_.nodes[at(b)]));
          const bool assumed = graph_.nodes[at(a)].cpu.arch.empty() && graph_.nodes[at(b)].cpu.arch.empty();
          network_.between_cpus_[{a, b}] = add_link(name, between_packages_gbytes(graph_, a, b), kPcieLatency, assumed);
        }
      }
    }
  }

  // ---- NICs

  struct Port {
    int node = 0;
    int rail = 0;
    std::vector<int> chain;
    std::uint32_t out = 0;
    std::uint32_t in = 0;
  };

  Status add_ports() {
    for (const auto& [machine, number] : machine_) {
      ports_[machine] = ports_of(machine);
      if (ports_[machine].empty()) {
        return Status(TUTTI_INVALID_ARGUMENT, fmt::format("{} has no NIC to reach the other machines by", label(machine)),
                      "Give devices of one machine, or a graph with its NICs");
      }
    }
    return Status();
  }

  std::vector<Port> ports_of(int machine) {
    std::vector<int> nics;
    bool verbs = false;
    bool interfaces = false;
    for (const int nic : nics_) {
      if (containers(graph_, nic).back() != machine) continue;
      nics.push_back(nic);
      verbs = verbs || graph_.nodes[at(nic)].nic.verbs;
      interfaces = interfaces || !graph_.nodes[at(nic)].nic.interfaces.empty();
    }
    std::vector<Port> ports;
    for (const int nic : nics) {
      const NicFacts& facts = graph_.nodes[at(nic)].nic;
      if (verbs ? !facts.verbs : interfaces && facts.interfaces.empty()) continue;
      Port port{nic, static_cast<int>(ports.size()), containers(graph_, nic), 0, 0};
      add_edges(port.chain);
      const double gbytes = port_gbytes(nic);
      const bool assumed = graph_.nodes[at(nic)].nic.speed_gbps <= 0;
      port.out = add_link(label(nic) + " > network", gbytes, kPortLatency, assumed);
      port.in = add_link("network > " + label(nic), gbytes, kPortLatency, assumed);
      ports.push_back(std::move(port));
    }
    return ports;
  }

  double port_gbytes(int nic) const {
    const Node& node = graph_.nodes[at(nic)];
    if (node.nic.speed_gbps > 0) return node.nic.speed_gbps / 8 * std::max(1, node.nic.ports);
    return node.uplink_gbytes > 0 ? node.uplink_gbytes : kUnknownNic;
  }

  void add_nic_ways() {
    std::map<std::pair<int, std::vector<int>>, std::size_t> turns;  // by machine and nearest NICs
    for (MachineNetwork::End& end : network_.ends_) {
      end.nics = ways_of(end, ports_.at(end.chain.back()));
      std::vector<int> names;
      for (const NicWay& way : end.nics) names.push_back(way.nic);
      take_turns(end.nics, turns[{end.machine, names}]++);
    }
  }

  std::vector<NicWay> ways_of(const MachineNetwork::End& end, const std::vector<Port>& ports) const {
    std::vector<std::pair<PathType, const Port*>> near;
    for (const Port& port : ports) near.emplace_back(finder_.between(end.device, port.node).type, &port);
    std::sort(near.begin(), near.end(), [](const auto& a, const auto& b) {
      return std::pair(a.first, a.second->rail) < std::pair(b.first, b.second->rail);
    });
    std::vector<NicWay> ways;
    for (const auto& [type, port] : near) {
      if (nearness(type) != nearness(near[0].first)) break;
      const bool direct = graph_.nodes[at(port->node)].nic.gdr || graph_.nodes[at(end.device)].kind == NodeKind::nic;
      NicWay way{port->node, port->rail, type, direct, {}, {port->in}};
      network_.tree_route(end.chain, port->chain, !direct, way.out);
      way.out.push_back(port->out);
      network_.tree_route(port->chain, end.chain, !direct, way.in);
      ways.push_back(std::move(way));
    }
    return ways;
  }

  /// Among the NICs that are nearest, every GPU begins with another one.
  static void take_turns(std::vector<NicWay>& nics, std::size_t turn) {
    const auto last = std::find_if(nics.begin(), nics.end(), [&](const NicWay& w) { return w.type != nics[0].type; });
    const auto equals = static_cast<std::size_t>(last - nics.begin());
    std::rotate(nics.begin(), nics.begin() + static_cast<std::ptrdiff_t>(turn % equals), last);
  }

  const Graph& graph_;
  const PathFinder finder_;
  const bool several_;
  const std::vector<int> nics_;
  MachineNetwork network_;
  std::vector<double> widths_;
  std::vector<int> fabric_;                           // by node
  std::vector<std::pair<double, bool>> to_switches_;  // GB/s of all NVLinks to switches, and if assumed, by node
  std::map<int, int> machine_;                        // number by node
  std::map<int, std::set<int>> parts_;                // by machine's node: the nodes right below it that devices are in
  std::map<std::pair<int, std::string>, int> cards_;  // first node by parent and PCI address
  std::map<int, std::vector<Port>> ports_;            // by machine's node
};

/// Appends the links of the way through the tree. through_host: past the host bridge even where a switch would join them.
void MachineNetwork::tree_route(const std::vector<int>& from, const std::vector<int>& to, bool through_host,
                                std::vector<std::uint32_t>& way) const {
  std::size_t up = from.size();
  std::size_t down = to.size();
  while (up > 0 && down > 0 && from[up - 1] == to[down - 1]) {
    --up;
    --down;
  }
  const bool machine_is_common = up + 1 == from.size() && down + 1 == to.size();
  while (through_host && up < from.size() && inside_pcie_[at(from[up])]) {
    ++up;
    ++down;
  }
  for (std::size_t i = 0; i < up; ++i) {
    if (const int link = edges_[at(from[i])].up; link >= 0) way.push_back(static_cast<std::uint32_t>(link));
  }
  if (machine_is_common && up > 0 && down > 0) way.push_back(between_cpus_.at({from[up - 1], to[down - 1]}));
  for (std::size_t i = down; i-- > 0;) {
    if (const int link = edges_[at(to[i])].down; link >= 0) way.push_back(static_cast<std::uint32_t>(link));
  }
}

std::optional<std::uint32_t> MachineNetwork::bundle(const End& from, int device) {
  const auto found = std::lower_bound(from.bundles.begin(), from.bundles.end(), std::pair(device, std::uint32_t{0}));
  return found != from.bundles.end() && found->first == device ? std::optional(found->second) : std::nullopt;
}

bool MachineNetwork::peers(int a, int b) const {
  const bool one_fabric = end(a).fabric >= 0 && end(a).fabric == end(b).fabric;
  return one_fabric || bundle(end(a), end(b).device);
}

void MachineNetwork::route(int a, int b, std::vector<std::uint32_t>& way) const {
  way.clear();
  if (a == b) return;
  const End& from = end(a);
  const End& to = end(b);
  if (const auto direct = bundle(from, to.device)) {
    way.push_back(*direct);
  } else if (peers(a, b)) {
    way = {from.up, to.down};
  } else if (from.machine == to.machine) {
    tree_route(from.chain, to.chain, false, way);
  } else {
    way = from.nics.front().out;
    way.insert(way.end(), to.nics.front().in.begin(), to.nics.front().in.end());
  }
}

Result<MachineNetwork> network_of(const Graph& graph, const std::vector<int>& devices) {
  return MachineNetworkMaker(graph).make(devices);
}

}  // namespace tutti
