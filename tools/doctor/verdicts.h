// For each transport: whether this machine can use it, if not why, and what would make it so.
#pragma once

#include <string>
#include <vector>

#include "src/base/settings.h"
#include "src/links/transport_loader.h"
#include "topology/sysfs.h"

namespace tutti::doctor {

struct Verdict {
  std::string transport;
  bool usable = false;
  std::string why;
  std::string remedy;  ///< empty where it is usable
};

/// The transports that the library beside this program would find. Thread safe.
KnownTransports transports_of_library(const Settings& settings);

/// shm and tcp by asking them, verbs and nvlink by what they need, then modules and plugins by asking them;
/// one that the library passes over has its file's name. A transport that TUTTI_TRANSPORTS leaves out is not
/// usable, and none is where ranks cannot meet (no interface is up). Thread safe.
std::vector<Verdict> judge_transports(const Sysfs& files, const Settings& settings);

}  // namespace tutti::doctor
