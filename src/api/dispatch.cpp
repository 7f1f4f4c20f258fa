// Where an operation runs: now, on a queue, or together with others at the end of a group.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "src/api/handles.h"
#include "src/base/background_thread.h"

namespace tutti {
namespace {

/// An operation on its way, and its work.
struct Task {
  Operation operation;
  tutti_stream stream;
  std::shared_ptr<Work> work;
  std::uint64_t ticket = 0;  ///< a collective's place in the order of entry
  bool issued = false;       ///< somebody else completes the work from now on
  /// Of a transfer that its caller waits for: it may be in the engine for a moment after the work has completed.
  std::shared_ptr<void> admission = nullptr;

  Communicator& communicator() const { return *operation.communicator; }
  const CollectiveCall* collective() const { return std::get_if<CollectiveCall>(&operation.what); }
  const Transfer* transfer() const { return std::get_if<Transfer>(&operation.what); }
  Queue* queue() const {
    return stream.kind == TUTTI_STREAM_QUEUE ? static_cast<tutti_queue*>(stream.handle)->queue.get() : nullptr;
  }
  std::uint64_t& timeout_ns() {
    return std::visit([](auto& what) -> std::uint64_t& { return what.timeout_ns; }, operation.what);
  }
};
using Tasks = std::vector<std::shared_ptr<Task>>;
/// Of a group, the tasks of one communicator that are run within the call, and how that went.
struct Share {
  std::vector<Task*> tasks;
  bool collectives = false;  ///< some of them are
  Status result;
  std::thread thread;
};
using Shares = std::map<Communicator*, Share>;

/// The group that is open on a thread.
/// Waits for all of them, which have deadlines of their own, and gives out those that were made. Throws nothing.
Status settle_creations(std::vector<HeldCreation>& creations, bool give_up) {
  Status first;
  for (HeldCreation& held : creations) {
    const bool failed = give_up || !first.ok();
    if (failed) held.handle->interrupted.store(true, std::memory_order_relaxed);  // relaxed: carries no data
    if (held.handle->creation.joinable()) held.handle->creation.join();
    if (first.ok()) first = held.handle->creation_error;
    if (!failed && held.handle->communicator != nullptr) *held.out = held.handle.release();
  }
  creations.clear();
  return first;
}

struct Group {
  int depth = 0;
  Tasks tasks;
  std::vector<HeldCreation> creations;
  Status first;  ///< the first of its calls that failed

  ~Group() {
    static_cast<void>(settle_creations(creations, true));
    if (tasks.empty()) return;
    const Status left(TUTTI_INVALID_USAGE, "the thread ended with a group open",
                      "Pair tutti_group_start and tutti_group_end.");
    for (const auto& task : tasks) task->work->complete(left);
  }
};
Group& group() {
  thread_local Group group;
  return group;
}

/// The works of a group and the one for the whole of it, which completes when nobody holds this any more.
struct Parts {
  std::vector<std::shared_ptr<Work>> works;
  const std::shared_ptr<Work> whole;

  explicit Parts(const Hook& hook) : whole(std::make_shared<Work>(hook)) { whole->issue(0, nullptr); }
  ~Parts() {
    Status first;
    for (const auto& work : works) {
      const auto status = work->test();
      if (status && !status->ok() && first.ok()) first = *status;
    }
    whole->complete(first);
  }
};

Status run_collective(const Task& task) {
  Status status = attempt([&] { return task.communicator().run(*task.collective(), task.ticket, task.work.get()); });
  task.work->complete(status);
  return status;
}

Status wait_for_transfer(const Task& task) {
  Status status = attempt([&] { return task.communicator().point_to_point().wait(*task.work); });
  if (!status.ok()) task.work->complete(status);
  return status;
}

/// Makes the communicator count it, until its work has completed. Nothing has happened where that fails.
Status admit(Task& task, const std::shared_ptr<Parts>& parts) {
  auto admission = task.communicator().admit();
  if (!admission.ok()) return admission.status();
  if (task.queue() == nullptr && task.transfer() != nullptr) task.admission = *admission;
  using Both = std::pair<std::shared_ptr<void>, std::shared_ptr<Parts>>;
  std::shared_ptr<void> hold =
      parts == nullptr ? std::move(*admission) : std::make_shared<Both>(std::move(*admission), parts);
  task.work->issue(task.timeout_ns() != 0 ? task.timeout_ns() : task.communicator().timeout_ns(), std::move(hold));
  return {};
}

/// Puts it onto its stream. A blocking collective gets its place in the order alone.
void issue(const std::shared_ptr<Task>& task, bool background) {
  Communicator& communicator = task->communicator();
  Queue* queue = task->queue();
  if (const Transfer* transfer = task->transfer()) {
    // Begins at once, whatever the queue does before; the queue's wait covers it.
    if (queue != nullptr) queue->track(task->work);
    communicator.point_to_point().post(*transfer, task->work, background || queue != nullptr);
    task->issued = true;
  } else if (queue != nullptr) {
    std::get<CollectiveCall>(task->operation.what).beside = true;
    queue->post([task] { static_cast<void>(run_collective(*task)); }, task->work,
                [&task, &communicator] {
                  task->ticket = communicator.enter();
                  task->issued = true;
                });
  } else {
    task->ticket = communicator.enter();
    task->issued = true;
  }
}

/// A share's transfers have begun together; its collectives run in order meanwhile. Throws nothing.
void run_share(Share& share) {
  for (const bool transfers : {false, true}) {
    for (const Task* task : share.tasks) {
      if ((task->transfer() != nullptr) != transfers) continue;
      Status status = transfers ? wait_for_transfer(*task) : run_collective(*task);
      if (share.result.ok()) share.result = std::move(status);
    }
  }
}

/// Each share on a thread of its own, since one caller may hold several ranks; one of them on this. Throws nothing.
Status run_shares(Shares& shares) {
  for (auto& [communicator, share] : shares) {
    if (&share == &shares.begin()->second) continue;
    auto* const its = &share;
    const Status started = start_thread(share.thread, "tutti group", [its] { run_share(*its); });
    if (started.ok()) continue;
    // Its peers wait for what cannot run; failed, it ends at once on this thread, too.
    static_cast<void>(attempt([&, comm = communicator] { return comm->fail(started.error()); }));
  }
  for (auto& [communicator, share] : shares) {
    if (!share.thread.joinable()) run_share(share);
  }
  Status first;
  for (auto& [communicator, share] : shares) {
    if (share.thread.joinable()) share.thread.join();
    if (first.ok()) first = share.result;
  }
  return first;
}

Status check_stream(tutti_stream stream) {
  if (stream.kind == TUTTI_STREAM_BLOCKING) return {};
  if (stream.kind == TUTTI_STREAM_QUEUE) {
    return stream.handle != nullptr ? Status()
                                    : invalid("the stream is a queue, but its handle is NULL", "Pass a tutti_queue.");
  }
  if (stream.kind == TUTTI_STREAM_CUDA) {
    return Status(TUTTI_UNSUPPORTED, "CUDA streams are not there yet",
                  "Use a blocking call or a tutti_queue on host memory.");
  }
  return invalid("the stream's kind " + std::to_string(stream.kind) + " does not exist", "See tutti_stream_kind.");
}

/// Admits and issues all of them, in order; on failure those that nobody runs have that outcome.
Status issue_all(const Tasks& tasks, const Shares& shares, const std::shared_ptr<Parts>& parts) {
  Status status = attempt([&]() -> Status {
    for (const auto& task : tasks) {
      if (Status refused = admit(*task, parts); !refused.ok()) return refused;
    }
    return {};
  });
  const bool admitted = status.ok();
  if (admitted) {
    status = attempt([&]() -> Status {
      for (const auto& task : tasks) {
        // Whoever runs its share's collectives makes no progress for its transfers meanwhile.
        const auto share = shares.find(&task->communicator());
        const bool background = share != shares.end() && share->second.collectives;
        issue(task, background);
      }
      return {};
    });
  }
  if (status.ok()) return {};
  for (const auto& task : tasks) {
    // Peers would wait in vain for those that were not issued, and for blocking ones, which will not run.
    if (admitted) static_cast<void>(attempt([&] { return task->communicator().fail(status.error()); }));
    if (!task->issued || (task->queue() == nullptr && task->collective() != nullptr)) {
      task->work->complete(status);
    } else if (task->queue() == nullptr) {
      static_cast<void>(wait_for_transfer(*task));
    }
  }
  return status;
}

Status run_group(const Tasks& tasks, const tutti_call& call) {
  Shares shares;
  for (const auto& task : tasks) {
    if (task->timeout_ns() == 0) task->timeout_ns() = call.timeout_ns;
    if (task->queue() != nullptr) continue;
    Share& share = shares[&task->communicator()];
    share.tasks.push_back(task.get());
    share.collectives = share.collectives || task->collective() != nullptr;
  }
  std::shared_ptr<Parts> parts;
  std::unique_ptr<tutti_work> handle;
  if (call.work != nullptr) {
    parts = std::make_shared<Parts>(tasks.empty() ? Hook() : tasks[0]->work->hook());
    for (const auto& task : tasks) parts->works.push_back(task->work);
    handle.reset(new tutti_work{parts->whole});
  }
  if (Status status = issue_all(tasks, shares, parts); !status.ok()) return status;
  if (call.work != nullptr) *call.work = handle.release();
  parts.reset();
  return run_shares(shares);
}

Status end_group(const tutti_call* given) {
  Group& open = group();
  if (open.depth == 0) return Status(TUTTI_INVALID_USAGE, "tutti_group_end without tutti_group_start", "Pair them.");
  tutti_call call;
  Status refused = read_call(given, call);
  if (refused.ok() && call.work != nullptr && open.depth > 1) {
    refused = Status(TUTTI_INVALID_USAGE, "an inner tutti_group_end was asked for a work",
                     "Ask the outermost one: it issues the group.");
  }
  if (open.first.ok()) open.first = refused;
  if (--open.depth > 0) return refused;
  const Tasks tasks = std::exchange(open.tasks, {});
  std::vector<HeldCreation> creations = std::exchange(open.creations, {});
  Status first = std::exchange(open.first, {});
  Status created = settle_creations(creations, !first.ok());
  if (first.ok()) first = std::move(created);
  if (first.ok()) first = attempt([&] { return run_group(tasks, call); });
  if (first.ok()) return first;
  for (const auto& task : tasks) {
    if (!task->issued) task->work->complete(first);
  }
  return first;
}

}  // namespace

bool runs_now(tutti_stream stream, const tutti_call& call) {
  return stream.kind == TUTTI_STREAM_BLOCKING && call.work == nullptr && group().depth == 0;
}

Status dispatch(Operation operation, tutti_stream stream, const tutti_call& call) {
  if (Status status = check_stream(stream); !status.ok()) return status;
  if (Status status = operation.communicator->legal(); !status.ok()) return status;
  auto task = std::make_shared<Task>(Task{std::move(operation), stream, nullptr});
  task->work = std::make_shared<Work>(task->communicator().hook());
  std::unique_ptr<tutti_work> handle(call.work != nullptr ? new tutti_work{task->work} : nullptr);
  const bool held_back = group_is_open();
  if (held_back) {
    group().tasks.push_back(task);
  } else {
    if (Status status = admit(*task, nullptr); !status.ok()) return status;
    issue(task, false);
  }
  if (handle != nullptr) *call.work = handle.release();
  if (held_back || task->queue() != nullptr) return {};
  return task->transfer() != nullptr ? wait_for_transfer(*task) : run_collective(*task);
}

bool group_is_open() { return group().depth > 0; }

bool group_holds(const Communicator* communicator) {
  const Tasks& tasks = group().tasks;
  return std::any_of(tasks.begin(), tasks.end(),
                     [&](const auto& task) { return task->operation.communicator == communicator; });
}

Status hold_creation(HeldCreation creation, const std::function<Status()>& start) {
  std::vector<HeldCreation>& creations = group().creations;
  creations.push_back(std::move(creation));
  Status started = attempt(start);
  if (!started.ok()) creations.pop_back();
  return started;
}

Status refuse_in_group(const char* verb) {
  if (!group_is_open()) return {};
  return Status(TUTTI_INVALID_USAGE, std::string(verb) + " was called between tutti_group_start and tutti_group_end",
                "End the group first.");
}

void spoil_group() {
  Group& open = group();
  if (open.depth > 0 && open.first.ok()) open.first = last_failure();
}

void start_group() { ++group().depth; }

}  // namespace tutti

tutti_status tutti_group_start(void) {
  tutti::start_group();
  return TUTTI_SUCCESS;
}

tutti_status tutti_group_end(const tutti_call* call) {
  return tutti::guarded([&] { return tutti::end_group(call); });
}
