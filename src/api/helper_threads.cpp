#include "src/api/helper_threads.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "src/base/background_thread.h"
#include "src/base/exception_boundary.h"

namespace tutti {

HelperThreads::~HelperThreads() {
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

Status HelperThreads::start(const char* name, std::function<void()> body) {
  return catching([&]() -> Status {
    threads_.emplace_back();
    auto started = background_thread(name, [work = std::move(body), running = running_.admit()]() mutable {
      work();
      running.reset();
    });
    if (started.ok()) threads_.back() = std::move(*started);
    return started.status();
  });
}

void HelperThreads::wait(const std::vector<PollHook>& hooks, const std::function<void(const PollHook&)>& ended) {
  std::vector<PollHook> asked;
  for (const PollHook& hook : hooks) {
    if (hook.poll != nullptr && std::find(asked.begin(), asked.end(), hook) == asked.end()) asked.push_back(hook);
  }
  // Without hooks there is nothing to do meanwhile.
  while (!asked.empty() && !running_.wait(asked.front().slice_ns(UINT64_MAX))) {
    std::erase_if(asked, [&](const PollHook& hook) {
      if (!hook.ends_wait()) return false;
      ended(hook);
      return true;
    });
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

}  // namespace tutti
