// Communicators of a program, created so that a signal in the middle leaves nothing behind.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "src/program/exit_code.h"
#include "tutti/tutti.h"

namespace tutti::program {

/// What a creation came to: the communicators, or none of them, an exit code and a sentence.
struct Created {
  std::vector<tutti_comm*> comms;  ///< the caller destroys them
  int code = kGood;
  std::string sentence;
};

/// Begins one creation: index of the communicator, where it goes, and a configuration that does not block.
using Begin = std::function<tutti_status(std::size_t index, tutti_comm** comm, const tutti_config* config)>;

/// Begins `count` creations and waits until all are done. The first that fails ends the others.
///
/// SIGINT, SIGTERM and SIGHUP meanwhile end this process by that signal, without a word, but not before the library has
/// removed, as at any exit, what it keeps until the ranks have met (a file with a key in it).
/// config   may be NULL.
Created create(std::size_t count, const tutti_config* config, const Begin& begin);

}  // namespace tutti::program
