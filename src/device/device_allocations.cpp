#include "src/device/device_allocations.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "src/base/made_once.h"
#include "src/device/runtime.h"

namespace tutti {

DeviceAllocations& DeviceAllocations::instance() {
  static constinit MadeOnce<DeviceAllocations> all;
  return all.get();
}

Result<cuda::MappedMemory> DeviceAllocations::map(const cuda::Context& context, std::size_t bytes) {
  const auto granule = cuda::PhysicalMemory::granularity(context);
  if (!granule.ok()) return granule.status();
  // Not around the end of what a size_t counts, where a wish for all of it would get a few bytes.
  const std::size_t most = std::numeric_limits<std::size_t>::max() / *granule * *granule;
  const std::size_t whole = bytes > most ? most : (bytes + *granule - 1) / *granule * *granule;
  const auto memory = cuda::PhysicalMemory::create(context, whole);
  if (!memory.ok()) return memory.status();
  auto mapped = cuda::MappedMemory::map(*memory);
  if (!mapped.ok()) return mapped.status();
  const cuda::Driver& driver = context.driver();
  for (int device = 0; device < driver.device_count(); ++device) {
    int can = 0;
    if (device == context.device()) continue;
    const Status status = driver.call(driver.api().cuDeviceCanAccessPeer, device, "asking which devices it reaches", &can,
                                      device, context.device());
    if (!status.ok()) return status;
    if (can == 0) continue;
    if (Status allowed = mapped->allow(device); !allowed.ok()) return allowed;
  }
  return mapped;
}

void DeviceAllocations::release(const cuda::Driver& driver, const cuda::MemoryBlock& memory) {
  driver.defer({memory.context, [](const cuda::DriverApi& api, std::uint64_t address) { return api.cuMemFree_v2(address); },
                memory.address});
}

Result<DeviceAllocations::ManagedMemory> DeviceAllocations::manage(const cuda::Context& context, std::size_t bytes) {
  const cuda::Driver& driver = context.driver();
  cuda::DevicePointer address = 0;
  const Status status = driver.call(
      driver.api().cuMemAllocManaged, context.device(),
      [&] { return fmt::format("allocating {} bytes of managed memory", bytes); }, &address, bytes,
      cuda::kMemoryAttachGlobal);
  if (!status.ok()) return status;
  return ManagedMemory(driver, {context.handle(), address, bytes});
}

/// The current context, or a device's primary one, which is retained once.
Result<cuda::Context> DeviceAllocations::context_of(const cuda::Driver& driver, int device) {
  if (device == cuda::kNoDevice) {
    cuda::ContextHandle current = nullptr;
    const Status status = driver.call(driver.api().cuCtxGetCurrent, device, "asking for the current context", &current);
    if (!status.ok()) return status;
    if (current != nullptr) return cuda::Context::current_or_primary(driver, device);
    device = 0;
  }
  const std::lock_guard lock(mutex_);
  auto found = primaries_.find(device);
  if (found == primaries_.end()) {
    auto context = cuda::Context::primary(driver, device);
    if (!context.ok()) return context.status();
    found = primaries_.emplace(device, std::move(*context)).first;
  }
  return found->second.borrowed();
}

Result<void*> DeviceAllocations::allocate(std::size_t bytes, tutti_memory_kind kind, int device) {
  const auto driver = cuda::Driver::get();
  if (!driver.ok()) return driver.status();
  if (device >= (*driver)->device_count()) {
    return Status(TUTTI_INVALID_ARGUMENT,
                  fmt::format("device {} was asked for, and there are {}", device, (*driver)->device_count()),
                  "Devices are numbered from 0; CUDA_VISIBLE_DEVICES says which there are.");
  }
  const auto context = context_of(**driver, device);
  if (!context.ok()) return context.status();
  const auto scope = DeviceScope::enter(*context);
  if (!scope.ok()) return scope.status();
  release_deferred(**driver);
  any_.store(true, std::memory_order_relaxed);
  const std::size_t size = std::max<std::size_t>(bytes, 1);
  const auto keep = [this](cuda::DevicePointer address, auto memory) {
    void* const data = reinterpret_cast<void*>(address);
    const std::lock_guard lock(mutex_);
    blocks_.emplace(data, std::move(memory));
    return data;
  };
  if (kind == TUTTI_MEMORY_MANAGED) {
    auto managed = manage(*context, size);
    if (!managed.ok()) return managed.status();
    const cuda::DevicePointer address = managed->get().address;
    return keep(address, std::move(*managed));
  }
  auto mapped = map(*context, size);
  if (!mapped.ok()) return mapped.status();
  const cuda::DevicePointer address = mapped->address();
  return keep(address, std::move(*mapped));
}

bool DeviceAllocations::free(void* data) {
  // Relaxed: whoever frees a block was given it before.
  if (!any_.load(std::memory_order_relaxed)) return false;
  const auto driver = cuda::Driver::get();
  if (!driver.ok()) return false;  // a forked child, where the lock may be held by a thread that is not there
  std::map<void*, std::variant<cuda::MappedMemory, ManagedMemory>>::node_type freed;
  {
    const std::lock_guard lock(mutex_);
    freed = blocks_.extract(data);
  }
  if (freed.empty()) return false;
  freed = {};  // without the lock
  release_deferred(**driver);
  return true;
}

void DeviceAllocations::release_deferred(const cuda::Driver& driver) {
  {
    const std::lock_guard lock(mutex_);
    if (uses_ != 0) return;
  }
  driver.release_deferred();
}

void DeviceAllocations::begin_use() {
  const std::lock_guard lock(mutex_);
  ++uses_;
}

void DeviceAllocations::end_use() {
  const std::lock_guard lock(mutex_);
  --uses_;
}

}  // namespace tutti
