// The graph as the JSON line that scripts read.
#pragma once

#include <vector>

#include "src/program/json.h"
#include "tools/topo/routes.h"
#include "topology/graph.h"

namespace tutti::topo {

/// The contract's object (numa, gpus, nics, paths, rings, ring_bandwidth_GBps, trees), and beside it host, source, cpus,
/// packages and caches. Numbers and names that nobody knows are null. Rings and trees are those of `routes`.
program::JsonObject graph_json(const Graph& graph, const Routes& routes);

/// An entry of the contract's paths, and beside its fields links: those that bytes from a to b pass, as way_links has them.
program::JsonObject way_json(const Graph& graph, const Path& path, const std::vector<NetworkLink>& links);

}  // namespace tutti::topo
