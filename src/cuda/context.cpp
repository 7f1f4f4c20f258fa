#include "src/cuda/context.h"

namespace tutti::cuda {

void Context::release(const Driver& driver, const Retained& retained) {
  driver.defer({nullptr,
                [](const DriverApi& api, std::uint64_t device) {
                  return api.cuDevicePrimaryCtxRelease_v2(static_cast<DeviceOrdinal>(device));
                },
                static_cast<std::uint64_t>(retained.device)});
}

Result<Context> Context::primary(const Driver& driver, int device) {
  ContextHandle handle = nullptr;
  const Status status =
      driver.call(driver.api().cuDevicePrimaryCtxRetain, device, "retaining its primary context", &handle, device);
  if (!status.ok()) return status;
  Context context(driver, handle, device);
  context.retained_ = {driver, {device}};
  return context;
}

Result<Context> Context::current_or_primary(const Driver& driver, int device) {
  ContextHandle current = nullptr;
  Status status = driver.call(driver.api().cuCtxGetCurrent, device, "asking for the current context", &current);
  if (!status.ok()) return status;
  if (current == nullptr) return primary(driver, device == kNoDevice ? 0 : device);
  int there = 0;
  status = driver.call(driver.api().cuCtxGetDevice, device, "asking for the current context's device", &there);
  if (!status.ok()) return status;
  if (device == kNoDevice || device == there) return Context(driver, current, there);
  return Status(
      TUTTI_INVALID_ARGUMENT,
      fmt::format("Device {} was asked for, and the thread's current CUDA context is of device {}", device, there),
      "Make the device current before (cudaSetDevice), or name the current one");
}

Result<ContextScope> ContextScope::enter(const Context& context) {
  const Driver& driver = context.driver();
  const Status status =
      driver.call(driver.api().cuCtxPushCurrent_v2, context.device(), "making its context current", context.handle());
  if (!status.ok()) return status;
  return ContextScope(context);
}

void ContextScope::pop(const Driver& driver, const ContextHandle&) {
  ContextHandle popped = nullptr;
  driver.api().cuCtxPopCurrent_v2(&popped);
}

}  // namespace tutti::cuda
