// Communicators that one call makes together.
#include <mutex>

#include "src/api/crew.h"
#include "src/api/handles.h"

namespace tutti {
namespace {

/// Each on a thread of its own, since all have to meet. The first that fails ends the others' waits.
class TogetherCreated {
 public:
  explicit TogetherCreated(std::vector<HeldCreation>& creations) : creations_(creations) {}

  Status run() {
    std::vector<Hook> hooks;
    for (const HeldCreation& held : creations_) hooks.push_back(held.hook);
    Crew crew;
    for (HeldCreation& held : creations_) {
      Status begun = held.enter ? attempt(held.enter) : Status();
      if (begun.ok()) begun = crew.start("tutti creation", [this, &held] { note(held.make(*held.handle, given_up_)); });
      note(begun);
      if (!begun.ok()) break;
    }
    // Without memory for waiting they end at once, before the crew is waited for.
    note(attempt([&]() -> Status {
      crew.wait(hooks, [this](const Hook&) {
        note(attempt([] { return Status(TUTTI_ABORTED, "the creation was ended by the caller's poll hook"); }));
      });
      return {};
    }));
    return first_;
  }

 private:
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

Status create_together(std::vector<HeldCreation>& creations) {
  if (creations.empty()) return {};
  Status status = attempt([&] { return TogetherCreated(creations).run(); });
  for (HeldCreation& held : creations) {
    if (status.ok() && held.handle->communicator != nullptr) *held.out = held.handle.release();
  }
  return status;
}

}  // namespace tutti
