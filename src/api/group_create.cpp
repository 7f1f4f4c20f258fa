// Communicators that one call makes together.
#include <algorithm>
#include <mutex>

#include "src/api/handles.h"
#include "src/api/helper_threads.h"

namespace tutti {
namespace {

/// Each on a thread of its own, since all have to meet. The first that fails ends the others' waits.
class TogetherCreated {
 public:
  explicit TogetherCreated(std::vector<HeldCreation>& creations) : creations_(creations) {}

  Status run() {
    std::vector<PollHook> hooks;  // each once
    for (const HeldCreation& held : creations_) {
      if (std::find(hooks.begin(), hooks.end(), held.hook) == hooks.end()) hooks.push_back(held.hook);
    }
    // At least once, before any could be through. The threads below see what comes of it, and tell the peers.
    for (const PollHook& hook : hooks) {
      if (hook.ends_wait()) note(ended());
    }
    HelperThreads threads;
    for (HeldCreation& held : creations_) {
      Status begun = held.enter ? catching(held.enter) : Status();
      if (begun.ok()) begun = threads.start("tutti creation", [this, &held] { note(held.make(*held.handle, given_up_)); });
      note(begun);
      if (begun.ok()) continue;
      refuse_together(std::span(creations_).subspan(static_cast<std::size_t>(&held - creations_.data())), begun);
      break;
    }
    // Without memory for waiting they end at once, before the crew is waited for.
    note(catching([&]() -> Status {
      threads.wait(hooks, [this](const PollHook&) { note(ended()); });
      return {};
    }));
    return first_;
  }

 private:
  static Status ended() {
    return catching([] { return Status(TUTTI_ABORTED, "the creation was ended by the caller's poll hook"); });
  }
  void note(const Status& status) {
    if (status.ok()) return;
    const std::lock_guard lock(mutex_);
    if (first_.ok()) first_ = status;
    given_up_.store(true, std::memory_order_relaxed);  // relaxed: carries no data
  }

  std::vector<HeldCreation>& creations_;
  std::mutex mutex_;  ///< guards first_
  Status first_;
  std::atomic<bool> given_up_{false};
};

}  // namespace

void refuse_together(std::span<HeldCreation> creations, const Status& failure) {
  const Status told = catching([&]() -> Status {
    HelperThreads threads;  // waits for all of them at its end
    for (HeldCreation& held : creations) {
      if (!held.refuse) continue;
      if (!threads.start("tutti creation", [&] { held.refuse(failure); }).ok()) held.refuse(failure);
    }
    return {};
  });
  static_cast<void>(told);  // without memory the peers wait
}

Status create_together(std::vector<HeldCreation>& creations) {
  if (creations.empty()) return {};
  Status status = catching([&] { return TogetherCreated(creations).run(); });
  for (HeldCreation& held : creations) {
    if (status.ok() && held.handle->communicator != nullptr) *held.out = held.handle.release();
  }
  return status;
}

}  // namespace tutti
