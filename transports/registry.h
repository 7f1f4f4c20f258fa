// The transports that the library brings along. Outsiders' plugins are loaded elsewhere, and look just the same.
#pragma once

#include <vector>

#include "include/tutti/transport.h"

namespace tutti {

/// All built-in transports, which last as long as the process. A new one is a folder here and a line in registry.cpp.
std::vector<const tutti_transport*> builtin_transports();

}  // namespace tutti
