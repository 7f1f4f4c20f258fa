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
#include "src/base/work.h"

namespace tutti {

/// Runs what is posted, one after the other. Thread safe. Destruction completes what was posted and tracked: each operation
/// has a deadline of its own, so that is bounded.
class Queue {
 public:
  /// Errors: TUTTI_SYSTEM_ERROR where the system has no thread left.
  static Result<std::unique_ptr<Queue>> make();
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  /// Appends `operation`, whose outcome `work` has afterwards. `enter` is called in one step with that, once nothing can
  /// fail any more: it takes the operation's place in orders other than this queue's. It must not throw or block.
  void post(std::function<void()> operation, std::shared_ptr<const Work> work, const std::function<void()>& enter);
  /// Makes `wait` cover an operation that runs elsewhere.
  void track(std::shared_ptr<const Work> work);
  /// Waits until what was posted and tracked before has ended; its first error since the last wait that saw it. After
  /// timeout_ns (0: no limit of its own) TUTTI_IN_PROGRESS, TUTTI_ABORTED where a hook of theirs ended the wait; neither
  /// forgets anything.
  Status wait(std::uint64_t timeout_ns);

 private:
  /// Posted, or tracked: without an operation.
  struct Item {
    std::shared_ptr<const Work> work;
    std::function<void()> operation;
  };

  /// A hook, and the numbers of the first and the last item that it belongs to.
  struct Asked {
    PollHook hook;
    std::uint64_t first;
    std::uint64_t last;
  };

  /// An item that failed.
  struct Failure {
    std::uint64_t number;
    Status status;
  };

  struct Waiting;

  Queue() = default;
  void run();
  void append(Item item);
  void drop_ended();
  bool hook_ends_wait(std::uint64_t until, std::unique_lock<std::mutex>& lock) const;

  std::mutex mutex_;  ///< guards what follows
  std::condition_variable changed_;
  std::deque<Item> items_;    ///< that no wait has seen the end of, in order; those at its front that ended are dropped
  std::uint64_t first_ = 0;   ///< number of items_.front()
  std::vector<Asked> hooks_;  ///< theirs, each once, so that a wait need not look at all items
  /// Of those dropped that failed, in order: the first one that no wait has told of, and all that waits may tell that are
  /// under way.
  std::deque<Failure> failures_;
  std::uint64_t told_ = 0;  ///< waits have told of failures before it
  std::size_t waits_ = 0;   ///< under way
  std::uint64_t next_ = 0;  ///< number of the first that the thread has not come to
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace tutti
