// MSCCL algorithm files for tests: ours, in tests/data/msccl, and where they are, those of the shared data. Include with
// TUTTI_TEST_DATA and TUTTI_DEFAULT_SHARED defined.
#pragma once

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace tutti::testing {

/// Of the files that we wrote.
inline std::string own_msccl(const std::string& name) { return std::string(TUTTI_TEST_DATA) + "/msccl/" + name; }
/// Of Microsoft's.
inline std::string shared_msccl(const std::string& name) {
  const char* shared = getenv("TUTTI_SHARED");
  return (shared != nullptr ? std::string(shared) : TUTTI_DEFAULT_SHARED) + "/data/msccl/" + name;
}

/// Paths of the .xml files of a folder, sorted; empty where there is no such folder.
inline std::vector<std::string> msccl_files_in(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    if (entry.path().extension() == ".xml") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}
inline std::vector<std::string> own_msccl_files() { return msccl_files_in(own_msccl("")); }
inline std::vector<std::string> shared_msccl_files() { return msccl_files_in(shared_msccl("")); }
inline std::vector<std::string> all_msccl_files() {
  std::vector<std::string> all = own_msccl_files();
  const std::vector<std::string> shared = shared_msccl_files();
  all.insert(all.end(), shared.begin(), shared.end());
  return all;
}

/// The whole of a file; empty where it cannot be read.
inline std::string text_of_file(const std::string& path) {
  std::ostringstream all;
  all << std::ifstream(path).rdbuf();
  return all.str();
}

}  // namespace tutti::testing
