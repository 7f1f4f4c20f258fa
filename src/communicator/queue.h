// A host queue: operations in order, on a thread of its own, or on one that waits for them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "src/base/status.h"
#include "src/base/work.h"

namespace tutti {

/// Runs what is posted, one after the other. A thread that waits takes over what the queue's own has not begun: handing it
/// over, and being told, takes longer than a short operation. Thread safe. Destruction completes what was posted and
/// tracked: each operation has a deadline of its own, so that is bounded.
class Queue {
 public:
  /// Errors: TUTTI_SYSTEM_ERROR where the system has no thread left.
  static Result<std::unique_ptr<Queue>> make();
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  /// Who may run an operation.
  enum class Runner { any_thread, own_thread };
  /// beside: on the queue's own thread, beside its caller; false: on one that waits for it.
  using Operation = std::function<void(bool beside)>;

  /// Appends `operation`, whose outcome `work` has afterwards. `enter` is called in one step with that, once nothing can
  /// fail any more: it takes the operation's place in orders other than this queue's. It must not throw or block.
  void post(Operation operation, Runner runner, std::shared_ptr<Work> work, const std::function<void()>& enter);
  /// Makes `wait` cover an operation that runs elsewhere.
  void track(std::shared_ptr<const Work> work);
  /// Waits until what was posted and tracked before has ended; its first error since the last wait that saw it. After
  /// timeout_ns (0: no limit of its own) TUTTI_IN_PROGRESS, TUTTI_ABORTED where a hook of theirs ended the wait; neither
  /// forgets anything.
  Status wait(std::uint64_t timeout_ns);

 private:
  struct State;

  explicit Queue(std::shared_ptr<State> state) : state_(std::move(state)) {}

  const std::shared_ptr<State> state_;  ///< shared with threads that wait
  std::thread thread_;
};

}  // namespace tutti
