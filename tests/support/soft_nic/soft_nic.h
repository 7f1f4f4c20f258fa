// A verbs library whose devices are the test's: what VerbsApi asks, without hardware and without libibverbs.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "transports/verbs/api.h"

namespace tutti::test {

/// A port of a SoftDevice. What verbs say of a port, with values of a sound one.
struct SoftPort {
  ibv_port_state state = IBV_PORT_ACTIVE;
  std::uint8_t physical_state = 5;  ///< up
  std::uint8_t link_layer = IBV_LINK_LAYER_ETHERNET;
  std::uint16_t lid = 0;
  ibv_mtu mtu = IBV_MTU_1024;
  std::uint8_t width = 2;  ///< four lanes
  std::uint8_t speed = 32;
  std::uint64_t effective_speed = 0;  ///< in 100 Mbit/s; 0: the device does not tell
  std::vector<ibv_gid_entry> gids;    ///< port_num is filled in
};

/// One device. `context` comes with the extended struct of a provider of today, unless `is_old`.
struct SoftDevice {
  std::string name;
  std::vector<SoftPort> ports = std::vector<SoftPort>(1);
  ibv_transport_type transport = IBV_TRANSPORT_IB;
  int open_error = 0;  ///< errno that refuses it
  bool is_old = false;
};

/// The devices of this process, until it is destroyed; one at a time. Not thread safe.
class SoftNics {
 public:
  explicit SoftNics(std::vector<SoftDevice> devices);
  ~SoftNics();
  SoftNics(const SoftNics&) = delete;
  SoftNics& operator=(const SoftNics&) = delete;

  /// Its members may be set to NULL, as those of an older library are.
  verbs::VerbsApi api;
  /// Contexts that are open now, and lists that were not freed.
  int open_contexts() const { return open_contexts_; }
  int open_lists() const { return open_lists_; }

 private:
  struct Nic {
    ibv_device device{};
    SoftDevice is;
    verbs_context extended{};  ///< holds the context
  };
  static Nic& nic_of(ibv_context* context);
  static ibv_device** list_devices(int* count);
  static void free_list(ibv_device** list);
  static ibv_context* open(ibv_device* device);
  static int close(ibv_context* context);
  static int query_device(ibv_context* context, ibv_device_attr* attributes);
  static int query_port(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* attributes);
  static int query_port_extended(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes, std::size_t bytes);
  static ssize_t query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t most, std::uint32_t flags,
                                 std::size_t entry_bytes);
  static int query_port_speed(ibv_context* context, std::uint32_t port, std::uint64_t* speed);

  std::deque<Nic> nics_;
  int open_contexts_ = 0;
  int open_lists_ = 0;
};

/// An entry of a GID table. address: as text, IPv4's or IPv6's. type: as enum ibv_gid_type_sysfs. interface: 0: none.
ibv_gid_entry gid_entry(std::uint32_t index, const char* address, std::uint32_t type, unsigned interface);

}  // namespace tutti::test
