#include "src/cuda/stream.h"

namespace tutti::cuda {

void OwnedStream::release(const Driver& driver, const StreamHandle& stream) { driver.api().cuStreamDestroy_v2(stream); }

Result<OwnedStream> OwnedStream::create(const Context& context, int priority) {
  const auto scope = ContextScope::enter(context);
  if (!scope.ok()) return scope.status();
  const Driver& driver = context.driver();
  StreamHandle handle = nullptr;
  const Status status = driver.call(driver.api().cuStreamCreateWithPriority, context.device(), "creating a stream", &handle,
                                    kStreamNonBlocking, priority);
  if (!status.ok()) return status;
  OwnedStream stream;
  stream.stream_ = {driver, handle};
  return stream;
}

void OwnedEvent::release(const Driver& driver, const EventHandle& event) { driver.api().cuEventDestroy_v2(event); }

Result<OwnedEvent> OwnedEvent::create(const Context& context) {
  const auto scope = ContextScope::enter(context);
  if (!scope.ok()) return scope.status();
  const Driver& driver = context.driver();
  EventHandle handle = nullptr;
  const Status status =
      driver.call(driver.api().cuEventCreate, context.device(), "creating an event", &handle, kEventDisableTiming);
  if (!status.ok()) return status;
  OwnedEvent event;
  event.event_ = {driver, handle};
  return event;
}

}  // namespace tutti::cuda
