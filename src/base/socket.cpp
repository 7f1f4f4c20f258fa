#include "src/base/socket.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "src/base/plural.h"
#include "src/base/random.h"

namespace tutti {

namespace {

UniqueFd open_stream(int family) { return UniqueFd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); }

void set_option(int fd, int level, int name, int value) { ::setsockopt(fd, level, name, &value, sizeof value); }

constexpr char no_port_left[] = "No port of net.ipv4.ip_local_port_range is free; widen it, or end what holds them";

Status listen_error(const SocketAddress& address, int number) {
  const std::string what = "Listening at " + address.text() + " failed";
  if (number == EADDRINUSE && address.port() == 0) return system_error(what, number, no_port_left);
  if (number == EADDRINUSE) {
    return system_error(what, number, "Another program has the port; choose another one, or end that program");
  }
  if (number == EADDRNOTAVAIL) return system_error(what, number, "The address belongs to another machine");
  if (number == EACCES || number == EPERM) {
    return system_error(what, number, "Choose a port of 1024 or above, for which no privilege is needed");
  }
  return system_error(what, number);
}

Status no_socket(const SocketAddress& address) {
  const int number = errno;
  const bool off = number == EAFNOSUPPORT;
  return system_error("Opening a socket for " + address.text() + " failed", number,
                      off ? "Write an IPv4 address: this system has no IPv6" : "");
}

struct Ports {
  std::uint32_t low, high;
};

/// Those that the system chooses from where it is asked for any.
Ports system_ports() {
  Ports ports{32768, 60999};
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> ports.low >> ports.high;
  return ports;
}

/// Of those, the ones that it never chooses: "8080,9148-9150".
std::vector<Ports> reserved_ports() {
  std::vector<Ports> all;
  std::ifstream file("/proc/sys/net/ipv4/ip_local_reserved_ports");
  for (std::string range; std::getline(file, range, ',');) {
    std::istringstream text(range);
    Ports ports{};
    if (!(text >> ports.low)) continue;
    ports.high = text.get() == '-' && text >> ports.high ? ports.high : ports.low;
    all.push_back(ports);
  }
  return all;
}

Result<UniqueFd> listen_once(const SocketAddress& address, int backlog) {
  UniqueFd socket = open_stream(address.family());
  if (!socket) return no_socket(address);
  set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  const bool everywhere = address == SocketAddress::any(AF_INET6, address.port());
  if (address.family() == AF_INET6) set_option(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, everywhere ? 0 : 1);
  if (::bind(socket.get(), address.data(), address.length()) != 0) return listen_error(address, errno);
  if (::listen(socket.get(), backlog) != 0) return listen_error(address, errno);
  return socket;
}

// Where to start in the range is random, so that many processes that start at once do not all try the same ports.
template <typename Try>
Result<UniqueFd> first_free_port(Ports ports, const Try& try_port) {
  if (ports.low == 0 && ports.high == 0) return try_port(std::uint16_t{0});
  const std::uint32_t size = ports.high >= ports.low ? ports.high - ports.low + 1 : 1;
  const auto start = static_cast<std::uint32_t>(random_u64() % size);
  for (std::uint32_t i = 0; i < size; ++i) {
    auto socket = try_port(static_cast<std::uint16_t>(ports.low + (start + i) % size));
    if (socket || socket.status().error().system_error != EADDRINUSE) return socket;
  }
  Error error;
  error.status = TUTTI_SYSTEM_ERROR;
  error.system_error = EADDRINUSE;
  // A rank listens for its neighbours at one, which it closes before tcp opens one for each traffic class.
  error.message = "No port of " + std::to_string(ports.low) + "-" + std::to_string(ports.high) +
                  " is free to listen on: TUTTI_PORT_RANGE has " + plural(size, "port") +
                  ", a rank needs 2, n ranks on one machine need 2n, and the maker of a unique id needs 1 more";
  error.remedy = "Widen TUTTI_PORT_RANGE, or leave it unset for the system's choice";
  return Status(std::move(error));
}

Result<UniqueFd> listen_everywhere(Ports ports, int backlog) {
  const int family = open_stream(AF_INET6) ? AF_INET6 : AF_INET;
  auto socket =
      first_free_port(ports, [&](std::uint16_t port) { return listen_at(SocketAddress::any(family, port), backlog); });
  if (socket || family == AF_INET) return socket;
  if (socket.status().error().system_error != EADDRNOTAVAIL) return socket;  // v6 is compiled in but switched off
  return first_free_port(ports, [&](std::uint16_t port) { return listen_at(SocketAddress::any(AF_INET, port), backlog); });
}

}  // namespace

int shortage_now() {
  const UniqueFd probe = open_stream(AF_INET);
  return !probe && is_shortage(errno) ? errno : 0;
}

Result<UniqueFd> listen_at(const SocketAddress& address, int backlog) {
  auto socket = listen_once(address, backlog);
  if (socket || address.port() != 0 || socket.status().error().system_error != EADDRINUSE) return socket;
  // Linux chooses no port at which connections of the last minute still rest, but gives it to who asks for it by number.
  const auto [low, high] = system_ports();
  const std::vector<Ports> reserved = reserved_ports();
  auto named = first_free_port({std::max(low, 1u), high}, [&](std::uint16_t port) -> Result<UniqueFd> {
    SocketAddress at = address;
    at.set_port(port);
    const auto holds = [port](const Ports& each) { return each.low <= port && port <= each.high; };
    if (std::any_of(reserved.begin(), reserved.end(), holds)) return listen_error(at, EADDRINUSE);
    return listen_once(at, backlog);
  });
  return named ? std::move(named) : std::move(socket);
}

Result<Listener> listen_on(std::string_view interfaces, std::uint32_t port_low, std::uint32_t port_high, int backlog) {
  const Ports ports{port_low, port_high};
  auto locals = addresses_to_announce(interfaces);
  if (!locals) return locals.status();
  Listener listener;
  if (interfaces.empty()) {
    auto socket = listen_everywhere(ports, backlog);
    if (!socket) return socket.status();
    const SocketAddress bound = bound_address(socket->get());
    for (const auto& local : *locals) {
      if (bound.family() == AF_INET && local.address.family() != AF_INET) continue;
      listener.addresses.push_back(local.address);
      listener.addresses.back().set_port(bound.port());
    }
    listener.sockets.push_back(std::move(socket).value());
    return listener;
  }
  Status unavailable;
  for (const auto& local : *locals) {
    auto socket = first_free_port(ports, [&](std::uint16_t port) {
      SocketAddress address = local.address;
      address.set_port(port);
      return listen_at(address, backlog);
    });
    // Not there yet, as while the system asks whether a neighbour has the same address; others serve.
    unavailable = socket.status();
    if (!socket && unavailable.error().system_error == EADDRNOTAVAIL) continue;
    if (!socket) return unavailable;
    listener.addresses.push_back(bound_address(socket->get()));
    listener.sockets.push_back(std::move(socket).value());
  }
  if (listener.sockets.empty()) return unavailable;
  return listener;
}

SocketAddress bound_address(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return {};
  return {reinterpret_cast<const sockaddr*>(&storage), length};
}

UniqueFd accept_one(int listening_fd, SocketAddress* peer) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  const int fd = ::accept4(listening_fd, reinterpret_cast<sockaddr*>(&storage), &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) return {};
  set_no_delay(fd);
  if (peer != nullptr) *peer = SocketAddress(reinterpret_cast<const sockaddr*>(&storage), length);
  return UniqueFd(fd);
}

bool loopback_is_down_for(const SocketAddress& address) {
  const UniqueFd probe(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq loopback{};
  std::strcpy(loopback.ifr_name, "lo");
  if (!probe || ::ioctl(probe.get(), SIOCGIFFLAGS, &loopback) != 0) return false;
  if ((static_cast<unsigned>(loopback.ifr_flags) & IFF_UP) != 0) return false;
  if (address.loopback()) return true;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return false;
  bool own = false;
  for (const ifaddrs* i = first; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != address.family()) continue;
    SocketAddress here(i->ifa_addr, address.length());
    here.set_port(address.port());
    own = own || here == address;
  }
  ::freeifaddrs(first);
  return own;
}

Result<UniqueFd> connect_to(const SocketAddress& address) {
  UniqueFd socket = open_stream(address.family());
  if (!socket) return no_socket(address);
  set_no_delay(socket.get());
  set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);  // its port is free for a listener once it has ended
  if (::connect(socket.get(), address.data(), address.length()) != 0 && errno != EINPROGRESS) {
    return system_error("Connecting to " + address.text() + " failed", errno);
  }
  return socket;
}

int connect_result(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  return error;
}

bool keeps_out(int listening_fd, int number) {
  pollfd listener{listening_fd, POLLIN, 0};
  return is_shortage(number) && ::poll(&listener, 1, 0) == 1;
}

void set_no_delay(int fd) { set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1); }

void set_traffic_class(int fd, std::uint32_t dscp) {
  if (dscp == 0) return;
  const int tos = static_cast<int>((dscp & 63u) << 2);
  set_option(fd, IPPROTO_IP, IP_TOS, tos);
  set_option(fd, IPPROTO_IPV6, IPV6_TCLASS, tos);
}

}  // namespace tutti
