#include "src/api/handles.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>

#include "src/base/background_thread.h"
#include "src/tables/element_types.h"
#include "src/tables/names.h"

namespace tutti {
namespace {

/// This thread's last failure. Never destroyed, as calls may still come after the thread's thread_locals are gone, from
/// destructors of static objects for example; but emptied with them.
Status& failure() {
  struct Emptied {
    Status& status;
    ~Emptied() { status = Status(); }
  };
  alignas(Status) static constinit thread_local std::byte room[sizeof(Status)] = {};
  static constinit thread_local Status* made = nullptr;
  if (made == nullptr) {
    made = new (room) Status;
    static thread_local const Emptied at_the_threads_end{*made};
  }
  return *made;
}

template <std::size_t N>
void copy_text(char (&to)[N], const std::string& from) {
  const std::size_t n = std::min(from.size(), N - 1);
  std::memcpy(to, from.data(), n);
  to[n] = 0;
}

tutti_guilty copy_guilty(const Guilty& from) {
  tutti_guilty to{};
  to.rank = from.rank;
  to.pid = from.pid;
  copy_text(to.host, from.host);
  to.last_operation = from.last_operation;
  copy_text(to.last_operation_kind, from.last_operation_kind);
  return to;
}

tutti_error copy_error(const Status& status) {
  tutti_error to{};
  to.operation = UINT64_MAX;
  if (status.ok()) return to;
  const Error& from = status.error();
  to.status = from.status;
  to.system_error = from.system_error;
  copy_text(to.message, from.message);
  copy_text(to.remedy, from.remedy);
  to.operation = from.operation;
  copy_text(to.operation_kind, from.operation_kind);
  to.limit_ns = from.limit_ns;
  to.guilty_count = static_cast<std::uint32_t>(from.guilty.size());
  for (std::size_t i = 0; i < std::min(from.guilty.size(), std::size(to.guilty)); ++i)
    to.guilty[i] = copy_guilty(from.guilty[i]);
  return to;
}

}  // namespace

constinit std::atomic<pid_t> known_process{-1};
namespace {
// Relaxed: see there.
void learn_process() { known_process.store(getpid(), std::memory_order_relaxed); }
void begin_as_child() {
  leave_groups_to(known_process.load(std::memory_order_relaxed));  // relaxed: see there
  learn_process();
}
const bool told_of_forks = pthread_atfork(nullptr, nullptr, begin_as_child) == 0 && (learn_process(), true);
}  // namespace

tutti_status answer_failure(const Status& status) {
  failure() = status;
  return status.code();
}

const Status& last_failure() { return failure(); }

Status start_thread(std::thread& thread, const char* name, std::function<void()> body) {
  return catching([&] {
    auto started = background_thread(name, std::move(body));
    if (started.ok()) thread = std::move(started).value();
    return started.status();
  });
}

Status invalid(std::string message, std::string remedy) {
  return Status(TUTTI_INVALID_ARGUMENT, std::move(message), std::move(remedy));
}

Result<Communicator*> usable(tutti_comm* comm) {
  if (comm == nullptr) return invalid("the communicator is NULL", "Create one with tutti_comm_create first.");
  if (!comm->is_settled()) {
    return Status(TUTTI_IN_PROGRESS, "the communicator is still being created", "Poll tutti_comm_state until it is ready.");
  }
  if (!comm->creation_error.ok()) return comm->creation_error;
  if (comm->pid != this_process()) {
    return Status(TUTTI_INVALID_USAGE,
                  fmt::format("this communicator belongs to process {}, which forked this one", comm->pid),
                  "Create communicators after forking.");
  }
  return comm->communicator.get();
}

Status usable(const tutti_queue* queue) {
  if (queue == nullptr) return invalid("the queue is NULL", "Create one with tutti_queue_create.");
  if (queue->pid == this_process()) return {};
  return Status(TUTTI_INVALID_USAGE, fmt::format("this queue belongs to process {}, which forked this one", queue->pid),
                "Create queues after forking.");
}

Status usable(const tutti_work* work) {
  if (work == nullptr) return invalid("the work is NULL");
  if (work->pid == this_process()) return {};
  return Status(TUTTI_INVALID_USAGE, fmt::format("this work belongs to process {}, which forked this one", work->pid),
                "Only release it there.");
}

Status check_options(const tutti_call& call) {
  if ((call.flags & ~TUTTI_SOFT_DEADLINE) != 0)
    return invalid(fmt::format("the call option flags is {}", call.flags), "Set it to TUTTI_SOFT_DEADLINE, or to 0.");
  if (call.fuse != 0 && call.fuse != 1)
    return invalid(fmt::format("the call option fuse is {}", call.fuse), "Set it to 0 or 1.");
  return {};
}

Status check_blocks(std::string_view who, std::uint32_t least, std::uint32_t most) {
  if (most == 0 || least <= most) return {};
  return invalid(fmt::format("{} asks for at least {} and at most {} thread blocks", who, least, most),
                 "Let min_blocks be at most max_blocks.");
}

Status read_other_version(const tutti_call*& call, tutti_call& room) {
  const std::size_t size = call->size;
  if (size < sizeof size || size > 4096) {
    return invalid(fmt::format("tutti_call.size is {}", size), "Initialise it with TUTTI_CALL_INIT.");
  }
  room = TUTTI_CALL_INIT;
  std::memcpy(&room, call, std::min(size, sizeof room));
  room.size = sizeof room;
  if (room.work != nullptr) *room.work = nullptr;
  call = &room;
  return {};
}

Status check_type(tutti_type type) {
  if (element_bytes(type) != 0) return {};
  return invalid(fmt::format("element type {} does not exist", static_cast<int>(type)), "See tutti_type.");
}

}  // namespace tutti

tutti_status tutti_error_get(const tutti_comm* comm, tutti_error* error) {
  return tutti::guarded([&]() -> tutti::Status {
    if (error == nullptr || error->size < sizeof(size_t)) {
      return tutti::invalid("tutti_error_get needs an error whose size is set", "Set error.size = sizeof error.");
    }
    const std::size_t size = error->size;
    tutti::Status status;
    if (comm == nullptr) {
      status = tutti::last_failure();
    } else if (comm->is_settled()) {
      status = comm->communicator != nullptr ? comm->communicator->first_error() : comm->creation_error;
    }
    const tutti_error copy = tutti::copy_error(status);
    std::memcpy(error, &copy, std::min(size, sizeof copy));
    error->size = size;
    return {};
  });
}
