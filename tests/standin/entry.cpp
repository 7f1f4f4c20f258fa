#include "tests/standin/entry.h"

#include "tests/standin/failures.h"

namespace standin {

std::vector<ContextHandle>& context_stack() {
  static thread_local std::vector<ContextHandle> stack;
  return stack;
}

bool& in_host_function() {
  static thread_local bool inside = false;
  return inside;
}

DriverResult begin_call(const char* entry) {
  const Lock lock(state().lock);
  const DriverResult injected = failures().count(entry);
  if (injected != DriverResult::success && sticky_by_nature(injected) && !context_stack().empty()) {
    if (const auto context = state().contexts.find(context_stack().back())) lose(*context, injected);
  }
  return injected;
}

DriverResult check_call(Needs needs, Call& call) {
  const State& now = state();
  if (now.ending) return DriverResult::deinitialized;
  if (in_host_function() && needs != Needs::nothing) return DriverResult::not_permitted;
  if (needs == Needs::nothing) return DriverResult::success;
  if (!now.initialised) return DriverResult::not_initialized;
  if (!context_stack().empty()) call.context = now.contexts.find(context_stack().back());
  if (needs == Needs::driver) return DriverResult::success;
  if (context_stack().empty() || context_stack().back() == nullptr) return DriverResult::invalid_context;
  if (call.context == nullptr) return DriverResult::context_is_destroyed;
  return needs == Needs::context ? call.context->error : DriverResult::success;
}

}  // namespace standin
