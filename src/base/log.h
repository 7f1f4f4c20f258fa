// The log: lines for people, on stderr or in TUTTI_LOG_FILE, never on stdout.
#pragma once

#include <atomic>
#include <string>
#include <string_view>

#include "src/base/settings.h"

namespace tutti {

namespace detail {
/// The greatest level that is written, -1 before the environment was read.
inline std::atomic<int> log_threshold{-1};
/// Reads TUTTI_LOG and TUTTI_LOG_FILE (once) and returns the level; a malformed level counts as the default.
int read_log_settings();
}  // namespace detail

/// Whether a line of `level` would be written: one relaxed load, so that callers build their text only where it is read.
inline bool log_enabled(Level level) {
  // Relaxed: a level that another thread has just changed may take effect a line later.
  int threshold = detail::log_threshold.load(std::memory_order_relaxed);
  if (threshold < 0) threshold = detail::read_log_settings();
  return static_cast<int>(level) <= threshold;
}

/// Writes "tutti HH:MM:SS.micros host:pid level: text" as one line, in one system call, if `level` is enabled. Line breaks
/// within the text become spaces. Thread safe; never fails: what cannot be written is dropped.
void log(Level level, std::string_view text);

/// Writes it unless this process has written the very same text this way before. Thread safe; as log otherwise.
void log_once(Level level, const std::string& text);

/// Replaces what the environment says. `file` as TUTTI_LOG_FILE: empty is stderr. Thread safe.
/// Errors: TUTTI_SYSTEM_ERROR where the file cannot be opened; the log then stays where it was.
Status set_log(Level level, const std::string& file);

}  // namespace tutti
