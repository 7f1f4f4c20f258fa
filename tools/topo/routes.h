// Rings and trees of greatest bandwidth over a machine's GPUs, for people and for scripts.
#pragma once

#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/program/json.h"
#include "topology/graph.h"
#include "topology/search.h"

namespace tutti::topo {

/// The network between GPUs, and what was found over it.
struct Routes {
  MachineNetwork network;
  std::vector<int> gpus;  ///< the GPUs' ids, by endpoint
  RingSet rings;
  TreeSet trees;
};

/// Searches over the GPUs with these ids ("0-3,6"), or over all where the text is empty.
/// Errors: TUTTI_INVALID_ARGUMENT where the text is no such list, or there is no such GPU.
Result<Routes> find_routes(const Graph& graph, const std::string& gpus = {});

/// The links that bytes pass on the way between two devices of a machine, in order; none for a device to itself.
std::vector<NetworkLink> way_links(const Graph& graph, const Path& path);

/// What path_explained leaves open: the links of a way whose bandwidth nobody tells, with what rings and trees take them
/// for. No line where all are known.
std::vector<std::string> unknown_links_text(const std::vector<NetworkLink>& links);

/// A line with the sum, then one line for each ring (or tree) with its rate and its narrowest link.
std::vector<std::string> rings_text(const Routes& routes);
std::vector<std::string> trees_text(const Routes& routes);

/// The rings as lists of places in graph.of(NodeKind::gpu), as draw_svg takes them.
std::vector<std::vector<int>> rings_by_place(const Graph& graph, const Routes& routes);

/// GB/s of each ring, likewise.
std::vector<double> ring_gbytes(const Routes& routes);

/// Adds the contract's rings, ring_bandwidth_GBps (of all rings together; null without any) and trees, and beside them
/// ring_details (one for each ring), ring_bound_GBps, and tree_bandwidth_GBps. GPUs are told by their ids.
void add_routes(const Routes& routes, program::JsonObject& object);

}  // namespace tutti::topo
