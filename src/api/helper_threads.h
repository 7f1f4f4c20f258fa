// Threads that work for one call, which waits for them in its caller's thread.
#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "src/base/operation_count.h"
#include "src/base/poll_hook.h"
#include "src/base/status.h"

namespace tutti {

/// Used by one thread. Destruction waits for those that were started.
class HelperThreads {
 public:
  HelperThreads() = default;
  ~HelperThreads();
  HelperThreads(const HelperThreads&) = delete;
  HelperThreads& operator=(const HelperThreads&) = delete;

  /// Runs `body`, which throws nothing, on a thread of its own. Throws nothing. Errors, and nothing has happened:
  /// TUTTI_SYSTEM_ERROR where the system has no thread or no memory left.
  Status start(const char* name, std::function<void()> body);
  /// Waits for all of them, asking the hooks meanwhile: the library's threads ask nobody. `ended` is called once with each
  /// hook that wants the wait to end, and makes the threads end soon; they are waited for all the same.
  void wait(const std::vector<PollHook>& hooks, const std::function<void(const PollHook&)>& ended);

 private:
  OperationCount running_;
  std::vector<std::thread> threads_;
};

}  // namespace tutti
