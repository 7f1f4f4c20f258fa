// What this machine's verbs devices and their ports are, as libibverbs tells it to this process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transports/verbs/api.h"
#include "transports/verbs/gid.h"

namespace tutti::verbs {

/// An opened device, closed with its owner.
struct CloseDevice {
  const VerbsApi* api = nullptr;
  void operator()(ibv_context* context) const { static_cast<void>(api->close_device(context)); }
};
using DeviceContext = std::unique_ptr<ibv_context, CloseDevice>;

/// One port, as it was when it was asked.
struct PortFacts {
  std::uint8_t number = 0;
  ibv_port_state state = IBV_PORT_NOP;
  std::uint8_t physical_state = 0;  ///< as physical_state_text knows it
  bool ethernet = false;            ///< RoCE; else InfiniBand
  std::uint16_t lid = 0;            ///< InfiniBand: what the subnet manager gave it; 0: nothing yet
  std::uint32_t mtu = 0;            ///< bytes that a packet may carry now
  std::uint64_t megabits = 0;       ///< Mbit/s now; 0: unknown
  std::vector<Gid> gids;            ///< those that can be read, usable or not, by index

  /// Whether peers can be reached by it: it is active, and has an address.
  bool is_usable() const;
};

/// One device.
struct DeviceFacts {
  std::string name;
  int open_error = 0;            ///< errno that refused this process the device, which then has no ports here
  bool can_connect = false;      ///< it has reliable connections with RDMA WRITE WITH IMMEDIATE, which iWARP lacks
  std::vector<PortFacts> ports;  ///< those that could be asked
};

/// All devices of this process, in libibverbs' order. Asks each, so it takes some milliseconds. Thread safe.
std::vector<DeviceFacts> look_at_devices(const VerbsApi& api);

/// "down", "active", …
const char* state_text(ibv_port_state state);
/// "polling", "disabled", …: what the cable's end is at.
const char* physical_state_text(std::uint8_t state);

}  // namespace tutti::verbs
