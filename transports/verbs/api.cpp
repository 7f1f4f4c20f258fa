#include "transports/verbs/api.h"

#include <optional>

#include "src/base/made_once.h"
#include "src/base/shared_library.h"

namespace tutti::verbs {
namespace {

std::optional<VerbsApi> find_verbs() {
  VerbsApi api;
  void* const library =
      open_library("libibverbs.so.1", Wanted{"ibv_get_device_list", api.get_device_list},
                   Wanted{"ibv_free_device_list", api.free_device_list}, Wanted{"ibv_get_device_name", api.get_device_name},
                   Wanted{"ibv_open_device", api.open_device}, Wanted{"ibv_close_device", api.close_device},
                   Wanted{"ibv_query_device", api.query_device}, Wanted{"ibv_query_port", api.query_port},
                   Wanted{"_ibv_query_gid_table", api.query_gid_table});
  if (library == nullptr) return std::nullopt;
  find_function(library, "ibv_query_port_speed", api.query_port_speed);
  return api;
}

}  // namespace

const VerbsApi* load_verbs() {
  static constinit MadeOnce<std::optional<VerbsApi>> verbs;
  const std::optional<VerbsApi>& found = verbs.get(find_verbs);
  return found ? &*found : nullptr;
}

int query_port(const VerbsApi& api, ibv_context* context, std::uint8_t port, ibv_port_attr& attributes) {
  attributes = {};
  verbs_context* const extended = verbs_get_ctx_op(context, query_port);
  if (extended != nullptr) return extended->query_port(context, port, &attributes, sizeof attributes);
  return api.query_port(context, port, reinterpret_cast<_compat_ibv_port_attr*>(&attributes));
}

}  // namespace tutti::verbs
