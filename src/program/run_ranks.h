// The ranks of a job, whoever starts them: mpirun, srun, torchrun, our launcher, or threads of this process.
#pragma once

#include <cstdint>
#include <functional>

#include "src/program/options.h"
#include "src/program/output.h"

namespace tutti::program {

/// How many ranks there are and where they run. The fields are what the options of add_rank_options said.
struct RankOptions {
  int64_t ranks = 1;  ///< processes, or threads where they are asked for
  bool threads = false;
  std::string bind = "none";
  int64_t each = 1;  ///< ranks that every one of them is, on threads of one process; no option of add_rank_options
};

/// Declares --ranks, --threads and --bind. `ranks.ranks` is the default for the first.
void add_rank_options(Options& options, RankOptions& ranks);

/// One rank at work: what run_ranks hands to the body. The communicator stays run_ranks'.
struct RankMember {
  tutti_comm* comm;
  int rank;
  int ranks;
};

/// Runs `body` once on every rank and returns the exit code of this process.
///
/// Where a launcher started this process, it joins the others by env://, and --ranks may only agree with the launcher (a
/// launcher's job of one rank is free to have local ranks of its own). Otherwise with --threads, or for one process, the
/// ranks are threads of this process; else processes of this same program, started by launch_local, and this process
/// only watches. With `each` above 1, process p is the ranks from p * each on; it must be equal in all processes.
///
/// body     returns an exit code; on success the communicator is finalized, after a failure it is aborted, so that no
///          peer waits. It may run on several threads at once with --threads, or `each` above 1.
/// config   may be NULL; must outlive the call.
/// output   tells errors; its rank is set before the body runs, to the process's. Lines and records of other processes go
///          nowhere: where ranks are threads, the body must itself write them on rank 0 only.
int run_ranks(const Options& options, const RankOptions& ranks, char** argv, const tutti_config* config, Output& output,
              const std::function<int(const RankMember&)>& body);

}  // namespace tutti::program
