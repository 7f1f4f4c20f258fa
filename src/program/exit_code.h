// What a program of ours exits with, and how the library's statuses and the ranks' codes come together into one.
#pragma once

#include <string>

#include "tutti/tutti.h"

namespace tutti::program {

/// Exit codes of every program, part of the contract with users' scripts.
enum ExitCode : int {
  kGood = 0,
  kFailed = 1,     ///< it ran and failed
  kWrongUse = 2,   ///< wrong options, an input file refused, or a feature that is not there yet
  kWrongData = 3,  ///< it ran and the data was wrong
  kPeerLost = 4,   ///< a peer was lost or a deadline passed
};

/// The exit code for a status of the library. Thread safe.
ExitCode exit_code(tutti_status status);

/// The code that says more about what went wrong: wrong data before wrong use before a failure before a lost peer
/// (others fail, and their peers then lose them) before good. A code outside the enum counts as a failure.
int worse(int a, int b);

/// "message; remedy", without final full stops: what the library says in two sentences, as programs tell it. The remedy may
/// be empty. Thread safe.
std::string one_sentence(const std::string& message, const std::string& remedy);

/// One sentence for the first error of `comm` (NULL: of this thread's last failed call), its remedy included. Falls
/// back to the status' name where the library holds no error. Thread safe.
std::string error_sentence(const tutti_comm* comm, tutti_status status);

}  // namespace tutti::program
