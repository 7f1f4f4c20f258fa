// Who can share memory with whom: identity of the machine as this process sees it, and the endpoint's descriptor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "src/base/status.h"

namespace tutti::shm {

/// What an endpoint tells its peers about itself; plain bytes, as `describe` gives them.
struct EndpointAddress {
  std::array<char, 8> magic{'t', 'u', 't', 't', 'i', 's', 'h', '1'};
  std::array<char, 40> boot{};  ///< the kernel's boot id: one running machine
  std::uint64_t network_device = 0;
  std::uint64_t network_inode = 0;       ///< abstract sockets reach only their own network namespace
  std::array<unsigned char, 16> name{};  ///< random: the socket's name
  std::int32_t rank = -1;
  std::uint32_t pid = 0;
};

/// The machine's part of an address (boot and network filled).
/// Errors: TUTTI_SYSTEM_ERROR where /proc does not tell.
Result<EndpointAddress> machine_identity();

/// Parses a descriptor; errors: TUTTI_INVALID_ARGUMENT where it is not one of ours.
Result<EndpointAddress> parse_address(const void* descriptor, std::size_t length);

/// Why the endpoint behind `there` cannot share memory with `here`; empty where it can.
std::string unreachable(const EndpointAddress& here, const EndpointAddress& there);

}  // namespace tutti::shm
