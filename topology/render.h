// The graph for people: a tree in text, the matrix of `nvidia-smi topo -m`, and DOT.
#pragma once

#include <string>
#include <vector>

#include "topology/graph.h"

namespace tutti {

/// What contains what, indented, one thing a line, ending with a newline.
std::string text_tree(const Graph& graph);

/// Types of the ways between all GPUs and NICs, with each GPU's near CPUs and NUMA node, and a legend of the types that
/// occur. Empty where there are fewer than two devices.
std::string path_matrix(const Graph& graph);

/// The way between two devices in words: its type with the reason, then every step.
std::vector<std::string> path_explained(const Graph& graph, const Path& path);

/// The graph in Graphviz's language.
std::string dot_graph(const Graph& graph);

}  // namespace tutti
