// libibverbs' functions, found at run time: nothing links the library, and a machine without it lacks this transport alone.
// Tests put functions of their own in place.
#pragma once

#include <infiniband/verbs.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace tutti::verbs {

/// Functions of libibverbs.so.1, each by its name there without "ibv_".
struct VerbsApi {
  ibv_device** (*get_device_list)(int* count) = nullptr;
  void (*free_device_list)(ibv_device** list) = nullptr;
  const char* (*get_device_name)(ibv_device* device) = nullptr;
  ibv_context* (*open_device)(ibv_device* device) = nullptr;
  int (*close_device)(ibv_context* context) = nullptr;
  int (*query_device)(ibv_context* context, ibv_device_attr* attributes) = nullptr;
  /// Fills what the struct's first version had. query_port below fills all.
  int (*query_port)(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* attributes) = nullptr;
  /// _ibv_query_gid_table, since rdma-core 32: the entries in use of all ports. Returns their number, or a negative errno.
  ssize_t (*query_gid_table)(ibv_context* context, ibv_gid_entry* entries, std::size_t most, std::uint32_t flags,
                             std::size_t entry_bytes) = nullptr;
  /// In units of 100 Mbit/s. NULL before rdma-core 62.
  int (*query_port_speed)(ibv_context* context, std::uint32_t port, std::uint64_t* speed) = nullptr;
};

/// Loads libibverbs.so.1 once and keeps it. NULL where the machine has none, or one older than 32. Thread safe.
const VerbsApi* load_verbs();

/// All that the device says of a port; 0 or an errno. The exported function knows the struct's first version alone, so a
/// device that has a later one is asked itself, as verbs.h does.
int query_port(const VerbsApi& api, ibv_context* context, std::uint8_t port, ibv_port_attr& attributes);

}  // namespace tutti::verbs
