#include "src/cuda/kernel_library.h"

namespace tutti::cuda {
namespace {

/// Makes the code resident: by cuFuncLoad where the driver has it, else by the query of an attribute, which loads it too.
Status load_code(const Context& context, FunctionHandle function, int& most_threads) {
  const Driver& driver = context.driver();
  if (driver.api().cuFuncLoad.there()) {
    const Status status = driver.call(driver.api().cuFuncLoad, context.device(), "loading a kernel's code", function);
    if (!status.ok()) return status;
  }
  return driver.call(driver.api().cuFuncGetAttribute, context.device(), "asking for a kernel's block size", &most_threads,
                     FunctionAttribute::max_threads_per_block, function);
}

}  // namespace

void KernelLibrary::release(const Driver& driver, const Loaded& loaded) {
  driver.defer({loaded.context,
                [](const DriverApi& api, std::uint64_t library) {
                  return api.cuLibraryUnload(reinterpret_cast<LibraryHandle>(library));
                },
                reinterpret_cast<std::uint64_t>(loaded.library)});
}

Result<KernelLibrary> KernelLibrary::load(const Context& context, const void* image) {
  const auto scope = ContextScope::enter(context);
  if (!scope.ok()) return scope.status();
  const Driver& driver = context.driver();
  LibraryHandle handle = nullptr;
  const DriverResult result = driver.api().cuLibraryLoadData(&handle, image, nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (result == DriverResult::no_binary_for_gpu) {
    return Status(TUTTI_UNSUPPORTED, fmt::format("The kernels have no code for device {}", context.device()),
                  "Build them for its compute capability, or use host memory");
  }
  // The device's code is made of PTX by the driver, which does not know a newer compiler's, or has no compiler.
  const bool unknown_ptx = result == DriverResult::invalid_ptx || result == DriverResult::unsupported_ptx_version ||
                           result == DriverResult::jit_compiler_not_found ||
                           result == DriverResult::jit_compilation_disabled || result == DriverResult::invalid_image;
  if (unknown_ptx) {
    return Status(TUTTI_UNSUPPORTED,
                  fmt::format("The driver, of API {}.{}, cannot make code for device {} of the kernels' PTX",
                              driver.version() / 1000, driver.version() % 1000 / 10, context.device()),
                  "Install a newer driver of NVIDIA's, or build the kernels for the device's compute capability");
  }
  if (result != DriverResult::success) {
    return driver.failure(result, driver.api().cuLibraryLoadData.name, context.device(), "loading the kernels");
  }
  KernelLibrary library;
  library.library_ = {driver, {context.handle(), handle}};
  return library;
}

Result<LoadedKernel> KernelLibrary::kernel(const Context& context, const std::string& symbol) const {
  const auto scope = ContextScope::enter(context);
  if (!scope.ok()) return scope.status();
  const Driver& driver = context.driver();
  const auto looking = [&] { return "looking for the kernel " + symbol; };
  KernelHandle kernel = nullptr;
  LoadedKernel loaded;
  Status status = driver.call(driver.api().cuLibraryGetKernel, context.device(), looking, &kernel, library_.get().library,
                              symbol.c_str());
  if (status.ok())
    status = driver.call(driver.api().cuKernelGetFunction, context.device(), looking, &loaded.function, kernel);
  if (status.ok()) status = load_code(context, loaded.function, loaded.most_threads);
  int shared = 0;
  if (status.ok()) {
    status = driver.call(driver.api().cuFuncGetAttribute, context.device(), looking, &shared,
                         FunctionAttribute::shared_size_bytes, loaded.function);
  }
  if (!status.ok()) return status;
  loaded.shared_bytes = static_cast<std::size_t>(shared);
  return loaded;
}

}  // namespace tutti::cuda
