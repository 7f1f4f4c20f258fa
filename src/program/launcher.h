// Local ranks without mpirun: a program starts itself N times and watches over its children.
#pragma once

#include <chrono>

#include "src/program/output.h"

namespace tutti::program {

/// The environment variable by which a child learns the descriptor of its parent's error pipe.
inline constexpr char kLauncherPipe[] = "TUTTI_LAUNCHER_PIPE";

/// Starts `ranks` processes of this very program with the same arguments, each with TUTTI_RANK, TUTTI_RANKS,
/// TUTTI_LOCAL_RANK and TUTTI_COMM_ID (a unique id of this process) in its environment, so that they join by env://.
/// Waits for all. SIGINT, SIGTERM and SIGHUP are handed on, but for one that is ignored (nohup). After the first rank that
/// fails the others have `grace` to tell what they saw (the library promises that they notice within 5 s; who stays
/// stopped, as by SIGSTOP, is not waited for), then are ended; no process is left behind, not even if this one is killed.
/// SIGCHLD may be ignored: until the call returns it is not, but for the children. No handlers of fork's are run
/// (pthread_atfork).
///
/// Call it from the main thread of a process that has made no communicator. `output` tells the worst error that the
/// children report. Returns the worst exit code of the children (see worse()); a child ended by a signal counts as a
/// lost peer. Where a signal ended it all, this process ends by the same signal and the call does not return; SIGPIPE of
/// a child, where the reader of our common stdout has gone, is such a signal.
int launch_local(int ranks, char** argv, Output& output, std::chrono::milliseconds grace = std::chrono::seconds(7));

}  // namespace tutti::program
