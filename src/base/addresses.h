// Network addresses: what they are called, how they travel in messages, which ones this machine has.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/byte_codec.h"
#include "src/base/status.h"

namespace tutti {

/// An IPv4 or IPv6 address with its port, or the name of a Unix socket. A value. An IPv4-mapped one (::ffff:10.0.0.1) is
/// that IPv4 address, and only a link-local one has a scope, so that one place has one value.
class SocketAddress {
 public:
  SocketAddress() = default;
  SocketAddress(const sockaddr* address, socklen_t length);
  /// 4 or 16 bytes in network order; `scope` is the interface's index for link-local v6, 0 otherwise.
  static SocketAddress v4(std::span<const unsigned char, 4> bytes, std::uint16_t port);
  static SocketAddress v6(std::span<const unsigned char, 16> bytes, std::uint16_t port, std::uint32_t scope = 0);
  /// All of this machine's addresses, of one family (AF_INET or AF_INET6).
  static SocketAddress any(int family, std::uint16_t port);
  /// A Unix socket of that name in the abstract namespace; what exceeds 107 bytes is cut off. It is not `valid`.
  static SocketAddress abstract(std::string_view name);

  int family() const { return storage_.ss_family; }
  bool valid() const { return family() == AF_INET || family() == AF_INET6; }
  std::uint16_t port() const;
  void set_port(std::uint16_t port);
  bool loopback() const;
  /// fe80::/10, which means nothing without an interface.
  bool link_local() const;
  /// All addresses of this machine: 0.0.0.0 or [::].
  bool wildcard() const;
  /// Multicast, or IPv4's broadcast: no connection can be made with several machines.
  bool of_several() const;
  std::uint32_t scope() const;
  void set_scope(std::uint32_t interface_index);

  const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t length() const { return length_; }
  /// "10.0.0.1:4242" or "[fe80::1%eth0]:4242", which parse_host_port and numeric_address read back.
  std::string text() const;
  /// The same without the port.
  std::string host_text() const;
  friend bool operator==(const SocketAddress& a, const SocketAddress& b);

  /// 7 bytes for v4, 19 for v6 (family 4 or 6, address, port); the scope stays here, as it means nothing elsewhere.
  void pack(ByteWriter& out) const;
  static SocketAddress unpack(ByteReader& in);

 private:
  void make_canonical();

  sockaddr_storage storage_{};
  socklen_t length_ = 0;
};

/// One address of this machine.
struct InterfaceAddress {
  std::string interface;
  SocketAddress address;  ///< port 0
};

/// Addresses of the interfaces that are up, those that reach furthest first: global v4, global v6, link-local v6.
///
/// interfaces  comma-separated names, empty for all. A name that does not exist or has no address is an error that lists
///             those that do.
/// Loopback is left out, unless it was named or there is nothing else. Never empty on success.
/// Errors: TUTTI_INVALID_ARGUMENT, TUTTI_SYSTEM_ERROR. Thread safe.
Result<std::vector<InterfaceAddress>> local_addresses(std::string_view interfaces);
/// Where ranks say that they listen: the same, and 127.0.0.1 where no interface is up. Threads of one process meet there
/// all the same, in its memory; other processes are told that loopback is down. Thread safe.
Result<std::vector<InterfaceAddress>> addresses_to_announce(std::string_view interfaces);

/// A link-local v6 address without scope becomes one address per local interface that has one of its kind, so none where no
/// interface has; every other address stays alone. What a peer or a resolver told is tried this way.
std::vector<SocketAddress> with_scopes(const SocketAddress& address);

/// "host:port", "1.2.3.4:80", "[::1]:80", "*:80" in its parts; the brackets are off. Looks nothing up.
/// Errors: TUTTI_INVALID_ARGUMENT with the remedy.
struct HostPort {
  std::string host;
  std::uint16_t port = 0;
};
Result<HostPort> parse_host_port(std::string_view text);

/// The address that it is where its host is a number, such as 10.0.0.1, ::1 or *, the wildcard; nothing where that is a
/// name. A link-local address has a zone: an interface's name or number behind a %, or behind %25 as URLs have it. Never
/// blocks. Errors: TUTTI_INVALID_ARGUMENT: a link-local address without a zone, with the interfaces that could be meant; a
/// zone that is no interface here, or is not behind an IPv6 address; an address of several machines.
Result<std::optional<SocketAddress>> numeric_address(const HostPort& place);

/// Of the addresses that a name has, those that can be listened at or connected to, each once: link-local ones with_scopes,
/// none of several machines. Errors: TUTTI_INVALID_ARGUMENT where none is left, with what each is.
Result<std::vector<SocketAddress>> usable_addresses(const HostPort& place, const std::vector<SocketAddress>& addresses);

/// What a resolver answers.
struct Lookup {
  int error = 0;         ///< EAI_…; 0: there are addresses
  int system_error = 0;  ///< errno, where that is EAI_SYSTEM
  std::vector<SocketAddress> addresses;
};

/// The system's resolver, which may take as long as the system lets it. Thread safe.
Lookup look_up(const HostPort& place);

/// This machine's name, at most 63 characters. Thread safe.
std::string host_name();
/// Identifies the machine and its boot: equal for two processes exactly where they share a kernel. Thread safe.
std::uint64_t machine_id();
/// Identifies the network namespace in which this thread opens sockets, among those of this machine; 0 where the system
/// does not say. Processes of two have loopbacks and ports of their own. Thread safe.
std::uint64_t network_namespace();

}  // namespace tutti
