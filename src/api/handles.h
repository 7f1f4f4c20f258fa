// What the opaque handles of the C face are, and how an entry point answers.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>

#include "src/base/exception_boundary.h"
#include "src/base/work.h"
#include "src/communicator/communicator.h"
#include "src/communicator/queue.h"
#include "src/point_to_point/transfer.h"

namespace tutti {

/// How far a communicator's creation is, and an abort that came before its end.
enum class CreationPhase : unsigned char { under_way, aborted, settled };

/// This process, or -1 before the library's initialisation and where the system could not promise to tell of forks.
/// Relaxed: a single value, changed while a forked child has one thread.
extern constinit std::atomic<pid_t> known_process;
/// getpid without its system call, which would be a third of a short operation.
inline pid_t this_process() {
  const pid_t known = known_process.load(std::memory_order_relaxed);
  return known > 0 ? known : getpid();
}

}  // namespace tutti

struct tutti_comm {
  /// This and the next three are set before the handle is given out; rank and size of a split once that is over.
  int rank = -1;
  int ranks = 0;
  bool is_split = false;
  bool never_blocks = false;             ///< see tutti_config.non_blocking
  pid_t pid = 0;                         ///< a forked child may not use what its parent made
  std::atomic<bool> interrupted{false};  ///< creation is to end: by an abort or by destruction
  std::atomic<tutti::CreationPhase> phase{tutti::CreationPhase::under_way};
  /// Whether creation is over, and the next two are there for good. Acquire: pairs with what settles it.
  bool is_settled() const { return phase.load(std::memory_order_acquire) == tutti::CreationPhase::settled; }
  std::unique_ptr<tutti::Communicator> communicator;
  tutti::Status creation_error;
  std::thread creation;
  std::thread finalizing;
  /// A non-blocking split in which this rank takes part without a group.
  struct BackgroundSplit {
    std::shared_ptr<std::atomic<bool>> over;
    std::thread thread;
  };
  std::mutex splits_mutex;  ///< guards what follows
  std::list<BackgroundSplit> background_splits;
};

struct tutti_queue {
  std::unique_ptr<tutti::Queue> queue;
  pid_t pid = 0;  ///< a forked child has no thread for it
};

struct tutti_work {
  std::shared_ptr<tutti::Work> work;
  pid_t pid = tutti::this_process();  ///< in a forked child nobody completes it
};

struct tutti_registration {
  std::uint64_t id = 0;  ///< of RegisteredMemory; 0: it needs nothing
};

namespace tutti {

/// Remembers `status` as this thread's last failure (tutti_error_get(NULL)) and gives its code. Needs no memory.
tutti_status answer_failure(const Status& status);
inline tutti_status answer(const Status& status) { return status.ok() ? TUTTI_SUCCESS : answer_failure(status); }
const Status& last_failure();

/// Runs the body of an entry point: no exception leaves it.
template <typename Body>
tutti_status guarded(Body&& body) {
  return answer(catching(std::forward<Body>(body)));
}

/// The communicator behind a handle that may be used now. Errors: TUTTI_INVALID_ARGUMENT (NULL), TUTTI_INVALID_USAGE (a
/// forked child), TUTTI_IN_PROGRESS (creation under way), or the error that creation ended with.
Result<Communicator*> usable(tutti_comm* comm);

/// The same without words: NULL where there is an error.
inline Communicator* usable_now(const tutti_comm* comm) {
  const bool good = comm != nullptr && comm->is_settled() && comm->creation_error.ok() && comm->pid == this_process();
  return good ? comm->communicator.get() : nullptr;
}

/// Success for a queue that may be used here. Errors: TUTTI_INVALID_ARGUMENT (NULL), TUTTI_INVALID_USAGE (a forked child,
/// which has no thread for it).
Status usable(const tutti_queue* queue);
/// Likewise a work.
Status usable(const tutti_work* work);

/// Starts a thread of the library's. Throws nothing. Errors: TUTTI_SYSTEM_ERROR, and `thread` is as before.
Status start_thread(std::thread& thread, const char* name, std::function<void()> body);

/// A refusal of argument `what`.
Status invalid(std::string message, std::string remedy = {});

/// Whether elements of `type` can be sent and reduced. Errors: TUTTI_INVALID_ARGUMENT, TUTTI_UNSUPPORTED.
Status check_type(tutti_type type);

/// As read_call, of a struct of another version.
Status read_other_version(const tutti_call*& call, tutti_call& room);
/// Reads the sized struct: `call` points to a whole one afterwards, the caller's own or `room`, where fields beyond the
/// size given are unset; all of them are where it is NULL. Where it can be read, *call->work is set to NULL, so that a call
/// that is refused afterwards leaves no handle. Errors: TUTTI_INVALID_ARGUMENT.
inline Status read_call(const tutti_call*& call, tutti_call& room) {
  static constexpr tutti_call unset = TUTTI_CALL_INIT;
  if (call == nullptr) call = &unset;
  if (call->size != sizeof room) return read_other_version(call, room);
  if (call->work != nullptr) *call->work = nullptr;
  return {};
}

/// Errors: TUTTI_INVALID_ARGUMENT, where an option that any call may have is none of its values.
Status check_options(const tutti_call& call);
/// Errors: TUTTI_INVALID_ARGUMENT, where a launch is to have more thread blocks than at most. who: who asks for that.
Status check_blocks(std::string_view who, std::uint32_t least, std::uint32_t most);

/// One call as it will be run: on this thread, on a queue, or at the end of a group.
struct Operation {
  Communicator* communicator = nullptr;
  std::variant<CollectiveCall, Transfer> what;
};

/// Runs or defers an operation as `stream`, `call` and an open group say.
Status dispatch(Operation operation, tutti_stream stream, const tutti_call& call);
/// Runs a blocking transfer whose work nobody asked for, or holds it for the end of the open group.
Status dispatch(Communicator& communicator, const Transfer& transfer);
/// Holds such a transfer for the end of the open group where that takes no more than to note it down; false: nothing has
/// happened.
bool hold_at_once(Communicator& communicator, const Transfer& transfer) noexcept;
/// Whether a blocking call may run at once: no group is open, no work was asked for.
bool runs_now(tutti_stream stream, const tutti_call& call);

/// Whether a group is open on this thread, and whether it holds operations or splits of `communicator`, or operations on
/// `queue`.
bool group_is_open();
bool group_holds(const Communicator* communicator);
bool group_holds(const tutti_queue* queue);
/// A communicator that the open group of this thread creates when it ends; `*out` is set then.
struct HeldCreation {
  tutti_comm** out = nullptr;
  std::unique_ptr<tutti_comm> handle = nullptr;
  const Communicator* parent = nullptr;  ///< of a split
  PollHook hook = {};                    ///< the caller's, asked by the thread that ends the group
  /// Called in that thread right before `make`, in the order of the calls; may be empty.
  std::function<Status()> enter = nullptr;
  /// Makes it, and gives the handle's error. Called in a thread of the library's. given_up: set where another creation of
  /// the group has failed. Throws nothing.
  std::function<Status(tutti_comm& handle, const std::atomic<bool>& given_up)> make = nullptr;
  /// Instead: tells its peers that this rank cannot take part. Waits for that, for some seconds at most. Empty for a split,
  /// whose parent says it. Throws nothing.
  std::function<void(const Status& failure)> refuse = nullptr;
};
void hold_creation(HeldCreation creation);
/// Makes them in this call, all or none, and sets `*out` of each. They end by the deadlines that they have. Errors: that of
/// the first one that failed, TUTTI_ABORTED by a hook. Throws nothing.
Status create_together(std::vector<HeldCreation>& creations);
/// Instead, where the group has failed: tells the peers of each. Throws nothing.
void refuse_together(std::span<HeldCreation> creations, const Status& failure);
/// Success outside of groups, else a TUTTI_INVALID_USAGE: `verb` cannot be held back until the group's end.
Status refuse_in_group(const char* verb);
/// Notes that a call inside an open group failed, as this thread's last failure says: the group will not run.
void spoil_group();
/// In a forked child's one thread: what its parent's open group holds is none of it.
void leave_groups_to(pid_t parent);

/// As guarded, for what a group may hold: verbs and splits.
template <typename Body>
tutti_status guarded_operation(Body&& body) {
  const tutti_status status = guarded(std::forward<Body>(body));
  if (status != TUTTI_SUCCESS) spoil_group();
  return status;
}

/// As guarded_operation, for creation: one that does not block has begun where it is in progress.
template <typename Body>
tutti_status guarded_creation(Body&& body) {
  const tutti_status status = guarded(std::forward<Body>(body));
  if (status != TUTTI_SUCCESS && status != TUTTI_IN_PROGRESS) spoil_group();
  return status;
}

}  // namespace tutti
