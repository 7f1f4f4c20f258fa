// What runs a kernel on the host: one thread of a block, with the block's barrier and storage behind it. The stand-in
// driver implements it; kernels see it only as a Group (group.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::device {

/// One host thread of a block. The barrier, votes and broadcasts are the whole block's: all its threads call them in the
/// same order. Nothing here may be used by another thread, or after the kernel has returned.
class HostThread {
 public:
  std::uint32_t thread = 0;      ///< within its block
  std::uint32_t threads = 1;     ///< of a block
  std::uint32_t block = 0;       ///< within the grid
  std::uint32_t blocks = 1;      ///< of the grid
  void* shared = nullptr;        ///< the block's storage; 16-byte aligned, contents undefined
  std::size_t shared_bytes = 0;  ///< of it, as the launch says

  /// Waits until all threads of the block are here. What they wrote before is seen by all after.
  virtual void barrier() = 0;
  /// A barrier; whether any thread's vote was true.
  virtual bool any(bool vote) = 0;
  /// A barrier; the value that thread `from` gave.
  virtual std::uint64_t broadcast(std::uint64_t value, std::uint32_t from) = 0;
  /// Nanoseconds of a clock that all devices share.
  virtual std::uint64_t timer_ns() = 0;
  /// To be called in every loop that polls: lets others run. Leaves the kernel where its context is lost, by an exception
  /// that no kernel may catch.
  virtual void pause() = 0;

 protected:
  ~HostThread() = default;
};

}  // namespace tutti::device
