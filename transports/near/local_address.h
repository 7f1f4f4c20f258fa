// Who is on this machine and can be reached: the machine's identity as this process sees it, and a socket's name.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "src/base/addresses.h"
#include "src/base/status.h"

namespace tutti::near {

/// Which transport an address is of, and of which version of its format.
using Service = std::array<char, 8>;

/// What an endpoint tells peers on its machine about itself. Plain bytes, which travel as they are.
struct LocalAddress {
  Service service{};
  std::array<char, 40> boot{};  ///< the kernel's boot id: one running machine
  std::uint64_t network_device = 0;
  std::uint64_t network_inode = 0;       ///< abstract sockets reach only their own network namespace
  std::array<unsigned char, 16> name{};  ///< random: the socket's name
  std::int32_t rank = -1;
  std::uint32_t pid = 0;

  /// The listening socket. Its name is abstract: it has no file, and vanishes with the socket.
  SocketAddress socket() const;
};

/// A new address of `rank` in this process. Errors: TUTTI_SYSTEM_ERROR where /proc does not tell.
Result<LocalAddress> new_local_address(const Service& service, int rank);

/// Errors: TUTTI_INVALID_ARGUMENT where these bytes are no address of that service.
Result<LocalAddress> parse_local_address(const Service& service, const void* bytes, std::size_t length);

/// Why the endpoint behind `there` cannot be reached from `here`; empty where it can.
std::string unreachable(const LocalAddress& here, const LocalAddress& there);

}  // namespace tutti::near
