// Files that lie beside a test's program: found from there, so that the folder may be moved to another machine.
#pragma once

#include <filesystem>
#include <string>

namespace tutti::cuda {

/// The path of `name`, relative to the folder of this program.
inline std::string beside(const std::string& name) {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / name).string();
}

}  // namespace tutti::cuda
