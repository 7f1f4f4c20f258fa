// TCP sockets as the library uses them: non-blocking, close-on-exec, no delay. Nothing here waits.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "src/base/addresses.h"
#include "src/base/status.h"
#include "src/base/unique_fd.h"

namespace tutti {

/// The error number for which no socket can be opened now, where that tells so; else 0.
int shortage_now();

/// Sockets that listen, and the addresses at which others reach them (ports filled in, the best first).
struct Listener {
  std::vector<UniqueFd> sockets;
  std::vector<SocketAddress> addresses;
};

/// A socket that listens at exactly `address` (port 0: the system's choice; where it has none left, one of those at which
/// connections of the last minute rest). A v6 wildcard takes v4 too. Errors: TUTTI_SYSTEM_ERROR, whose sentence names the
/// address and errno (a taken port, or none that is free: EADDRINUSE with the remedy).
Result<UniqueFd> listen_at(const SocketAddress& address, int backlog = 4096);

/// Listens on a free port of port_low..port_high (0, 0: the system's choice): on one socket for all addresses where
/// `interfaces` (comma-separated names) is empty, else on one socket for each address of those interfaces. Errors as
/// local_addresses and listen_at; a range without a free port says so (EADDRINUSE).
Result<Listener> listen_on(std::string_view interfaces, std::uint32_t port_low, std::uint32_t port_high,
                           int backlog = 4096);

/// The address a socket is bound to.
SocketAddress bound_address(int fd);

/// Takes one pending connection; an empty Descriptor where there is none now. errno is left as accept4 set it.
UniqueFd accept_one(int listening_fd, SocketAddress* peer = nullptr);

/// Whether to accept there failed, with `number`, by a shortage that keeps somebody out. (It asks for a descriptor first:
/// where there is none it says that, though nobody may wait.)
bool keeps_out(int listening_fd, int number);
/// What is to be said where that is a peer.
inline constexpr const char* kKeepsPeersOut =
    "this process has no free file descriptor for a peer's connection; raise the limit of open files (ulimit -n)";

/// Whether `address` is this machine's own and its loopback interface is down: what is sent there is lost without a word.
bool loopback_is_down_for(const SocketAddress& address);
/// What is to be said and done then.
inline constexpr const char* kLoopbackDown = "the loopback interface is down in this network namespace";
inline constexpr const char* kLoopbackRemedy = "Bring the loopback interface up: ip link set lo up";

/// Begins to connect; the socket polls writable once it is decided, see connect_result. Errors: TUTTI_SYSTEM_ERROR.
Result<UniqueFd> connect_to(const SocketAddress& address);

/// The outcome of connect_to, once the socket polls writable: 0 or an errno.
int connect_result(int fd);

/// Small messages leave at once. Harmless on sockets that are not TCP.
void set_no_delay(int fd);
/// DSCP (0..63) of what is sent, 0: leave the system's.
void set_traffic_class(int fd, std::uint32_t dscp);

}  // namespace tutti
