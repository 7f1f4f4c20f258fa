#include "transports/verbs/viable.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

namespace tutti::verbs {
namespace {

Status missing(std::string what, std::string remedy) { return {TUTTI_UNSUPPORTED, std::move(what), std::move(remedy)}; }

/// Whether the kernel lets the process lock what it likes: CAP_IPC_LOCK, which its limit is not asked with.
bool locks_without_limit() {
  constexpr unsigned ipc_lock = 14;
  std::ifstream lines("/proc/self/status");
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("CapEff:")) continue;
    return (std::strtoull(line.c_str() + std::strlen("CapEff:"), nullptr, 16) >> ipc_lock & 1) != 0;
  }
  return false;
}

std::uint64_t lockable_bytes() {
  rlimit limit{};
  if (locks_without_limit() || getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
  return limit.rlim_cur;
}

std::string port_text(const DeviceFacts& device, const PortFacts& port) {
  return fmt::format("port {} of {}", port.number, device.name);
}

/// Nothing where one of them can be opened.
std::optional<Status> why_none_opens(const std::vector<DeviceFacts>& devices) {
  const auto opens = [](const DeviceFacts& device) { return device.open_error == 0; };
  if (std::any_of(devices.begin(), devices.end(), opens)) return std::nullopt;
  const DeviceFacts& first = devices.front();
  std::string what = fmt::format("{} may not be opened: {}", first.name, std::strerror(first.open_error));
  if (first.open_error != EACCES && first.open_error != EPERM && first.open_error != ENOENT)
    return missing(std::move(what), "See what the kernel's log says of the device.");
  return missing(std::move(what),
                 "Let this user read and write /dev/infiniband/uverbs*; give a container --device=/dev/infiniband.");
}

/// Of those that can be opened.
Status why_no_port(const std::vector<DeviceFacts>& devices) {
  std::optional<Status> first;
  for (const DeviceFacts& device : devices) {
    if (device.open_error != 0) continue;
    if (!device.can_connect) {
      if (!first)
        first = missing(fmt::format("{} has no reliable connections with immediate data (iWARP has none)", device.name),
                        "Use tcp on it.");
      continue;
    }
    for (const PortFacts& port : device.ports) {
      if (port.is_usable()) return {};
      if (!first) first = why_unusable(device, port);
    }
  }
  return first ? *first : missing(fmt::format("{} tells of no port", devices.front().name), "See its driver's log.");
}

}  // namespace

Surroundings surroundings() {
  Surroundings found;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/infiniband", none))
    found.kernel_devices.push_back(entry.path().filename());
  std::sort(found.kernel_devices.begin(), found.kernel_devices.end());
  found.lockable_bytes = lockable_bytes();
  return found;
}

Status why_unusable(const DeviceFacts& device, const PortFacts& port) {
  const std::string name = port_text(device, port);
  if (port.state == IBV_PORT_INIT && !port.ethernet)
    return missing(name + " has no LID: no subnet manager has seen it", "Start opensm, or the switch's own manager.");
  if (port.state != IBV_PORT_ACTIVE) {
    return missing(
        fmt::format("{} is {} (physically {})", name, state_text(port.state), physical_state_text(port.physical_state)),
        "See to its cable or switch port, and set its interface up.");
  }
  if (!port.ethernet) return missing(name + " has no LID", "Start opensm, or the switch's own manager.");
  if (port.gids.empty())
    return missing(name + " has no GID that this process can read",
                   "Give the process the network namespace of the device's interface.");
  return missing(
      fmt::format("{} has no GID with an address of an interface here ({} is the first)", name, port.gids.front().text()),
      "Give its interface an address, in the network namespace of this process.");
}

Status viable(const VerbsApi* api, const std::vector<DeviceFacts>& devices, const Surroundings& around) {
  if (around.kernel_devices.empty() && devices.empty())
    return missing("this machine has no RDMA device (/sys/class/infiniband is empty)", "Use tcp.");
  if (api == nullptr)
    return missing("libibverbs.so.1 is not installed, or older than rdma-core 32", "Install ibverbs-providers.");
  if (devices.empty()) {
    return missing(fmt::format("the kernel has {}, and libibverbs has no driver for it", around.kernel_devices.front()),
                   "Install ibverbs-providers, or the maker's own.");
  }
  if (const auto closed = why_none_opens(devices)) return *closed;
  if (Status none = why_no_port(devices); !none.ok()) return none;
  if (around.lockable_bytes >= least_locked_bytes) return {};
  return missing(
      fmt::format("this process may lock {} KiB (ulimit -l), and verbs needs {} here", around.lockable_bytes >> 10,
                  least_locked_bytes >> 10),
      "Set ulimit -l unlimited; docker --ulimit memlock=-1; in Kubernetes LimitMEMLOCK of the container runtime.");
}

}  // namespace tutti::verbs
