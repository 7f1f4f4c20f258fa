#include "tools/doctor/cuda_checks.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "include/tutti/tutti.h"
#include "src/base/module_folder.h"
#include "src/base/settings.h"
#include "src/cuda/driver.h"
#include "src/cuda/kernel_module.h"

namespace tutti::doctor {
namespace {

Finding of(const Status& status, Health health) { return {{}, health, status.error().message, status.error().remedy}; }

/// Whether a server of MPS takes the kernels of several processes: then those of ranks on one device run side by side.
bool serves_mps(const Sysfs& files) {
  const char* const pipe = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  return files.exists(std::string(pipe != nullptr && *pipe != '\0' ? pipe : "/tmp/nvidia-mps") + "/control");
}

std::string mode_text(int mode) {
  constexpr int exclusive = 3;
  constexpr int prohibited = 2;
  return mode == exclusive ? ", one process alone" : mode == prohibited ? ", no process may use it" : "";
}

std::string device_text(const cuda::Driver& driver, int device) {
  char name[128] = "";
  std::size_t bytes = 0;
  if (driver.api().cuDeviceGetName(name, sizeof name, device) != cuda::DriverResult::success ||
      driver.api().cuDeviceTotalMem_v2(&bytes, device) != cuda::DriverResult::success) {
    return fmt::format("{}: does not answer", device);
  }
  const auto mode = driver.attribute(cuda::DeviceAttribute::compute_mode, device);
  const auto major = driver.attribute(cuda::DeviceAttribute::compute_capability_major, device);
  const auto minor = driver.attribute(cuda::DeviceAttribute::compute_capability_minor, device);
  return fmt::format("{}: {} (sm_{}{}, {:.1f} GiB{})", device, name, major.ok() ? *major : 0, minor.ok() ? *minor : 0,
                     static_cast<double>(bytes) / (1 << 30), mode.ok() ? mode_text(*mode) : "");
}

/// Pairs that do not reach each other, such as "0 and 1".
std::vector<std::string> apart(const cuda::Driver& driver) {
  std::vector<std::string> pairs;
  for (int a = 0; a < driver.device_count(); ++a) {
    for (int b = a + 1; b < driver.device_count(); ++b) {
      int forth = 0;
      int back = 0;
      driver.api().cuDeviceCanAccessPeer(&forth, a, b);
      driver.api().cuDeviceCanAccessPeer(&back, b, a);
      if (forth == 0 || back == 0) pairs.push_back(fmt::format("{} and {}", a, b));
    }
  }
  return pairs;
}

}  // namespace

Finding look_at_cuda_driver(const Sysfs& files) {
  const auto driver = cuda::Driver::get();
  if (!driver.ok()) {
    // A machine without one needs none; one that does not work is another matter.
    const bool broken = cuda::Driver::loaded_already();
    return broken ? of(driver.status(), Health::note) : Finding{{}, Health::good, "none", {}};
  }
  const int version = (*driver)->version();
  return {{},
          Health::good,
          fmt::format("of API {}.{}, MPS {}", version / 1000, version % 1000 / 10,
                      serves_mps(files) ? "serves" : "does not serve"),
          {}};
}

Finding look_at_cuda_devices(const Sysfs&) {
  const auto driver = cuda::Driver::get();
  if (!driver.ok()) return {{}, Health::good, "none", {}};
  std::vector<std::string> devices;
  for (int device = 0; device < (*driver)->device_count(); ++device) devices.push_back(device_text(**driver, device));
  const std::string text = fmt::format("{}", fmt::join(devices, "; "));
  const std::vector<std::string> pairs = apart(**driver);
  if (pairs.empty()) return {{}, Health::good, text, {}};
  return {{},
          Health::note,
          fmt::format("{}; no access between {}", text, fmt::join(pairs, ", ")),
          "Collectives among them are refused so far; see nvidia-smi topo -p2p r, IOMMU and ACS"};
}

Finding look_at_cuda_kernels(const Sysfs&) {
  const std::string setting = tolerant_settings(nullptr).module_dir;
  const std::string folder = module_folder(setting, reinterpret_cast<const void*>(&tutti_version));
  const auto module = cuda::load_kernel_module(folder);
  if (module.ok())
    return {{}, Health::good, fmt::format("{} of version {} in {}", (*module)->count, (*module)->version, folder), {}};
  if (!cuda::Driver::get().ok()) return {{}, Health::good, "none", {}};
  return of(module.status(), Health::note);
}

}  // namespace tutti::doctor
