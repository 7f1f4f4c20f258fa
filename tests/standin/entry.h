// How every entry point begins: injected failures, the driver's state, the lock, the current context and its sticky error.
#pragma once

#include <new>

#include "src/cuda/driver_entries.h"
#include "tests/standin/state.h"

// Declarations of all entry points, outside of namespaces, so that a definition with another signature does not compile.
using namespace tutti::cuda;  // NOLINT: the table names its types without it
#define STANDIN_DECLARE(symbol, ...) extern "C" __attribute__((visibility("default"))) DriverResult symbol(__VA_ARGS__);
TUTTI_CUDA_ENTRIES(STANDIN_DECLARE, STANDIN_DECLARE)
#undef STANDIN_DECLARE

namespace standin {

/// What a call needs to be allowed.
enum class Needs {
  nothing,      ///< legal before cuInit
  driver,       ///< an initialised driver
  context,      ///< and a current context that is alive and has no sticky error
  any_context,  ///< a current context, lost or not
};

/// What an entry point's body works with.
struct Call {
  Lock& lock;
  std::shared_ptr<Context> context;  ///< the current one; nullptr where there is none
};

/// Contexts of this thread, the current one last.
std::vector<ContextHandle>& context_stack();

/// Whether this thread runs a callback of a stream, in which no call is permitted.
bool& in_host_function();

/// Counts the call, and what STANDIN_FAIL says of it; success where it is to go on. Takes the lock.
DriverResult begin_call(const char* entry);

/// Whether the call is allowed now; fills in the context. With the lock.
DriverResult check_call(Needs needs, Call& call);

/// Runs the body of an entry point. No exception leaves it: what does not fit into memory is CUDA_ERROR_OUT_OF_MEMORY.
template <typename Body>
DriverResult enter(const char* entry, Needs needs, const Body& body) try {
  // Before any lock, which a thread of the parent's may hold for ever. Relaxed: see there.
  if (state().forked.load(std::memory_order_relaxed)) return DriverResult::not_initialized;
  if (const DriverResult injected = begin_call(entry); injected != DriverResult::success) return injected;
  Lock lock(state().lock);
  Call call{lock, nullptr};
  if (const DriverResult refused = check_call(needs, call); refused != DriverResult::success) return refused;
  return body(call);
} catch (const std::bad_alloc&) {
  return DriverResult::out_of_memory;
}

}  // namespace standin
