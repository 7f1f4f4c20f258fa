// Where an operation runs: now, on a queue, or together with others at the end of a group.
#include <fmt/format.h>
#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "src/api/fusion.h"
#include "src/api/handles.h"
#include "src/api/helper_threads.h"
#include "src/base/saturating.h"
#include "src/point_to_point/engine.h"

namespace tutti {
namespace {

/// An operation on its way, and its work.
struct Task {
  Operation operation;
  tutti_stream stream;
  std::shared_ptr<Work> work;
  Ticket ticket = {};   ///< a collective's place in the order of entry
  bool issued = false;  ///< somebody else completes the work from now on, and those of `fused`
  /// Until its thread is through with it. A transfer may be in the engine for a moment after its work has completed.
  std::shared_ptr<SharedOperation> admission = nullptr;
  bool wants_work = false;                        ///< by a handle of its own
  CallStream cuda_stream = {};                    ///< of a call on a CUDA stream, once it was looked at
  std::vector<std::shared_ptr<Task>> fused = {};  ///< those that are one operation: this one

  bool on_cuda_stream() const { return stream.kind == TUTTI_STREAM_CUDA; }
  void set_issued() {
    issued = true;
    for (const auto& part : fused) part->issued = true;
  }
  /// Whether two collectives may be one operation. All ranks find the same, as they make calls of a device alike, and on
  /// streams alike.
  bool may_join(const Task& other) const {
    const bool one_stream =
        stream.kind == other.stream.kind && (stream.kind == TUTTI_STREAM_BLOCKING || stream.handle == other.stream.handle);
    return one_stream && is_on_device() == other.is_on_device();
  }
  bool is_on_device() const { return on_cuda_stream() || communicator().is_on_device(*collective()); }
  bool is_blocking_collective() const { return stream.kind == TUTTI_STREAM_BLOCKING && collective() != nullptr; }
  Communicator& communicator() const { return *operation.communicator; }
  const CollectiveCall* collective() const { return std::get_if<CollectiveCall>(&operation.what); }
  const Transfer* transfer() const { return std::get_if<Transfer>(&operation.what); }
  tutti_queue* queue_handle() const {
    return stream.kind == TUTTI_STREAM_QUEUE ? static_cast<tutti_queue*>(stream.handle) : nullptr;
  }
  Queue* queue() const { return queue_handle() != nullptr ? queue_handle()->queue.get() : nullptr; }
  std::uint64_t timeout_ns() const {
    return std::visit([](const auto& what) { return what.timeout_ns; }, operation.what);
  }
  /// Gives it the options of the group that it has none of itself.
  void inherit(const tutti_call& call) {
    if (timeout_ns() != 0) return;
    std::visit([&call](auto& what) { what.timeout_ns = call.timeout_ns; }, operation.what);
    if (auto* const transfer = std::get_if<Transfer>(&operation.what)) inherit(*transfer, call);
  }
  static void inherit(Transfer& transfer, const tutti_call& call) {
    transfer.timeout_ns = call.timeout_ns;
    transfer.soft = transfer.soft || (call.flags & TUTTI_SOFT_DEADLINE) != 0;
  }
  WorkDescription description() const {
    if (const Transfer* const t = transfer()) return {t->sends ? "send" : "recv", t->bytes, t->user_tag};
    const auto& call = std::get<CollectiveCall>(operation.what);
    return {call.kind(), call.bytes(), call.user_tag};
  }
};
using Tasks = std::vector<std::shared_ptr<Task>>;

/// Of a group, the tasks of one communicator that are run within the call, and how that went.
struct Share {
  Communicator* communicator = nullptr;
  std::vector<Task*> tasks = {};
  bool collectives = false;  ///< some of them are
  Status result = {};
};
/// In the order in which their first tasks were entered.
using Shares = std::vector<Share>;

Share* find_share(Shares& shares, const Communicator& communicator) {
  const auto found =
      std::find_if(shares.begin(), shares.end(), [&](const Share& share) { return share.communicator == &communicator; });
  return found == shares.end() ? nullptr : &*found;
}

/// What the open group of a thread holds.
struct Group {
  /// What there is as long as it is nothing but blocking transfers of one communicator, whose works nobody asked for.
  std::vector<Transfer> plain;
  Communicator* plain_of = nullptr;
  Tasks tasks;  ///< everything otherwise
  std::vector<HeldCreation> creations;
  Status first;  ///< the first of its calls that failed

  /// Whether it is to run, and there is nothing but plain transfers.
  bool only_plain() const { return !plain.empty() && tasks.empty() && creations.empty() && first.ok(); }

  ~Group() {
    if (tasks.empty()) return;
    const Status left(TUTTI_INVALID_USAGE, "the thread ended with a group open",
                      "Pair tutti_group_start and tutti_group_end.");
    for (const auto& task : tasks) task->work->complete(left);
  }
};

/// What every call asks of its thread: how many groups are open, within each other, and what the outermost one holds. It is
/// found by one look, and needs none at whether it has been made. (In the initial-exec model it would cost nothing at all,
/// but take all of the library's thread-locals into the room that glibc keeps for libraries that a process loads late, of
/// which there is little.) It may be used as long as its thread runs: calls may come from destructors of static objects, or
/// of thread_locals made before, thus after those that were made here. What such calls leave is never freed.
struct OpenGroups {
  int depth = 0;
  Group* made = nullptr;  ///< in `room`, once something has been asked of it

  void start() {
    if (depth++ == 0) parent_ = 0;
  }
  Group& group() {
    if (made == nullptr) [[unlikely]]
      make();
    return *made;
  }
  /// The thread ends, and with it what is open.
  void end() {
    depth = 0;
    if (made != nullptr) made->~Group();
    made = nullptr;
  }
  /// This process is a forked child, and this its thread. What its parent's group holds is left alone, for good: threads
  /// that the child has not may hold the locks within it, or wait on them. The group itself is spoiled.
  void leave_to(pid_t parent) {
    made = nullptr;
    parent_ = depth > 0 ? parent : 0;
  }

 private:
  [[gnu::noinline]] void make();

  pid_t parent_ = 0;  ///< that began what is open, and forked this process; 0: none
  alignas(Group) std::byte room_[sizeof(Group)] = {};
};
constinit thread_local OpenGroups open_groups;

void OpenGroups::make() {
  Status first;
  if (parent_ != 0) {
    first = Status(TUTTI_INVALID_USAGE, fmt::format("this group was begun by process {}, which forked this one", parent_),
                   "End groups before forking.");
  }
  struct End {
    ~End() { open_groups.end(); }
  };
  static thread_local const End at_the_threads_end{};
  made = new (room_) Group;
  made->first = std::move(first);
}

/// The works of a group and the one for the whole of it, which completes when nobody holds this any more.
struct Parts {
  std::vector<std::shared_ptr<Work>> works;
  const std::shared_ptr<Work> whole;

  explicit Parts(const PollHook& hook) : whole(std::make_shared<Work>(hook)) {
    whole->issue(0, nullptr);
    whole->start(0);
  }
  ~Parts() {
    Status first;
    for (const auto& work : works) {
      const auto status = work->test();
      if (status && !status->ok() && first.ok()) first = *status;
    }
    whole->complete(first);
  }
};

/// Throws nothing.
Status destroyed_before_it_began() {
  return catching([] {
    return Status(TUTTI_ABORTED, "the communicator was destroyed before the operation could begin",
                  "Wait for what is on its queue first.");
  });
}

/// hook: the communicator's where the caller waits in this thread, else empty.
Status run_collective(Task& task, const PollHook& hook) {
  const std::shared_ptr<SharedOperation> admission = std::move(task.admission);
  if (!admission->begin()) {
    task.ticket.redeem();
    task.work->complete(destroyed_before_it_began());
    return {};
  }
  Status status =
      catching([&] { return task.communicator().run(*task.collective(), std::move(task.ticket), task.work.get(), hook); });
  task.work->complete(status);
  return status;
}

Status wait_for_transfer(Task& task, const PollHook& hook) {
  const std::shared_ptr<SharedOperation> admission = std::move(task.admission);
  Status status = catching([&] { return task.communicator().point_to_point().wait(*task.work, hook); });
  if (!status.ok()) task.work->complete(status);
  return status;
}

/// For what begins at once, behind nothing.
Result<std::shared_ptr<SharedOperation>> admit_begun(Communicator& communicator) {
  auto admission = communicator.admit();
  if (!admission.ok() || (*admission)->begin()) return admission;
  return destroyed_before_it_began();
}

/// How long it may take. One that ends softly goes on beyond its limit, once it has met its match.
std::uint64_t longest_ns(const Task& task) {
  const std::uint64_t usual = task.communicator().timeout_ns();
  const std::uint64_t own = task.timeout_ns() != 0 ? task.timeout_ns() : usual;
  const Transfer* const transfer = task.transfer();
  return transfer != nullptr && transfer->soft ? saturating_sum(own, usual) : own;
}

/// Makes the communicator count it, until its work has completed. Nothing has happened where that fails.
Status admit(Task& task, const std::shared_ptr<Parts>& parts) {
  auto admission = task.transfer() != nullptr ? admit_begun(task.communicator()) : task.communicator().admit();
  if (!admission.ok()) return admission.status();
  using Both = std::pair<std::shared_ptr<SharedOperation>, std::shared_ptr<Parts>>;
  std::shared_ptr<void> hold = *admission;
  if (parts != nullptr) hold = std::make_shared<Both>(*admission, parts);
  // A queue's transfer is the engine's alone.
  if (task.collective() != nullptr || task.queue() == nullptr) task.admission = std::move(*admission);
  task.work->issue(longest_ns(task), std::move(hold));
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
    task->set_issued();
  } else if (queue != nullptr) {
    const auto run = [task](bool beside) {
      std::get<CollectiveCall>(task->operation.what).beside = beside;
      static_cast<void>(run_collective(*task, {}));
    };
    queue->post(run, Queue::Runner::any_thread, task->work, [&task, &communicator] {
      task->ticket = communicator.enter();
      task->set_issued();
    });
  } else {
    task->ticket = communicator.enter();
    task->set_issued();
  }
}

/// A share's transfers have begun together; its collectives run in order meanwhile. Throws nothing.
void run_share(Share& share, const PollHook& hook) {
  for (const bool transfers : {false, true}) {
    for (Task* task : share.tasks) {
      if ((task->transfer() != nullptr) != transfers) continue;
      Status status = transfers ? wait_for_transfer(*task, hook) : run_collective(*task, hook);
      if (share.result.ok()) share.result = std::move(status);
    }
  }
}

/// Several at once, each on a thread of its own, since one caller may hold several ranks.
void run_at_once(Shares& shares) {
  std::vector<PollHook> hooks;  // before anything runs: those that run wait for the others
  for (const Share& share : shares) hooks.push_back(share.communicator->hook());
  HelperThreads threads;
  for (Share& share : shares) {
    const Status started = threads.start("tutti group", [&share] { run_share(share, {}); });
    if (started.ok()) continue;
    // Its peers wait for what cannot run; failed, it ends at once on this thread, too.
    static_cast<void>(share.communicator->fail(started));
    run_share(share, {});
  }
  threads.wait(hooks, [&shares](const PollHook& hook) {
    for (Share& share : shares) {
      if (share.communicator->hook() == hook) static_cast<void>(share.communicator->fail_by_hook("for a group"));
    }
  });
}

Status run_shares(Shares& shares) {
  if (shares.size() == 1) {
    run_share(shares[0], shares[0].communicator->hook());
  } else if (!shares.empty()) {
    run_at_once(shares);
  }
  for (Share& share : shares) {
    if (!share.result.ok()) return share.result;
  }
  return {};
}

Status check_stream(const Operation& operation, tutti_stream stream) {
  if (stream.kind == TUTTI_STREAM_BLOCKING) return {};
  if (stream.kind == TUTTI_STREAM_QUEUE) return usable(static_cast<const tutti_queue*>(stream.handle));
  if (stream.kind == TUTTI_STREAM_CUDA) {
    if (std::holds_alternative<CollectiveCall>(operation.what)) return {};
    return Status(TUTTI_UNSUPPORTED, "sends and receives on CUDA streams come later",
                  "Use a blocking call or a tutti_queue on host memory, or a collective.");
  }
  return invalid("the stream's kind " + std::to_string(stream.kind) + " does not exist", "See tutti_stream_kind.");
}

/// Looks at the calls on CUDA streams. Where one is refused nothing has happened.
Status check_cuda_streams(const Tasks& tasks, bool wants_work) {
  for (auto at = tasks.begin(); at != tasks.end(); ++at) {
    const auto& task = *at;
    if (!task->on_cuda_stream()) continue;
    // Its turn would come behind that one's, which runs when all on streams are launched.
    const auto is_before_it = [&](const auto& other) {
      return other->is_blocking_collective() && &other->communicator() == &task->communicator();
    };
    if (std::any_of(tasks.begin(), at, is_before_it)) {
      return Status(TUTTI_INVALID_USAGE,
                    "a group has a collective on a CUDA stream behind a blocking one of the same communicator",
                    "Put blocking ones behind all on CUDA streams, or into another group.");
    }
    auto stream = task->communicator().check_stream(
        *task->collective(), static_cast<cuda::StreamHandle>(task->stream.handle), wants_work || task->wants_work);
    if (!stream.ok()) return stream.status();
    task->cuda_stream = *stream;
  }
  return {};
}

/// Puts a collective onto its CUDA stream; the batch launches it.
Status enqueue(Task& task, LaunchBatch& batch) {
  const std::shared_ptr<SharedOperation> admission = std::move(task.admission);
  if (!admission->begin()) return destroyed_before_it_began();
  Status status =
      task.communicator().enqueue(*task.collective(), std::move(task.ticket), task.work, task.cuda_stream, batch);
  if (status.ok()) task.set_issued();
  return status;
}

/// All of them, in their order but for what the batch holds back for a while.
Status enqueue_all(const Tasks& tasks, LaunchBatch& batch) {
  std::vector<Task*> left;
  for (const auto& task : tasks) {
    if (task->on_cuda_stream()) left.push_back(task.get());
  }
  while (!left.empty()) {
    batch.begin_round();
    std::vector<Task*> held;
    for (Task* const task : left) {
      if (!task->communicator().may_enqueue(task->cuda_stream, batch)) {
        held.push_back(task);
      } else if (Status refused = enqueue(*task, batch); !refused.ok()) {
        return refused;
      }
    }
    if (held.size() == left.size()) {
      if (Status ended = batch.await_progress(tasks[0]->work->hook()); !ended.ok()) return ended;
    }
    left = std::move(held);
  }
  return {};
}

/// Makes what the calls on CUDA streams need, where they are several: the first one's launch may wait for the last one's.
Status open_early(const Tasks& tasks) {
  const auto count = std::count_if(tasks.begin(), tasks.end(), [](const auto& task) { return task->on_cuda_stream(); });
  for (const auto& task : tasks) {
    if (count < 2 || !task->on_cuda_stream()) continue;
    if (Status status = task->communicator().open_early(*task->collective(), task->cuda_stream.captured); !status.ok())
      return status;
  }
  return {};
}

/// In order; those on CUDA streams get their places in it first.
Status issue_in_order(const Tasks& tasks, Shares& shares, LaunchBatch& batch) {
  for (const auto& task : tasks) {
    if (task->on_cuda_stream()) {
      task->ticket = task->communicator().enter();
      continue;
    }
    // Whoever runs its share's collectives makes no progress for its transfers meanwhile.
    const Share* const share = find_share(shares, task->communicator());
    issue(task, share != nullptr && share->collectives);
  }
  return enqueue_all(tasks, batch);
}

/// Those that nobody runs any more end in `status`.
void give_up(const Tasks& tasks, const Status& status) {
  for (const auto& task : tasks) {
    if (task->on_cuda_stream() && task->issued) continue;  // the batch's
    if (!task->issued || task->is_blocking_collective()) {
      task->ticket.redeem();
      task->work->complete(status);
      task->admission.reset();
    } else if (task->queue() == nullptr) {
      static_cast<void>(wait_for_transfer(*task, {}));
    }
  }
}

/// Admits and issues all of them.
Status issue_all(const Tasks& tasks, Shares& shares, const std::shared_ptr<Parts>& parts, LaunchBatch& batch) {
  bool harms_others = false;
  Status status = catching([&]() -> Status {
    for (const auto& task : tasks) {
      if (Status refused = admit(*task, parts); !refused.ok()) return refused;
    }
    if (Status refused = open_early(tasks); !refused.ok()) {
      harms_others = std::any_of(tasks.begin(), tasks.end(),
                                 [](const auto& task) { return !task->communicator().first_error().ok(); });
      return refused;
    }
    harms_others = true;
    return issue_in_order(tasks, shares, batch);
  });
  if (status.ok()) return {};
  for (const auto& task : tasks) {
    // Peers would wait in vain for those that were not issued, and for blocking ones, which will not run.
    if (harms_others) static_cast<void>(task->communicator().fail(status));
  }
  give_up(tasks, status);
  return status;
}

std::shared_ptr<Task> make_task(Operation operation, tutti_stream stream) {
  auto task = std::make_shared<Task>(Task{std::move(operation), stream, nullptr});
  Communicator& communicator = task->communicator();
  const Transfer* const transfer = task->transfer();
  task->work = std::make_shared<Work>(communicator.hook(), task->description(),
                                      transfer != nullptr ? &communicator.point_to_point() : nullptr);
  return task;
}

/// One operation in the place of the first of `parts`, on their stream; their works end with its.
std::shared_ptr<Task> fuse_tasks(std::span<const std::shared_ptr<Task>> parts,
                                 std::span<const CollectiveCall* const> calls) {
  Communicator& communicator = parts[0]->communicator();
  auto task = make_task({&communicator, fused(calls, communicator.rank(), communicator.ranks())}, parts[0]->stream);
  task->fused.assign(parts.begin(), parts.end());
  task->wants_work = std::ranges::any_of(parts, [](const auto& part) { return part->wants_work; });
  std::vector<std::shared_ptr<Work>> works;
  for (const auto& part : parts) works.push_back(part->work);
  Work::tie(task->work, std::move(works));
  return task;
}

/// Of one communicator's collectives: how many of the first are one operation; see fusion.h. calls: theirs.
std::size_t fusible_from(std::span<const std::shared_ptr<Task>> own, std::vector<const CollectiveCall*>& calls) {
  calls.clear();
  for (const auto& task : own) {
    if (!task->may_join(*own[0])) break;
    calls.push_back(task->collective());
  }
  return fusible(calls);
}

/// Collectives that are one operation become one. What other communicators have between them decides nothing: not all
/// ranks need be theirs. So a call may come before those; none of the group needs what another one gives.
Tasks fuse(const Tasks& tasks) {
  std::map<const Communicator*, Tasks> collectives;
  for (const auto& task : tasks) {
    if (task->collective() != nullptr) collectives[&task->communicator()].push_back(task);
  }
  std::map<const Task*, std::shared_ptr<Task>> instead;  // null: it is a part of one before
  std::vector<const CollectiveCall*> calls;
  for (const auto& [communicator, own] : collectives) {
    for (std::size_t at = 0, n = 0; at < own.size(); at += n) {
      n = fusible_from(std::span(own).subspan(at), calls);
      if (n < 2) continue;
      const auto parts = std::span(own).subspan(at, n);
      for (const auto& part : parts) instead[part.get()] = nullptr;
      instead[parts[0].get()] = fuse_tasks(parts, std::span(calls).first(n));
    }
  }
  Tasks all;
  for (const auto& task : tasks) {
    const auto found = instead.find(task.get());
    if (found == instead.end()) all.push_back(task);
    if (found != instead.end() && found->second != nullptr) all.push_back(found->second);
  }
  return all;
}

Status run_group(const Tasks& given, const tutti_call& call) {
  const Tasks tasks = call.fuse != 0 ? fuse(given) : given;
  Shares shares;
  for (const auto& task : tasks) {
    task->inherit(call);
    if (task->queue() != nullptr || task->on_cuda_stream()) continue;
    Share* share = find_share(shares, task->communicator());
    if (share == nullptr) share = &shares.emplace_back(Share{&task->communicator()});
    share->tasks.push_back(task.get());
    share->collectives = share->collectives || task->collective() != nullptr;
  }
  if (Status status = check_cuda_streams(tasks, call.work != nullptr); !status.ok()) return status;
  std::shared_ptr<Parts> parts;
  std::unique_ptr<tutti_work> handle;
  if (call.work != nullptr) {
    parts = std::make_shared<Parts>(tasks.empty() ? PollHook() : tasks[0]->work->hook());
    for (const auto& task : tasks) parts->works.push_back(task->work);
    handle.reset(new tutti_work{parts->whole});
  }
  LaunchBatch batch;
  Status status = issue_all(tasks, shares, parts, batch);
  const Status launched = batch.end(tasks.empty() ? PollHook() : tasks[0]->work->hook());
  if (!status.ok()) return status;
  if (call.work != nullptr) *call.work = handle.release();
  parts.reset();
  status = run_shares(shares);
  return launched.ok() ? status : launched;
}

/// One by itself.
Status run_on_cuda_stream(const std::shared_ptr<Task>& task) {
  if (Status status = check_cuda_streams({task}, false); !status.ok()) return status;
  if (Status status = admit(*task, nullptr); !status.ok()) return status;
  LaunchBatch batch;
  task->ticket = task->communicator().enter();
  if (Status status = enqueue(*task, batch); !status.ok()) {
    task->ticket.redeem();
    task->work->complete(status);
    return status;
  }
  return batch.end(task->work->hook());
}

/// Adds it to the plain transfers; false: there is something else in the group already.
bool hold_plain(Group& open, Communicator& communicator, const Transfer& transfer) {
  if (!open.tasks.empty() || (!open.plain.empty() && open.plain_of != &communicator)) return false;
  open.plain.push_back(transfer);
  open.plain_of = &communicator;
  return true;
}

/// Makes tasks of the plain transfers.
void unfold(Group& open) {
  for (const Transfer& transfer : open.plain) {
    open.tasks.push_back(make_task({open.plain_of, transfer}, {TUTTI_STREAM_BLOCKING, nullptr}));
  }
  open.plain.clear();
}

/// Blocking transfers that nobody asked the works of.
Status run_plain(Communicator& communicator, std::span<const Transfer> transfers) {
  return communicator.point_to_point().exchange(transfers, communicator.hook());
}

/// Takes the plain transfers out of the group, which a hook may use meanwhile, and gives their room back, so that the next
/// group's need no memory.
class PlainTransfers {
 public:
  explicit PlainTransfers(Group& group)
      : group_(group), communicator_(group.plain_of), transfers_(std::exchange(group.plain, {})) {}
  ~PlainTransfers() {
    constexpr std::size_t most_kept = 1024;
    transfers_.clear();
    if (group_.plain.empty() && transfers_.capacity() <= most_kept) group_.plain.swap(transfers_);
  }
  PlainTransfers(const PlainTransfers&) = delete;
  PlainTransfers& operator=(const PlainTransfers&) = delete;

  bool empty() const { return transfers_.empty(); }
  Status run(const tutti_call& call) {
    for (Transfer& transfer : transfers_) {
      if (transfer.timeout_ns == 0) Task::inherit(transfer, call);
    }
    return run_plain(*communicator_, transfers_);
  }

 private:
  Group& group_;
  Communicator* const communicator_;
  std::vector<Transfer> transfers_;
};

/// Does all that the outermost group holds.
Status close_group(Group& open, const tutti_call& call) {
  if (call.work != nullptr && open.first.ok()) open.first = catching([&]() -> Status { return unfold(open), Status(); });
  PlainTransfers plain(open);
  const Tasks tasks = std::exchange(open.tasks, {});
  std::vector<HeldCreation> creations = std::exchange(open.creations, {});
  Status first = std::exchange(open.first, {});
  if (first.ok()) {
    first = create_together(creations);
  } else {
    refuse_together(creations, first);
  }
  if (first.ok()) first = catching([&] { return plain.empty() ? run_group(tasks, call) : plain.run(call); });
  if (first.ok()) return first;
  for (const auto& task : tasks) {
    if (!task->issued) task->work->complete(first);
  }
  return first;
}

/// What one communicator's part of a group is expected to take: collectives one after the other, messages beside them.
struct Expected {
  double collectives = 0;
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
};

/// What the tasks would take, were they run: communicators side by side.
Status expect(const Tasks& tasks, std::uint64_t& ns) {
  std::map<const Communicator*, Expected> parts;
  for (const auto& task : tasks) {
    Expected& part = parts[&task->communicator()];
    if (const Transfer* const transfer = task->transfer()) {
      (transfer->sends ? part.sent : part.received) += transfer->bytes;
      continue;
    }
    const auto seconds = task->communicator().expected_seconds(*task->collective());
    if (!seconds.ok()) return seconds.status();
    part.collectives += *seconds;
  }
  double longest = 0;
  for (const auto& [communicator, part] : parts) {
    const std::uint64_t bytes = std::max(part.sent, part.received);
    longest = std::max(longest, std::max(part.collectives, bytes != 0 ? communicator->expected_seconds(bytes) : 0));
  }
  constexpr double most = 1e18;
  ns = static_cast<std::uint64_t>(std::min(longest * 1e9, most));
  return {};
}

/// Ends the outermost group, of which nothing is run.
Status estimate_group(std::uint64_t* ns) {
  OpenGroups& groups = open_groups;
  if (groups.depth == 0) return Status(TUTTI_INVALID_USAGE, "tutti_group_estimate without tutti_group_start", "Pair them.");
  if (groups.depth > 1) {
    return Status(TUTTI_INVALID_USAGE, "tutti_group_estimate was called within an inner group",
                  "Estimate the outermost one: it would issue the group.");
  }
  groups.depth = 0;
  Group& open = groups.group();
  Status outcome = catching([&]() -> Status { return unfold(open), Status(); });
  const Tasks tasks = std::exchange(open.tasks, {});
  std::vector<HeldCreation> creations = std::exchange(open.creations, {});
  if (Status first = std::exchange(open.first, {}); !first.ok()) outcome = std::move(first);
  if (outcome.ok() && !creations.empty()) {
    outcome =
        Status(TUTTI_INVALID_USAGE, "a group that makes communicators cannot be estimated", "Make them outside of it.");
  }
  if (outcome.ok())
    outcome = ns != nullptr ? expect(tasks, *ns) : invalid("tutti_group_estimate needs a place for the time");
  const Status why = outcome.ok() ? Status(TUTTI_ABORTED, "the group was only estimated", "") : outcome;
  refuse_together(creations, why);
  for (const auto& task : tasks) task->work->complete(why);
  return outcome;
}

Status end_group(const tutti_call* call) {
  OpenGroups& groups = open_groups;
  if (groups.depth == 0) return Status(TUTTI_INVALID_USAGE, "tutti_group_end without tutti_group_start", "Pair them.");
  Group& open = groups.group();
  if (call == nullptr && groups.depth == 1 && open.only_plain()) {  // what most groups are
    groups.depth = 0;
    return PlainTransfers(open).run(TUTTI_CALL_INIT);
  }
  tutti_call room = TUTTI_CALL_INIT;
  Status refused = read_call(call, room);
  if (refused.ok() && call->work != nullptr && groups.depth > 1) {
    refused = Status(TUTTI_INVALID_USAGE, "an inner tutti_group_end was asked for a work",
                     "Ask the outermost one: it issues the group.");
  }
  if (refused.ok()) refused = check_options(*call);
  if (open.first.ok()) open.first = refused;
  if (--groups.depth > 0) return refused;
  return close_group(open, refused.ok() ? *call : room);
}

}  // namespace

bool runs_now(tutti_stream stream, const tutti_call& call) {
  return stream.kind == TUTTI_STREAM_BLOCKING && call.work == nullptr && open_groups.depth == 0;
}

Status dispatch(Operation operation, tutti_stream stream, const tutti_call& call) {
  if (Status status = check_stream(operation, stream); !status.ok()) return status;
  if (Status status = operation.communicator->legal(); !status.ok()) return status;
  if (const auto* const collective = std::get_if<CollectiveCall>(&operation.what)) {
    // Now, as this thread's device is the rank's: it may have another one when its group ends, and whoever runs the call
    // for it has none.
    const bool on_stream = stream.kind == TUTTI_STREAM_CUDA;
    if (Status status = operation.communicator->announce_device(*collective, on_stream); !status.ok()) return status;
  }
  Group& open = open_groups.group();
  if (!open.plain.empty()) unfold(open);
  auto task = make_task(std::move(operation), stream);
  std::unique_ptr<tutti_work> handle(call.work != nullptr ? new tutti_work{task->work} : nullptr);
  task->wants_work = handle != nullptr;
  const bool held_back = open_groups.depth > 0;
  if (held_back) {
    open.tasks.push_back(task);
  } else if (task->on_cuda_stream()) {
    if (Status status = run_on_cuda_stream(task); !status.ok()) return status;
  } else {
    if (Status status = admit(*task, nullptr); !status.ok()) return status;
    issue(task, false);
  }
  if (handle != nullptr) *call.work = handle.release();
  if (held_back || task->queue() != nullptr || task->on_cuda_stream()) return {};
  const PollHook& hook = task->communicator().hook();
  return task->transfer() != nullptr ? wait_for_transfer(*task, hook) : run_collective(*task, hook);
}

Status dispatch(Communicator& communicator, const Transfer& transfer) {
  OpenGroups& groups = open_groups;
  if (groups.depth == 0) return run_plain(communicator, {&transfer, 1});
  if (communicator.legal_now() && hold_plain(groups.group(), communicator, transfer)) return {};
  return dispatch({&communicator, transfer}, {TUTTI_STREAM_BLOCKING, nullptr}, TUTTI_CALL_INIT);
}

bool hold_at_once(Communicator& communicator, const Transfer& transfer) noexcept {
  OpenGroups& groups = open_groups;
  if (groups.depth == 0 || groups.made == nullptr || !communicator.legal_now()) return false;
  Group& open = *groups.made;
  return open.plain.size() < open.plain.capacity() && hold_plain(open, communicator, transfer);
}

bool group_is_open() { return open_groups.depth > 0; }

bool group_holds(const Communicator* communicator) {
  const Group& open = open_groups.group();
  if (communicator == nullptr) return false;  // a creation that failed; others in the group have no parent either
  if (!open.plain.empty() && open.plain_of == communicator) return true;
  return std::any_of(open.tasks.begin(), open.tasks.end(),
                     [&](const auto& task) { return task->operation.communicator == communicator; }) ||
         std::any_of(open.creations.begin(), open.creations.end(),
                     [&](const HeldCreation& held) { return held.parent == communicator; });
}

bool group_holds(const tutti_queue* queue) {
  const Tasks& tasks = open_groups.group().tasks;
  return std::any_of(tasks.begin(), tasks.end(), [&](const auto& task) { return task->queue_handle() == queue; });
}

void hold_creation(HeldCreation creation) { open_groups.group().creations.push_back(std::move(creation)); }

Status refuse_in_group(const char* verb) {
  if (!group_is_open()) return {};
  return Status(TUTTI_INVALID_USAGE, std::string(verb) + " was called between tutti_group_start and tutti_group_end",
                "End the group first.");
}

void spoil_group() {
  Group& open = open_groups.group();
  if (open_groups.depth == 0 || !open.first.ok()) return;
  open.first = last_failure();
  if (open.first.code() != TUTTI_IN_PROGRESS) return;
  // A verb on a communicator that is being created. Of the group's end and works it would read as if they went on.
  Error error = open.first.error();
  error.status = TUTTI_INVALID_USAGE;
  open.first = Status(std::move(error));
}

void start_group() { open_groups.start(); }

void leave_groups_to(pid_t parent) { open_groups.leave_to(parent); }

}  // namespace tutti

tutti_status tutti_group_start(void) {
  tutti::start_group();
  return TUTTI_SUCCESS;
}

tutti_status tutti_group_estimate(uint64_t* ns) {
  return tutti::guarded([&] { return tutti::estimate_group(ns); });
}

tutti_status tutti_group_end(const tutti_call* call) {
  return tutti::guarded([&] { return tutti::end_group(call); });
}
