#include "src/cuda/memory.h"

namespace tutti::cuda {
namespace {

constexpr std::size_t kNoAlignment = 0;  // the driver's own choice

AllocationProperties properties_on(int device) {
  AllocationProperties properties;
  properties.type = AllocationType::pinned;
  properties.handle_types = ShareableType::posix_descriptor;
  properties.location = {LocationType::device, device};
  return properties;
}

/// "allocating 64 bytes of WHAT", written only where it is needed.
auto allocating(std::size_t bytes, const char* what) {
  return [bytes, what] { return fmt::format("allocating {} bytes of {}", bytes, what); };
}

}  // namespace

void DeviceMemory::release(const Driver& driver, const MemoryBlock& memory) {
  driver.defer({memory.context, [](const DriverApi& api, std::uint64_t address) { return api.cuMemFree_v2(address); },
                memory.address});
}

Result<DeviceMemory> DeviceMemory::allocate(const Context& context, std::size_t bytes) {
  const auto scope = ContextScope::enter(context);
  if (!scope.ok()) return scope.status();
  const Driver& driver = context.driver();
  DevicePointer address = 0;
  const Status status =
      driver.call(driver.api().cuMemAlloc_v2, context.device(), allocating(bytes, "device memory"), &address, bytes);
  if (!status.ok()) return status;
  DeviceMemory memory;
  memory.memory_ = {driver, {context.handle(), address, bytes}};
  return memory;
}

Status DeviceMemory::free(const Context& context) {
  if (!memory_) return {};
  const auto scope = ContextScope::enter(context);
  if (!scope.ok()) return scope.status();
  const Driver& driver = memory_.driver();
  return driver.call(driver.api().cuMemFree_v2, context.device(), "freeing device memory", memory_.release().address);
}

void PinnedMemory::release(const Driver& driver, const MemoryBlock& memory) {
  driver.defer(
      {memory.context,
       [](const DriverApi& api, std::uint64_t address) { return api.cuMemFreeHost(reinterpret_cast<void*>(address)); },
       memory.address});
}

Result<PinnedMemory> PinnedMemory::allocate(const Context& context, std::size_t bytes) {
  const auto scope = ContextScope::enter(context);
  if (!scope.ok()) return scope.status();
  const Driver& driver = context.driver();
  void* data = nullptr;
  const Status status = driver.call(driver.api().cuMemHostAlloc, context.device(), allocating(bytes, "pinned memory"),
                                    &data, bytes, kHostPortable | kHostDeviceMap);
  if (!status.ok()) return status;
  PinnedMemory memory;
  memory.memory_ = {driver, {context.handle(), reinterpret_cast<std::uint64_t>(data), bytes}};
  return memory;
}

void PhysicalMemory::release(const Driver& driver, const Allocation& allocation) {
  driver.api().cuMemRelease(allocation.handle);
}

Result<PhysicalMemory> PhysicalMemory::create(const Context& context, std::size_t bytes) {
  const Driver& driver = context.driver();
  const AllocationProperties properties = properties_on(context.device());
  AllocationHandle handle = 0;
  const Status status = driver.call(driver.api().cuMemCreate, context.device(), allocating(bytes, "physical memory"),
                                    &handle, bytes, &properties, 0);
  if (!status.ok()) return status;
  PhysicalMemory memory;
  memory.allocation_ = {driver, {handle, bytes, context.device()}};
  return memory;
}

Result<PhysicalMemory> PhysicalMemory::import(const Context& context, int descriptor, std::size_t bytes) {
  const Driver& driver = context.driver();
  AllocationHandle handle = 0;
  void* const os_handle = reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor));
  const Status status =
      driver.call(driver.api().cuMemImportFromShareableHandle, context.device(), "importing another process's memory",
                  &handle, os_handle, ShareableType::posix_descriptor);
  if (!status.ok()) return status;
  PhysicalMemory memory;
  memory.allocation_ = {driver, {handle, bytes, context.device()}};
  return memory;
}

Result<std::size_t> PhysicalMemory::granularity(const Context& context) {
  const Driver& driver = context.driver();
  const AllocationProperties properties = properties_on(context.device());
  std::size_t bytes = 0;
  const Status status = driver.call(driver.api().cuMemGetAllocationGranularity, context.device(),
                                    "asking for its memory's granularity", &bytes, &properties, Granularity::recommended);
  if (!status.ok()) return status;
  return bytes;
}

Result<UniqueFd> PhysicalMemory::export_descriptor() const {
  int descriptor = -1;
  const Status status =
      driver().call(driver().api().cuMemExportToShareableHandle, device(), "exporting memory to another process",
                    &descriptor, handle(), ShareableType::posix_descriptor, 0);
  if (!status.ok()) return status;
  return UniqueFd(descriptor);
}

void MappedMemory::free_address(const Driver& driver, const MemoryBlock& reserved) {
  driver.api().cuMemAddressFree(reserved.address, reserved.bytes);
}

void MappedMemory::unmap(const Driver& driver, const MemoryBlock& mapped) {
  driver.api().cuMemUnmap(mapped.address, mapped.bytes);
}

Result<MappedMemory> MappedMemory::map(const PhysicalMemory& memory) {
  const Driver& driver = memory.driver();
  const std::size_t bytes = memory.bytes();
  DevicePointer address = 0;
  Status status = driver.call(driver.api().cuMemAddressReserve, memory.device(), "reserving an address", &address, bytes,
                              kNoAlignment, 0, 0);
  if (!status.ok()) return status;
  MappedMemory mapped;
  mapped.reserved_ = {driver, {nullptr, address, bytes}};
  status = driver.call(driver.api().cuMemMap, memory.device(), "mapping memory", address, bytes, 0, memory.handle(), 0);
  if (!status.ok()) return status;
  mapped.mapped_ = {driver, {nullptr, address, bytes}};
  status = mapped.allow(memory.device());
  if (!status.ok()) return status;
  return mapped;
}

Status MappedMemory::allow(int device) {
  const AccessDescription access{{LocationType::device, device}, AccessFlags::read_write};
  const Driver& driver = mapped_.driver();
  return driver.call(driver.api().cuMemSetAccess, device, "letting it use mapped memory", address(), bytes(), &access, 1);
}

}  // namespace tutti::cuda
