#include "tools/topo/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "topology/sysfs.h"

namespace tutti::topo {
namespace {

using Json = nlohmann::ordered_json;

/// People and channels are better served by a few trees than by dozens with a twentieth more.
constexpr double kForFewerTrees = .05;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

double gbytes(double bytes_per_second) { return bytes_per_second / 1e9; }

/// To three digits after the point; null for 0.
Json rounded(double bytes_per_second) {
  return bytes_per_second > 0 ? Json(std::round(gbytes(bytes_per_second) * 1000) / 1000) : Json();
}

std::string link_text(const Routes& routes, std::uint32_t index) {
  const NetworkLink link = routes.network.link(index);
  return fmt::format("{} of {}{:.1f} GB/s", link.name, link.assumed ? "unknown bandwidth, taken for " : "",
                     gbytes(link.bytes_per_second));
}

/// "6 rings, 150.0 GB/s together; no set has more", and why there is none. A bound is told only where there is one.
template <typename Set>
std::string sum_text(const Routes& routes, const Set& set, std::size_t count, const char* what) {
  if (routes.gpus.empty()) return fmt::format("No {}s: there are no GPUs", what);
  if (routes.gpus.size() < 2) return fmt::format("No {}s: there is one GPU", what);
  if (count == 0 && !set.optimal) return fmt::format("No {}s were found before the search ended; there may be some", what);
  if (count == 0) return fmt::format("No {}s: the GPUs do not all reach each other", what);
  std::string text =
      fmt::format("{} {}{}, {:.1f} GB/s together", count, what, count == 1 ? "" : "s", gbytes(set.bytes_per_second));
  if (set.optimal) return text + "; no set has more";
  if (set.bound <= 0) return text + "; how much more another set could have is not known";
  return text + fmt::format("; no set has more than {:.1f} GB/s", gbytes(set.bound));
}

std::vector<int> chosen_gpus(const Graph& graph, const std::vector<int>& ids, int& missing) {
  const std::vector<int> all = graph.of(NodeKind::gpu);
  std::vector<int> chosen;
  for (const int id : ids) {
    const auto gpu = std::find_if(all.begin(), all.end(), [&](int node) { return graph.nodes[at(node)].id == id; });
    if (gpu == all.end()) {
      missing = id;
      return {};
    }
    chosen.push_back(*gpu);
  }
  return chosen;
}

/// A number that two of the comma-separated parts name, -1 where there is none. The text is a list.
int named_twice(const std::string& text) {
  std::vector<int> seen;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::vector<int> ids = parse_cpu_list(part).value_or(std::vector<int>());
    const auto again = std::find_first_of(seen.begin(), seen.end(), ids.begin(), ids.end());
    if (again != seen.end()) return *again;
    seen.insert(seen.end(), ids.begin(), ids.end());
  }
  return -1;
}

Result<std::vector<int>> gpus_named(const Graph& graph, const std::string& text) {
  if (text.empty()) return graph.of(NodeKind::gpu);
  const auto refused = [&](const std::string& why, const char* remedy) {
    return Status(TUTTI_INVALID_ARGUMENT, fmt::format("--gpus was given '{}', but {}", text, why), remedy);
  };
  const auto ids = parse_cpu_list(text);
  if (!ids) return refused("that is no list of GPUs", "Write it as 0-3,6");
  if (const int twice = named_twice(text); twice >= 0) {
    return refused(fmt::format("that names GPU {} twice", twice), "Name each once");
  }
  int missing = -1;
  std::vector<int> chosen = chosen_gpus(graph, *ids, missing);
  if (missing >= 0) return refused(fmt::format("there is no GPU {} here", missing), "tutti-topo lists what there is");
  return chosen;
}

}  // namespace

Result<Routes> find_routes(const Graph& graph, const std::string& gpus) {
  const auto chosen = gpus_named(graph, gpus);
  if (!chosen.ok()) return chosen.status();
  auto network = network_of(graph, *chosen);
  if (!network.ok()) return network.status();
  Routes routes{*std::move(network), {}, {}, {}};
  for (const int gpu : *chosen) routes.gpus.push_back(graph.nodes[at(gpu)].id);
  routes.rings = search_machine_rings(routes.network);
  routes.trees = search_machine_trees(routes.network, {.give_up = kForFewerTrees});
  return routes;
}

std::vector<NetworkLink> way_links(const Graph& graph, const Path& path) {
  std::vector<NetworkLink> links;
  if (path.a == path.b) return links;
  const auto network = network_of(graph, {path.a, path.b});
  if (!network.ok()) return links;  // of two machines without NICs
  std::vector<std::uint32_t> way;
  network->route(0, 1, way);
  for (const std::uint32_t index : way) links.push_back(network->link(index));
  return links;
}

std::vector<std::string> unknown_links_text(const std::vector<NetworkLink>& links) {
  std::vector<std::string> unknown;
  for (const NetworkLink& link : links) {
    if (link.assumed) unknown.push_back(fmt::format("{} ({:.1f} GB/s)", link.name, gbytes(link.bytes_per_second)));
  }
  if (unknown.empty()) return {};
  return {fmt::format("left out, since nobody tells their bandwidth (what --rings takes them for): {}",
                      fmt::join(unknown, ", "))};
}

std::vector<std::string> rings_text(const Routes& routes) {
  const RingSet& set = routes.rings;
  std::vector<std::string> lines = {sum_text(routes, set, set.rings.size(), "ring")};
  for (const FoundRing& ring : set.rings) {
    std::vector<std::string> names;
    for (const int end : ring.order) names.push_back(routes.network.label(end));
    lines.push_back(fmt::format("  {:6.1f} GB/s  {}  (narrowest: {})", gbytes(ring.bytes_per_second), fmt::join(names, " "),
                                link_text(routes, ring.bottleneck)));
  }
  return lines;
}

std::vector<std::string> trees_text(const Routes& routes) {
  const TreeSet& set = routes.trees;
  std::vector<std::string> lines = {sum_text(routes, set, set.trees.size(), "tree")};
  for (const Tree& tree : set.trees) {
    std::vector<std::string> edges;
    for (const auto& [parent, child] : tree.edges) {
      edges.push_back(fmt::format("{}>{}", routes.network.label(parent), routes.network.label(child)));
    }
    lines.push_back(fmt::format("  {:6.1f} GB/s  {}  (narrowest: {})", gbytes(tree.bytes_per_second), fmt::join(edges, " "),
                                link_text(routes, tree.bottleneck)));
  }
  return lines;
}

std::vector<std::vector<int>> rings_by_place(const Graph& graph, const Routes& routes) {
  const std::vector<int> gpus = graph.of(NodeKind::gpu);
  std::vector<std::vector<int>> rings;
  for (const FoundRing& ring : routes.rings.rings) {
    std::vector<int>& places = rings.emplace_back();
    for (const int end : ring.order) {
      places.push_back(static_cast<int>(std::find(gpus.begin(), gpus.end(), routes.network.device(end)) - gpus.begin()));
    }
  }
  return rings;
}

std::vector<double> ring_gbytes(const Routes& routes) {
  std::vector<double> rates;
  for (const FoundRing& ring : routes.rings.rings) rates.push_back(gbytes(ring.bytes_per_second));
  return rates;
}

void add_routes(const Routes& routes, program::JsonObject& object) {
  Json rings = Json::array();
  Json details = Json::array();
  for (const FoundRing& ring : routes.rings.rings) {
    Json order = Json::array();
    for (const int end : ring.order) order.push_back(routes.gpus[at(end)]);
    rings.push_back(std::move(order));
    const NetworkLink bottleneck = routes.network.link(ring.bottleneck);
    details.push_back({{"bandwidth_GBps", rounded(ring.bytes_per_second)},
                       {"narrowest", bottleneck.name},
                       {"assumed", bottleneck.assumed}});
  }
  Json trees = Json::array();
  for (const Tree& tree : routes.trees.trees) {
    Json edges = Json::array();
    for (const auto& [parent, child] : tree.edges) {
      edges.push_back(Json::array({routes.gpus[at(parent)], routes.gpus[at(child)]}));
    }
    const NetworkLink bottleneck = routes.network.link(tree.bottleneck);
    trees.push_back({{"root", routes.gpus[at(tree.root)]},
                     {"edges", std::move(edges)},
                     {"bandwidth_GBps", rounded(tree.bytes_per_second)},
                     {"narrowest", bottleneck.name},
                     {"assumed", bottleneck.assumed}});
  }
  object.add_json("rings", rings.dump()).add_json("ring_bandwidth_GBps", rounded(routes.rings.bytes_per_second).dump());
  object.add_json("trees", trees.dump()).add_json("ring_details", details.dump());
  object.add_json("ring_bound_GBps", rounded(routes.rings.bound).dump());
  object.add_json("tree_bandwidth_GBps", rounded(routes.trees.bytes_per_second).dump());
}

}  // namespace tutti::topo
