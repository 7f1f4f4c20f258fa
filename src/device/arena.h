// Device memory in small pieces: cut from memory that is mapped for every device of a communicator.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "src/cuda/memory.h"
#include "src/device/runtime.h"

namespace tutti {

class DeviceArena;

/// A piece of an arena, given back upon destruction: no launch may use it any more. Movable. Keeps the arena.
class DeviceBlock {
 public:
  DeviceBlock() = default;  ///< none
  DeviceBlock(std::shared_ptr<DeviceArena> arena, cuda::DevicePointer address, std::size_t bytes)
      : arena_(std::move(arena)), address_(address), bytes_(bytes) {}
  DeviceBlock(DeviceBlock&& other) noexcept
      : arena_(std::move(other.arena_)), address_(other.address_), bytes_(other.bytes_) {
    other.arena_.reset();
  }
  DeviceBlock& operator=(DeviceBlock&& other) noexcept;
  ~DeviceBlock();

  /// It is never given back, nor its arena: a device may still write there.
  void keep_for_good() &&;

  cuda::DevicePointer address() const { return address_; }
  std::size_t bytes() const { return bytes_; }
  /// The address as T of device memory: not for the host to look at.
  template <typename T>
  T* as(std::size_t offset = 0) const {
    return reinterpret_cast<T*>(address_ + offset);
  }

 private:
  std::shared_ptr<DeviceArena> arena_;
  cuda::DevicePointer address_ = 0;
  std::size_t bytes_ = 0;
};

/// Memory of one device that all devices of a communicator reach. It grows by whole granules, and shrinks only with its
/// end. Unmapping waits for no launch. Thread safe.
class DeviceArena : public std::enable_shared_from_this<DeviceArena> {
 public:
  /// others: ordinals of the devices that are to reach the memory, besides its own.
  DeviceArena(std::shared_ptr<DeviceRuntime> runtime, std::vector<int> others)
      : runtime_(std::move(runtime)), others_(std::move(others)) {}

  /// At least `bytes` > 0, aligned to 256, contents undefined. Errors: as Driver::call.
  Result<DeviceBlock> allocate(std::size_t bytes);
  /// The same of zeros, for as long as the arena lives. Taken from a stock; where that does not suffice it grows by 2 MiB,
  /// or as much as it takes, and waits for the device. Errors: as DeviceRuntime::write.
  Result<cuda::DevicePointer> allocate_zeros(std::size_t bytes, const SetUpLimit& limit);
  /// Makes the stock's beginning, of 2 MiB for each rank. Errors: as DeviceRuntime::write.
  Status stock_zeros(std::size_t ranks, const SetUpLimit& limit) { return add_zeros(ranks * large_block, limit); }
  DeviceRuntime& runtime() const { return *runtime_; }
  /// Bytes of the device that it takes. Relaxed: a figure for reports.
  std::uint64_t mapped_bytes() const { return mapped_bytes_.load(std::memory_order_relaxed); }

 private:
  friend class DeviceBlock;
  static constexpr std::size_t large_block = std::size_t{2} << 20;
  /// Memory that was not given out yet, from a chunk's middle to its end.
  struct Rest {
    cuda::DevicePointer next = 0;
    std::size_t bytes = 0;
    cuda::DevicePointer cut(std::size_t wanted);
  };
  static std::size_t rounded(std::size_t bytes);
  Result<cuda::MappedMemory> map(std::size_t bytes);
  Status grow(std::size_t bytes);
  Status add_zeros(std::size_t bytes, const SetUpLimit& limit);
  void give_back(cuda::DevicePointer address, std::size_t bytes) noexcept;

  const std::shared_ptr<DeviceRuntime> runtime_;
  const std::vector<int> others_;
  std::atomic<std::uint64_t> mapped_bytes_{0};
  std::mutex mutex_;  ///< guards what follows
  std::vector<cuda::MappedMemory> chunks_;
  Rest rest_;
  std::vector<Rest> zeros_;
  /// Those of one size.
  struct Blocks {
    std::vector<cuda::DevicePointer> free;
    std::size_t made = 0;
  };
  std::map<std::size_t, Blocks> blocks_;  ///< by size, as `rounded` gives it
};

}  // namespace tutti
