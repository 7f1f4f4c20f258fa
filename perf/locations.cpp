#include "perf/locations.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>

namespace tutti::perf {
namespace {

constexpr size_t kMostLines = 64;

// "0-3,8".
std::string cpu_text(const cpu_set_t& cpus) {
  std::string text;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(static_cast<size_t>(cpu), &cpus)) continue;
    int last = cpu;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(static_cast<size_t>(last + 1), &cpus)) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cpu);
    if (last > cpu) text += fmt::format("-{}", last);
    cpu = last;
  }
  return text.empty() ? "unknown" : text;
}

std::string cpus_named(const cpu_set_t& cpus) {
  return fmt::format("CPU{} {}", CPU_COUNT(&cpus) == 1 ? "" : "s", cpu_text(cpus));
}

// Ranks that share what they may run on.
struct Sharers {
  size_t ranks = 0;
  cpu_set_t cpus = {};
};

void add(Sharers& sharers, const RankLocation& location) {
  ++sharers.ranks;
  CPU_OR(&sharers.cpus, &sharers.cpus, &location.cpus);
}

bool oversubscribed(const Sharers& sharers) {
  const auto cpus = static_cast<size_t>(CPU_COUNT(&sharers.cpus));
  return cpus > 0 && sharers.ranks > cpus;
}

std::string oversubscribed_line(const Sharers& sharers, const std::string& host) {
  return fmt::format("# {} ranks share {} of {}: they take turns, and times include the waits", sharers.ranks,
                     cpus_named(sharers.cpus), host);
}

std::string host_of(const RankLocation& location) {
  return std::string(location.host.data(), ::strnlen(location.host.data(), location.host.size()));
}

}  // namespace

tutti_status gather_locations(tutti_comm* comm, int group, std::vector<RankLocation>& locations) {
  RankLocation own = {};
  if (gethostname(own.host.data(), own.host.size() - 1) != 0) own.host = {'?'};
  own.pid = getpid();
  own.group = group;
  // Where the system does not say, no CPU is set, and nothing is concluded from it.
  if (sched_getaffinity(0, sizeof own.cpus, &own.cpus) != 0) CPU_ZERO(&own.cpus);
  int ranks = 0;
  if (const tutti_status status = tutti_comm_size(comm, &ranks); status != TUTTI_SUCCESS) return status;
  locations.resize(static_cast<size_t>(ranks));
  return tutti_all_gather(&own, locations.data(), sizeof own, TUTTI_UINT8, comm, {TUTTI_STREAM_BLOCKING, nullptr}, nullptr);
}

std::vector<std::string> location_lines(const std::vector<RankLocation>& locations) {
  std::vector<std::string> lines;
  if (locations.size() <= kMostLines) {
    for (size_t rank = 0; rank < locations.size(); ++rank) {
      const RankLocation& location = locations[rank];
      lines.push_back(fmt::format("#  Rank {:>2} Group {:>2} Pid {:>6} on {:>10} {}", rank, location.group, location.pid,
                                  host_of(location), cpus_named(location.cpus)));
    }
    return lines;
  }
  struct Part {
    size_t ranks = 0;
    size_t first = 0;
    size_t last = 0;
    int64_t least_pid = INT64_MAX;
    int64_t most_pid = 0;
  };
  std::map<std::pair<std::string, int32_t>, Part> parts;
  for (size_t rank = 0; rank < locations.size(); ++rank) {
    const RankLocation& location = locations[rank];
    Part& part = parts[{host_of(location), location.group}];
    if (part.ranks++ == 0) part.first = rank;
    part.last = rank;
    part.least_pid = std::min(part.least_pid, location.pid);
    part.most_pid = std::max(part.most_pid, location.pid);
  }
  for (const auto& [of, part] : parts) {
    lines.push_back(fmt::format("#  {} ranks from {} to {} Group {:>2} Pids {} to {} on {:>10}", part.ranks, part.first,
                                part.last, of.second, part.least_pid, part.most_pid, of.first));
  }
  return lines;
}

std::vector<std::string> oversubscribed_lines(const std::vector<RankLocation>& locations) {
  // A host may have CPUs enough, and ranks that are bound to the same few of them.
  std::map<std::string, Sharers> hosts;
  std::map<std::pair<std::string, std::string>, Sharers> bound;
  for (const RankLocation& location : locations) {
    add(hosts[host_of(location)], location);
    add(bound[{host_of(location), cpu_text(location.cpus)}], location);
  }
  std::vector<std::string> lines;
  for (const auto& [host, sharers] : hosts) {
    if (oversubscribed(sharers)) lines.push_back(oversubscribed_line(sharers, host));
  }
  for (const auto& [of, sharers] : bound) {
    if (oversubscribed(sharers) && !oversubscribed(hosts[of.first]))
      lines.push_back(oversubscribed_line(sharers, of.first));
  }
  return lines;
}

}  // namespace tutti::perf
