#include "topology/hwloc_api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <memory>
#include <optional>

#include "src/base/made_once.h"
#include "src/base/shared_library.h"

namespace tutti {
namespace {

std::optional<HwlocApi> find_hwloc() {
  HwlocApi api;
  void* const library = open_library(
      "libhwloc.so.15", Wanted{"hwloc_get_api_version", api.get_api_version},
      Wanted{"hwloc_topology_init", api.topology_init}, Wanted{"hwloc_topology_destroy", api.topology_destroy},
      Wanted{"hwloc_topology_set_flags", api.topology_set_flags},
      Wanted{"hwloc_topology_set_io_types_filter", api.topology_set_io_types_filter},
      Wanted{"hwloc_topology_set_components", api.topology_set_components},
      Wanted{"hwloc_topology_set_synthetic", api.topology_set_synthetic}, Wanted{"hwloc_topology_load", api.topology_load},
      Wanted{"hwloc_get_obj_by_depth", api.get_obj_by_depth}, Wanted{"hwloc_bitmap_next", api.bitmap_next});
  if (library == nullptr) return std::nullopt;
  if (api.get_api_version() >> 16 == HWLOC_API_VERSION >> 16) return api;
  ::dlclose(library);
  return std::nullopt;
}

/// Copies hwloc's objects into ours.
class Reader {
 public:
  explicit Reader(const HwlocApi& api) : api_(api) {}

  HwObject read(hwloc_obj_t from) const {
    HwObject object;
    object.os_index = from->os_index == HWLOC_UNKNOWN_INDEX ? -1 : static_cast<int>(from->os_index);
    object.name = from->name != nullptr ? from->name : "";
    object.subtype = from->subtype != nullptr ? from->subtype : "";
    object.cpus = numbers(from->cpuset);
    object.nodes = numbers(from->nodeset);
    for (unsigned i = 0; i < from->infos_count; ++i) object.infos.emplace_back(from->infos[i].name, from->infos[i].value);
    describe(*from, object);
    for (hwloc_obj_t list : {from->memory_first_child, from->first_child, from->io_first_child}) {
      for (hwloc_obj_t child = list; child != nullptr; child = child->next_sibling) object.children.push_back(read(child));
    }
    return object;
  }

 private:
  std::vector<int> numbers(hwloc_const_bitmap_t bitmap) const {
    std::vector<int> out;
    if (bitmap == nullptr) return out;
    for (int i = api_.bitmap_next(bitmap, -1); i >= 0; i = api_.bitmap_next(bitmap, i)) out.push_back(i);
    return out;
  }

  static void describe(const hwloc_obj& from, HwObject& object) {
    switch (from.type) {
      case HWLOC_OBJ_MACHINE:
        object.kind = ObjectKind::machine;
        return;
      case HWLOC_OBJ_PACKAGE:
        object.kind = ObjectKind::package;
        return;
      case HWLOC_OBJ_CORE:
        object.kind = ObjectKind::core;
        return;
      case HWLOC_OBJ_PU:
        object.kind = ObjectKind::cpu;
        return;
      case HWLOC_OBJ_NUMANODE:
        object.kind = ObjectKind::numa;
        object.bytes = from.attr->numanode.local_memory;
        return;
      case HWLOC_OBJ_BRIDGE:
        describe_bridge(from.attr->bridge, object);
        return;
      case HWLOC_OBJ_PCI_DEVICE:
        object.kind = ObjectKind::pci;
        describe_pci(from.attr->pcidev, object);
        return;
      case HWLOC_OBJ_OS_DEVICE:
        if (from.attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK) object.kind = ObjectKind::network;
        if (from.attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS) object.kind = ObjectKind::verbs;
        return;
      default:
        if (from.type >= HWLOC_OBJ_L1CACHE && from.type <= HWLOC_OBJ_L3ICACHE) describe_cache(from.attr->cache, object);
        return;
    }
  }

  static void describe_cache(const hwloc_obj_attr_u::hwloc_cache_attr_s& from, HwObject& object) {
    static constexpr std::array<CacheKind, 3> kinds = {CacheKind::unified, CacheKind::data, CacheKind::instruction};
    object.kind = ObjectKind::cache;
    object.bytes = from.size;
    object.cache_level = static_cast<int>(from.depth);
    const auto kind = static_cast<std::size_t>(from.type);
    object.cache_kind = kind < kinds.size() ? kinds[kind] : CacheKind::unified;
  }

  static void describe_pci(const hwloc_obj_attr_u::hwloc_pcidev_attr_s& from, HwObject& object) {
    const unsigned domain = from.domain;
    object.pci = fmt::format("{:04x}:{:02x}:{:02x}.{:x}", domain, from.bus, from.dev, from.func);
    object.pci_class = from.class_id;
    object.vendor = from.vendor_id;
    object.device = from.device_id;
    object.link_gbytes = static_cast<double>(from.linkspeed);
  }

  static void describe_bridge(const hwloc_obj_attr_u::hwloc_bridge_attr_s& from, HwObject& object) {
    if (from.upstream_type == HWLOC_OBJ_BRIDGE_HOST) {
      object.kind = ObjectKind::host_bridge;
      const unsigned domain = from.downstream.pci.domain;
      object.name = fmt::format("pci{:04x}:{:02x}", domain, from.downstream.pci.secondary_bus);
      return;
    }
    object.kind = ObjectKind::bridge;
    describe_pci(from.upstream.pci, object);
  }

  const HwlocApi& api_;
};

}  // namespace

const HwlocApi* load_hwloc() {
  static constinit MadeOnce<std::optional<HwlocApi>> found;
  const std::optional<HwlocApi>& api = found.get(find_hwloc);
  return api ? &*api : nullptr;
}

Result<HwObject> read_hwloc(const HwlocApi& api, const std::string& synthetic) {
  hwloc_topology_t raw = nullptr;
  if (api.topology_init(&raw) != 0) return system_error("hwloc cannot start", errno);
  const std::unique_ptr<hwloc_topology, void (*)(hwloc_topology_t)> topology(raw, api.topology_destroy);
  if (!synthetic.empty() && api.topology_set_synthetic(raw, synthetic.c_str()) != 0) {
    return Status(TUTTI_INVALID_ARGUMENT, fmt::format("\"{}\" is no synthetic topology of hwloc's", synthetic));
  }
  // Refusals of these three leave a topology with less in it, which is still worth reading.
  api.topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED | HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING);
  api.topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_ALL);
  for (const char* component : {"opencl", "cuda", "nvml", "rsmi", "levelzero", "gl"}) {
    api.topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
  }
  if (api.topology_load(raw) != 0) return system_error("hwloc cannot read this machine", errno);
  const hwloc_obj_t root = api.get_obj_by_depth(raw, 0, 0);
  if (root == nullptr) return Status(TUTTI_SYSTEM_ERROR, "hwloc gives no machine");
  return Reader(api).read(root);
}

std::string hwloc_name(const HwlocApi& api) {
  const unsigned version = api.get_api_version();
  return fmt::format("hwloc (API {}.{})", version >> 16, (version >> 8) & 0xff);
}

}  // namespace tutti
