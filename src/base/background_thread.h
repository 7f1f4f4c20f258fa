// Threads of the library's own: named, and deaf to the program's signals.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "src/base/status.h"

namespace tutti {

/// Starts a thread that runs `body` with all signals blocked, so that the program's handlers run on its own threads.
/// name: at most 15 characters, as debuggers show it. Errors: TUTTI_SYSTEM_ERROR where the system has no thread left.
Result<std::thread> background_thread(const std::string& name, std::function<void()> body);

}  // namespace tutti
