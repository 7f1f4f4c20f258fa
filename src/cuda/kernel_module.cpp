#include "src/cuda/kernel_module.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "include/tutti/tutti.h"

namespace tutti::cuda {
namespace {

std::string own_version() { return fmt::format("{}.{}.{}", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH); }

Status unusable(const std::string& file, const std::string& why) {
  return Status(TUTTI_UNSUPPORTED, fmt::format("Device collectives need the kernels in {}, and {}", file, why),
                "Install tutti-cuda of this library's version, name its folder in TUTTI_MODULE_DIR, or use host memory");
}

/// Why a module cannot be used; empty where it can.
std::string objection(const KernelModule& module) {
  if (module.abi != kKernelModuleAbi) {
    return fmt::format("it is of ABI {}, where this library has {}", module.abi, kKernelModuleAbi);
  }
  if (module.version == nullptr || module.version != own_version()) {
    return fmt::format("it is of version {}, where this library is of {}",
                       module.version != nullptr ? module.version : "unknown", own_version());
  }
  if (module.image == nullptr || module.image_bytes == 0 || (module.kernels == nullptr && module.count != 0)) {
    return "it holds no kernels";
  }
  return {};
}

std::span<const KernelName> kernels_of(const KernelModule& module) { return {module.kernels, module.count}; }

}  // namespace

Result<const KernelModule*> load_kernel_module(const std::string& folder) {
  const std::string file = (std::filesystem::path(folder) / kKernelModuleFile).string();
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    return unusable(file, why != nullptr ? fmt::format("it does not load: {}", why) : "it does not load");
  }
  const auto* const module = static_cast<const KernelModule*>(::dlsym(library, kKernelModuleSymbol));
  const std::string why = module != nullptr ? objection(*module) : fmt::format("it exports no {}", kKernelModuleSymbol);
  if (why.empty()) return module;
  ::dlclose(library);
  return unusable(file, why);
}

const KernelName* find_kernel(const KernelModule& module, const std::string& name) {
  const auto kernels = kernels_of(module);
  const auto found =
      std::lower_bound(kernels.begin(), kernels.end(), name,
                       [](const KernelName& kernel, const std::string& wanted) { return kernel.name < wanted; });
  return found != kernels.end() && found->name == name ? &*found : nullptr;
}

}  // namespace tutti::cuda
