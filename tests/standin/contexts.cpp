// Contexts: primary ones, created ones, each thread's stack of them, peer access.
#include <algorithm>
#include <utility>

#include "tests/standin/address_map.h"
#include "tests/standin/capture.h"
#include "tests/standin/configuration.h"
#include "tests/standin/entry.h"
#include "tests/standin/queues.h"

using namespace standin;  // NOLINT: entry points live outside of namespaces

namespace {

std::shared_ptr<Context> make_context(Device& device, unsigned flags, bool primary) {
  auto context = std::make_shared<Context>();
  context->device = &device;
  context->flags = flags;
  context->primary = primary;
  context->id = state().next_id++;
  context->legacy = std::make_shared<Stream>();
  context->legacy->context = context;
  context->legacy->legacy = true;
  context->legacy->queue = choose_queue(device);
  state().contexts.add(context);
  return context;
}

/// Waits until what it was given is done, then takes it and all that it owns away.
void destroy(Lock& lock, const std::shared_ptr<Context>& context) {
  wait_idle(lock, *context);
  context->destroyed = true;
  for (const auto& stream : context->streams) state().streams.remove(reinterpret_cast<StreamHandle>(stream.get()));
  std::vector<EventHandle> events;
  for (const auto& [handle, event] : state().events.all()) {
    if (event->context == context) events.push_back(handle);
  }
  for (const EventHandle event : events) state().events.remove(event);
  context->streams.clear();
  context->per_thread.clear();
  context->legacy.reset();
  address_map().drop(*context);
  state().contexts.remove(reinterpret_cast<ContextHandle>(context.get()));
}

void reset_primary(Lock& lock, Device& device) {
  const std::shared_ptr<Context> context = std::exchange(device.primary, nullptr);
  device.retained = 0;
  if (context != nullptr) destroy(lock, context);
}

template <typename Body>
DriverResult for_device(const char* entry, DeviceOrdinal ordinal, const Body& body) {
  return enter(entry, Needs::driver, [&](Call& call) {
    Device* const device = find_device(ordinal);
    return device == nullptr ? DriverResult::invalid_device : body(call, *device);
  });
}

}  // namespace

DriverResult cuDevicePrimaryCtxRetain(ContextHandle* out, DeviceOrdinal ordinal) {
  return for_device(__func__, ordinal, [&](Call&, Device& device) {
    if (out == nullptr) return DriverResult::invalid_value;
    if (device.primary == nullptr) device.primary = make_context(device, 0, true);
    ++device.retained;
    *out = reinterpret_cast<ContextHandle>(device.primary.get());
    return DriverResult::success;
  });
}

DriverResult cuDevicePrimaryCtxRelease_v2(DeviceOrdinal ordinal) {
  return for_device(__func__, ordinal, [&](Call& call, Device& device) {
    if (device.retained == 0) return DriverResult::invalid_context;
    if (device.retained == 1) {
      reset_primary(call.lock, device);
    } else {
      --device.retained;
    }
    return DriverResult::success;
  });
}

DriverResult cuDevicePrimaryCtxGetState(DeviceOrdinal ordinal, unsigned* flags, int* active) {
  return for_device(__func__, ordinal, [&](Call&, Device& device) {
    if (flags == nullptr || active == nullptr) return DriverResult::invalid_value;
    *flags = device.primary != nullptr ? device.primary->flags : 0;
    *active = device.primary != nullptr ? 1 : 0;
    return DriverResult::success;
  });
}

DriverResult cuDevicePrimaryCtxReset_v2(DeviceOrdinal ordinal) {
  return for_device(__func__, ordinal, [&](Call& call, Device& device) {
    reset_primary(call.lock, device);
    return DriverResult::success;
  });
}

DriverResult cuCtxCreate_v2(ContextHandle* out, unsigned flags, DeviceOrdinal ordinal) {
  return for_device(__func__, ordinal, [&](Call&, Device& device) {
    if (out == nullptr) return DriverResult::invalid_value;
    *out = reinterpret_cast<ContextHandle>(make_context(device, flags, false).get());
    context_stack().push_back(*out);
    return DriverResult::success;
  });
}

DriverResult cuCtxDestroy_v2(ContextHandle handle) {
  return enter(__func__, Needs::driver, [&](Call& call) {
    const auto context = state().contexts.find(handle);
    if (context == nullptr || context->primary) return DriverResult::invalid_context;
    auto& stack = context_stack();
    if (!stack.empty() && stack.back() == handle) stack.pop_back();
    destroy(call.lock, context);
    return DriverResult::success;
  });
}

DriverResult cuCtxPushCurrent_v2(ContextHandle handle) {
  return enter(__func__, Needs::driver, [&](Call&) {
    if (state().contexts.find(handle) == nullptr) return DriverResult::invalid_context;
    context_stack().push_back(handle);
    return DriverResult::success;
  });
}

DriverResult cuCtxPopCurrent_v2(ContextHandle* out) {
  return enter(__func__, Needs::driver, [&](Call&) {
    auto& stack = context_stack();
    if (stack.empty()) return DriverResult::invalid_context;
    if (out != nullptr) *out = stack.back();
    stack.pop_back();
    return DriverResult::success;
  });
}

DriverResult cuCtxGetCurrent(ContextHandle* out) {
  return enter(__func__, Needs::driver, [&](Call&) {
    if (out == nullptr) return DriverResult::invalid_value;
    *out = context_stack().empty() ? nullptr : context_stack().back();
    return DriverResult::success;
  });
}

DriverResult cuCtxSetCurrent(ContextHandle handle) {
  return enter(__func__, Needs::driver, [&](Call&) {
    if (handle != nullptr && state().contexts.find(handle) == nullptr) return DriverResult::invalid_context;
    auto& stack = context_stack();
    if (!stack.empty()) stack.pop_back();
    if (handle != nullptr) stack.push_back(handle);
    return DriverResult::success;
  });
}

DriverResult cuCtxGetDevice(DeviceOrdinal* device) {
  return enter(__func__, Needs::any_context, [&](Call& call) {
    if (device == nullptr) return DriverResult::invalid_value;
    *device = call.context->device->ordinal;
    return DriverResult::success;
  });
}

DriverResult cuCtxGetId(ContextHandle handle, unsigned long long* id) {
  return enter(__func__, Needs::driver, [&](Call& call) {
    const auto context = handle == nullptr ? call.context : state().contexts.find(handle);
    if (context == nullptr) return DriverResult::context_is_destroyed;
    if (id == nullptr) return DriverResult::invalid_value;
    *id = context->id;
    return DriverResult::success;
  });
}

DriverResult cuCtxSynchronize() {
  return enter(__func__, Needs::context, [&](Call& call) {
    if (const DriverResult refused = refuse_while_capturing(*call.context); refused != DriverResult::success)
      return refused;
    wait_idle(call.lock, *call.context);
    return call.context->error;
  });
}

DriverResult cuCtxEnablePeerAccess(ContextHandle peer, unsigned flags) {
  return enter(__func__, Needs::context, [&](Call& call) {
    const auto other = state().contexts.find(peer);
    if (flags != 0) return DriverResult::invalid_value;
    if (other == nullptr || other == call.context) return DriverResult::invalid_context;
    const int to = other->device->ordinal;
    if (to == call.context->device->ordinal || !linked(state().configuration, call.context->device->ordinal, to)) {
      return DriverResult::peer_access_unsupported;
    }
    return call.context->peers.insert(to).second ? DriverResult::success : DriverResult::peer_access_already_enabled;
  });
}
