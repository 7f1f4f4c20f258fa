// Where the ranks of a run are: hosts, processes, CPUs.
#pragma once

#include <sched.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::perf {

/// What one rank says of itself.
struct RankLocation {
  std::array<char, 64> host;
  int64_t pid;
  int32_t group;
  cpu_set_t cpus;  ///< on which it may run
};

/// By rank. Collective over comm; `group` is the caller's.
tutti_status gather_locations(tutti_comm* comm, int group, std::vector<RankLocation>& locations);

/// A line for each rank as nccl-tests has it, or, beyond 64 ranks, for each host and group.
std::vector<std::string> location_lines(const std::vector<RankLocation>& locations);

/// The lines that say which ranks have fewer CPUs together than they are; empty where each can have one of its own.
std::vector<std::string> oversubscribed_lines(const std::vector<RankLocation>& locations);

}  // namespace tutti::perf
