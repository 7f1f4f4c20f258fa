// Kernels for the stand-in driver: host functions in a shared library, which the driver finds by name.
//
// A library exports standin_kernel_table(). A program hands the driver a marker image that names the library, where a real
// driver gets a fat binary. A block is run by as many host threads as the launch says.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/cuda/device/host_thread.h"

namespace standin {

/// A kernel, as TUTTI_KERNEL of src/cuda/device/group_host.h makes them. parameters: as cuLaunchKernel's, copies that live
/// as long as the launch.
using KernelFunction = void (*)(tutti::device::HostThread& thread, void** parameters);

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
