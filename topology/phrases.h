// Phrases that the renderers share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topology/graph.h"

namespace tutti::phrases {

/// "a, b, c".
std::string joined(const std::vector<std::string>& parts);

/// "2 x L2 512 KiB, 1 x L3 32 MiB": the data caches whose CPUs are all among `cpus`; empty where there is none.
std::string caches(const Graph& graph, const std::vector<int>& cpus);

/// How many cores a package has, by the system's number of it.
int cores_of(const Graph& graph, int package);

/// "sm_90", "gfx90a"; empty where it is unknown.
std::string architecture(const Node& gpu);

/// "200 Gbit/s", or that nobody knows it.
std::string speed(const Node& nic);

/// "NV", "XGMI", "NET".
const char* link_kind(LinkKind kind);

}  // namespace tutti::phrases
