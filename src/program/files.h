// Files that a program is to write in the end, looked at in the beginning.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tutti::program {

/// Whether `path`, which `option` named ("--plot"), can be written, so that hours of work are not followed by a refusal.
/// Leaves nothing behind. Returns an empty string, or a sentence for kWrongUse. Thread safe.
std::string check_writable(const std::string& option, const std::string& path);

/// A file that an option names.
struct NamedFile {
  const char* option;  ///< "--svg"
  std::string path;    ///< empty where the option was not given, "-" for a standard stream
};
/// Whether a file that is written is read, too, or written twice, however its name is spelt; devices and pipes may be. To
/// be asked before anything is opened. Returns an empty string, or a sentence for kWrongUse. Thread safe.
std::string overwritten(std::span<const NamedFile> written, std::span<const NamedFile> read);

/// Writes a file whole or not at all: beside it, synced, and then renamed, so that nobody reads half of one, and a failure
/// or Ctrl-C leaves what was there. A device, a pipe and what a symbolic link leads to are
/// written as they are. Returns 0, or the errno. Thread safe.
int write_file(const std::string& path, std::string_view bytes);

}  // namespace tutti::program
