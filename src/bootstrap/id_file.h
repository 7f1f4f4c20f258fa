// An identity in a file, by which ranks find each other: written whole or not at all, mode 600, removed after use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/status.h"
#include "src/bootstrap/unique_id.h"

namespace tutti {

/// What such a file says.
struct IdRecord {
  UniqueIdContents contents;
  int pid = 0;                      ///< of the process that wrote it
  std::string host;                 ///< and its machine
  std::uint64_t machine = 0;        ///< machine_id() there
  std::uint64_t pid_namespace = 0;  ///< as Member has it
  std::uint64_t start_time = 0;     ///< of the process, so that a pid used again is told apart
  std::string text;                 ///< the whole file

  /// Its writer is known to have ended. False where this machine cannot know.
  bool stale() const;
  std::string writer() const { return host + ", pid " + std::to_string(pid); }
};

/// Writes `identity` to `path`, replacing what a dead process of this machine left there. Returns the file's text, for
/// remove_id_file. Errors, which leave a file that is there as it is: TUTTI_INVALID_USAGE, naming the writer, where that
/// is alive or of another machine, so that nobody here can know; TUTTI_INVALID_ARGUMENT where it is none of Tutti's or this
/// user's; TUTTI_SYSTEM_ERROR naming the path.
Result<std::string> write_id_file(const std::string& path, const UniqueIdContents& contents);

/// Nothing where there is no such file (yet). Errors: TUTTI_INVALID_ARGUMENT where the file belongs to somebody else,
/// others could have written it, or it is no id file; TUTTI_SYSTEM_ERROR.
Result<std::optional<IdRecord>> read_id_file(const std::string& path);

/// Removes the file if it still has this text. Never fails; thread safe.
void remove_id_file(const std::string& path, const std::string& text);

/// A folder of this user's alone, where processes of one machine meet: $XDG_RUNTIME_DIR/tutti, else tutti-UID in $TMPDIR or
/// /tmp. Made where it is missing, mode 700. Errors: TUTTI_SYSTEM_ERROR where it belongs to somebody else or is open to
/// others.
Result<std::string> private_folder();

/// Removes from the private folder what processes left that were killed while their ranks met: nobody would come back to
/// those names, and each holds a key. Never fails; thread safe.
void sweep_private_folder();

/// The path in the private folder that all processes of this machine derive from the same `job` text.
Result<std::string> private_path(std::string_view job);

}  // namespace tutti
