// hwloc's XML files, versions 1 to 3. Debian's hwloc refuses version 3, so we read them ourselves.
#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"
#include "topology/graph.h"
#include "topology/objects.h"

namespace tutti {

/// The objects in the text of such a file.
/// Errors: TUTTI_INVALID_ARGUMENT with the place and the reason: no XML, no topology, another version, no machine, numbers
/// that are none, or more than a machine could hold (65,536 CPUs and cores, 1,024 packages and NUMA nodes, 262,144 caches,
/// a million CPUs and NUMA nodes listed in all masks, 64 levels, 1,000,000 objects). Time about proportional to the text.
Result<HwObject> parse_hwloc_xml(std::string_view text);

/// The graph of the machine in such a text, its NVLinks included where it gives their bandwidths.
/// Errors: as above.
Result<Graph> graph_of_hwloc_xml(std::string_view text);

/// The graph of the machine in a file of at most 64 MiB.
/// Errors: as above, with the file's name; TUTTI_INVALID_ARGUMENT where it cannot be read.
Result<Graph> read_hwloc_xml(const std::string& path);

}  // namespace tutti
