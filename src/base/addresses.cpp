#include "src/base/addresses.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>

#include "src/base/made_once.h"

namespace tutti {

namespace {

// sockaddr_storage is meant to be read as the family's own struct; memcpy says so without aliasing.
template <typename T>
T read_as(const sockaddr_storage& storage) {
  T value;
  std::memcpy(&value, &storage, sizeof value);
  return value;
}

template <typename T>
SocketAddress made_of(const T& value) {
  sockaddr_storage storage{};
  std::memcpy(&storage, &value, sizeof value);
  return {reinterpret_cast<const sockaddr*>(&storage), sizeof value};
}

}  // namespace

SocketAddress::SocketAddress(const sockaddr* address, socklen_t length)
    : length_(std::min<socklen_t>(length, sizeof storage_)) {
  std::memcpy(&storage_, address, length_);
  make_canonical();
}

void SocketAddress::make_canonical() {
  if (family() != AF_INET6) return;
  auto in = read_as<sockaddr_in6>(storage_);
  if (IN6_IS_ADDR_V4MAPPED(&in.sin6_addr)) {
    *this = v4(std::span(in.sin6_addr.s6_addr).subspan<12>(), ntohs(in.sin6_port));
  } else if (in.sin6_scope_id != 0 && !link_local()) {
    in.sin6_scope_id = 0;
    std::memcpy(&storage_, &in, sizeof in);
  }
}

SocketAddress SocketAddress::v4(std::span<const unsigned char, 4> bytes, std::uint16_t port) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(port);
  std::memcpy(&in.sin_addr, bytes.data(), 4);
  return made_of(in);
}

SocketAddress SocketAddress::v6(std::span<const unsigned char, 16> bytes, std::uint16_t port, std::uint32_t scope) {
  sockaddr_in6 in{};
  in.sin6_family = AF_INET6;
  in.sin6_port = htons(port);
  in.sin6_scope_id = scope;
  std::memcpy(&in.sin6_addr, bytes.data(), 16);
  return made_of(in);
}

SocketAddress SocketAddress::any(int family, std::uint16_t port) {
  constexpr std::array<unsigned char, 16> zeros{};
  if (family == AF_INET6) return v6(zeros, port);
  return v4(std::span(zeros).first<4>(), port);
}

SocketAddress SocketAddress::abstract(std::string_view name) {
  sockaddr_un un{};
  un.sun_family = AF_UNIX;
  name = name.substr(0, sizeof un.sun_path - 1);
  std::memcpy(un.sun_path + 1, name.data(), name.size());  // it begins with a zero byte
  return {reinterpret_cast<const sockaddr*>(&un),
          static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

std::uint16_t SocketAddress::port() const {
  return ntohs(family() == AF_INET6 ? read_as<sockaddr_in6>(storage_).sin6_port : read_as<sockaddr_in>(storage_).sin_port);
}

void SocketAddress::set_port(std::uint16_t port) {
  // sin_port and sin6_port lie at the same place.
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  auto in = read_as<sockaddr_in>(storage_);
  in.sin_port = htons(port);
  std::memcpy(&storage_, &in, offsetof(sockaddr_in, sin_port) + sizeof in.sin_port);
}

bool SocketAddress::loopback() const {
  if (family() == AF_INET) return (ntohl(read_as<sockaddr_in>(storage_).sin_addr.s_addr) >> 24) == 127;
  const auto in = read_as<sockaddr_in6>(storage_);
  return family() == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&in.sin6_addr);
}

bool SocketAddress::link_local() const {
  const auto in = read_as<sockaddr_in6>(storage_);
  return family() == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&in.sin6_addr);
}

bool SocketAddress::wildcard() const { return valid() && *this == any(family(), port()); }

bool SocketAddress::of_several() const {
  const auto in6 = read_as<sockaddr_in6>(storage_);
  if (family() == AF_INET6) return IN6_IS_ADDR_MULTICAST(&in6.sin6_addr);
  const std::uint32_t number = ntohl(read_as<sockaddr_in>(storage_).sin_addr.s_addr);
  return family() == AF_INET && (IN_MULTICAST(number) || number == INADDR_BROADCAST);
}

std::uint32_t SocketAddress::scope() const {
  return family() == AF_INET6 ? read_as<sockaddr_in6>(storage_).sin6_scope_id : 0;
}

void SocketAddress::set_scope(std::uint32_t interface_index) {
  if (family() != AF_INET6) return;
  auto in = read_as<sockaddr_in6>(storage_);
  in.sin6_scope_id = interface_index;
  *this = made_of(in);
}

std::string SocketAddress::host_text() const {
  char host[NI_MAXHOST] = "?";
  if (family() == AF_UNIX) return "its Unix socket";
  if (!valid()) return "(no address)";
  ::getnameinfo(data(), length_, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  return family() == AF_INET6 ? "[" + std::string(host) + "]" : host;
}

std::string SocketAddress::text() const { return valid() ? host_text() + ":" + std::to_string(port()) : host_text(); }

bool operator==(const SocketAddress& a, const SocketAddress& b) {
  return a.length_ == b.length_ && std::memcmp(&a.storage_, &b.storage_, a.length_) == 0;
}

void SocketAddress::pack(ByteWriter& out) const {
  if (family() == AF_INET) {
    const auto in = read_as<sockaddr_in>(storage_);
    out.u8(4);
    out.raw(std::as_bytes(std::span(&in.sin_addr, 1)));
  } else {
    const auto in = read_as<sockaddr_in6>(storage_);
    out.u8(6);
    out.raw(std::as_bytes(std::span(&in.sin6_addr, 1)));
  }
  out.u16(port());
}

SocketAddress SocketAddress::unpack(ByteReader& in) {
  const auto kind = in.u8();
  std::array<unsigned char, 16> bytes{};
  if (kind != 4 && kind != 6) {
    in.fail();
    return {};
  }
  in.copy(std::span(bytes).first(kind == 4 ? 4 : 16));
  const auto port = in.u16();
  if (!in.ok()) return {};
  return kind == 4 ? v4(std::span(bytes).first<4>(), port) : v6(bytes, port);
}

namespace {

struct FreeInterfaces {
  void operator()(ifaddrs* list) const { ::freeifaddrs(list); }
};
using Interfaces = std::unique_ptr<ifaddrs, FreeInterfaces>;

Result<Interfaces> all_interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return system_error("Listing this machine's network interfaces failed", errno);
  return Interfaces(list);
}

std::vector<InterfaceAddress> addresses_that_are_up(const ifaddrs* list) {
  std::vector<InterfaceAddress> result;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || (i->ifa_flags & IFF_UP) == 0) continue;
    if (i->ifa_addr->sa_family == AF_INET) {
      result.push_back({i->ifa_name, SocketAddress(i->ifa_addr, sizeof(sockaddr_in))});
    } else if (i->ifa_addr->sa_family == AF_INET6) {
      result.push_back({i->ifa_name, SocketAddress(i->ifa_addr, sizeof(sockaddr_in6))});
    }
  }
  return result;
}

std::vector<std::string> split(std::string_view names) {
  std::vector<std::string> result;
  while (!names.empty()) {
    const auto comma = std::min(names.find(','), names.size());
    std::string_view name = names.substr(0, comma);
    while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
    while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
    if (!name.empty()) result.emplace_back(name);
    names.remove_prefix(std::min(comma + 1, names.size()));
  }
  return result;
}

int reach_order(const SocketAddress& address) {
  if (address.loopback()) return 3;
  if (address.link_local()) return 2;
  return address.family() == AF_INET ? 0 : 1;
}

/// Of the interfaces with an address that `counts`.
template <typename Counts>
std::string names_of(const std::vector<InterfaceAddress>& all, const Counts& counts) {
  std::set<std::string> names;
  for (const auto& one : all) {
    if (counts(one)) names.insert(one.interface);
  }
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

}  // namespace

Result<std::vector<InterfaceAddress>> local_addresses(std::string_view interfaces) {
  auto list = all_interfaces();
  if (!list) return list.status();
  const auto all = addresses_that_are_up(list->get());
  const auto wanted = split(interfaces);
  for (const auto& name : wanted) {
    const bool there = std::any_of(all.begin(), all.end(), [&](const auto& one) { return one.interface == name; });
    if (there) continue;
    const bool exists = ::if_nametoindex(name.c_str()) != 0;
    return Status(TUTTI_INVALID_ARGUMENT,
                  "Network interface \"" + name + "\" " + (exists ? "is down or has no address" : "does not exist"),
                  "Set TUTTI_INTERFACE to one or more of: " + names_of(all, [](const auto&) { return true; }));
  }
  std::vector<InterfaceAddress> result;
  std::vector<InterfaceAddress> loopback;
  for (const auto& one : all) {
    const bool named = std::find(wanted.begin(), wanted.end(), one.interface) != wanted.end();
    if (named || (wanted.empty() && !one.address.loopback())) result.push_back(one);
    if (wanted.empty() && one.address.loopback()) loopback.push_back(one);
  }
  // A machine that has link-local addresses only may have no way to itself but loopback.
  const bool far = std::any_of(result.begin(), result.end(), [](const auto& one) { return reach_order(one.address) < 2; });
  if (!far) result.insert(result.end(), loopback.begin(), loopback.end());
  if (result.empty()) {
    return Status(TUTTI_SYSTEM_ERROR, "This machine has no network interface that is up, not even loopback",
                  "Bring one up, for instance with `ip link set lo up`");
  }
  std::vector<InterfaceAddress> ordered;
  for (int order = 0; order <= 3; ++order) {
    for (const auto& one : result) {
      if (reach_order(one.address) == order) ordered.push_back(one);
    }
  }
  return ordered;
}

Result<std::vector<InterfaceAddress>> addresses_to_announce(std::string_view interfaces) {
  auto locals = local_addresses(interfaces);
  if (locals || locals.status().code() != TUTTI_SYSTEM_ERROR || !interfaces.empty()) return locals;
  return std::vector<InterfaceAddress>{{"lo", SocketAddress::v4(std::array<unsigned char, 4>{127, 0, 0, 1}, 0)}};
}

std::vector<SocketAddress> with_scopes(const SocketAddress& address) {
  if (!address.link_local() || address.scope() != 0) return {address};
  std::vector<SocketAddress> result;
  auto list = all_interfaces();
  if (!list) return {};
  for (const auto& one : addresses_that_are_up(list->get())) {
    if (!one.address.link_local()) continue;
    SocketAddress scoped = address;
    scoped.set_scope(one.address.scope());
    if (std::find(result.begin(), result.end(), scoped) == result.end()) result.push_back(scoped);
  }
  return result;
}

namespace {

Status no_host_port(std::string_view text, const std::string& why) {
  return Status(TUTTI_INVALID_ARGUMENT, "\"" + std::string(text) + "\" is no host:port: " + why,
                "Write it as name:4242, 10.0.0.1:4242 or [::1]:4242");
}

}  // namespace

Result<HostPort> parse_host_port(std::string_view text) {
  const bool bracketed = text.starts_with('[');
  const std::size_t close = text.rfind(']');
  if (bracketed && close == std::string_view::npos) return no_host_port(text, "its bracket is not closed");
  const std::size_t colon = bracketed ? close + 1 : text.rfind(':');
  if (colon >= text.size() || text[colon] != ':' || colon == (bracketed ? 2 : 0)) {
    return no_host_port(text, "it needs a host, a colon and a port");
  }
  HostPort parsed{std::string(bracketed ? text.substr(1, close - 1) : text.substr(0, colon)), 0};
  if (!bracketed && parsed.host.find(':') != std::string::npos) {
    return no_host_port(text, "an IPv6 address stands in brackets");
  }
  const char* const end = text.data() + text.size();
  const auto number = std::from_chars(text.data() + colon + 1, end, parsed.port);
  const bool good = number.ec == std::errc() && parsed.port != 0;
  if (good && number.ptr != end) return no_host_port(text, "nothing may follow the port");
  if (!good) return no_host_port(text, "ports are 1 to 65535");
  return parsed;
}

namespace {

/// The interfaces of this machine that are up, or those of them that have link-local v6 addresses.
std::string interfaces_here(bool link_local) {
  const auto list = all_interfaces();
  if (!list) return "none that can be listed";
  return names_of(addresses_that_are_up(list->get()),
                  [&](const auto& one) { return !link_local || one.address.link_local(); });
}

std::string bracketed(const std::string& host, const HostPort& place) {
  return "[" + host + "]:" + std::to_string(place.port);
}

/// The index of the interface that a zone names, by its name or its number; 0: there is none.
std::uint32_t zone_index(const std::string& zone) {
  if (const std::uint32_t index = ::if_nametoindex(zone.c_str()); index != 0) return index;
  std::uint32_t index = 0;
  const char* const end = zone.data() + zone.size();
  const auto read = std::from_chars(zone.data(), end, index);
  char name[IF_NAMESIZE];
  return read.ec == std::errc() && read.ptr == end && ::if_indextoname(index, name) != nullptr ? index : 0;
}

Status lacks_zone(const std::string& host, const HostPort& place) {
  const std::string candidates = interfaces_here(true);
  const std::string first = candidates.substr(0, candidates.find(','));
  return Status(TUTTI_INVALID_ARGUMENT,
                "\"" + bracketed(host, place) + "\" is a link-local address, which means nothing without its interface",
                "Write it with a zone, as " + bracketed(host + "%" + (candidates == "none" ? "eth0" : first), place) +
                    "; interfaces of this machine that have such addresses: " + candidates);
}

Result<SocketAddress> in_zone(const std::array<unsigned char, 16>& bytes, const std::string& host, const std::string& zone,
                              const HostPort& place) {
  std::uint32_t index = zone_index(zone);
  // A % within a URL is written %25 (RFC 6874), unless that is what the zone itself begins with.
  if (index == 0 && zone.size() > 2 && zone.starts_with("25")) index = zone_index(zone.substr(2));
  if (index != 0) return SocketAddress::v6(bytes, place.port, index);
  return Status(
      TUTTI_INVALID_ARGUMENT,
      "\"" + bracketed(place.host, place) + "\" has the zone \"" + zone + "\", which is no interface of this machine",
      "Write " + bracketed(host + "%ZONE", place) + " with one of: " + interfaces_here(true));
}

Status of_several(const SocketAddress& address) {
  return Status(TUTTI_INVALID_ARGUMENT,
                "\"" + address.text() + "\" is a multicast or broadcast address, at which no rank can listen",
                "Write an address of rank 0's own");
}

}  // namespace

Result<std::optional<SocketAddress>> numeric_address(const HostPort& place) {
  if (place.host == "*") return std::optional(SocketAddress::any(AF_INET6, place.port));
  std::array<unsigned char, 16> bytes{};
  const std::size_t percent = place.host.find('%');
  const bool zoned = percent != std::string::npos;
  const std::string host = place.host.substr(0, percent);
  if (::inet_pton(AF_INET6, host.c_str(), bytes.data()) != 1) {
    if (zoned) {
      return Status(TUTTI_INVALID_ARGUMENT, "\"" + place.host + "\" has a zone behind what is no IPv6 address",
                    "Leave " + place.host.substr(percent) + " out; only addresses such as [fe80::1%eth0] have zones");
    }
    if (::inet_pton(AF_INET, host.c_str(), bytes.data()) != 1) return std::optional<SocketAddress>();
    const SocketAddress address = SocketAddress::v4(std::span(bytes).first<4>(), place.port);
    return address.of_several() ? Result<std::optional<SocketAddress>>(of_several(address)) : std::optional(address);
  }
  auto address = zoned ? in_zone(bytes, host, place.host.substr(percent + 1), place)
                       : Result<SocketAddress>(SocketAddress::v6(bytes, place.port));
  if (!address) return address.status();
  if (address->of_several()) return of_several(*address);
  if (address->link_local() && address->scope() == 0) return lacks_zone(host, place);
  return std::optional(*address);
}

Result<std::vector<SocketAddress>> usable_addresses(const HostPort& place, const std::vector<SocketAddress>& addresses) {
  std::vector<SocketAddress> usable;
  std::string useless;
  for (const SocketAddress& address : addresses) {
    const auto scoped = address.of_several() ? std::vector<SocketAddress>() : with_scopes(address);
    for (const SocketAddress& one : scoped) {
      if (std::find(usable.begin(), usable.end(), one) == usable.end()) usable.push_back(one);
    }
    if (!scoped.empty()) continue;
    useless += (useless.empty() ? "" : ", ") + address.host_text() +
               (address.link_local() ? " (link-local, and no interface here is)" : " (multicast or broadcast)");
  }
  if (!usable.empty()) return usable;
  return Status(TUTTI_INVALID_ARGUMENT, "Host \"" + place.host + "\" has no address that can be used here: " + useless,
                "Write an address of rank 0's own as a number, or correct what the name stands for (getent hosts " +
                    place.host + ")");
}

Lookup look_up(const HostPort& place) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_family = AF_UNSPEC;
  addrinfo* list = nullptr;
  Lookup answer;
  answer.error = ::getaddrinfo(place.host.c_str(), std::to_string(place.port).c_str(), &hints, &list);
  if (answer.error != 0) {
    if (answer.error == EAI_SYSTEM) answer.system_error = errno;
    return answer;
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(list, ::freeaddrinfo);
  for (const addrinfo* i = list; i != nullptr; i = i->ai_next) {
    const SocketAddress address(i->ai_addr, i->ai_addrlen);
    if (address.valid()) answer.addresses.push_back(address);
  }
  if (answer.addresses.empty()) answer.error = EAI_NONAME;
  return answer;
}

std::string host_name() {
  char name[256] = "";
  if (::gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "localhost";
  return std::string(name).substr(0, 63);
}

std::uint64_t machine_id() {
  // The boot id is the kernel's, the same in every container on it; two machines never share one.
  static constinit MadeOnce<std::uint64_t> id;
  return id.get([] {
    std::string text;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> text;
    if (text.empty()) text = host_name();
    std::uint64_t hash = 1469598103934665603u;  // FNV-1a
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
    return hash;
  });
}

std::uint64_t network_namespace() {
  struct stat found{};
  return ::stat("/proc/thread-self/ns/net", &found) == 0 ? found.st_ino : 0;
}

}  // namespace tutti
