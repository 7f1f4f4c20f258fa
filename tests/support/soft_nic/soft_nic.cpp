#include "tests/support/soft_nic/soft_nic.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tutti::test {
namespace {

SoftNics* current = nullptr;

}  // namespace

SoftNics::SoftNics(std::vector<SoftDevice> devices) {
  current = this;
  for (SoftDevice& each : devices) {
    Nic& nic = nics_.emplace_back();
    nic.device.transport_type = each.transport;
    nic.is = std::move(each);
    nic.extended.sz = sizeof nic.extended;
    nic.extended.query_port = query_port_extended;
    nic.extended.context.device = &nic.device;
    if (!nic.is.is_old) nic.extended.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  }
  api.get_device_list = list_devices;
  api.free_device_list = free_list;
  api.get_device_name = [](ibv_device* device) {
    const auto same = [device](const Nic& nic) { return &nic.device == device; };
    return std::find_if(current->nics_.begin(), current->nics_.end(), same)->is.name.c_str();
  };
  api.open_device = open;
  api.close_device = close;
  api.query_device = query_device;
  api.query_port = query_port;
  api.query_gid_table = query_gid_table;
  api.query_port_speed = query_port_speed;
}

SoftNics::~SoftNics() { current = nullptr; }

SoftNics::Nic& SoftNics::nic_of(ibv_context* context) {
  const auto same = [context](const Nic& nic) { return &nic.extended.context == context; };
  return *std::find_if(current->nics_.begin(), current->nics_.end(), same);
}

ibv_device** SoftNics::list_devices(int* count) {
  auto** const list = new ibv_device*[current->nics_.size() + 1]();
  *count = 0;
  for (Nic& nic : current->nics_) list[(*count)++] = &nic.device;
  ++current->open_lists_;
  return list;
}

void SoftNics::free_list(ibv_device** list) {
  delete[] list;
  --current->open_lists_;
}

ibv_context* SoftNics::open(ibv_device* device) {
  const auto same = [device](const Nic& nic) { return &nic.device == device; };
  Nic& nic = *std::find_if(current->nics_.begin(), current->nics_.end(), same);
  if (nic.is.open_error != 0) {
    errno = nic.is.open_error;
    return nullptr;
  }
  ++current->open_contexts_;
  return &nic.extended.context;
}

int SoftNics::close(ibv_context*) {
  --current->open_contexts_;
  return 0;
}

int SoftNics::query_device(ibv_context* context, ibv_device_attr* attributes) {
  *attributes = {};
  attributes->phys_port_cnt = static_cast<std::uint8_t>(nic_of(context).is.ports.size());
  return 0;
}

int SoftNics::query_port_extended(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes, std::size_t) {
  const SoftPort& is = nic_of(context).is.ports.at(port - 1u);
  attributes->state = is.state;
  attributes->phys_state = is.physical_state;
  attributes->link_layer = is.link_layer;
  attributes->lid = is.lid;
  attributes->active_mtu = is.mtu;
  attributes->active_width = is.width;
  attributes->active_speed = is.speed;
  return 0;
}

int SoftNics::query_port(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* attributes) {
  return query_port_extended(context, port, reinterpret_cast<ibv_port_attr*>(attributes), 0);
}

ssize_t SoftNics::query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t most, std::uint32_t,
                                  std::size_t entry_bytes) {
  if (entry_bytes != sizeof *entries) return -EINVAL;
  std::size_t count = 0;
  const std::vector<SoftPort>& ports = nic_of(context).is.ports;
  for (std::size_t p = 0; p < ports.size(); ++p) {
    for (ibv_gid_entry each : ports[p].gids) {
      if (count == most) return -ENOMEM;
      each.port_num = static_cast<std::uint32_t>(p + 1);
      entries[count++] = each;
    }
  }
  return static_cast<ssize_t>(count);
}

int SoftNics::query_port_speed(ibv_context* context, std::uint32_t port, std::uint64_t* speed) {
  *speed = nic_of(context).is.ports.at(port - 1u).effective_speed;
  return *speed != 0 ? 0 : EOPNOTSUPP;
}

ibv_gid_entry gid_entry(std::uint32_t index, const char* address, std::uint32_t type, unsigned interface) {
  ibv_gid_entry entry{};
  entry.gid_index = index;
  entry.gid_type = type;
  entry.ndev_ifindex = interface;
  in_addr v4{};
  if (inet_pton(AF_INET, address, &v4) == 1) {
    entry.gid.raw[10] = entry.gid.raw[11] = 0xff;
    std::memcpy(entry.gid.raw + 12, &v4, sizeof v4);
  } else {
    inet_pton(AF_INET6, address, entry.gid.raw);
  }
  return entry;
}

}  // namespace tutti::test
