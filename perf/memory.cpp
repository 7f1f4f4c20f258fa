#include "perf/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>

#include "src/tables/units.h"

namespace tutti::perf {
namespace {

constexpr uint64_t kEndless = UINT64_MAX;

// With two decimals, as a product of such a number with the ranks is compared with another.
std::string gibibytes(uint64_t bytes) { return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1 << 30)); }

std::string content_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The number that the file begins with; "max" is none.
std::optional<uint64_t> number_in(const std::string& path) {
  uint64_t value = 0;
  std::ifstream file(path);
  return file >> value ? std::optional(value) : std::nullopt;
}

// The number behind `name` in a file of lines "name number", or nothing.
std::optional<uint64_t> entry(const std::string& path, const std::string& name) {
  std::ifstream lines(path);
  std::string word;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    uint64_t value = 0;
    if (words >> word >> value && word == name) return value;
  }
  return std::nullopt;
}

// How a version of control groups calls what bounds memory.
struct Version {
  const char* mount;
  const char* most;
  const char* used;
  const char* reclaimable;  // in memory.stat: cached files, which give way
};
constexpr Version kVersion1 = {"/sys/fs/cgroup/memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes",
                               "total_inactive_file"};
constexpr Version kVersion2 = {"/sys/fs/cgroup", "/memory.max", "/memory.current", "inactive_file"};

uint64_t free_in(const Version& version, const std::string& folder) {
  const auto most = number_in(folder + version.most);
  const auto used = number_in(folder + version.used);
  if (!most || !used) return kEndless;
  const uint64_t cached = std::min(*used, entry(folder + "/memory.stat", version.reclaimable).value_or(0));
  return *most > *used - cached ? *most - (*used - cached) : 0;
}

// From the group up to the mount point: a parent's bound holds for its children too.
void narrow(const std::string& root, const Version& version, std::string group, const std::string& machine, Room& room) {
  while (!group.empty() && group.back() == '/') group.pop_back();
  while (true) {
    const uint64_t bytes = free_in(version, root + version.mount + group);
    if (bytes < room.bytes) room = {std::hash<std::string>{}(machine + version.mount + group), bytes};
    if (group.empty()) return;
    group.resize(group.rfind('/'));
  }
}

}  // namespace

Rooms read_rooms(const std::string& root) {
  // Containers of one machine have their own names of groups; the name space tells them apart.
  const std::string machine = content_of(root + "/proc/sys/kernel/random/boot_id");
  std::error_code unknown;
  const std::string groups = machine + std::filesystem::read_symlink(root + "/proc/self/ns/cgroup", unknown).string();
  const auto available = entry(root + "/proc/meminfo", "MemAvailable:");  // in KiB
  Rooms rooms = {{{std::hash<std::string>{}(machine), available ? *available << 10 : kEndless}, {0, kEndless}}};
  std::ifstream lines(root + "/proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos || second + 1 >= line.size() || line[second + 1] != '/') continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) narrow(root, kVersion2, group, groups, rooms[1]);
    if (("," + controllers + ",").find(",memory,") != std::string::npos) narrow(root, kVersion1, group, groups, rooms[1]);
  }
  return rooms;
}

std::string check_rooms(const std::vector<Rooms>& ranks, uint64_t each) {
  for (const Rooms& rooms : ranks) {
    for (size_t kind = 0; kind < rooms.size(); ++kind) {
      uint64_t bytes = kEndless;
      uint64_t sharers = 0;
      for (const Rooms& other : ranks) {
        if (other[kind].place != rooms[kind].place) continue;
        ++sharers;
        bytes = std::min(bytes, other[kind].bytes);
      }
      if (each <= bytes / sharers) continue;
      return fmt::format(
          "{} of buffers on each of {} ranks are more than the {} that {} has left for them; lower -e or "
          "--elements, or start fewer ranks there",
          gibibytes(each), sharers, gibibytes(bytes), kind == 0 ? "their machine" : "their control group");
    }
  }
  return "";
}

}  // namespace tutti::perf
