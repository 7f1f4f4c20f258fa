// The transports that the library brings along. Outsiders' plugins are loaded elsewhere, and look just the same.
#pragma once

#include <span>

#include "include/tutti/transport.h"

namespace tutti {

/// All built-in transports; static. A new one is a folder here and a line in registry.cpp.
std::span<const tutti_transport* const> builtin_transports();

}  // namespace tutti
