// The CUDA driver: its entry points in one table, loaded when they are asked for, and its errors as sentences.
//
// The library links nothing of CUDA. Without a device call libcuda.so.1 is neither loaded nor initialised.
#pragma once

#include <fmt/format.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "src/cuda/driver_entries.h"
#include "src/cuda/driver_types.h"

namespace tutti::cuda {

inline constexpr int kLeastDriverVersion = 12000;  ///< API 12.0, as cuDriverGetVersion writes it
inline constexpr int kNoDevice = -1;               ///< for calls that concern no device

/// One entry point: its symbol, and where it is; nullptr where the driver lacks it.
template <typename... Parameters>
struct DriverEntry {
  const char* name;
  DriverResult (*function)(Parameters...) = nullptr;

  bool there() const { return function != nullptr; }
  /// The driver's answer as it is. Only where there().
  DriverResult operator()(Parameters... given) const { return function(given...); }
};

#define TUTTI_CUDA_MEMBER(symbol, ...) DriverEntry<__VA_ARGS__> symbol{#symbol};
/// All entry points. Members bear the driver's names, since these are what readers look up. Those that driver_entries.h
/// calls optional are capabilities: ask there() first.
struct DriverApi {
  TUTTI_CUDA_ENTRIES(TUTTI_CUDA_MEMBER, TUTTI_CUDA_MEMBER)
};
#undef TUTTI_CUDA_MEMBER

/// What has to be released by a call that may wait for the device, once waiting is allowed.
struct DeferredRelease {
  ContextHandle context = nullptr;  ///< made current for the call; nullptr: it needs none
  DriverResult (*release)(const DriverApi& api, std::uint64_t handle) = nullptr;
  std::uint64_t handle = 0;
};

/// The loaded and initialised driver of this process. Thread safe.
class Driver {
 public:
  /// The process's driver, loaded and initialised by the first call. Whatever that came to is the answer for good.
  /// Errors: TUTTI_UNSUPPORTED (no libcuda.so.1, one older than R525, one without a mandatory entry point, no device);
  /// TUTTI_UNHANDLED_CUDA_ERROR (it refuses to start); TUTTI_INVALID_USAGE in a child of a process that had started it.
  static Result<const Driver*> get();

  /// Whether `address` is a device's memory by the word of a driver that get() has refused. Another library may have
  /// started that driver and allocated there. False where get() refused none. Thread safe.
  static bool refused_driver_owns(const void* address);

  /// Whether this process has loaded libcuda.so.1 already, by whomever. Loads and initialises nothing.
  static bool loaded_already();

  /// Loads `file` (a name as dlopen takes it), finds the entry points and initialises. get() does this with libcuda.so.1.
  /// The file stays loaded for as long as the process lives. Errors: as get().
  static Result<std::unique_ptr<const Driver>> load(const char* file);

  Driver(DriverApi api, pid_t owner) : api_(api), owner_(owner) {}

  const DriverApi& api() const { return api_; }
  /// As cuDriverGetVersion writes it: 1000 * major + 10 * minor of the API that it implements.
  int version() const { return version_; }
  /// Devices that CUDA_VISIBLE_DEVICES leaves, at least one.
  int device_count() const { return devices_; }
  /// Whether this is the process that started the driver. A forked child may make no call.
  bool own_process() const;

  /// Calls an entry point, and turns its failure into a Status.
  ///
  /// device  the ordinal of the device that the call concerns, or kNoDevice
  /// doing   "allocating 64 bytes of device memory": text, or a function that gives one, called upon failure alone
  /// Errors: TUTTI_UNHANDLED_CUDA_ERROR naming entry point, CUresult, device and `doing`; the same in a forked child, for
  /// which the driver answers CUDA_ERROR_NOT_INITIALIZED. TUTTI_UNSUPPORTED for an optional entry point that is absent.
  template <typename Doing, typename... Parameters>
  Status call(const DriverEntry<Parameters...>& entry, int device, const Doing& doing,
              std::type_identity_t<Parameters>... given) const {
    if (!entry.there()) return absent(entry.name);
    const DriverResult result = entry(given...);
    return result == DriverResult::success ? Status() : failure(result, entry.name, device, text_of(doing));
  }

  /// The Status of a call that failed with `result`. As call().
  Status failure(DriverResult result, const char* entry, int device, const std::string& doing) const;

  /// An attribute of a device. Errors: as call().
  Result<int> attribute(DeviceAttribute attribute, int device) const;

  /// Keeps a release for release_deferred(). What does not fit into memory leaks.
  void defer(DeferredRelease release) const noexcept;

  /// Makes the releases that were kept. May wait for devices: for whoever knows that no launch runs, or may wait for it.
  /// How many failed is answered; their handles leak. Does nothing in a forked child.
  int release_deferred() const noexcept;

  /// How many releases are kept.
  std::size_t deferred() const;

 private:
  static std::string text_of(const char* text) { return text; }
  static std::string text_of(const std::string& text) { return text; }
  template <typename Function>
    requires std::is_invocable_r_v<std::string, const Function&>
  static std::string text_of(const Function& function) {
    return function();
  }
  Status absent(const char* entry) const;
  Status start();

  const DriverApi api_;
  const pid_t owner_;
  int version_ = 0;
  int devices_ = 0;
  mutable std::mutex lock_;
  mutable std::vector<DeferredRelease> deferred_;
};

/// Whether a result says that the device's context is lost, so that every later call in it fails, too.
bool is_sticky(DriverResult result);

}  // namespace tutti::cuda
