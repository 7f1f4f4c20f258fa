// Where the library's own modules lie: shared objects that are loaded when they are needed, and not linked.
#pragma once

#include <string>

namespace tutti {

/// The folder in which modules lie: `setting` (TUTTI_MODULE_DIR), or `tutti` beside the file that holds this code where
/// that is empty. That file is libtutti, or a program that was linked with this room. Thread safe.
/// code: an address within another file that is meant instead.
std::string module_folder(const std::string& setting, const void* code = nullptr);

}  // namespace tutti
