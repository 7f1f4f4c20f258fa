// Graphs: instances, replays, and the user objects that they hold.
#pragma once

#include "tests/standin/capture.h"

namespace standin {

/// All below: with the lock.

HandleTable<Graph, GraphHandle>& graphs();

/// Takes a graph away, and lets go of its user objects.
void destroy_graph(GraphHandle handle);

/// Graphs, instances and user objects that are alive.
std::size_t graph_objects();

}  // namespace standin
