#include "src/program/launcher_detection.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <string_view>

namespace tutti::program {
namespace {

// As env:// reads it: a variable without a value is none.
std::string_view text_of(const char* variable) {
  const char* text = std::getenv(variable);
  return text != nullptr ? text : "";
}

std::optional<int64_t> number(const char* variable) {
  const std::string_view text = text_of(variable);
  int64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size()) return std::nullopt;
  return value;
}

struct LauncherVariables {
  const char* launcher;
  const char* rank;
  const char* ranks;
  const char* local_rank;
};

constexpr LauncherVariables kTorchrun = {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"};
constexpr LauncherVariables kLaunchers[] = {
    {"TUTTI_RANK", "TUTTI_RANK", "TUTTI_RANKS", "TUTTI_LOCAL_RANK"},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    kTorchrun,
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"},
};

// RANK and SLURM_PROCID alone may be left over from something else: each asks for marks of its launcher too.
bool meant(const LauncherVariables& variables) {
  if (std::strcmp(variables.launcher, "torchrun") == 0)
    return !text_of("MASTER_ADDR").empty() && !text_of("MASTER_PORT").empty();
  if (std::strcmp(variables.launcher, "srun") != 0) return true;
  // Steps numbered from here are the batch script, interactive shells and the like, which srun did not start.
  constexpr int64_t kFirstSpecialStep = 0xfffffff0;
  const auto step = number("SLURM_STEP_ID");
  return step && *step >= 0 && *step < kFirstSpecialStep;
}

// Why the variables name no place; empty where they do.
std::string refusal(const LauncherVariables& variables) {
  const char* const names[] = {variables.rank, variables.ranks};
  for (const char* const name : names) {
    if (!text_of(name).empty()) continue;
    const char* const other = name == variables.rank ? variables.ranks : variables.rank;
    return fmt::format("{}={} is set, but {} is not; set both, or neither where no launcher is meant", other,
                       text_of(other), name);
  }
  for (const char* const name : names) {
    const auto value = number(name);
    const int64_t least = name == variables.ranks ? 1 : 0;
    if (value && *value >= least && *value <= INT32_MAX) continue;
    return fmt::format("{} is '{}', but a launcher gives a whole number from {}; correct it, or unset {} and {}", name,
                       text_of(name), least, variables.rank, variables.ranks);
  }
  if (*number(variables.rank) < *number(variables.ranks)) return "";
  return fmt::format("{}={} is outside {}={}: ranks are 0 to {}; correct it, or unset both", variables.rank,
                     text_of(variables.rank), variables.ranks, text_of(variables.ranks), *number(variables.ranks) - 1);
}

DetectedLauncher place_by(const LauncherVariables& variables) {
  if (std::string why = refusal(variables); !why.empty()) return {std::nullopt, std::move(why)};
  const int rank = static_cast<int>(*number(variables.rank));
  const auto local = number(variables.local_rank);
  return {LauncherRank{rank, static_cast<int>(*number(variables.ranks)), static_cast<int>(local.value_or(rank)),
                       variables.launcher},
          ""};
}

// As the library refuses env:// then. A job of one rank meets nobody, and may be a leftover.
DetectedLauncher place_by_half_of_torchrun() {
  if (text_of(kTorchrun.rank).empty() || text_of(kTorchrun.ranks).empty()) return {};
  if (number(kTorchrun.ranks) == 1 && number(kTorchrun.rank) == 0) return {};
  DetectedLauncher placement = place_by(kTorchrun);
  if (!placement.place || !text_of("TUTTI_COMM_ID").empty()) return placement;
  const char* const missing = !text_of("MASTER_ADDR").empty()   ? "MASTER_PORT is"
                              : !text_of("MASTER_PORT").empty() ? "MASTER_ADDR is"
                                                                : "MASTER_ADDR and MASTER_PORT are";
  return {std::nullopt,
          fmt::format("RANK={} and WORLD_SIZE={} are set, as by torchrun, but {} not, so that the ranks cannot meet; set "
                      "MASTER_ADDR and MASTER_PORT on all ranks to a host and a free port of rank 0's, or unset RANK and "
                      "WORLD_SIZE where no launcher is meant",
                      text_of(kTorchrun.rank), text_of(kTorchrun.ranks), missing)};
}

// The lowest-numbered thread of the CPU's core, or the CPU itself where the system does not say.
int first_sibling(int cpu) {
  std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
  int first = cpu;
  file >> first;
  return first;
}

// As the library takes it: torchrun started by mpirun or a PMI launcher hands their variables on to its own ranks, to all
// of them the same.
bool is_around_torchrun(const LauncherVariables& variables) {
  if (std::strcmp(variables.launcher, "mpirun") != 0 && std::strcmp(variables.launcher, "PMI") != 0) return false;
  if (!meant(kTorchrun) || !number(kTorchrun.rank) || !number(kTorchrun.ranks)) return false;
  return number(kTorchrun.rank) != number(variables.rank) || number(kTorchrun.ranks) != number(variables.ranks);
}

}  // namespace

DetectedLauncher detect_launcher() {
  for (const LauncherVariables& variables : kLaunchers) {
    if ((text_of(variables.rank).empty() && text_of(variables.ranks).empty()) || !meant(variables)) continue;
    return place_by(is_around_torchrun(variables) ? kTorchrun : variables);
  }
  return place_by_half_of_torchrun();
}

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return {};
  std::vector<int> first;
  std::vector<int> second;
  std::set<int> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(static_cast<size_t>(cpu), &set)) continue;
    (cores.insert(first_sibling(cpu)).second ? first : second).push_back(cpu);
  }
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

bool pin_to_core(int local_rank) {
  const std::vector<int> cpus = allowed_cpus();
  if (cpus.empty() || local_rank < 0) return false;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(cpus[static_cast<size_t>(local_rank) % cpus.size()]), &set);
  return pthread_setaffinity_np(pthread_self(), sizeof(set), &set) == 0;
}

}  // namespace tutti::program
