#include "tools/plan/networks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <utility>
#include <vector>

#include "topology/generators.h"
#include "topology/hwloc_xml.h"
#include "topology/machine_network.h"
#include "topology/nccl_xml.h"

namespace tutti::plan_tool {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// Whether a file is hwloc's XML: its first element is <topology>, where NCCL's is <system>.
bool is_hwloc(const std::string& path) {
  std::string head(4096, ' ');
  std::ifstream(path).read(head.data(), static_cast<std::streamsize>(head.size()));
  return head.find("<topology") < head.find("<system");
}

/// Estimates of links between ranks: for each class the way that costs most.
void estimate_links(const Network& network, View& view) {
  std::array<LinkEstimate, kLinkClasses> dearest = {};
  std::vector<std::uint32_t> way;
  for (int a = 0; a < view.ranks(); ++a) {
    for (int b = 0; b < view.ranks(); ++b) {
      if (a == b) continue;
      LinkEstimate& estimate = dearest[static_cast<std::size_t>(view.link_class(a, b))];
      network.route(a, b, way);
      double alpha = 0;
      for (const std::uint32_t index : way) {
        const NetworkLink link = network.link(index);
        alpha += link.latency_s;
        estimate.beta = std::max(estimate.beta, 1 / link.bytes_per_second);
      }
      estimate.alpha = std::max(estimate.alpha, alpha);
    }
  }
  for (std::size_t c = 0; c < kLinkClasses; ++c) {
    if (dearest[c].beta > 0) view.links[c] = dearest[c];
  }
}

/// The machines and NUMA nodes of a network's endpoints.
View places_of(const Graph& graph, const MachineNetwork& network) {
  View view = flat_view(network.endpoints());
  std::map<std::pair<int, int>, std::int32_t> numbers;  // by machine and node
  std::map<int, std::int32_t> on;                       // nodes met on a machine
  for (int end = 0; end < network.endpoints(); ++end) {
    const int node = graph.enclosing(network.device(end), NodeKind::numa);
    view.machine[at(end)] = network.machine(end);
    if (node < 0) {
      view.numa[at(end)] = -1;
      continue;
    }
    const auto [number, added] = numbers.try_emplace({network.machine(end), node}, on[network.machine(end)]);
    if (added) ++on[network.machine(end)];
    view.numa[at(end)] = number->second;
  }
  return view;
}

Result<NamedNetwork> open_file(const std::string& path) {
  const auto graph = is_hwloc(path) ? read_hwloc_xml(path) : read_nccl_xml(path);
  if (!graph.ok()) return Status(TUTTI_INVALID_ARGUMENT, "--topology: " + graph.status().text());
  std::vector<int> gpus = graph->of(NodeKind::gpu);
  if (gpus.size() < 2) {
    return Status(TUTTI_INVALID_ARGUMENT,
                  fmt::format("--topology {} has {} GPU{}, and ranks are GPUs; give a machine with at least two", path,
                              gpus.empty() ? "no" : "one", gpus.empty() ? "s" : ""));
  }
  auto network = network_of(*graph, gpus);
  if (!network.ok()) return Status(TUTTI_INVALID_ARGUMENT, "--topology: " + network.status().text());
  NamedNetwork named{path, nullptr, places_of(*graph, *network)};
  estimate_links(*network, named.places);
  named.network = std::make_shared<const MachineNetwork>(*std::move(network));
  return named;
}

}  // namespace

View NamedNetwork::view(int ranks) const {
  if (places.ranks() == 0) return generated_view(name, *network, ranks);
  View view = places;
  view.machine.resize(at(ranks));
  view.numa.resize(at(ranks));
  return view;
}

Result<NamedNetwork> open_network(const std::string& text) {
  std::error_code unreadable;
  const bool path =
      text.find('/') != std::string::npos || text.ends_with(".xml") || std::filesystem::exists(text, unreadable);
  if (path && !names_generator(text)) return open_file(text);
  auto network = generate_network(text);
  if (!network.ok()) return Status(TUTTI_INVALID_ARGUMENT, "--topology: " + network.status().text());
  return NamedNetwork{text, *network, {}};
}

}  // namespace tutti::plan_tool
