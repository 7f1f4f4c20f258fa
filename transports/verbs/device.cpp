#include "transports/verbs/device.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <utility>

namespace tutti::verbs {
namespace {

/// Most entries of all ports' tables that are read.
constexpr std::size_t most_gids = 1024;

/// An address of an interface.
struct Addressed {
  std::string interface;
  std::uint8_t prefix = 0;  ///< bits of its subnet, of 128
};
using Addresses = std::map<std::pair<unsigned, GidBytes>, Addressed>;

GidBytes mapped(const in_addr& address) {
  GidBytes bytes{};
  bytes[10] = bytes[11] = 0xff;
  std::memcpy(bytes.data() + 12, &address, 4);
  return bytes;
}

/// Bits that are set, of a mask.
template <typename Address>
int bits_of(const Address& mask) {
  std::array<unsigned char, sizeof mask> bytes;
  std::memcpy(bytes.data(), &mask, sizeof mask);
  int bits = 0;
  for (const unsigned char byte : bytes) bits += std::popcount(byte);
  return bits;
}

void add_address(Addresses& all, const ifaddrs& entry) {
  if (entry.ifa_addr == nullptr || entry.ifa_netmask == nullptr) return;
  const unsigned index = if_nametoindex(entry.ifa_name);
  if (entry.ifa_addr->sa_family == AF_INET) {
    const auto& address = *reinterpret_cast<const sockaddr_in*>(entry.ifa_addr);
    const auto& mask = *reinterpret_cast<const sockaddr_in*>(entry.ifa_netmask);
    const int prefix = 96 + bits_of(mask.sin_addr);
    all[{index, mapped(address.sin_addr)}] = {entry.ifa_name, static_cast<std::uint8_t>(prefix)};
  } else if (entry.ifa_addr->sa_family == AF_INET6) {
    GidBytes bytes;
    std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr)->sin6_addr, bytes.size());
    const int prefix = bits_of(reinterpret_cast<const sockaddr_in6*>(entry.ifa_netmask)->sin6_addr);
    all[{index, bytes}] = {entry.ifa_name, static_cast<std::uint8_t>(prefix)};
  }
}

/// What this network namespace's interfaces are called by.
Addresses interface_addresses() {
  Addresses all;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return all;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) add_address(all, *entry);
  ::freeifaddrs(list);
  return all;
}

GidType type_of(std::uint32_t type) {
  constexpr std::array types = {GidType::infiniband, GidType::roce_v1, GidType::roce_v2};
  return type < types.size() ? types[type] : GidType::infiniband;
}

/// Entries that another container's interface stands behind cannot be read, and are not told.
std::vector<ibv_gid_entry> read_gids(const VerbsApi& api, ibv_context* context) {
  std::vector<ibv_gid_entry> entries(most_gids);
  const ssize_t count = api.query_gid_table(context, entries.data(), entries.size(), 0, sizeof(ibv_gid_entry));
  entries.resize(static_cast<std::size_t>(std::clamp<ssize_t>(count, 0, static_cast<ssize_t>(most_gids))));
  return entries;
}

Gid described(const ibv_gid_entry& entry, const Addresses& addresses) {
  Gid gid;
  std::memcpy(gid.bytes.data(), entry.gid.raw, gid.bytes.size());
  gid.index = entry.gid_index;
  gid.type = type_of(entry.gid_type);
  if (gid.type == GidType::infiniband) {
    gid.prefix = 64;
    return gid;
  }
  const auto found = addresses.find({entry.ndev_ifindex, gid.bytes});
  if (found == addresses.end()) return gid;
  gid.interface = found->second.interface;
  gid.prefix = found->second.prefix;
  return gid;
}

std::uint32_t bytes_of(ibv_mtu mtu) {
  return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? std::uint32_t{128} << static_cast<unsigned>(mtu) : 0;
}

/// Of one lane, in Mbit/s, as the kernel's table of rates has it.
std::uint64_t lane_megabits(unsigned speed) {
  constexpr std::array<std::pair<unsigned, std::uint64_t>, 9> speeds = {{{1, 2'500},
                                                                         {2, 5'000},
                                                                         {4, 10'000},
                                                                         {8, 10'000},
                                                                         {16, 14'000},
                                                                         {32, 25'000},
                                                                         {64, 50'000},
                                                                         {128, 100'000},
                                                                         {256, 200'000}}};
  const auto found = std::find_if(speeds.begin(), speeds.end(), [speed](const auto& row) { return row.first == speed; });
  return found != speeds.end() ? found->second : 0;
}

unsigned lanes_of(unsigned width) {
  constexpr std::array<std::pair<unsigned, unsigned>, 5> widths = {{{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}}};
  const auto found = std::find_if(widths.begin(), widths.end(), [width](const auto& row) { return row.first == width; });
  return found != widths.end() ? found->second : 0;
}

/// Of a bond, which width and speed do not tell, where the library can ask.
std::uint64_t megabits_of(const VerbsApi& api, ibv_context* context, std::uint8_t port, const ibv_port_attr& told) {
  constexpr std::uint64_t unit = 100;
  std::uint64_t speed = 0;
  if (api.query_port_speed != nullptr && api.query_port_speed(context, port, &speed) == 0) return speed * unit;
  return lane_megabits(told.active_speed) * lanes_of(told.active_width);
}

PortFacts facts_of(const VerbsApi& api, ibv_context* context, std::uint8_t number, const ibv_port_attr& told) {
  PortFacts port;
  port.number = number;
  port.state = told.state;
  port.physical_state = told.phys_state;
  port.ethernet = told.link_layer == IBV_LINK_LAYER_ETHERNET;
  port.lid = told.lid;
  port.mtu = bytes_of(told.active_mtu);
  port.megabits = megabits_of(api, context, number, told);
  return port;
}

void look_at_ports(const VerbsApi& api, ibv_context* context, DeviceFacts& device) {
  ibv_device_attr attributes{};
  if (api.query_device(context, &attributes) != 0) return;
  for (unsigned number = 1; number <= attributes.phys_port_cnt; ++number) {
    ibv_port_attr told{};
    const auto port = static_cast<std::uint8_t>(number);
    if (query_port(api, context, port, told) == 0) device.ports.push_back(facts_of(api, context, port, told));
  }
  const Addresses addresses = interface_addresses();
  for (const ibv_gid_entry& entry : read_gids(api, context)) {
    for (PortFacts& port : device.ports) {
      if (port.number == entry.port_num) port.gids.push_back(described(entry, addresses));
    }
  }
}

}  // namespace

bool PortFacts::is_usable() const {
  if (state != IBV_PORT_ACTIVE) return false;
  if (!ethernet) return lid != 0;
  return std::any_of(gids.begin(), gids.end(), [](const Gid& gid) { return gid.is_usable(); });
}

std::vector<DeviceFacts> look_at_devices(const VerbsApi& api) {
  std::vector<DeviceFacts> devices;
  int count = 0;
  ibv_device** const list = api.get_device_list(&count);
  for (int i = 0; list != nullptr && i < count; ++i) {
    DeviceFacts& device = devices.emplace_back();
    device.name = api.get_device_name(list[i]);
    device.can_connect = list[i]->transport_type == IBV_TRANSPORT_IB;
    errno = 0;
    const DeviceContext context(api.open_device(list[i]), CloseDevice{&api});
    if (context == nullptr) {
      device.open_error = errno != 0 ? errno : EIO;
    } else {
      look_at_ports(api, context.get(), device);
    }
  }
  if (list != nullptr) api.free_device_list(list);
  return devices;
}

const char* state_text(ibv_port_state state) {
  constexpr std::array texts = {"without a state", "down", "initializing", "armed", "active", "active, but deferred"};
  const auto number = static_cast<std::size_t>(state);
  return number < texts.size() ? texts[number] : "in an unknown state";
}

const char* physical_state_text(std::uint8_t state) {
  constexpr std::array texts = {"unknown", "asleep", "polling", "disabled", "training", "up", "recovering", "under test"};
  return state < texts.size() ? texts[state] : "unknown";
}

}  // namespace tutti::verbs
