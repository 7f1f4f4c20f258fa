// The file that brings our kernels: libtutti_kernels.so, data only, in the folder of the library's modules
// (module_folder). What it exports is declared here, for it and for whoever loads it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "src/base/status.h"

namespace tutti::cuda {

inline constexpr std::uint32_t kKernelModuleAbi = 1;
inline constexpr const char* kKernelModuleFile = "libtutti_kernels.so";
inline constexpr const char* kKernelModuleSymbol = "tutti_kernel_module";

/// One kernel of the image.
struct KernelName {
  const char* name;               ///< by which the library asks: "fold float32 sum"
  const char* symbol;             ///< by which the driver knows it
  std::uint32_t parameter_bytes;  ///< of its one struct of parameters
  std::uint32_t layout;           ///< a number for how all lies that they point to
};

/// What the file exports under kKernelModuleSymbol.
struct KernelModule {
  std::uint32_t abi;    ///< kKernelModuleAbi
  std::uint32_t count;  ///< of kernels
  const char* version;  ///< of the library that it was built with: "0.1.0"
  const void* image;    ///< as cuLibraryLoadData takes it
  std::uint64_t image_bytes;
  const KernelName* kernels;  ///< sorted by name
};

/// The kernels of the module in `folder`, which stays loaded for as long as the process lives. Thread safe.
/// Errors: TUTTI_UNSUPPORTED naming the file, where there is none, or one of another version or ABI.
Result<const KernelModule*> load_kernel_module(const std::string& folder);

/// A kernel by its name; nullptr where the module has none.
const KernelName* find_kernel(const KernelModule& module, const std::string& name);

}  // namespace tutti::cuda
