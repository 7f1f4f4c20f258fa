#include "tools/topo/graph_json.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "topology/sysfs.h"

namespace tutti::topo {
namespace {

using Json = nlohmann::ordered_json;

/// 0 stands for "unknown" in the graph.
Json known(double value) { return value > 0 ? Json(std::round(value * 1000) / 1000) : Json(); }

Json numa_or_null(const Graph& graph, int node) {
  const int id = graph.numa_id(node);
  return id < 0 ? Json() : Json(id);
}

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

template <typename Describe>
Json list_of(const Graph& graph, NodeKind kind, Describe describe) {
  Json list = Json::array();
  for (const int index : graph.of(kind)) list.push_back(describe(graph.nodes[static_cast<std::size_t>(index)], index));
  return list;
}

Json numa_json(const Graph& graph) {
  return list_of(graph, NodeKind::numa, [](const Node& node, int) {
    const Json memory = node.memory_bytes > 0 ? Json(node.memory_bytes) : Json();
    return Json{{"id", node.id}, {"cpus", cpu_list_text(node.cpus)}, {"memory_bytes", memory}};
  });
}

Json gpus_json(const Graph& graph) {
  return list_of(graph, NodeKind::gpu, [&](const Node& node, int index) {
    return Json{{"id", node.id},
                {"name", text_or_null(node.name)},
                {"pci", text_or_null(node.pci)},
                {"numa", numa_or_null(graph, index)},
                {"sm", node.sm > 0 ? Json(node.sm) : Json()}};
  });
}

Json nics_json(const Graph& graph) {
  return list_of(graph, NodeKind::nic, [&](const Node& node, int index) {
    return Json{{"id", node.id},
                {"name", text_or_null(node.name)},
                {"pci", text_or_null(node.pci)},
                {"numa", numa_or_null(graph, index)},
                {"speed_Gbps", known(node.nic.speed_gbps)},
                {"ports", node.nic.ports},
                {"gdr", node.nic.gdr},
                {"interfaces", node.nic.interfaces},
                {"verbs", node.nic.verbs}};
  });
}

/// Appends one entry of `paths`. Text, not a tree: of 1,024 GPUs and 4,096 NICs there are millions. It needs no escapes.
void append_path(std::string& text, const Graph& graph, const Path& path) {
  text.append(R"({"a":")").append(node_label(graph.nodes[static_cast<std::size_t>(path.a)]));
  text.append(R"(","b":")").append(node_label(graph.nodes[static_cast<std::size_t>(path.b)]));
  text.append(R"(","type":")").append(path.text());
  text.append(R"(","bandwidth_GBps":)").append(known(path.gbytes).dump());
  text.append(R"(,"hops":)").append(std::to_string(path.hops)).append(1, '}');
}

std::string paths_json(const Graph& graph) {
  std::string list = "[";
  for (const Path& path : device_paths(graph)) {
    if (list.size() > 1) list += ',';
    append_path(list, graph, path);
  }
  list += ']';
  return list;
}

Json packages_json(const Graph& graph) {
  std::map<int, int> cores;
  for (const Core& core : graph.cores) ++cores[core.package];
  return list_of(graph, NodeKind::package, [&](const Node& node, int) {
    return Json{
        {"id", node.id}, {"name", text_or_null(node.name)}, {"cpus", cpu_list_text(node.cpus)}, {"cores", cores[node.id]}};
  });
}

Json caches_json(const Graph& graph) {
  Json list = Json::array();
  for (const Cache& cache : graph.caches) {
    const char* kind = cache.kind == CacheKind::data          ? "data"
                       : cache.kind == CacheKind::instruction ? "instruction"
                                                              : "unified";
    list.push_back({{"level", cache.level}, {"kind", kind}, {"bytes", cache.bytes}, {"cpus", cpu_list_text(cache.cpus)}});
  }
  return list;
}

Json cpus_json(const Graph& graph) {
  if (graph.limits.allowed.empty()) return Json();
  const double quota = graph.limits.quota;
  return Json{{"allowed", cpu_list_text(graph.limits.allowed)},
              {"quota", std::isinf(quota) ? Json() : Json(quota)},
              {"effective", graph.limits.effective()}};
}

/// Names come from files, which may hold anything.
std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

program::JsonObject graph_json(const Graph& graph, const Routes& routes) {
  program::JsonObject object;
  object.add_written("numa", dump(numa_json(graph)));
  object.add_written("gpus", dump(gpus_json(graph)));
  object.add_written("nics", dump(nics_json(graph)));
  object.add_written("paths", paths_json(graph));
  add_routes(routes, object);
  object.add_written("host", dump(text_or_null(graph.nodes.empty() ? std::string() : graph.nodes[0].name)));
  object.add("source", graph.source);
  object.add_written("cpus", dump(cpus_json(graph)));
  object.add_written("packages", dump(packages_json(graph)));
  object.add_written("caches", dump(caches_json(graph)));
  return object;
}

program::JsonObject way_json(const Graph& graph, const Path& path, const std::vector<NetworkLink>& links) {
  Json list = Json::array();
  for (const NetworkLink& link : links) {
    list.push_back(
        {{"name", link.name}, {"bandwidth_GBps", known(link.bytes_per_second / 1e9)}, {"assumed", link.assumed}});
  }
  std::string text;
  append_path(text, graph, path);
  Json entry = Json::parse(text);
  entry["links"] = std::move(list);
  program::JsonObject object;
  for (const auto& [key, value] : entry.items()) object.add_written(key, dump(value));
  return object;
}

}  // namespace tutti::topo
