#include "topology/render.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "src/base/plural.h"
#include "src/base/printable.h"
#include "src/tables/units.h"
#include "topology/index.h"
#include "topology/phrases.h"

namespace tutti {
namespace {

std::string nic_text(const Node& node) {
  std::vector<std::string> parts;
  const bool named_by_interface = node.nic.interfaces.size() == 1 && node.nic.interfaces.front() == node.name;
  if (!node.nic.interfaces.empty() && !named_by_interface)
    parts.push_back("interface " + phrases::joined(node.nic.interfaces));
  const bool by_interface = !node.nic.interfaces.empty() || node.nic.verbs;
  if (!by_interface && node.nic.speed_gbps == 0) parts.push_back("no interface here");
  parts.push_back(phrases::speed(node));
  if (node.nic.ports > 1) parts.push_back(fmt::format("{} ports", node.nic.ports));
  if (node.nic.verbs) parts.push_back(node.nic.gdr ? "verbs, GPU memory" : "verbs");
  return phrases::joined(parts);
}

std::string details(const Graph& graph, const Node& node) {
  std::vector<std::string> parts;
  if (!node.name.empty()) parts.push_back(node.name);
  if (!node.pci.empty() && node.pci != node.name) parts.push_back(node.pci);
  if (!node.cpus.empty()) parts.push_back("CPUs " + cpu_list_text(node.cpus));
  if (node.kind == NodeKind::package) {
    if (const int cores = phrases::cores_of(graph, node.id); cores > 0) parts.push_back(fmt::format("{} cores", cores));
    if (const std::string caches = phrases::caches(graph, node.cpus); !caches.empty()) parts.push_back(caches);
  }
  if (node.memory_bytes > 0) parts.push_back(bytes_text(node.memory_bytes));
  if (node.uplink_gbytes > 0) parts.push_back(fmt::format("PCIe {:.1f} GB/s", node.uplink_gbytes));
  if (const std::string architecture = phrases::architecture(node); !architecture.empty()) parts.push_back(architecture);
  if (node.kind == NodeKind::pci) parts.push_back("of unknown class");
  if (node.kind == NodeKind::nic) parts.push_back(nic_text(node));
  return printable(phrases::joined(parts));
}

void add_lines(const Graph& graph, const std::vector<std::vector<int>>& children, int index, int depth, std::string& out) {
  const Node& node = graph.nodes[at(index)];
  const std::string about = details(graph, node);
  out += fmt::format("{:{}}{}{}{}\n", "", 2 * depth, node_label(node), about.empty() ? "" : ": ", about);
  for (const int child : children[at(index)]) add_lines(graph, children, child, depth + 1, out);
}

std::string limits_text(const CpuLimits& limits) {
  if (limits.allowed.empty()) return {};
  std::string text = fmt::format("this process may use CPUs {}", cpu_list_text(limits.allowed));
  if (!limits.quota_from.empty())
    text += fmt::format(", {:.2f} CPUs' worth of time by {}", limits.quota, limits.quota_from);
  return text + fmt::format(": {} in effect\n", limits.effective());
}

std::vector<int> devices_of(const Graph& graph) {
  std::vector<int> devices = graph.of(NodeKind::gpu);
  const std::vector<int> nics = graph.of(NodeKind::nic);
  devices.insert(devices.end(), nics.begin(), nics.end());
  return devices;
}

struct LegendLine {
  PathType type;
  const char* text;
};
constexpr std::array<LegendLine, 8> kLegend = {{
    {PathType::nvlink, "NV#    a bundle of # NVLinks"},
    {PathType::xgmi, "XGMI#  # xGMI links"},
    {PathType::pix, "PIX    at most one PCIe switch"},
    {PathType::pxb, "PXB    several PCIe switches, no host bridge"},
    {PathType::phb, "PHB    a PCIe host bridge"},
    {PathType::node, "NODE   between PCIe host bridges of one NUMA node"},
    {PathType::sys, "SYS    between NUMA nodes"},
    {PathType::net, "NET    between machines"},
}};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::string text_tree(const Graph& graph) {
  std::vector<std::vector<int>> children(graph.nodes.size());
  std::string out;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].parent >= 0) children[at(graph.nodes[i].parent)].push_back(static_cast<int>(i));
  }
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].parent < 0) add_lines(graph, children, static_cast<int>(i), 0, out);
  }
  return out + limits_text(graph.limits);
}

std::string path_matrix(const Graph& graph) {
  const std::vector<int> devices = devices_of(graph);
  if (devices.size() < 2) return {};
  const PathFinder finder(graph);
  std::set<PathType> seen;
  std::string out = fmt::format("{:<12}", "");
  for (const int device : devices) out += fmt::format("{:<7}", node_label(graph.nodes[at(device)]));
  out += "CPU affinity  NUMA\n";
  for (const int a : devices) {
    out += fmt::format("{:<12}", node_label(graph.nodes[at(a)]));
    for (const int b : devices) {
      const Path path = finder.between(a, b);
      seen.insert(path.type);
      out += fmt::format("{:<7}", path.text());
    }
    const int numa = graph.enclosing(a, NodeKind::numa);
    out += numa < 0 ? "unknown\n"
                    : fmt::format("{:<13} {}\n", cpu_list_text(graph.nodes[at(numa)].cpus), graph.nodes[at(numa)].id);
  }
  for (const LegendLine& line : kLegend) {
    if (seen.contains(line.type)) out += fmt::format("  {}\n", line.text);
  }
  return out;
}

std::vector<std::string> path_explained(const Graph& graph, const Path& path) {
  const auto legend =
      std::find_if(kLegend.begin(), kLegend.end(), [&](const LegendLine& l) { return l.type == path.type; });
  const Node& from = graph.nodes[at(path.a)];
  const Node& to = graph.nodes[at(path.b)];
  const std::string speed = path.gbytes > 0 ? fmt::format("{:.1f} GB/s", path.gbytes) : "bandwidth unknown";
  std::vector<std::string> lines = {
      fmt::format("{} to {}: {}, {}, {}", node_label(from), node_label(to), path.text(), speed, plural(path.hops, "hop"))};
  if (legend != kLegend.end()) lines.push_back(legend->text);
  if (path.type == PathType::nvlink || path.type == PathType::xgmi || path.type == PathType::self) return lines;
  for (const int end : {path.a, path.b}) {
    std::string line = node_label(graph.nodes[at(end)]);
    for (int n = graph.nodes[at(end)].parent; n >= 0; n = graph.nodes[at(n)].parent) {
      line += fmt::format(" < {}", node_label(graph.nodes[at(n)]));
      if (!graph.nodes[at(n)].pci.empty()) line += fmt::format(" ({})", printable(graph.nodes[at(n)].pci));
    }
    lines.push_back(line);
  }
  return lines;
}

std::string dot_graph(const Graph& graph) {
  std::string out = "graph machine {\n  node [shape=box];\n";
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    out += fmt::format("  n{} [label=\"{}\\n{}\"];\n", i, node_label(node), escaped(details(graph, node)));
  }
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const std::string speed = node.uplink_gbytes > 0 ? fmt::format(" [label=\"{:.1f} GB/s\"]", node.uplink_gbytes) : "";
    if (node.parent >= 0) out += fmt::format("  n{} -- n{}{};\n", node.parent, i, speed);
  }
  for (const GraphLink& link : graph.links) {
    out += fmt::format("  n{} -- n{} [style=bold, label=\"{}{} {:.0f} GB/s\"];\n", link.a, link.b,
                       phrases::link_kind(link.kind), link.count, link.gbytes);
  }
  return out + "}\n";
}

}  // namespace tutti
