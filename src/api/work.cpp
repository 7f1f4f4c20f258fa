// Queues and works.
#include <cstring>

#include "src/api/handles.h"

namespace tutti {
namespace {

/// A work's wait without a limit: the operation's own deadline ends it.
constexpr std::uint64_t no_limit = UINT64_MAX;

tutti_status outcome(const std::optional<Status>& status) {
  if (!status) return TUTTI_IN_PROGRESS;
  return answer(*status);
}

}  // namespace
}  // namespace tutti

tutti_status tutti_queue_create(tutti_queue** queue) {
  return tutti::guarded([&] {
    if (queue == nullptr) return tutti::invalid("tutti_queue_create needs a place for the queue");
    *queue = new tutti_queue;
    return tutti::Status();
  });
}

tutti_status tutti_queue_destroy(tutti_queue* queue) {
  return tutti::guarded([&] {
    delete queue;
    return tutti::Status();
  });
}

tutti_status tutti_queue_wait(tutti_queue* queue, uint64_t timeout_ns) {
  return tutti::guarded([&] { return queue == nullptr ? tutti::invalid("the queue is NULL") : queue->queue.wait(timeout_ns); });
}

tutti_status tutti_work_test(tutti_work* work) {
  if (work == nullptr) return tutti::answer(tutti::invalid("the work is NULL"));
  return tutti::outcome(work->work->test());
}

tutti_status tutti_work_wait(tutti_work* work, uint64_t timeout_ns) {
  if (work == nullptr) return tutti::answer(tutti::invalid("the work is NULL"));
  return tutti::outcome(work->work->wait(timeout_ns == 0 ? tutti::no_limit : timeout_ns));
}

tutti_status tutti_work_info(const tutti_work* work, tutti_work_info_t* info) {
  if (work == nullptr || info == nullptr || info->size < sizeof(size_t)) {
    return tutti::answer(tutti::invalid("tutti_work_info needs a work, and an info whose size is set"));
  }
  const tutti::Work::Info known = work->work->info();
  const auto status = work->work->test();
  tutti_work_info_t copy{};
  copy.size = info->size;
  copy.status = status ? status->code() : TUTTI_IN_PROGRESS;
  copy.sequence = known.sequence;
  copy.source = known.source;
  copy.received_count = known.received_count;
  copy.start_ns = known.start_ns;
  copy.end_ns = known.end_ns;
  std::memcpy(info, &copy, std::min(info->size, sizeof copy));
  return TUTTI_SUCCESS;
}

tutti_status tutti_work_on_complete(tutti_work* work, void (*fn)(void*, tutti_status), void* ctx) {
  return tutti::guarded([&] {
    if (work == nullptr || fn == nullptr) return tutti::invalid("tutti_work_on_complete needs a work and a function");
    work->work->on_complete([fn, ctx](tutti_status status) { fn(ctx, status); });
    return tutti::Status();
  });
}

void tutti_work_release(tutti_work* work) { delete work; }
