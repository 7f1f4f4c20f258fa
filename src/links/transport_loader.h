// The transports that there are: those built in, the library's own modules, and the plugins that TUTTI_PLUGIN_PATH leads
// to.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "include/tutti/transport.h"
#include "src/base/status.h"

namespace tutti {

using TransportList = std::vector<const tutti_transport*>;

/// One shared object of a folder of plugins or of the library's modules.
struct Plugin {
  std::string file;
  const tutti_transport* transport = nullptr;  ///< the process's; NULL where the file is passed over
  std::string why;                             ///< it is passed over; empty where it is not
};

/// The transport that a loaded shared object exports; nullptr, with the reason in `why`, where it is none that this library
/// can use. library: as dlopen gave it. Thread safe.
const tutti_transport* exported_transport(void* library, std::string& why);

/// Why a plugin's table cannot be used: it is of another ABI, or lacks a mandatory operation. Empty where it can. Thread
/// safe.
std::string table_objection(const tutti_transport& given);

/// What a transport says of why it cannot do something (`why` in transport.h), in its parts.
struct TransportWhy {
  /// Neither full stop nor remedy; where `own`, what this process lacks, as in "cannot share memory: …".
  std::string reason;
  std::string remedy;
  bool own = false;  ///< it began "this process "

  /// With a name for this process, which others can read.
  std::string told_of(std::string_view process) const { return own ? std::string(process) + " " + reason : reason; }
};
TransportWhy read_why(std::string_view why);

/// What known_transports found.
struct KnownTransports {
  TransportList all;            ///< the built-in ones, then the modules', then the plugins'; no two of one name
  std::vector<Plugin> plugins;  ///< modules first, then by folder, as the path lists them; in a folder by name
  Status refusal;               ///< of the first folder that cannot be read, where the search ended; else OK
};

/// Loads the library's own transports (tutti_*.so) in `modules`, then every plugin (*.so) in the folders of `plugin_path`.
/// All stay loaded for as long as the process lives: links point into them. Runs their own initialisers. Thread safe.
/// plugin_path  folders, separated by colons
/// modules      as module_folder gives it; where it is not there, the library has no transports in modules
/// Errors, in `refusal`: TUTTI_INVALID_ARGUMENT, a folder of plugin_path that cannot be read.
KnownTransports known_transports(const std::string& plugin_path, const std::string& modules);

/// Those of `all` that `names` ask for, in their order and each once; all of them where there are no names.
/// place  where the names come from, for the error's sentence: "TUTTI_TRANSPORTS"
/// Errors: TUTTI_INVALID_ARGUMENT, a name that none of them has, and those that there are. Thread safe.
Result<TransportList> choose_transports(const TransportList& all, const std::vector<std::string>& names,
                                        const std::string& place);

}  // namespace tutti
