// Where an operation runs: now, on a queue, or together with others at the end of a group.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "src/api/handles.h"
#include "src/communicator/point_to_point.h"

namespace tutti {
namespace {

/// An operation that a group holds back, and its own work where one was asked for.
struct Deferred {
  Operation operation;
  tutti_stream stream;
  std::shared_ptr<Work> work;
};

struct Group {
  int depth = 0;
  std::vector<Deferred> operations;
};
Group& group() {
  thread_local Group group;
  return group;
}

Status run_to_end(const Operation& operation, const std::shared_ptr<Work>& work) {
  if (operation.post != nullptr) {
    operation.post(work, false);
    return operation.communicator->point_to_point().wait(*work);
  }
  Status status = operation.run(*work);
  work->complete(status);
  return status;
}

/// All of one communicator's share of a group: transfers begin together, collectives run in order meanwhile.
Status run_share(const std::vector<Deferred*>& share) {
  Status first;
  const auto note = [&](Status status) {
    if (first.ok() && !status.ok()) first = std::move(status);
  };
  for (Deferred* d : share) {
    if (d->operation.post != nullptr) d->operation.post(d->work, false);
  }
  for (Deferred* d : share) {
    if (d->operation.run != nullptr) note(run_to_end(d->operation, d->work));
  }
  for (Deferred* d : share) {
    if (d->operation.post != nullptr) note(d->operation.communicator->point_to_point().wait(*d->work));
  }
  return first;
}

/// The blocking operations of a group, each communicator's on a thread of its own: one thread may hold several ranks.
Status run_blocking(std::vector<Deferred>& operations) {
  std::map<Communicator*, std::vector<Deferred*>> shares;
  for (Deferred& d : operations) {
    if (d.stream.kind == TUTTI_STREAM_BLOCKING) shares[d.operation.communicator].push_back(&d);
  }
  if (shares.size() == 1) return run_share(shares.begin()->second);
  std::vector<Status> results(shares.size());
  std::vector<std::thread> threads;
  for (auto& [communicator, share] : shares) {
    threads.emplace_back([&share = share, &result = results[threads.size()]] { result = run_share(share); });
  }
  for (std::thread& thread : threads) thread.join();
  for (Status& result : results) {
    if (!result.ok()) return result;
  }
  return {};
}

void hand_out(tutti_work** to, std::shared_ptr<Work> work) {
  if (to != nullptr) *to = new tutti_work{std::move(work)};
}

Status enqueue(Operation operation, tutti_stream stream, std::shared_ptr<Work> work) {
  auto* queue = static_cast<tutti_queue*>(stream.handle);
  queue->queue.post([operation = std::move(operation), work = std::move(work)] { return run_to_end(operation, work); });
  return {};
}

/// Point to point on a queue: begins at once, whatever the queue does before; the queue's wait covers it.
Status post_on(const Operation& operation, tutti_stream stream, const std::shared_ptr<Work>& work) {
  static_cast<tutti_queue*>(stream.handle)->queue.track(work);
  operation.post(work, true);
  return {};
}

Status check_stream(tutti_stream stream) {
  if (stream.kind == TUTTI_STREAM_BLOCKING) return {};
  if (stream.kind == TUTTI_STREAM_QUEUE) {
    return stream.handle != nullptr ? Status() : invalid("the stream is a queue, but its handle is NULL", "Pass a tutti_queue.");
  }
  if (stream.kind == TUTTI_STREAM_CUDA) {
    return Status(TUTTI_UNSUPPORTED, "CUDA streams are not there yet", "Use a blocking call or a tutti_queue on host memory.");
  }
  return invalid("the stream's kind " + std::to_string(stream.kind) + " does not exist", "See tutti_stream_kind.");
}

/// Completes `whole` when all of the works have, with the first error among them.
void complete_after(std::vector<std::shared_ptr<Work>> works, std::shared_ptr<Work> whole) {
  struct Join {
    std::mutex mutex;
    std::size_t left;
  };
  auto join = std::make_shared<Join>();
  join->left = works.size();
  if (works.empty()) whole->complete({});
  for (const auto& work : works) {
    work->on_complete([join, works, whole](tutti_status) {
      const std::lock_guard lock(join->mutex);
      if (--join->left != 0) return;
      Status first;
      for (const auto& w : works) {
        const auto status = w->test();
        if (status && !status->ok() && first.ok()) first = *status;
      }
      whole->complete(first);
    });
  }
}

}  // namespace

bool runs_now(tutti_stream stream, const tutti_call* call) {
  const bool plain = call == nullptr || call->size <= offsetof(tutti_call, work) || call->work == nullptr;
  return stream.kind == TUTTI_STREAM_BLOCKING && plain && group().depth == 0;
}

Status dispatch(Operation operation, tutti_stream stream, const tutti_call* call) {
  if (Status status = check_stream(stream); !status.ok()) return status;
  auto work = std::make_shared<Work>();
  hand_out(call != nullptr ? call->work : nullptr, work);
  if (group().depth > 0) {
    group().operations.push_back({std::move(operation), stream, std::move(work)});
    return {};
  }
  if (stream.kind == TUTTI_STREAM_QUEUE) {
    if (operation.post != nullptr) return post_on(operation, stream, work);
    return enqueue(std::move(operation), stream, std::move(work));
  }
  return run_to_end(operation, work);
}

Status end_group(const tutti_call* given) {
  Group& open = group();
  if (open.depth == 0) return Status(TUTTI_INVALID_USAGE, "tutti_group_end without tutti_group_start", "Pair them.");
  if (--open.depth > 0) return {};
  std::vector<Deferred> operations = std::exchange(open.operations, {});
  auto call = read_call(given);
  if (!call.ok()) return call.status();
  std::vector<std::shared_ptr<Work>> works;
  for (const Deferred& d : operations) works.push_back(d.work);
  if (call->work != nullptr) {
    auto whole = std::make_shared<Work>();
    hand_out(call->work, whole);
    complete_after(works, whole);
  }
  for (Deferred& d : operations) {
    if (d.stream.kind != TUTTI_STREAM_QUEUE) continue;
    Status status = d.operation.post != nullptr ? post_on(d.operation, d.stream, d.work)
                                                : enqueue(std::move(d.operation), d.stream, d.work);
    if (!status.ok()) return status;
  }
  return run_blocking(operations);
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
