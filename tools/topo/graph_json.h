// The graph as the JSON line that scripts read.
#pragma once

#include "src/program/json.h"
#include "tools/topo/routes.h"
#include "topology/graph.h"

namespace tutti::topo {

/// The contract's object (numa, gpus, nics, paths, rings, ring_bandwidth_GBps, trees), and beside it host, source, cpus,
/// packages and caches. Numbers that nobody knows are null. Rings and trees are those of `routes`.
program::JsonObject graph_json(const Graph& graph, const Routes& routes);

}  // namespace tutti::topo
