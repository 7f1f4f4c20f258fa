// Queues and works.
#include <algorithm>
#include <cstring>
#include <optional>

#include "src/api/handles.h"
#include "src/base/no_cancellation.h"

using tutti::guarded;
using tutti::invalid;
using tutti::Status;

namespace {

/// What `ask` knows of a work. Being under way is no failure: it is not remembered as one.
template <typename Ask>
tutti_status outcome(const tutti_work* work, Ask ask) {
  bool under_way = false;
  const tutti_status status = guarded([&]() -> Status {
    if (Status refused = tutti::usable(work); !refused.ok()) return refused;
    const std::optional<Status> known = ask(*work->work);
    under_way = !known;
    return known.value_or(Status());
  });
  return under_way ? TUTTI_IN_PROGRESS : status;
}

/// The queue whose function this thread runs.
thread_local const tutti_queue* running_function = nullptr;

/// A function of the queue's would wait for itself.
Status refuse_within(const tutti_queue* queue, const char* verb) {
  if (running_function != queue) return {};
  return Status(TUTTI_INVALID_USAGE, std::string(verb) + " was called by a function of that queue",
                "Call it from outside: the function would wait for its own end.");
}

}  // namespace

tutti_status tutti_queue_create(tutti_queue** queue) {
  return guarded([&]() -> Status {
    if (queue == nullptr) return invalid("tutti_queue_create needs a place for the queue");
    *queue = nullptr;
    auto handle = std::make_unique<tutti_queue>();
    auto made = tutti::Queue::make();
    if (!made.ok()) return made.status();
    handle->queue = std::move(*made);
    handle->pid = tutti::this_process();
    *queue = handle.release();
    return {};
  });
}

tutti_status tutti_queue_destroy(tutti_queue* queue) {
  return guarded([&]() -> Status {
    if (queue == nullptr) return {};
    if (Status status = refuse_within(queue, "tutti_queue_destroy"); !status.ok()) return status;
    if (tutti::group_holds(queue)) {
      return Status(TUTTI_INVALID_USAGE, "tutti_queue_destroy was called while an open group holds operations on the queue",
                    "Call tutti_group_end first.");
    }
    const tutti::NoCancellation whole;
    const std::unique_ptr<tutti_queue> handle(queue);
    // A forked child lets go of its copy: the thread is the parent's.
    if (!tutti::usable(queue).ok()) {
      static_cast<void>(handle->queue.release());
      return {};
    }
    // Waits once with the callers' hooks; where they end that, the rest is waited for all the same.
    static_cast<void>(queue->queue->wait(0));
    return {};
  });
}

tutti_status tutti_queue_wait(tutti_queue* queue, uint64_t timeout_ns) {
  return guarded([&] {
    Status status = tutti::usable(queue);
    if (status.ok() && tutti::is_unlimited(timeout_ns)) status = refuse_within(queue, "tutti_queue_wait");
    return status.ok() ? queue->queue->wait(timeout_ns) : status;
  });
}

tutti_status tutti_queue_call(tutti_queue* queue, void (*fn)(void*), void* ctx, tutti_work** work) {
  return guarded([&]() -> Status {
    if (work != nullptr) *work = nullptr;
    if (fn == nullptr) return invalid("tutti_queue_call needs a function");
    if (Status status = tutti::usable(queue); !status.ok()) return status;
    if (Status status = tutti::refuse_in_group("tutti_queue_call"); !status.ok()) return status;
    const auto state = std::make_shared<tutti::Work>();
    std::unique_ptr<tutti_work> handle(work != nullptr ? new tutti_work{state} : nullptr);
    state->issue(0, nullptr);
    const auto run = [fn, ctx, state, queue](bool) {
      state->start(0);
      running_function = queue;
      state->complete(tutti::catching([&]() -> Status {
        fn(ctx);
        return {};
      }));
      running_function = nullptr;
    };
    queue->queue->post(run, tutti::Queue::Runner::own_thread, state, [] {});
    if (handle != nullptr) *work = handle.release();
    return {};
  });
}

tutti_status tutti_work_test(tutti_work* work) {
  return outcome(work, [](const tutti::Work& asked) { return asked.test(); });
}

tutti_status tutti_work_wait(tutti_work* work, uint64_t timeout_ns) {
  return outcome(work, [timeout_ns](const tutti::Work& asked) { return asked.wait(timeout_ns); });
}

tutti_status tutti_work_cancel(tutti_work* work) {
  return guarded([&] {
    Status status = tutti::usable(work);
    return status.ok() ? work->work->cancel() : status;
  });
}

tutti_status tutti_work_info(const tutti_work* work, tutti_work_details* info) {
  return guarded([&]() -> Status {
    if (work == nullptr || info == nullptr || info->size < sizeof(size_t)) {
      return invalid("tutti_work_info needs a work, and an info whose size is set");
    }
    if (Status status = tutti::usable(work); !status.ok()) return status;
    const tutti::Work::Info known = work->work->info();
    const auto status = work->work->test();
    tutti_work_details copy{};
    copy.size = info->size;
    copy.status = status ? status->code() : TUTTI_IN_PROGRESS;
    copy.sequence = known.sequence;
    copy.source = known.source;
    copy.received_count = known.received_count;
    copy.start_ns = known.start_ns;
    copy.end_ns = known.end_ns;
    const tutti::WorkDescription& described = work->work->description();
    copy.kind = described.kind;
    copy.bytes = described.bytes;
    copy.user_tag = described.user_tag;
    if (copy.status == TUTTI_SUCCESS) std::ranges::copy(known.algorithm, copy.algorithm);
    std::memcpy(info, &copy, std::min(info->size, sizeof copy));
    return {};
  });
}

tutti_status tutti_work_on_complete(tutti_work* work, void (*fn)(void*, tutti_status), void* ctx) {
  return guarded([&] {
    if (work == nullptr || fn == nullptr) return invalid("tutti_work_on_complete needs a work and a function");
    if (Status status = tutti::usable(work); !status.ok()) return status;
    return work->work->on_complete([fn, ctx](tutti_status status) { fn(ctx, status); });
  });
}

tutti_status tutti_work_notify(tutti_work* work, void (*fn)(void*, tutti_status), void* ctx) {
  return guarded([&] {
    if (work == nullptr || fn == nullptr) return invalid("tutti_work_notify needs a work and a function");
    if (Status status = tutti::usable(work); !status.ok()) return status;
    work->work->notify([fn, ctx](tutti_status status) { fn(ctx, status); });
    return Status();
  });
}

void tutti_work_release(tutti_work* work) {
  // A forked child lets go of its copy without ending it: threads that are not there may hold its locks, or wait on them.
  const bool of_parent = work != nullptr && work->pid != tutti::this_process();
  if (!of_parent) delete work;
}
