// Kernels for the stand-in driver: host functions in a shared library, which the driver finds by name.
//
// A library exports standin_kernel_table(). A program hands the driver a marker image that names the library, where a real
// driver gets a fat binary. A block is run by as many host threads as the launch says.
#pragma once

#include <cstddef>
#include <cstdint>

namespace standin {

/// What one host thread of a block has. The barrier, votes and broadcasts are the whole block's: all its threads call them
/// in the same order. Nothing here may be used by another thread, or after the kernel has returned.
class KernelThread {
 public:
  std::uint32_t thread = 0;      ///< within its block
  std::uint32_t threads = 1;     ///< of a block
  std::uint32_t block = 0;       ///< within the grid
  std::uint32_t blocks = 1;      ///< of the grid
  void* shared = nullptr;        ///< the block's storage: static, then dynamic bytes; 16-byte aligned, contents undefined
  std::size_t shared_bytes = 0;  ///< of both

  /// Waits until all threads of the block are here. What they wrote before is seen by all after.
  virtual void barrier() = 0;
  /// A barrier; whether any thread's vote was true.
  virtual bool any(bool vote) = 0;
  /// A barrier; the value that thread `from` gave.
  virtual std::uint64_t broadcast(std::uint64_t value, std::uint32_t from) = 0;
  /// Nanoseconds of a clock that all devices share (%globaltimer).
  virtual std::uint64_t timer_ns() = 0;
  /// To be called in every loop that polls: lets others run. Leaves the kernel where its context is lost, by an exception
  /// that no kernel may catch.
  virtual void pause() = 0;

 protected:
  ~KernelThread() = default;
};

/// A kernel. parameters: as cuLaunchKernel's, copies that live as long as the launch.
using KernelFunction = void (*)(KernelThread& thread, void** parameters);

struct Kernel {
  const char* name;
  KernelFunction function;
  const std::uint32_t* parameter_bytes;  ///< one size a parameter
  std::uint32_t parameter_count;
  std::uint32_t shared_bytes;  ///< static shared memory of a block
};

inline constexpr std::uint32_t kKernelTableVersion = 1;
struct KernelTable {
  std::uint32_t version;
  std::uint32_t count;
  const Kernel* kernels;
};
/// The type of what a kernel library exports as "standin_kernel_table".
using KernelTableFunction = const KernelTable* (*)();

/// What stands for an image: cuLibraryLoadData looks at the first bytes, and loads the library of this name. A name without
/// a slash is looked for beside the stand-in driver.
struct MarkerImage {
  char magic[8];
  char library[248];
};
inline constexpr char kMarkerMagic[8] = {'S', 'T', 'A', 'N', 'D', 'I', 'N', '1'};
/// The image of libstandin_kernels.so, which has the kernels of the driver's own tests.
inline constexpr MarkerImage kTestKernelsImage = {{'S', 'T', 'A', 'N', 'D', 'I', 'N', '1'}, "libstandin_kernels.so"};

}  // namespace standin
