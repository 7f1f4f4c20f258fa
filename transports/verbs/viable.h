// Whether a process can use verbs, and what is missing first where it cannot.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "transports/verbs/device.h"

namespace tutti::verbs {

/// Memory that a communicator locks at least: heads, slots and staging of a few peers, and what queues take.
inline constexpr std::uint64_t least_locked_bytes = std::uint64_t{64} << 20;

/// What the system says, libibverbs aside.
struct Surroundings {
  std::vector<std::string> kernel_devices;  ///< names that /sys lists
  std::uint64_t lockable_bytes = 0;         ///< that the process may lock; UINT64_MAX: as many as there are
};

/// Of this process. Thread safe.
Surroundings surroundings();

/// Success where one port of one device can be used. api: NULL where there is no library; devices: as look_at_devices gave
/// them. Errors: TUTTI_UNSUPPORTED, which names what is missing and what gives it.
Status viable(const VerbsApi* api, const std::vector<DeviceFacts>& devices, const Surroundings& around);

/// Why a port cannot be used, and what makes it usable. port: is not usable.
Status why_unusable(const DeviceFacts& device, const PortFacts& port);

}  // namespace tutti::verbs
