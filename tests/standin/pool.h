// Where device memory lies: one range of addresses, reserved at cuInit, without access until memory is mapped there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace standin {

inline constexpr std::size_t kPage = 4096;
inline constexpr std::size_t kDeviceBytes = std::size_t{16} << 30;  ///< what each device says it has
inline constexpr std::size_t kGranularity = std::size_t{2} << 20;   ///< of physical memory

/// Addresses and their protection. Guarded by the state's lock, but for protects() and let_this_thread_in().
class Pool {
 public:
  /// Reserves the addresses and, where the processor has protection keys, one for device memory. Whether there is room.
  bool reserve();
  /// An address of `bytes` with unmapped pages behind, each time another as long as there are any; 0: none left.
  std::uintptr_t take(std::size_t bytes, std::size_t alignment);
  /// Gives addresses back; what was mapped there is unmapped and faults from here on.
  void give_back(std::uintptr_t address, std::size_t bytes);
  /// Maps `bytes` of the file at an address of the pool; protection as mprotect takes it. Whether it could.
  bool map(std::uintptr_t address, std::size_t bytes, int descriptor, std::size_t offset, int protection);
  /// Takes what is mapped away; the addresses stay taken, and fault.
  void unmap(std::uintptr_t address, std::size_t bytes);
  bool protect(std::uintptr_t address, std::size_t bytes, int protection);
  bool contains(std::uintptr_t address) const { return address >= base_ && address - base_ < kBytes; }

  /// Whether device memory has a key that only the driver's threads own.
  bool protects() const { return key_ >= 0; }
  /// Lets this thread, one of the driver's, use device memory, or forbids it for a callback.
  void let_this_thread_in(bool in) const;

 private:
  static constexpr std::size_t kBytes = std::size_t{256} << 30;

  std::uintptr_t base_ = 0;
  std::uintptr_t next_ = 0;
  std::map<std::uintptr_t, std::size_t> taken_;
  int key_ = -1;
};

Pool& pool();

/// A memory file of `bytes`, its first and last 64 KiB filled with what nobody expects; -1 where there is none.
int make_memory_file(std::size_t bytes);

/// `bytes` rounded up to a multiple of `unit`, a power of two.
constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) & ~(unit - 1); }

}  // namespace standin
