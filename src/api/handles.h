// What the opaque handles of the C face are, and how an entry point answers.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>

#include "src/communicator/communicator.h"
#include "src/communicator/queue.h"
#include "src/communicator/work.h"

struct tutti_comm {
  int rank = -1;
  int ranks = 0;
  pid_t pid = 0;  ///< a forked child may not use what its parent made
  std::atomic<bool> interrupted{false};
  /// Set once creation is over, with release, after communicator or error.
  std::atomic<bool> settled{false};
  std::unique_ptr<tutti::Communicator> communicator;
  tutti::Status creation_error;
  std::thread creation;
};

struct tutti_queue {
  tutti::Queue queue;
};

struct tutti_work {
  std::shared_ptr<tutti::Work> work;
};

namespace tutti {

/// Remembers `status` as this thread's last failure (tutti_error_get(NULL)) and gives its code.
tutti_status answer(const Status& status);

/// Runs the body of an entry point: no exception leaves it.
template <typename Body>
tutti_status guarded(Body body) {
  try {
    return answer(body());
  } catch (const std::bad_alloc&) {
    return answer(Status(TUTTI_SYSTEM_ERROR, "out of memory", "Free memory or use fewer ranks."));
  } catch (const std::exception& e) {
    return answer(Status(TUTTI_INTERNAL_ERROR, std::string("unexpected failure: ") + e.what(), "Please report this."));
  }
}

/// The communicator behind a handle that may be used now. Errors: TUTTI_INVALID_ARGUMENT (NULL), TUTTI_INVALID_USAGE (a
/// forked child), TUTTI_IN_PROGRESS (creation under way), or the error that creation ended with.
Result<Communicator*> usable(tutti_comm* comm);

/// A refusal of argument `what`.
Status invalid(std::string message, std::string remedy = {});

/// One call as it will be run: on this thread, on a queue, or at the end of a group.
struct Operation {
  Communicator* communicator = nullptr;
  std::function<Status(Work&)> run;           ///< collectives: runs to the end
  /// Point to point: begins; `work` completes while somebody waits, or in the background.
  std::function<void(std::shared_ptr<Work> work, bool background)> post;
};

/// Runs or defers an operation as `stream`, `call` and an open group say.
Status dispatch(Operation operation, tutti_stream stream, const tutti_call* call);
/// Whether a blocking call may run at once: no group is open, no work was asked for.
bool runs_now(tutti_stream stream, const tutti_call* call);

/// Reads the sized struct: fields beyond its size are unset.
Result<tutti_call> read_call(const tutti_call* call);

}  // namespace tutti
