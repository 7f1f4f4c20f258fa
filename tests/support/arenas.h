// How many files of registered memory this process has open, and how many it has mapped, its own and its peers'.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <system_error>

namespace tutti::test {

struct Arenas {
  std::size_t descriptors = 0;
  std::size_t mappings = 0;
  bool operator==(const Arenas&) const = default;

  static Arenas now() {
    Arenas arenas;
    for (const auto& open : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;  // the folder's own descriptor, which is listed too
      arenas.descriptors += is_one(std::filesystem::read_symlink(open.path(), gone).string()) ? 1 : 0;
    }
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) arenas.mappings += is_one(line) ? 1 : 0;
    return arenas;
  }
  friend std::ostream& operator<<(std::ostream& out, const Arenas& arenas) {
    return out << arenas.descriptors << " descriptors, " << arenas.mappings << " mappings";
  }

 private:
  static bool is_one(const std::string& text) { return text.find("/memfd:tutti-memory") != std::string::npos; }
};

}  // namespace tutti::test
