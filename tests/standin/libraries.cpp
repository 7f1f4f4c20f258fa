#include "tests/standin/libraries.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>

#include "tests/standin/address_map.h"
#include "tests/standin/capture.h"
#include "tests/standin/entry.h"
#include "tests/standin/pool.h"
#include "tests/standin/queues.h"

using namespace standin;  // NOLINT: entry points live outside of namespaces

namespace {

constexpr std::size_t kSharedBytes = 48 * 1024;       // of a block, unless more was asked for
constexpr std::size_t kMostSharedBytes = 227 * 1024;  // that may be asked for

struct Library {
  const KernelTable* table = nullptr;
  std::map<std::string, KernelHandle> kernels;  ///< asked for
};

/// A kernel, of all contexts; and of one, once it was asked for there.
struct Loaded {
  const Kernel* kernel = nullptr;
  std::shared_ptr<Library> library;
  std::shared_ptr<Context> context;  ///< nullptr: a kernel; else a function
  std::size_t most_dynamic_bytes = 0;
  bool resident = false;  ///< the first launch loads it otherwise, which a capture forbids
};

HandleTable<Library, LibraryHandle>& libraries() {
  static auto& all = *new HandleTable<Library, LibraryHandle>;
  return all;
}

HandleTable<Loaded, KernelHandle>& kernels() {
  static auto& all = *new HandleTable<Loaded, KernelHandle>;
  return all;
}

HandleTable<Loaded, FunctionHandle>& functions() {
  static auto& all = *new HandleTable<Loaded, FunctionHandle>;
  return all;
}

/// The folder that this driver was loaded from, with a slash at its end.
std::string own_folder() {
  Dl_info own{};
  if (::dladdr(reinterpret_cast<const void*>(&library_objects), &own) == 0) return "";
  const std::string file = own.dli_fname;
  const std::size_t slash = file.rfind('/');
  return slash == std::string::npos ? "" : file.substr(0, slash + 1);
}

/// The library that an image stands for. Code for GPUs (a fat binary, a cubin, PTX) is of the library's own kernels, which
/// exist for the host as well. Empty: it is no image.
std::string library_of(const void* code) {
  const auto begins = [code](const auto& with, std::size_t bytes) { return std::memcmp(code, with, bytes) == 0; };
  MarkerImage image{};
  if (begins(kMarkerMagic, sizeof(kMarkerMagic))) {
    std::memcpy(&image, code, sizeof(image));
    image.library[sizeof(image.library) - 1] = '\0';
    return image.library;
  }
  constexpr unsigned char fat_binary[] = {0x50, 0xed, 0x55, 0xba};
  const bool for_gpus = begins(fat_binary, sizeof(fat_binary)) || begins("\177ELF", 4) || begins("//\n// Generated", 15);
  return for_gpus ? "libstandin_tutti_kernels.so" : "";
}

const KernelTable* load_table(const std::string& name) {
  const bool bare = name.find('/') == std::string::npos;
  void* const library = ::dlopen(((bare ? own_folder() : "") + name).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  const auto table = reinterpret_cast<KernelTableFunction>(::dlsym(library, "standin_kernel_table"));
  const KernelTable* const found = table != nullptr ? table() : nullptr;
  return found != nullptr && found->version == kKernelTableVersion ? found : nullptr;
}

/// A launch may be given a kernel in a function's place.
std::shared_ptr<Loaded> find_function(FunctionHandle handle) {
  if (auto found = functions().find(handle)) return found;
  return kernels().find(reinterpret_cast<KernelHandle>(handle));
}

template <typename Body>
DriverResult for_function(const char* entry, FunctionHandle handle, const Body& body) {
  return enter(entry, Needs::context, [&](Call& call) {
    const auto function = find_function(handle);
    return function == nullptr ? DriverResult::invalid_handle : body(call, *function);
  });
}

/// Copies the parameters as they are now: what the program does to them later does not matter.
std::vector<std::vector<unsigned char>> copy_parameters(const Kernel& kernel, void** parameters) {
  std::vector<std::vector<unsigned char>> copies;
  for (std::uint32_t each = 0; each < kernel.parameter_count; ++each) {
    const auto* const from = static_cast<const unsigned char*>(parameters[each]);
    copies.emplace_back(from, from + kernel.parameter_bytes[each]);
  }
  return copies;
}

/// Whether an address of device memory is of memory that the context may use; what is no such address may be anything.
bool may_use(const Context& context, std::uintptr_t address) {
  if (!pool().contains(address) || address_map().find(address) == nullptr) return true;
  return may_access(context, address, 1, Use::read) == DriverResult::success;
}

/// Whether all addresses in the parameters may be used. Those that lie in memory are not seen: see docs/gpu.md.
bool may_use_parameters(const Context& context, const Launch& launch) {
  for (const auto& parameter : launch.parameters) {
    for (std::size_t at = 0; at + sizeof(std::uintptr_t) <= parameter.size(); at += sizeof(std::uintptr_t)) {
      std::uintptr_t address = 0;
      std::memcpy(&address, parameter.data() + at, sizeof(address));
      if (!may_use(context, address)) return false;
    }
  }
  return true;
}

/// Legal sizes of a launch; the limits of a block are the function's.
DriverResult check_sizes(const LaunchConfig& config, const Loaded& function) {
  std::uint64_t blocks = 1;
  std::uint64_t threads = 1;
  for (int axis = 0; axis < 3; ++axis) {
    blocks *= config.grid[axis];
    threads *= config.block[axis];
  }
  if (blocks == 0 || threads == 0 || blocks > INT32_MAX) return DriverResult::invalid_value;
  if (threads > static_cast<std::uint64_t>(state().configuration.threads)) return DriverResult::invalid_value;
  const std::size_t most = std::max(kSharedBytes - function.kernel->shared_bytes, function.most_dynamic_bytes);
  return config.shared_bytes > most ? DriverResult::invalid_value : DriverResult::success;
}

DriverResult check_attributes(const LaunchConfig& config) {
  for (unsigned each = 0; each < config.attribute_count; ++each) {
    const LaunchAttributeId id = config.attributes[each].id;
    const bool known =
        id == LaunchAttributeId::ignore || id == LaunchAttributeId::priority || id == LaunchAttributeId::mem_sync_domain;
    if (!known) return DriverResult::not_supported;
  }
  return DriverResult::success;
}

std::shared_ptr<Launch> make_launch(const LaunchConfig& config, const Loaded& function, void** parameters) {
  auto launch = std::make_shared<Launch>();
  launch->kernel = function.kernel;
  launch->blocks = config.grid[0] * config.grid[1] * config.grid[2];
  launch->threads = config.block[0] * config.block[1] * config.block[2];
  launch->dynamic_shared_bytes = config.shared_bytes;
  launch->parameters = copy_parameters(*function.kernel, parameters);
  return launch;
}

DriverResult launch(Call& call, const LaunchConfig& config, Loaded& function, void** parameters, void** extra) {
  const auto stream = find_stream(call.context, config.stream);
  if (stream == nullptr || stream->context != call.context) return DriverResult::invalid_handle;
  if (function.context != nullptr && function.context != call.context) return DriverResult::invalid_handle;
  if (extra != nullptr) return DriverResult::not_supported;
  if (parameters == nullptr && function.kernel->parameter_count > 0) return DriverResult::invalid_value;
  if (const DriverResult wrong = check_sizes(config, function); wrong != DriverResult::success) return wrong;
  if (const DriverResult wrong = check_attributes(config); wrong != DriverResult::success) return wrong;
  if (!function.resident) {
    if (const DriverResult refused = refuse_unsafe(); refused != DriverResult::success) return refused;
    function.resident = true;
  }
  Command command;
  const auto made = make_launch(config, function, parameters);
  if (may_use_parameters(*call.context, *made)) {
    command.launch = made;
  } else {
    command.work = [] { return DriverResult::illegal_address; };
  }
  return submit(stream, command);
}

}  // namespace

namespace standin {

std::size_t library_objects() { return libraries().size() + kernels().size() + functions().size(); }

}  // namespace standin

DriverResult cuLibraryLoadData(LibraryHandle* out, const void* code, unsigned*, void**, unsigned jit_options, unsigned*,
                               void**, unsigned library_options) {
  return enter(__func__, Needs::driver, [&](Call&) {
    if (out == nullptr || code == nullptr) return DriverResult::invalid_value;
    if (jit_options != 0 || library_options != 0) return DriverResult::not_supported;
    if (const DriverResult refused = refuse_unsafe(); refused != DriverResult::success) return refused;
    const std::string name = library_of(code);
    if (name.empty()) return DriverResult::invalid_image;
    auto library = std::make_shared<Library>();
    library->table = load_table(name);
    if (library->table == nullptr) return DriverResult::no_binary_for_gpu;
    *out = libraries().add(std::move(library));
    return DriverResult::success;
  });
}

DriverResult cuLibraryUnload(LibraryHandle handle) {
  return enter(__func__, Needs::driver, [&](Call&) {
    const auto library = libraries().find(handle);
    if (library == nullptr) return DriverResult::invalid_handle;
    std::vector<FunctionHandle> gone;
    for (const auto& [function, loaded] : functions().all()) {
      if (loaded->library == library) gone.push_back(function);
    }
    for (const FunctionHandle function : gone) functions().remove(function);
    for (const auto& [name, kernel] : library->kernels) kernels().remove(kernel);
    libraries().remove(handle);
    return DriverResult::success;
  });
}

DriverResult cuLibraryGetKernel(KernelHandle* out, LibraryHandle handle, const char* name) {
  return enter(__func__, Needs::driver, [&](Call&) {
    const auto library = libraries().find(handle);
    if (library == nullptr) return DriverResult::invalid_handle;
    if (out == nullptr || name == nullptr) return DriverResult::invalid_value;
    const Kernel* const first = library->table->kernels;
    const Kernel* const last = first + library->table->count;
    const Kernel* const found =
        std::find_if(first, last, [&](const Kernel& each) { return std::strcmp(each.name, name) == 0; });
    if (found == last) return DriverResult::not_found;
    KernelHandle& kernel = library->kernels[name];
    if (kernel == nullptr) {
      auto loaded = std::make_shared<Loaded>();
      loaded->kernel = found;
      loaded->library = library;
      kernel = kernels().add(std::move(loaded));
    }
    *out = kernel;
    return DriverResult::success;
  });
}

DriverResult cuKernelGetFunction(FunctionHandle* out, KernelHandle handle) {
  return enter(__func__, Needs::context, [&](Call& call) {
    const auto kernel = kernels().find(handle);
    if (kernel == nullptr) return DriverResult::invalid_handle;
    if (out == nullptr) return DriverResult::invalid_value;
    for (const auto& [known, loaded] : functions().all()) {
      if (loaded->kernel != kernel->kernel || loaded->library != kernel->library || loaded->context != call.context)
        continue;
      *out = known;
      return DriverResult::success;
    }
    auto function = std::make_shared<Loaded>(*kernel);
    function->context = call.context;
    *out = functions().add(std::move(function));
    return DriverResult::success;
  });
}

DriverResult cuFuncLoad(FunctionHandle handle) {
  return for_function(__func__, handle, [&](Call&, Loaded& function) {
    if (const DriverResult refused = refuse_unsafe(); refused != DriverResult::success) return refused;
    function.resident = true;
    return DriverResult::success;
  });
}

// As the real one it loads the function that is asked about.
DriverResult cuFuncGetAttribute(int* out, FunctionAttribute attribute, FunctionHandle handle) {
  return for_function(__func__, handle, [&](Call&, Loaded& function) {
    if (out == nullptr) return DriverResult::invalid_value;
    function.resident = true;
    switch (attribute) {
      case FunctionAttribute::max_threads_per_block:
        *out = state().configuration.threads;
        return DriverResult::success;
      case FunctionAttribute::shared_size_bytes:
        *out = static_cast<int>(function.kernel->shared_bytes);
        return DriverResult::success;
      case FunctionAttribute::local_size_bytes:
        *out = 0;
        return DriverResult::success;
      case FunctionAttribute::max_dynamic_shared_size_bytes:
        *out = static_cast<int>(std::max(kSharedBytes - function.kernel->shared_bytes, function.most_dynamic_bytes));
        return DriverResult::success;
      default:
        return DriverResult::invalid_value;
    }
  });
}

DriverResult cuFuncSetAttribute(FunctionHandle handle, FunctionAttribute attribute, int value) {
  return for_function(__func__, handle, [&](Call&, Loaded& function) {
    const bool known = attribute == FunctionAttribute::max_dynamic_shared_size_bytes && value >= 0;
    if (!known || static_cast<std::size_t>(value) + function.kernel->shared_bytes > kMostSharedBytes)
      return DriverResult::invalid_value;
    function.most_dynamic_bytes = static_cast<std::size_t>(value);
    return DriverResult::success;
  });
}

DriverResult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* out, FunctionHandle handle, int threads, std::size_t) {
  return for_function(__func__, handle, [&](Call&, Loaded&) {
    if (out == nullptr || threads <= 0) return DriverResult::invalid_value;
    *out = threads <= state().configuration.threads ? state().configuration.blocks_per_sm : 0;
    return DriverResult::success;
  });
}

DriverResult cuLaunchKernelEx(const LaunchConfig* config, FunctionHandle handle, void** parameters, void** extra) {
  return for_function(__func__, handle, [&](Call& call, Loaded& function) {
    return config == nullptr ? DriverResult::invalid_value : launch(call, *config, function, parameters, extra);
  });
}

DriverResult cuLaunchKernel(FunctionHandle handle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                            unsigned block_y, unsigned block_z, unsigned shared_bytes, StreamHandle stream,
                            void** parameters, void** extra) {
  return for_function(__func__, handle, [&](Call& call, Loaded& function) {
    LaunchConfig config;
    config.grid[0] = grid_x;
    config.grid[1] = grid_y;
    config.grid[2] = grid_z;
    config.block[0] = block_x;
    config.block[1] = block_y;
    config.block[2] = block_z;
    config.shared_bytes = shared_bytes;
    config.stream = stream;
    return launch(call, config, function, parameters, extra);
  });
}
