#include "topology/graph.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "topology/index.h"
#include "topology/rates.h"

namespace tutti {
namespace {

// ---- Rules, as data --------------------------------------------------------------------------------------------------

/// What the nearest common container of two devices says of the way between them. After the legend of `nvidia-smi topo -m`;
/// bridges are told apart by their number, see tree_path.
struct ContainerRule {
  NodeKind container;
  PathType type;
};
constexpr std::array<ContainerRule, 6> kContainerRules = {{
    {NodeKind::bridge, PathType::pxb},        // several PCIe bridges, but no host bridge
    {NodeKind::host_bridge, PathType::phb},   // a PCIe host bridge
    {NodeKind::numa, PathType::node},         // between host bridges of one NUMA node
    {NodeKind::package, PathType::sys},       // between NUMA nodes of one package
    {NodeKind::machine, PathType::sys},       // between packages
    {NodeKind::nv_switch, PathType::nvlink},  // never a container of the tree
}};

constexpr std::array<const char*, 9> kPathNames = {"X", "NV", "XGMI", "PIX", "PXB", "PHB", "NODE", "SYS", "NET"};

// ---- Ways ------------------------------------------------------------------------------------------------------------

double narrower(double a, double b) { return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b); }

int bridges_between(const Graph& graph, const std::vector<int>& chain, std::size_t end) {
  int bridges = 0;
  for (std::size_t i = 1; i < end; ++i) bridges += graph.nodes[at(chain[i])].kind == NodeKind::bridge ? 1 : 0;
  return bridges;
}

PathType type_at(NodeKind container) {
  for (const ContainerRule& rule : kContainerRules) {
    if (rule.container == container) return rule.type;
  }
  return PathType::sys;
}

/// The way through the tree: up to the nearest common container, and down.
Path tree_path(const Graph& graph, int a, int b) {
  const std::vector<int> from = containers(graph, a);
  const std::vector<int> to = containers(graph, b);
  std::size_t up = from.size();
  std::size_t down = to.size();
  while (up > 0 && down > 0 && from[up - 1] == to[down - 1]) {
    --up;
    --down;
  }
  Path path{a, b, PathType::net, 0, 0, static_cast<int>(up + down)};
  if (up == from.size()) return path;  // of two machines
  const NodeKind container = graph.nodes[at(from[up])].kind;
  path.type = type_at(container);
  for (std::size_t i = 0; i < up; ++i) path.gbytes = narrower(path.gbytes, graph.nodes[at(from[i])].uplink_gbytes);
  for (std::size_t i = 0; i < down; ++i) path.gbytes = narrower(path.gbytes, graph.nodes[at(to[i])].uplink_gbytes);
  if (container == NodeKind::machine && up > 0 && down > 0) {
    path.gbytes = narrower(path.gbytes, between_packages_gbytes(graph, from[up - 1], to[down - 1]));
  }
  // A PCIe switch shows as one bridge upwards and one downwards for each port: devices at two ports of the same switch
  // have the upward one in common and a downward one each. Where a node stands for the whole switch, nothing is between.
  const int own_ports = graph.nodes[at(from[up])].whole_switch ? 0 : 1;
  const bool one_switch = bridges_between(graph, from, up) <= own_ports && bridges_between(graph, to, down) <= own_ports;
  if (container == NodeKind::bridge && one_switch) path.type = PathType::pix;
  return path;
}

}  // namespace

int Graph::add(Node node) {
  nodes.push_back(std::move(node));
  return static_cast<int>(nodes.size()) - 1;
}

std::vector<int> Graph::of(NodeKind kind) const {
  std::vector<int> found;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].kind == kind) found.push_back(static_cast<int>(i));
  }
  std::sort(found.begin(), found.end(),
            [&](int a, int b) { return std::pair(nodes[at(a)].id, a) < std::pair(nodes[at(b)].id, b); });
  return found;
}

int Graph::enclosing(int node, NodeKind kind) const {
  while (node >= 0 && nodes[at(node)].kind != kind) node = nodes[at(node)].parent;
  return node;
}

int Graph::numa_id(int node) const {
  const int numa = enclosing(node, NodeKind::numa);
  return numa < 0 ? -1 : nodes[at(numa)].id;
}

std::string Path::text() const {
  const std::string name = kPathNames[static_cast<std::size_t>(type)];
  return type == PathType::nvlink || type == PathType::xgmi ? name + std::to_string(links) : name;
}

double between_packages_gbytes(const Graph& graph, int a, int b) {
  const CpuModel& left = graph.nodes[at(a)].cpu;
  const CpuModel& right = graph.nodes[at(b)].cpu;
  if (left.arch.empty()) return between_packages_gbytes(right);
  if (right.arch.empty()) return between_packages_gbytes(left);
  return std::min(between_packages_gbytes(left), between_packages_gbytes(right));
}

PathFinder::PathFinder(const Graph& graph) : graph_(graph), to_switches_(graph.nodes.size()) {
  std::vector<Bundle> all;
  for (const GraphLink& link : graph.links) {
    for (const auto& [a, b] : {std::pair(link.a, link.b), std::pair(link.b, link.a)}) {
      all.push_back({a, b, link.kind, link.count, link.gbytes});
      if (link.kind != LinkKind::nvlink || graph.nodes[at(b)].kind != NodeKind::nv_switch) continue;
      to_switches_[at(a)].count += link.count;
      to_switches_[at(a)].gbytes += link.gbytes;
    }
  }
  const auto pair = [](const Bundle& bundle) { return std::tuple(bundle.a, bundle.b, bundle.kind); };
  std::sort(all.begin(), all.end(), [&](const Bundle& x, const Bundle& y) {
    return std::tuple(pair(x), x.gbytes) < std::tuple(pair(y), y.gbytes);  // sums of the same order both ways
  });
  for (const Bundle& link : all) {
    if (!bundles_.empty() && pair(bundles_.back()) == pair(link)) {
      bundles_.back().count += link.count;
      bundles_.back().gbytes += link.gbytes;
    } else {
      bundles_.push_back(link);
    }
  }
}

const PathFinder::Bundle* PathFinder::direct(LinkKind kind, int a, int b) const {
  const std::tuple wanted(a, b, kind);
  const auto pair = [](const Bundle& bundle) { return std::tuple(bundle.a, bundle.b, bundle.kind); };
  const auto found = std::lower_bound(bundles_.begin(), bundles_.end(), wanted,
                                      [&](const Bundle& bundle, const auto& key) { return pair(bundle) < key; });
  return found != bundles_.end() && pair(*found) == wanted && found->count > 0 ? &*found : nullptr;
}

Path PathFinder::between(int a, int b) const {
  if (a == b) return {a, b, PathType::self, 0, 0, 0};
  for (const LinkKind kind : {LinkKind::nvlink, LinkKind::xgmi}) {
    const PathType type = kind == LinkKind::nvlink ? PathType::nvlink : PathType::xgmi;
    if (const Bundle* links = direct(kind, a, b)) return {a, b, type, links->count, links->gbytes, 1};
  }
  const Bundle& from = to_switches_[at(a)];
  const Bundle& to = to_switches_[at(b)];
  if (from.count > 0 && to.count > 0) {
    return {a, b, PathType::nvlink, std::min(from.count, to.count), narrower(from.gbytes, to.gbytes), 2};
  }
  return tree_path(graph_, a, b);
}

Path path_between(const Graph& graph, int a, int b) { return PathFinder(graph).between(a, b); }

std::vector<Path> device_paths(const Graph& graph) {
  const PathFinder finder(graph);
  std::vector<Path> paths;
  const std::vector<int> gpus = graph.of(NodeKind::gpu);
  const std::vector<int> nics = graph.of(NodeKind::nic);
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    for (std::size_t j = i + 1; j < gpus.size(); ++j) paths.push_back(finder.between(gpus[i], gpus[j]));
    for (const int nic : nics) paths.push_back(finder.between(gpus[i], nic));
  }
  return paths;
}

std::string node_label(const Node& node) {
  static constexpr std::array<const char*, 9> names = {"machine",  "package", "numa", "host_bridge", "bridge",
                                                       "nvswitch", "gpu",     "nic",  "pci"};
  return names[static_cast<std::size_t>(node.kind)] + std::to_string(node.id);
}

std::vector<int> containers(const Graph& graph, int node) {
  std::vector<int> chain;
  for (int n = node; n >= 0; n = graph.nodes[at(n)].parent) chain.push_back(n);
  return chain;
}

}  // namespace tutti
