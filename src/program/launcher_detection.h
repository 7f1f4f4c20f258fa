// Who started this process: mpirun, srun, torchrun, our own launcher, or a person.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tutti::program {

/// The rank that a launcher gave to this process.
struct LauncherRank {
  int rank;
  int ranks;
  int local_rank;        ///< among the ranks of this machine, as far as the launcher says; else `rank`
  std::string launcher;  ///< "mpirun", "srun", "torchrun", "PMI", or "TUTTI_RANK" for our own variables
};

/// What the environment says of this process: a place, or why what it says is none (a sentence for kWrongUse), or
/// neither, where no launcher started it.
struct DetectedLauncher {
  std::optional<LauncherRank> place;
  std::string refusal;
};

/// Reads the environment in the order that env:// does: TUTTI_*, Open MPI's, PMI's, torchrun's, Slurm's (inside a step
/// only). The first launcher that left a variable is asked: half of its variables, a text that is no number and a rank
/// outside the size are refused, since a rank that ran a job of its own instead would leave the others waiting. So are
/// RANK and WORLD_SIZE of several ranks without MASTER_ADDR and MASTER_PORT, where TUTTI_COMM_ID is not set either.
DetectedLauncher detect_launcher();

/// CPUs this process may run on, one of each core before the second thread of any.
std::vector<int> allowed_cpus();

/// Pins the calling thread to the core for `local_rank`; ranks beyond the cores go round. Returns false where the system
/// refuses.
bool pin_to_core(int local_rank);

}  // namespace tutti::program
