// How many operations of a communicator are under way elsewhere: whoever wants to free it waits until there are none.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

namespace tutti {

/// Thread safe. Outlived by its holds, so that letting go of the last one touches nothing that its waiter frees.
class Outstanding {
 public:
  /// One operation under way, until the hold and its copies are gone; nullptr once closed. Throws std::bad_alloc.
  std::shared_ptr<void> hold() const;
  /// From now on there are no new holds.
  void close() const;
  /// Waits at most ns until nothing is held; whether that is so.
  bool wait(std::uint64_t ns) const;

 private:
  struct Count {
    std::mutex mutex;
    std::condition_variable zero;
    std::uint64_t held = 0;
    bool closed = false;
  };
  std::shared_ptr<Count> count_ = std::make_shared<Count>();
};

}  // namespace tutti
