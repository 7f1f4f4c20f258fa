#include "topology/live_machine.h"

#include <algorithm>

#include "src/base/log.h"
#include "topology/read_sysfs.h"

namespace tutti {
namespace {

/// What hwloc makes of this machine; empty where it cannot, which is logged.
Result<Graph> by_hwloc(const HwlocApi& hwloc) {
  const auto objects = read_hwloc(hwloc);
  if (!objects.ok()) return objects.status();
  auto graph = graph_of(*objects);
  if (graph.ok()) graph->source = hwloc_name(hwloc);
  return graph;
}

bool has_nvidia_gpu(const Graph& graph) {
  constexpr std::uint16_t nvidia = 0x10de;
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const Node& node) { return node.kind == NodeKind::gpu && node.vendor == nvidia; });
}

}  // namespace

Graph read_live(const HwlocApi* hwloc, const Sysfs& files, const NvmlApi* nvml) {
  Graph graph;
  if (hwloc != nullptr && files.root().empty()) {
    auto read = by_hwloc(*hwloc);
    if (read.ok()) graph = std::move(*read);
    if (!read.ok()) log(Level::info, read.status().text() + "; sysfs is read instead");
  }
  if (graph.nodes.empty()) graph = read_sysfs(files);
  complete_from_sysfs(files, graph);
  if (nvml != nullptr && files.root().empty() && has_nvidia_gpu(graph)) {
    if (const Status status = complete_from_nvml(*nvml, graph); !status.ok()) {
      log(Level::info, status.text() + "; NVLinks are not known");
    }
  }
  if (graph.nodes[0].name.empty()) graph.nodes[0].name = files.text("/proc/sys/kernel/hostname").value_or("");
  graph.limits = cpu_limits(files);
  return graph;
}

}  // namespace tutti
