#include "topology/live.h"

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

}  // namespace

Graph read_live(const HwlocApi* hwloc, const Sysfs& files) {
  Graph graph;
  if (hwloc != nullptr && files.root().empty()) {
    auto read = by_hwloc(*hwloc);
    if (read.ok()) graph = std::move(*read);
    if (!read.ok()) log(Level::info, read.status().text() + "; sysfs is read instead");
  }
  if (graph.nodes.empty()) graph = read_sysfs(files);
  complete_from_sysfs(files, graph);
  if (graph.nodes[0].name.empty()) graph.nodes[0].name = files.text("/proc/sys/kernel/hostname").value_or("");
  graph.limits = cpu_limits(files);
  return graph;
}

}  // namespace tutti
