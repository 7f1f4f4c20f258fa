// Streams and events of the library's own.
#pragma once

#include "src/cuda/context.h"

namespace tutti::cuda {

/// A stream that does not wait for the legacy stream. Movable. Destruction waits for nothing: what was enqueued still runs.
class OwnedStream {
 public:
  /// priority  lower is more urgent, 0 the usual one. Errors: as Driver::call.
  static Result<OwnedStream> create(const Context& context, int priority = 0);

  OwnedStream() = default;  ///< none
  StreamHandle handle() const { return stream_.get(); }
  explicit operator bool() const { return static_cast<bool>(stream_); }

 private:
  static void release(const Driver& driver, const StreamHandle& stream);
  DriverHandle<StreamHandle, release> stream_;
};

/// An event without a time. Movable. Destruction waits for nothing, and what waits for its last record still does.
class OwnedEvent {
 public:
  /// Errors: as Driver::call.
  static Result<OwnedEvent> create(const Context& context);

  OwnedEvent() = default;  ///< none
  EventHandle handle() const { return event_.get(); }
  explicit operator bool() const { return static_cast<bool>(event_); }

 private:
  static void release(const Driver& driver, const EventHandle& event);
  DriverHandle<EventHandle, release> event_;
};

}  // namespace tutti::cuda
