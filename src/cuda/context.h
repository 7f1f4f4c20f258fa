// Contexts: which one a device's calls go to, and making it the thread's current one for a scope.
#pragma once

#include "src/cuda/driver_handle.h"

namespace tutti::cuda {

/// A device's context for as long as this object lives. Movable. Its const functions are thread safe.
class Context {
 public:
  /// The device's primary context, retained; its release is deferred (Driver::release_deferred), as the last may wait.
  /// Errors: as Driver::call.
  static Result<Context> primary(const Driver& driver, int device);

  /// This thread's current context, which its owner must keep. Where none is current it is the device's primary one.
  ///
  /// device  the ordinal; kNoDevice: the current context's, or 0 where there is none
  /// Errors: TUTTI_INVALID_ARGUMENT where another device's context is current; else as Driver::call.
  static Result<Context> current_or_primary(const Driver& driver, int device);

  /// The same, for whom this one outlives.
  Context borrowed() const { return Context(*driver_, handle_, device_); }

  const Driver& driver() const { return *driver_; }
  ContextHandle handle() const { return handle_; }
  int device() const { return device_; }

 private:
  struct Retained {
    int device = 0;
  };
  static void release(const Driver& driver, const Retained& retained);

  Context(const Driver& driver, ContextHandle handle, int device) : driver_(&driver), handle_(handle), device_(device) {}

  const Driver* driver_;
  ContextHandle handle_;
  int device_;
  DriverHandle<Retained, release> retained_;  ///< empty for a context of somebody else's
};

/// Makes a context this thread's current one, and the one before again upon destruction, in the thread that made it. Scopes
/// nest. Holds no reference to the context, which has to outlive it.
class ContextScope {
 public:
  /// Errors: as Driver::call; nothing has changed then.
  static Result<ContextScope> enter(const Context& context);

 private:
  static void pop(const Driver& driver, const ContextHandle& context);

  explicit ContextScope(const Context& context) : pushed_(context.driver(), context.handle()) {}

  DriverHandle<ContextHandle, pop> pushed_;
};

}  // namespace tutti::cuda
