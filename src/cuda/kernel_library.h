// Kernels that the driver has loaded.
#pragma once

#include <string>

#include "src/cuda/context.h"

namespace tutti::cuda {

/// A kernel's code in one context. Valid for as long as its library is loaded.
struct LoadedKernel {
  FunctionHandle function = nullptr;
  int most_threads = 0;          ///< that a block of it may have
  std::size_t shared_bytes = 0;  ///< static shared memory of a block
};

/// An image of kernels, loaded for all contexts. Movable; its const functions are thread safe. Destruction defers
/// unloading, which may wait (Driver::release_deferred).
class KernelLibrary {
 public:
  /// image  a fat binary, cubin or PTX, copied by the driver
  /// Errors: TUTTI_UNSUPPORTED where it has no code for a device; else as Driver::call.
  static Result<KernelLibrary> load(const Context& context, const void* image);

  /// A kernel by its symbol, its code resident on the context's device, so that no launch loads anything.
  /// Errors: as Driver::call (no kernel of that name).
  Result<LoadedKernel> kernel(const Context& context, const std::string& symbol) const;

  KernelLibrary() = default;  ///< none
  explicit operator bool() const { return static_cast<bool>(library_); }

 private:
  struct Loaded {
    ContextHandle context = nullptr;
    LibraryHandle library = nullptr;
  };
  static void release(const Driver& driver, const Loaded& loaded);
  DriverHandle<Loaded, release> library_;
};

}  // namespace tutti::cuda
