#include "topology/cpus.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>
#include <string_view>

namespace tutti {
namespace {

/// The most CPUs that a mask of the kernel's is asked for; sched_getaffinity refuses masks that are too small.
constexpr int kMostCpus = 1 << 18;

void add_affinity(pid_t thread, std::vector<int>& cpus) {
  for (int size = 1024; size <= kMostCpus; size *= 4) {
    std::vector<unsigned long> words(static_cast<std::size_t>(size) / (8 * sizeof(unsigned long)));
    auto* const mask = reinterpret_cast<cpu_set_t*>(words.data());
    const std::size_t bytes = words.size() * sizeof(unsigned long);
    if (sched_getaffinity(thread, bytes, mask) != 0) continue;
    for (int cpu = 0; cpu < size; ++cpu) {
      if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, mask)) cpus.push_back(cpu);
    }
    return;
  }
}

/// One line of /proc/self/mountinfo, as far as control groups need it.
struct Mount {
  std::string root;   ///< the group that is seen at `point`
  std::string point;  ///< where
  std::string type;   ///< "cgroup" or "cgroup2"
  std::string super;  ///< options of the file system: its controllers with version 1
};

/// mountinfo writes blanks and backslashes as \ooo.
std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '\\' && i + 3 < text.size() &&
                        text.substr(i + 1, 3).find_first_not_of("01234567") == std::string_view::npos;
    if (escape) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::vector<Mount> cgroup_mounts(const std::string& mountinfo) {
  std::vector<Mount> mounts;
  std::istringstream lines(mountinfo);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream before(line.substr(0, dash));
    std::istringstream after(line.substr(dash + 3));
    std::string id, parent, device, source;
    Mount mount;
    before >> id >> parent >> device >> mount.root >> mount.point;
    after >> mount.type >> source >> mount.super;
    if (mount.type != "cgroup" && mount.type != "cgroup2") continue;
    mount.root = unescaped(mount.root);
    mount.point = unescaped(mount.point);
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

bool has_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    if (list.substr(0, comma) == word) return true;
    if (comma == std::string_view::npos) return false;
    list.remove_prefix(comma + 1);
  }
  return false;
}

/// The group's path below the mount: what the mount shows is the group `root` and its descendants. A group outside it (as
/// a container without a cgroup namespace sees its own) is taken for the mounted one, which is what the container has.
std::string below(const Mount& mount, const std::string& group) {
  if (group.find("/..") != std::string::npos) return {};
  if (mount.root == "/") return group == "/" ? std::string() : group;
  if (group == mount.root) return {};
  if (group.starts_with(mount.root + "/")) return group.substr(mount.root.size());
  return {};
}

struct Quota {
  double cpus = std::numeric_limits<double>::infinity();
  std::string from;
};

Quota quota_v2(const Sysfs& files, const std::string& folder) {
  const std::string path = folder + "/cpu.max";
  const auto content = files.text(path);
  if (!content) return {};
  std::istringstream words(*content);
  std::string most;
  double period = 100000;
  words >> most >> period;
  double share = 0;
  const auto [stop, error] = std::from_chars(most.data(), most.data() + most.size(), share, std::chars_format::fixed);
  const bool is_number = error == std::errc() && stop == most.data() + most.size();  // "max" is none
  if (!is_number || share <= 0 || period <= 0) return {};
  return {share / period, path};
}

Quota quota_v1(const Sysfs& files, const std::string& folder) {
  const std::string path = folder + "/cpu.cfs_quota_us";
  const auto quota = files.number(path);
  const auto period = files.number(folder + "/cpu.cfs_period_us");
  if (!quota || *quota <= 0 || !period || *period <= 0) return {};
  return {static_cast<double>(*quota) / static_cast<double>(*period), path};
}

/// The least quota from the group up to the mount point: a parent's bounds its children too.
void apply_quotas(const Sysfs& files, const Mount& mount, const std::string& group, CpuLimits& limits) {
  std::string path = below(mount, group);
  while (true) {
    const Quota quota = mount.type == "cgroup2" ? quota_v2(files, mount.point + path) : quota_v1(files, mount.point + path);
    if (quota.cpus < limits.quota) {
      limits.quota = quota.cpus;
      limits.quota_from = quota.from;
    }
    if (path.empty()) return;
    path.resize(path.rfind('/'));
  }
}

void read_quotas(const Sysfs& files, CpuLimits& limits) {
  const auto groups = files.text("/proc/self/cgroup");
  const auto mountinfo = files.text("/proc/self/mountinfo");
  if (!groups || !mountinfo) return;
  const std::vector<Mount> mounts = cgroup_mounts(*mountinfo);
  std::istringstream lines(*groups);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos || second + 1 >= line.size() || line[second + 1] != '/') continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    const bool is_v2 = controllers.empty();
    if (!is_v2 && !has_word(controllers, "cpu")) continue;
    for (const Mount& mount : mounts) {
      const bool fits = is_v2 ? mount.type == "cgroup2" : mount.type == "cgroup" && has_word(mount.super, "cpu");
      if (fits) apply_quotas(files, mount, group, limits);
    }
  }
}

int bounded(std::size_t cpus, double quota) {
  // A hair below the next whole number, so that 200000/100000 stays 2 whatever the division's rounding.
  const double by_quota = std::ceil(quota - 1e-9);
  const int most = by_quota < static_cast<double>(cpus) ? static_cast<int>(by_quota) : static_cast<int>(cpus);
  return std::max(1, most);
}

}  // namespace

void sort_once_each(std::vector<int>& cpus) {
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
}

int CpuLimits::effective() const { return bounded(allowed.size(), quota); }

CpuLimits cpu_limits(const Sysfs& files) {
  CpuLimits limits;
  add_affinity(0, limits.allowed);
  add_affinity(getpid(), limits.allowed);
  sort_once_each(limits.allowed);
  read_quotas(files, limits);
  return limits;
}

int effective_cpus() { return cpu_limits().effective(); }

int effective_cpus(const std::vector<CpuLimits>& processes) {
  std::vector<int> cpus;
  double quota = 0;
  for (const CpuLimits& process : processes) {
    cpus.insert(cpus.end(), process.allowed.begin(), process.allowed.end());
    quota = std::max(quota, process.quota);
  }
  sort_once_each(cpus);
  return bounded(cpus.size(), quota);
}

}  // namespace tutti
