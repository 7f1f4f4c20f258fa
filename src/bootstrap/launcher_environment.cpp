#include "src/bootstrap/launcher_environment.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "src/base/addresses.h"

namespace tutti {

namespace {

const char* const kSeveralHosts =
    "Set TUTTI_COMM_ID on all ranks to a printed unique id, file:///PATH on a file system that they share, or "
    "tcp://HOST:PORT of rank 0 together with TUTTI_SECRET";

// Reads integers from 0 to `most`, remembering what is wrong with the first that is none.
class Reader {
 public:
  explicit Reader(const EnvironmentLookup& environment) : environment_(environment) {}

  std::string text(const char* name) const {
    const char* value = environment_(name);
    return value != nullptr ? value : "";
  }
  bool has(const char* name) const { return !text(name).empty(); }
  int number(const char* name, int most = INT_MAX) {
    const std::string value = text(name);
    int result = -1;
    const char* end = value.data() + value.size();
    const auto parsed = std::from_chars(value.data(), end, result);
    const bool integer = !value.empty() && parsed.ptr == end && parsed.ec != std::errc::invalid_argument;
    const bool good = integer && parsed.ec == std::errc() && result >= 0 && result <= most;
    if (!good && malformed_.empty()) {
      const char* const why = !integer ? "no integer" : value.front() == '-' ? "too small" : "too large";
      malformed_ = std::string(name) + "=\"" + value + "\" is " + why;
    }
    return result;
  }
  const std::string& malformed() const { return malformed_; }

 private:
  const EnvironmentLookup& environment_;
  std::string malformed_;
};

struct Ports {
  std::uint32_t low, high;
};

// A launcher's own way; nothing where it did not start us.
using Find = std::optional<Launched> (*)(Reader&, Ports);

// Rank and size as a launcher's two variables say them, without a place to meet; nothing where one of them is unset.
std::optional<Launched> started_by(const char* launcher, Reader& in, const char* rank, const char* ranks) {
  if (!in.has(rank) || !in.has(ranks)) return std::nullopt;
  Launched found;
  found.launcher = launcher;
  found.rank = in.number(rank);
  found.ranks = in.number(ranks);
  found.remedy = kSeveralHosts;
  return found;
}

std::optional<Launched> find_tutti(Reader& in, Ports) { return started_by("TUTTI_*", in, "TUTTI_RANK", "TUTTI_RANKS"); }

void meet_on_one_machine(Launched& found, bool one_machine, std::string job) {
  found.rendezvous = one_machine ? Launched::Rendezvous::kPrivate : Launched::Rendezvous::kNowhere;
  found.job = found.launcher + " " + std::move(job);
}

std::optional<Launched> find_open_mpi(Reader& in, Ports) {
  auto found = started_by("Open MPI", in, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  if (!found) return std::nullopt;
  const bool one_machine = in.has("OMPI_COMM_WORLD_LOCAL_SIZE") && in.number("OMPI_COMM_WORLD_LOCAL_SIZE") == found->ranks;
  meet_on_one_machine(*found, one_machine,
                      in.text("PMIX_NAMESPACE") + " " + in.text("OMPI_MCA_ess_base_jobid") + " " +
                          in.text("PMIX_SERVER_TMPDIR") + " " + in.text("OMPI_MCA_orte_hnp_uri"));
  return found;
}

// The process at the other end of PMI_FD, which is one for all ranks of a machine, else our parent. A wrapper script
// between the two would have a pid of its own.
std::string pmi_server(Reader& in) {
  if (in.has("PMI_FD")) {
    ucred peer{};
    socklen_t length = sizeof peer;
    const int fd = in.number("PMI_FD");
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.pid > 0) {
      return "server " + std::to_string(peer.pid);
    }
  }
  return "parent " + std::to_string(::getppid());
}

std::optional<Launched> find_pmi(Reader& in, Ports) {
  auto found = started_by("PMI", in, "PMI_RANK", "PMI_SIZE");
  if (!found) return std::nullopt;
  bool one_machine = found->ranks == 1;
  for (const char* local : {"MPI_LOCALNRANKS", "SLURM_STEP_TASKS_PER_NODE", "PMI_LOCAL_SIZE"}) {
    if (in.has(local) && in.text(local) == in.text("PMI_SIZE")) one_machine = true;
  }
  const std::string job = in.has("SLURM_STEP_ID") ? "step " + in.text("SLURM_JOB_ID") + "." + in.text("SLURM_STEP_ID")
                          : in.has("PMI_JOBID")   ? in.text("PMI_JOBID")
                                                  : pmi_server(in);
  meet_on_one_machine(*found, one_machine, job);
  return found;
}

// Where ranks may meet, given torchrun's own port. Where its agent holds that, we take one beside it; PyTorch in the same
// program may hold it otherwise, so those beside it are candidates in any case. All ranks derive the same list.
std::vector<std::uint16_t> ports_at(std::uint32_t master, bool taken, Ports allowed) {
  std::vector<std::uint16_t> ports;
  if (!taken) ports.push_back(static_cast<std::uint16_t>(master));
  const std::uint32_t size = allowed.high >= allowed.low ? allowed.high - allowed.low + 1 : 1;
  for (std::uint32_t i = 1; i <= 8; ++i) {
    const std::uint32_t beside = master + i;
    const std::uint32_t port = allowed.low != 0 ? allowed.low + beside % size : beside <= 65535 ? beside : beside - 32768;
    ports.push_back(static_cast<std::uint16_t>(port));
  }
  return ports;
}

std::optional<Launched> find_torchrun(Reader& in, Ports ports) {
  if (!in.has("MASTER_ADDR") || !in.has("MASTER_PORT")) return std::nullopt;
  auto found = started_by("torchrun", in, "RANK", "WORLD_SIZE");
  if (!found) return std::nullopt;
  found->rendezvous = Launched::Rendezvous::kTcp;
  found->host = in.text("MASTER_ADDR");
  const int master = in.number("MASTER_PORT", 65535);
  const bool taken = in.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  found->ports = ports_at(static_cast<std::uint32_t>(master), taken, ports);
  const bool all_local = in.has("LOCAL_WORLD_SIZE") && in.text("LOCAL_WORLD_SIZE") == in.text("WORLD_SIZE");
  if (found->host.starts_with('[') && found->host.ends_with(']'))
    found->host = found->host.substr(1, found->host.size() - 2);
  const auto number = numeric_address({found->host, 1});
  const bool loopback = found->host == "localhost" || (number && *number && (*number)->loopback());
  found->one_machine = all_local || loopback;
  found->job = "torchrun " + found->host + " " + std::to_string(master) + " " + in.text("TORCHELASTIC_RUN_ID") + " " +
               in.text("TORCHELASTIC_RESTART_COUNT");
  return found;
}

std::optional<Launched> find_slurm(Reader& in, Ports) {
  // A batch script outside of a step has most of these variables too, but is one process.
  const bool in_step = in.has("SLURM_STEP_ID") || in.has("SLURM_STEPID");
  if (!in_step) return std::nullopt;
  const char* const size = in.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  auto found = started_by("Slurm", in, "SLURM_PROCID", size);
  if (!found) return std::nullopt;
  const char* const nodes = in.has("SLURM_STEP_NUM_NODES") ? "SLURM_STEP_NUM_NODES" : "SLURM_NNODES";
  const bool one_machine = in.has(nodes) && in.number(nodes) == 1;
  meet_on_one_machine(*found, one_machine,
                      in.text("SLURM_JOB_ID") + "." + in.text(in.has("SLURM_STEP_ID") ? "SLURM_STEP_ID" : "SLURM_STEPID"));
  return found;
}

// What torchrun sets in part, where no other launcher says who this process is: a rank that went on alone would leave the
// others waiting. nullopt where it is not meant.
std::optional<Result<Launched>> find_half_of_torchrun(Reader& in) {
  if (!in.has("RANK") || !in.has("WORLD_SIZE")) return std::nullopt;
  if (in.has("TUTTI_COMM_ID")) return *started_by("torchrun", in, "RANK", "WORLD_SIZE");  // it says where to meet
  const bool address = in.has("MASTER_ADDR");
  const std::string missing = address                 ? "MASTER_PORT is"
                              : in.has("MASTER_PORT") ? "MASTER_ADDR is"
                                                      : "MASTER_ADDR and MASTER_PORT are";
  return Status(TUTTI_INVALID_ARGUMENT,
                "RANK=" + in.text("RANK") + " and WORLD_SIZE=" + in.text("WORLD_SIZE") + " are set, as by torchrun, but " +
                    missing + " not, so that the ranks cannot meet",
                "Set MASTER_ADDR and MASTER_PORT on all ranks to a host and a free port of rank 0's, or TUTTI_COMM_ID");
}

// torchrun started by mpirun or srun hands their variables on to its own ranks, to all of them the same. So where these say
// something else than all of torchrun's do, they are those of the launcher around it.
std::optional<Launched> find_torchrun_within(const Launched& outer, const EnvironmentLookup& environment, Ports ports) {
  Reader in(environment);
  auto inner = find_torchrun(in, ports);
  if (!inner || !in.malformed().empty()) return std::nullopt;
  if (inner->rank == outer.rank && inner->ranks == outer.ranks) return std::nullopt;
  return inner;
}

constexpr std::array<Find, 5> kLaunchers = {find_tutti, find_open_mpi, find_pmi, find_torchrun, find_slurm};

Status refuse_number(const Reader& in) {
  return Status(TUTTI_INVALID_ARGUMENT, in.malformed(), "Unset it, or give a whole number from 0, as launchers do");
}

}  // namespace

EnvironmentLookup process_environment() {
  return [](const char* name) -> const char* { return std::getenv(name); };
}

Result<Launched> read_launcher(const EnvironmentLookup& environment, std::uint32_t port_low, std::uint32_t port_high) {
  Reader in(environment);
  if (in.has("TUTTI_RANK") != in.has("TUTTI_RANKS")) {
    return Status(TUTTI_INVALID_ARGUMENT, "Of TUTTI_RANK and TUTTI_RANKS only one is set", "Set both, or neither");
  }
  for (const Find find : kLaunchers) {
    auto found = find(in, {port_low, port_high});
    if (!in.malformed().empty()) return refuse_number(in);
    if (!found) continue;
    auto inner = find == find_open_mpi || find == find_pmi
                     ? find_torchrun_within(*found, environment, {port_low, port_high})
                     : std::nullopt;
    return inner ? std::move(*inner) : std::move(*found);
  }
  if (auto half = find_half_of_torchrun(in)) {
    if (in.malformed().empty()) return std::move(*half);
    return refuse_number(in);
  }
  return Status(
      TUTTI_INVALID_ARGUMENT, "No launcher says which rank this process is",
      "Set TUTTI_RANK, TUTTI_RANKS and TUTTI_COMM_ID, or start it by Open MPI's mpirun, a PMI launcher, torchrun or "
      "srun (a batch script alone is no step)");
}

}  // namespace tutti
