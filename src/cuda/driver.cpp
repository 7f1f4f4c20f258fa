#include "src/cuda/driver.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "src/base/made_once.h"
#include "src/base/shared_library.h"

namespace tutti::cuda {
namespace {

constexpr const char* kFile = "libcuda.so.1";
constexpr const char* kOldRemedy = "Install NVIDIA's driver R525 or newer";

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

/// The version of a driver whose table is not whole; 0 where it does not say.
int version_of(const DriverApi& api) {
  int version = 0;
  if (api.cuDriverGetVersion.there()) api.cuDriverGetVersion(&version);
  return version;
}

Status too_old(int version, const std::string& lack) {
  return Status(TUTTI_UNSUPPORTED,
                fmt::format("The CUDA driver is of API {}{}; the least one is R525, of API {}",
                            version == 0 ? "unknown" : version_text(version), lack, version_text(kLeastDriverVersion)),
                kOldRemedy);
}

/// Names of the mandatory entry points that `library` lacks, separated by commas; the others are put into `api`.
std::string find_entries(void* library, DriverApi& api) {
  std::string lacking;
  const auto find = [&](auto& entry, bool mandatory) {
    if (find_function(library, entry.name, entry.function) || !mandatory) return;
    lacking += (lacking.empty() ? "" : ", ") + std::string(entry.name);
  };
#define TUTTI_CUDA_FIND(symbol, ...) find(api.symbol, true);
#define TUTTI_CUDA_TRY(symbol, ...) find(api.symbol, false);
  TUTTI_CUDA_ENTRIES(TUTTI_CUDA_FIND, TUTTI_CUDA_TRY)
#undef TUTTI_CUDA_FIND
#undef TUTTI_CUDA_TRY
  return lacking;
}

/// What get() found out, once.
struct Found {
  std::unique_ptr<const Driver> driver;
  Status refusal;
  DriverEntry<void*, PointerAttribute, DevicePointer> pointer_attribute{"cuPointerGetAttribute"};  ///< of one refused
  const pid_t owner = ::getpid();
};

Found find_driver() {
  Found found;
  auto loaded = Driver::load(kFile);
  if (loaded.ok()) {
    found.driver = std::move(*loaded);
  } else {
    found.refusal = loaded.status();
    // Never closed, since refused_driver_owns calls into it.
    if (void* const library = ::dlopen(kFile, RTLD_NOW | RTLD_NOLOAD); library != nullptr) {
      find_function(library, found.pointer_attribute.name, found.pointer_attribute.function);
    }
  }
  return found;
}

const Found& found_driver() {
  static constinit MadeOnce<Found> found;
  return found.get(find_driver);
}

std::string remedy_of(DriverResult result) {
  if (is_sticky(result))
    return "The device's context is lost: end the process, and look for the driver's Xid in the kernel's log";
  switch (result) {
    case DriverResult::out_of_memory:
      return "Free memory on the device, or lower what this process takes of it";
    case DriverResult::deinitialized:
      return "End what uses the device before the program returns from main";
    case DriverResult::not_initialized:
      return "Use CUDA in the process that started it, not in a forked child";
    case DriverResult::no_device:
      return "See whether nvidia-smi lists a device, and what CUDA_VISIBLE_DEVICES says";
    default:
      return "Look for the driver's messages in the kernel's log";
  }
}

}  // namespace

bool is_sticky(DriverResult result) {
  constexpr std::array sticky = {
      DriverResult::ecc_uncorrectable,
      DriverResult::nvlink_uncorrectable,
      DriverResult::illegal_address,
      DriverResult::launch_timeout,
      DriverResult::device_assert,
      DriverResult::hardware_stack_error,
      DriverResult::illegal_instruction,
      DriverResult::misaligned_address,
      DriverResult::invalid_address_space,
      DriverResult::invalid_pc,
      DriverResult::launch_failed,
      DriverResult::context_is_destroyed,
      DriverResult::unknown,
  };
  return std::find(sticky.begin(), sticky.end(), result) != sticky.end();
}

Result<const Driver*> Driver::get() {
  const Found& found = found_driver();
  if (found.driver != nullptr && found.owner != ::getpid()) {
    return Status(TUTTI_INVALID_USAGE,
                  fmt::format("Process {} was forked from process {} after that had started CUDA, which serves no child",
                              ::getpid(), found.owner),
                  "Start CUDA after the fork, or replace the child by exec");
  }
  if (!found.refusal.ok()) return found.refusal;
  return found.driver.get();
}

bool Driver::refused_driver_owns(const void* address) {
  const auto& ask = found_driver().pointer_attribute;
  auto type = MemoryType::none;
  return ask.there() &&
         ask(&type, PointerAttribute::memory_type, reinterpret_cast<std::uintptr_t>(address)) == DriverResult::success &&
         type == MemoryType::device;
}

bool Driver::loaded_already() {
  void* const library = ::dlopen(kFile, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return false;
  ::dlclose(library);  // takes back the count of this question alone
  return true;
}

Result<std::unique_ptr<const Driver>> Driver::load(const char* file) {
  void* const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    return Status(TUTTI_UNSUPPORTED,
                  fmt::format("This machine has no CUDA driver: {}", why != nullptr ? why : "libcuda.so.1 does not load"),
                  "Install NVIDIA's driver R525 or newer, or use host memory");
  }
  DriverApi api;
  const std::string lacking = find_entries(library, api);
  if (!lacking.empty()) {
    const Status refusal = too_old(version_of(api), " and lacks " + lacking);
    ::dlclose(library);
    return refusal;
  }
  auto driver = std::make_unique<Driver>(api, ::getpid());
  if (const Status status = driver->start(); !status.ok()) return status;
  return std::unique_ptr<const Driver>(std::move(driver));
}

/// Version first: a driver that is too old may refuse to start for reasons that a newer one would not have.
Status Driver::start() {
  if (const Status status = call(api_.cuDriverGetVersion, kNoDevice, "asking for its version", &version_); !status.ok()) {
    return status;
  }
  if (version_ < kLeastDriverVersion) return too_old(version_, "");
  const DriverResult started = api_.cuInit(0);
  if (started == DriverResult::success) {
    if (const Status status = call(api_.cuDeviceGetCount, kNoDevice, "counting the devices", &devices_); !status.ok()) {
      return status;
    }
  } else if (started != DriverResult::no_device) {
    return failure(started, api_.cuInit.name, kNoDevice, "starting the driver");
  }
  if (devices_ > 0) return {};
  return Status(TUTTI_UNSUPPORTED,
                fmt::format("The CUDA driver, of API {}, has no device for this process", version_text(version_)),
                remedy_of(DriverResult::no_device));
}

bool Driver::own_process() const { return owner_ == ::getpid(); }

Status Driver::failure(DriverResult result, const char* entry, int device, const std::string& doing) const {
  const char* name = nullptr;
  const char* text = nullptr;
  // The driver knows the names of results newer than this library; it may still answer with none.
  if (api_.cuGetErrorName(result, &name) != DriverResult::success || name == nullptr) name = "an unknown CUresult";
  if (api_.cuGetErrorString(result, &text) != DriverResult::success || text == nullptr) text = "no description";
  const std::string where = device == kNoDevice ? "" : fmt::format(" on device {}", device);
  return Status(TUTTI_UNHANDLED_CUDA_ERROR,
                fmt::format("The CUDA driver's {} failed with {} ({}: {}){} while {}", entry, name,
                            static_cast<unsigned>(result), text, where, doing),
                remedy_of(result));
}

Status Driver::absent(const char* entry) const {
  return Status(TUTTI_UNSUPPORTED, fmt::format("The CUDA driver, of API {}, has no {}", version_text(version_), entry),
                "Install a newer driver of NVIDIA's");
}

Result<int> Driver::attribute(DeviceAttribute attribute, int device) const {
  int value = 0;
  const auto doing = [&] { return fmt::format("asking for device attribute {}", static_cast<unsigned>(attribute)); };
  const Status status = call(api_.cuDeviceGetAttribute, device, doing, &value, attribute, device);
  if (!status.ok()) return status;
  return value;
}

void Driver::defer(DeferredRelease release) const noexcept try {
  if (!own_process()) return;  // the parent's lock may be held by a thread that is not here
  const std::lock_guard held(lock_);
  deferred_.push_back(release);
} catch (...) {
  // No memory for the note: what it is about stays allocated, which is all that is lost.
}

int Driver::release_deferred() const noexcept {
  if (!own_process()) return 0;
  std::vector<DeferredRelease> due;
  {
    const std::lock_guard held(lock_);
    due.swap(deferred_);
  }
  int failed = 0;
  for (const DeferredRelease& each : due) {
    ContextHandle before = nullptr;
    const bool pushed = each.context != nullptr;
    const bool current = !pushed || api_.cuCtxPushCurrent_v2(each.context) == DriverResult::success;
    failed += !current || each.release(api_, each.handle) != DriverResult::success;
    if (pushed && current) api_.cuCtxPopCurrent_v2(&before);
  }
  return failed;
}

std::size_t Driver::deferred() const {
  const std::lock_guard held(lock_);
  return deferred_.size();
}

}  // namespace tutti::cuda
