// Work: an operation under way, and the thread that tells of its end.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "src/base/status.h"

namespace tutti {

/// One operation's state, shared by whoever posted it and whoever runs it. Thread safe.
class Work {
 public:
  struct Info {
    std::uint64_t sequence = 0;
    std::int32_t source = -1;
    std::uint64_t received_count = 0;
    std::uint64_t start_ns = 0;
    std::uint64_t end_ns = 0;
  };
  using Callback = std::function<void(tutti_status)>;

  void start(std::uint64_t sequence);
  /// Ends the operation, once; callbacks go to the notifier's thread.
  void complete(Status status);
  void set_received(std::int32_t source, std::uint64_t count);

  /// The outcome, or nothing while it runs.
  std::optional<Status> test() const;
  /// Waits at most timeout_ns; nothing where the operation runs on.
  std::optional<Status> wait(std::uint64_t timeout_ns) const;
  Info info() const;
  /// `fn` is called exactly once, on the notifier's thread, also where the operation has ended already.
  void on_complete(Callback fn);

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable ended_;
  std::optional<Status> status_;
  Info info_;
  std::vector<Callback> callbacks_;
};

}  // namespace tutti
