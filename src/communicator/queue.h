// A host queue: operations in order, on a thread of its own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "src/base/status.h"
#include "src/communicator/work.h"

namespace tutti {

/// Runs what is posted, one after the other. Thread safe. Destruction completes what was posted: each operation has a
/// deadline of its own, so that is bounded.
class Queue {
 public:
  Queue();
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  void post(std::function<Status()> operation);
  /// Makes `wait` cover an operation that runs elsewhere.
  void track(std::shared_ptr<Work> work);
  /// Waits until what was posted before has run; its first error since the last wait. TUTTI_IN_PROGRESS after timeout_ns
  /// (0: no limit of its own).
  Status wait(std::uint64_t timeout_ns);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<Status()>> waiting_;
  std::uint64_t posted_ = 0;
  std::uint64_t done_ = 0;
  Status first_error_;
  std::vector<std::shared_ptr<Work>> tracked_;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace tutti
