// In the place of the library's: a thread that does nothing. What it would do the model does, a turn at a time.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "src/base/status.h"

namespace tutti {

/// Whether the system has a thread left.
inline bool model_has_threads = true;

inline Result<std::thread> model_thread(const std::string&, const std::function<void()>&) {
  if (!model_has_threads) return Status(TUTTI_SYSTEM_ERROR, "no thread is left");
  return std::thread([] {});
}

}  // namespace tutti

// The library's own is linked, too.
#define background_thread model_thread
