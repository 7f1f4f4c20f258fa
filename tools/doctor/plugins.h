// The transport plugins that TUTTI_PLUGIN_PATH leads to, as the library takes them.
#pragma once

#include <string>
#include <vector>

#include "include/tutti/transport.h"

namespace tutti::doctor {

/// One shared object of a plugin folder.
struct Plugin {
  std::string file;
  const tutti_transport* transport = nullptr;  ///< the process's; NULL where the library passes the file over
  std::string why;                             ///< it does so
};

/// What the folders hold.
struct Plugins {
  std::vector<Plugin> found;  ///< in the library's order
  std::string refusal;        ///< of a folder that cannot be read, with which programs refuse to start; else empty
};

/// Loads every plugin in the folders of `path` (separated by colons), and keeps it loaded. Runs the plugins' own
/// initialisers. Thread safe.
Plugins load_plugins(const std::string& path);

/// The names of all transports that there are: the built-in ones, and those of `plugins`.
std::vector<std::string> transport_names(const Plugins& plugins);

}  // namespace tutti::doctor
