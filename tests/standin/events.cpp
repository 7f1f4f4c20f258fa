// Events: recorded in streams, waited for by streams and by the host.
#include "tests/standin/capture.h"
#include "tests/standin/entry.h"
#include "tests/standin/queues.h"

using namespace standin;  // NOLINT: entry points live outside of namespaces

namespace {

constexpr unsigned kExternalWait = 1;  // CU_EVENT_WAIT_EXTERNAL
constexpr float kNanosecondsPerMillisecond = 1e6F;

template <typename Body>
DriverResult for_event(const char* entry, Needs needs, EventHandle handle, const Body& body) {
  return enter(entry, needs, [&](Call& call) {
    const auto event = state().events.find(handle);
    return event == nullptr ? DriverResult::invalid_handle : body(call, event);
  });
}

/// Within a capture an event stands for the nodes before it; an external one is a node itself.
DriverResult record(const std::shared_ptr<Stream>& stream, const std::shared_ptr<Event>& event, bool external) {
  if (event->context != stream->context) return DriverResult::invalid_handle;
  if (stream->capture == nullptr || external) {
    if (stream->capture == nullptr) event->capture = nullptr;
    Command command;
    command.record = event;
    return submit(stream, command);
  }
  if (stream->capture->invalidated) return DriverResult::capture_invalidated;
  event->capture = stream->capture;
  event->nodes = stream->capture_nodes;
  return DriverResult::success;
}

DriverResult record_event(const char* entry, EventHandle handle, StreamHandle stream_handle, unsigned flags) {
  return for_event(entry, Needs::context, handle, [&](Call& call, const std::shared_ptr<Event>& event) {
    const auto stream = find_stream(call.context, stream_handle);
    if (stream == nullptr) return DriverResult::invalid_handle;
    if (flags > kEventRecordExternal) return DriverResult::invalid_value;
    return record(stream, event, flags == kEventRecordExternal);
  });
}

DriverResult wait_in_stream(const std::shared_ptr<Stream>& stream, const std::shared_ptr<Event>& event, bool external) {
  Command command;
  command.wait_for = event;
  if (external && stream->capture != nullptr) return submit(stream, command);
  if (event->capture != nullptr) return join_capture(stream, *event);
  if (event->recorded == nullptr) return DriverResult::success;  // never recorded: nothing to wait for
  if (stream->capture == nullptr) return submit(stream, command);
  stream->capture->invalidated = true;
  return DriverResult::capture_isolation;
}

/// What queries and waits of the host are refused for.
DriverResult refuse_host(const Event& event) {
  const DriverResult refused = refuse_captured(event);
  return refused != DriverResult::success ? refused : refuse_unsafe();
}

bool has_fired(const Event& event) { return event.recorded == nullptr || event.recorded->done; }

}  // namespace

DriverResult cuEventCreate(EventHandle* out, unsigned flags) {
  return enter(__func__, Needs::context, [&](Call& call) {
    const unsigned known = kEventBlockingSync | kEventDisableTiming;
    if (out == nullptr || (flags & ~(known | kEventInterprocess)) != 0) return DriverResult::invalid_value;
    if ((flags & kEventInterprocess) != 0) return DriverResult::not_supported;
    auto event = std::make_shared<Event>();
    event->context = call.context;
    event->flags = flags;
    *out = state().events.add(std::move(event));
    return DriverResult::success;
  });
}

// What waits for its record holds the operation, not the event.
DriverResult cuEventDestroy_v2(EventHandle handle) {
  return for_event(__func__, Needs::driver, handle, [&](Call&, const std::shared_ptr<Event>&) {
    state().events.remove(handle);
    return DriverResult::success;
  });
}

DriverResult cuEventRecord(EventHandle handle, StreamHandle stream) { return record_event(__func__, handle, stream, 0); }

DriverResult cuEventRecordWithFlags(EventHandle handle, StreamHandle stream, unsigned flags) {
  return record_event(__func__, handle, stream, flags);
}

DriverResult cuStreamWaitEvent(StreamHandle stream_handle, EventHandle handle, unsigned flags) {
  return for_event(__func__, Needs::context, handle, [&](Call& call, const std::shared_ptr<Event>& event) {
    const auto stream = find_stream(call.context, stream_handle);
    if (stream == nullptr) return DriverResult::invalid_handle;
    if (flags > kExternalWait) return DriverResult::invalid_value;
    return wait_in_stream(stream, event, flags == kExternalWait);
  });
}

DriverResult cuEventQuery(EventHandle handle) {
  return for_event(__func__, Needs::driver, handle, [&](Call&, const std::shared_ptr<Event>& event) {
    if (const DriverResult refused = refuse_host(*event); refused != DriverResult::success) return refused;
    if (event->context->error != DriverResult::success) return event->context->error;
    return has_fired(*event) ? DriverResult::success : DriverResult::not_ready;
  });
}

DriverResult cuEventSynchronize(EventHandle handle) {
  return for_event(__func__, Needs::driver, handle, [&](Call& call, const std::shared_ptr<Event>& event) {
    if (const DriverResult refused = refuse_host(*event); refused != DriverResult::success) return refused;
    wait_for(call.lock, event->recorded);
    return event->context->error;
  });
}

DriverResult cuEventElapsedTime(float* milliseconds, EventHandle first, EventHandle second) {
  return for_event(__func__, Needs::driver, first, [&](Call&, const std::shared_ptr<Event>& start) {
    const auto stop = state().events.find(second);
    if (stop == nullptr) return DriverResult::invalid_handle;
    if (milliseconds == nullptr) return DriverResult::invalid_value;
    const bool timed = ((start->flags | stop->flags) & kEventDisableTiming) == 0;
    if (!timed || start->recorded == nullptr || stop->recorded == nullptr) return DriverResult::invalid_handle;
    if (!has_fired(*start) || !has_fired(*stop)) return DriverResult::not_ready;
    const auto nanoseconds = static_cast<std::int64_t>(stop->recorded->ended_ns - start->recorded->ended_ns);
    *milliseconds = static_cast<float>(nanoseconds) / kNanosecondsPerMillisecond;
    return DriverResult::success;
  });
}
