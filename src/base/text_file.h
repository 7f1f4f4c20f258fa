// Files that others wrote and that are read whole: bounded, and nothing but files.
#pragma once

#include <cstddef>
#include <string>

#include "src/base/status.h"

namespace tutti {

inline constexpr std::size_t kLongestText = std::size_t{64} << 20;

/// All that is in a file, or that a pipe brings, of at most `longest` bytes. Waits for a pipe's writer. Errors:
/// TUTTI_INVALID_ARGUMENT with the reason as it ends a sentence ("X cannot be read: it is a folder"): what the system says,
/// a folder, a device, or one that is longer.
Result<std::string> read_text_file(const std::string& path, std::size_t longest = kLongestText);

}  // namespace tutti
