// Threads that begin together, or not at all.
#pragma once

#include <functional>
#include <string>

namespace tutti::program {

/// Runs body(0) to body(ranks - 1), each on a thread of its own, none before all of them are there: ranks wait for each
/// other. `body` must not throw. Returns an empty string when all have ended; or why a thread could not be started, and
/// then no body has run. Thread safe.
std::string run_threads(int ranks, const std::function<void(int rank)>& body);

}  // namespace tutti::program
