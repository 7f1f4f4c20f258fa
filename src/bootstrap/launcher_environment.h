// What a launcher says in the environment: which rank this process is, of how many, and how the ranks can meet.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/base/status.h"

namespace tutti {

/// Reads a variable; NULL where it is unset. Replaceable in tests.
using EnvironmentLookup = std::function<const char*(const char* name)>;
/// The process's own environment.
EnvironmentLookup process_environment();

/// What was found.
struct Launched {
  /// How the ranks meet where no TUTTI_COMM_ID says it.
  enum class Rendezvous {
    kNowhere,  ///< the launcher says nothing of use: `remedy`
    kPrivate,  ///< all ranks are on this machine: the private file of `job`
    kTcp,      ///< at `host`, on the first of `ports` that is free there
  };
  std::string launcher;  ///< "TUTTI_*", "Open MPI", "PMI", "torchrun", "Slurm"
  int rank = -1;
  int ranks = -1;
  Rendezvous rendezvous = Rendezvous::kNowhere;
  std::string job;                   ///< names this job among those of this user and machine
  std::string host;                  ///< kTcp
  std::vector<std::uint16_t> ports;  ///< kTcp: candidates
  bool one_machine = false;          ///< kTcp: known to be on one machine, so that a private file serves without a secret
  std::string remedy;                ///< what to do where there is no place to meet
};

/// Looks for TUTTI_RANK and TUTTI_RANKS, Open MPI's, PMI's, torchrun's, Slurm's (inside a step only) variables, in this
/// order; the first launcher that gives rank and size wins. Last, RANK and WORLD_SIZE serve without torchrun's MASTER_ADDR
/// and MASTER_PORT where TUTTI_COMM_ID says where to meet. port_low, port_high: TUTTI_PORT_RANGE, or 0, 0.
/// Errors: TUTTI_INVALID_ARGUMENT, naming a malformed variable and its value, what of torchrun's is missing, or the
/// variables that were looked for.
Result<Launched> read_launcher(const EnvironmentLookup& environment, std::uint32_t port_low, std::uint32_t port_high);

}  // namespace tutti
