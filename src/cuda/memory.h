// Memory that the driver gives: on a device in one piece, on a device page by page for peers, and pinned on the host.
//
// A holder's destructor waits for nothing. Who drops memory vouches that no launch uses it any more.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/unique_fd.h"
#include "src/cuda/context.h"

namespace tutti::cuda {

/// Memory by its address, in the context that it was made in.
struct MemoryBlock {
  ContextHandle context = nullptr;
  std::uint64_t address = 0;
  std::size_t bytes = 0;
};

/// Device memory of cuMemAlloc. Peers in other processes reach it by legacy handles only. Movable; not thread safe.
class DeviceMemory {
 public:
  /// At least `bytes` > 0 on the context's device, contents undefined. Errors: as Driver::call.
  static Result<DeviceMemory> allocate(const Context& context, std::size_t bytes);

  DeviceMemory() = default;  ///< none
  DevicePointer address() const { return memory_.get().address; }
  std::size_t bytes() const { return memory_.get().bytes; }
  explicit operator bool() const { return static_cast<bool>(memory_); }
  /// Frees it now. May wait for the device. Errors: as Driver::call; it is then lost.
  Status free(const Context& context);

 private:
  static void release(const Driver& driver, const MemoryBlock& memory);
  DriverHandle<MemoryBlock, release> memory_;  ///< destruction defers the release, since cuMemFree waits
};

/// Pinned memory of the host, which devices reach under the address that the host uses. Movable; not thread safe.
class PinnedMemory {
 public:
  /// `bytes` > 0 that all contexts may use, contents undefined. Errors: as Driver::call.
  static Result<PinnedMemory> allocate(const Context& context, std::size_t bytes);

  PinnedMemory() = default;  ///< none
  void* data() const { return reinterpret_cast<void*>(memory_.get().address); }
  DevicePointer address() const { return memory_.get().address; }
  std::size_t bytes() const { return memory_.get().bytes; }
  explicit operator bool() const { return static_cast<bool>(memory_); }

 private:
  static void release(const Driver& driver, const MemoryBlock& memory);
  DriverHandle<MemoryBlock, release> memory_;  ///< destruction defers the release, since cuMemFreeHost waits
};

/// Physical memory of one device, without an address. It lives until nobody maps it or has a handle of it, in any process.
/// Movable; not thread safe.
class PhysicalMemory {
 public:
  /// `bytes`, a multiple of granularity(), on the context's device; other processes can be given it. Errors: as
  /// Driver::call.
  static Result<PhysicalMemory> create(const Context& context, std::size_t bytes);
  /// What another process exported. `descriptor` is borrowed. bytes: as its creator says. Errors: as Driver::call.
  static Result<PhysicalMemory> import(const Context& context, int descriptor, std::size_t bytes);
  /// Bytes of which sizes of physical memory are multiples. Errors: as Driver::call.
  static Result<std::size_t> granularity(const Context& context);

  PhysicalMemory() = default;  ///< none
  /// A descriptor that another process can import. Errors: as Driver::call.
  Result<UniqueFd> export_descriptor() const;
  AllocationHandle handle() const { return allocation_.get().handle; }
  std::size_t bytes() const { return allocation_.get().bytes; }
  int device() const { return allocation_.get().device; }  ///< of the context that made or imported it
  const Driver& driver() const { return allocation_.driver(); }
  explicit operator bool() const { return static_cast<bool>(allocation_); }

 private:
  struct Allocation {
    AllocationHandle handle = 0;
    std::size_t bytes = 0;
    int device = 0;
  };
  static void release(const Driver& driver, const Allocation& allocation);
  DriverHandle<Allocation, release> allocation_;
};

/// An address at which physical memory is mapped, for the devices that were allowed to use it. Movable; not thread safe.
/// It keeps the physical memory, whose own holder may go before. Unmapping does not wait for launches.
class MappedMemory {
 public:
  /// Maps all of `memory` for its own device. Errors: as Driver::call.
  static Result<MappedMemory> map(const PhysicalMemory& memory);

  MappedMemory() = default;  ///< none
  /// Lets another device read and write it too. Errors: as Driver::call (no way from that device to the memory).
  Status allow(int device);
  DevicePointer address() const { return mapped_.get().address; }
  std::size_t bytes() const { return mapped_.get().bytes; }
  explicit operator bool() const { return static_cast<bool>(mapped_); }

 private:
  static void unmap(const Driver& driver, const MemoryBlock& mapped);
  static void free_address(const Driver& driver, const MemoryBlock& reserved);
  DriverHandle<MemoryBlock, free_address> reserved_;
  DriverHandle<MemoryBlock, unmap> mapped_;  ///< behind `reserved_`, so that it goes first
};

}  // namespace tutti::cuda
