// Files that a program is to write in the end, looked at in the beginning.
#pragma once

#include <string>

namespace tutti::program {

/// Whether `path`, which `option` named ("--plot"), can be written, so that hours of work are not followed by a refusal.
/// Leaves nothing behind. Returns an empty string, or a sentence for kWrongUse. Thread safe.
std::string check_writable(const std::string& option, const std::string& path);

}  // namespace tutti::program
