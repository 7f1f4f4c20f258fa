// Where the sample topologies are: ours in the repository, the others' in the shared folder.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "topology/hwloc_xml.h"
#include "topology/nccl_xml.h"

namespace tutti {

/// name: "hwloc/x.xml", "nccl/x.xml" in the shared folder, "own/x.xml" in the repository.
inline std::string topology_file(const std::string& name) {
  if (name.starts_with("own/")) return TUTTI_TEST_DATA "/topologies/" + name.substr(4);
  const char* shared = getenv("TUTTI_SHARED");
  return (shared != nullptr ? std::string(shared) : TUTTI_DEFAULT_SHARED) + "/data/topologies/" + name;
}

/// All sample files that are there, as topology_file takes them.
inline std::vector<std::string> all_topologies() {
  std::vector<std::string> names;
  for (const std::string kind : {"own/", "hwloc/", "nccl/"}) {
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(topology_file(kind), none)) {
      if (entry.path().extension() == ".xml") names.push_back(kind + entry.path().filename().string());
    }
  }
  return names;
}

/// Reads such a file with the reader that its name asks for.
inline Result<Graph> read_topology(const std::string& name) {
  const bool hwloc = name.find("hwloc") != std::string::npos;
  return hwloc ? read_hwloc_xml(topology_file(name)) : read_nccl_xml(topology_file(name));
}

}  // namespace tutti
