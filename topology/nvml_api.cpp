#include "topology/nvml_api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "src/base/made_once.h"
#include "src/base/shared_library.h"
#include "topology/objects.h"
#include "topology/rates.h"
#include "topology/reported_links.h"

namespace tutti {
namespace {

std::optional<NvmlApi> find_nvml() {
  NvmlApi api;
  void* const library = open_library(
      "libnvidia-ml.so.1", Wanted{"nvmlInit_v2", api.init}, Wanted{"nvmlShutdown", api.shutdown},
      Wanted{"nvmlErrorString", api.error_string}, Wanted{"nvmlDeviceGetCount_v2", api.device_count},
      Wanted{"nvmlDeviceGetHandleByIndex_v2", api.device_by_index}, Wanted{"nvmlDeviceGetPciInfo_v3", api.pci_info},
      Wanted{"nvmlDeviceGetName", api.name}, Wanted{"nvmlDeviceGetCudaComputeCapability", api.capability},
      Wanted{"nvmlDeviceGetNvLinkState", api.link_state}, Wanted{"nvmlDeviceGetNvLinkVersion", api.link_version},
      Wanted{"nvmlDeviceGetNvLinkRemotePciInfo_v2", api.link_remote});
  if (library == nullptr) return std::nullopt;
  find_function(library, "nvmlDeviceGetNvLinkRemoteDeviceType", api.link_remote_type);
  return api;
}

/// NVML started, and stopped with this object. Starting again while others use it only counts.
class Session {
 public:
  explicit Session(const NvmlApi& api) : api_(api), started_(api.init()) {}
  ~Session() {
    if (started_ == nvml::kSuccess) api_.shutdown();
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  nvml::Return started() const { return started_; }

 private:
  const NvmlApi& api_;
  nvml::Return started_;
};

Status refused(const NvmlApi& api, const char* what, nvml::Return code) {
  const char* why = api.error_string(code);
  return Status(TUTTI_SYSTEM_ERROR, fmt::format("NVML {}: {}", what, why != nullptr ? why : "unknown error"),
                "See whether nvidia-smi works");
}

/// As /sys writes it; NVML has the domain in eight digits, and no function, which is 0 for its devices.
std::string address_of(const nvml::PciInfo& pci) {
  return fmt::format("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device);
}

class NvmlReader {
 public:
  NvmlReader(const NvmlApi& api, Graph& graph) : api_(api), graph_(graph) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      if (!graph.nodes[i].pci.empty()) by_address_.try_emplace(graph.nodes[i].pci, static_cast<int>(i));
    }
    has_links_ = std::any_of(graph.links.begin(), graph.links.end(),
                             [](const GraphLink& link) { return link.kind == LinkKind::nvlink; });
  }

  Status read() {
    unsigned count = 0;
    if (const nvml::Return code = api_.device_count(&count); code != nvml::kSuccess) {
      return refused(api_, "cannot count the GPUs", code);
    }
    for (unsigned index = 0; index < count; ++index) {
      nvml::Device device = nullptr;
      nvml::PciInfo pci{};
      if (api_.device_by_index(index, &device) != nvml::kSuccess) continue;
      if (api_.pci_info(device, &pci) != nvml::kSuccess) continue;
      const auto known = by_address_.find(address_of(pci));
      if (known == by_address_.end() || node(known->second).kind != NodeKind::gpu) continue;
      describe(device, node(known->second));
      if (!has_links_) read_links(device, known->second);
    }
    links_.add_to(graph_, [&](const Node& gpu, LinkKind) {
      return gpu.sm > 0 ? nvlink_gbytes(gpu.sm) : nvlink_gbytes_of_version(version_);
    });
    number_devices(graph_);
    return Status();
  }

 private:
  Node& node(int index) { return graph_.nodes[static_cast<std::size_t>(index)]; }

  void describe(nvml::Device device, Node& gpu) const {
    std::array<char, nvml::kNameBytes> name{};
    if (api_.name(device, name.data(), nvml::kNameBytes) == nvml::kSuccess && name[0] != '\0') {
      name.back() = '\0';
      gpu.name = name.data();
    }
    int major = 0;
    int minor = 0;
    if (api_.capability(device, &major, &minor) == nvml::kSuccess && major > 0) gpu.sm = 10 * major + minor;
  }

  void read_links(nvml::Device device, int gpu) {
    for (unsigned link = 0; link < nvml::kMostLinks; ++link) {
      int active = 0;
      if (api_.link_state(device, link, &active) != nvml::kSuccess || active == 0) continue;
      nvml::PciInfo remote{};
      if (api_.link_remote(device, link, &remote) != nvml::kSuccess) continue;
      api_.link_version(device, link, &version_);
      const int other = end_of(device, link, address_of(remote), gpu);
      if (other >= 0 && other != gpu) links_.report(LinkKind::nvlink, gpu, other, 1);
    }
  }

  /// The node at a link's other end, which is made where it is a switch that /sys does not show; -1 where it is a GPU that
  /// is not ours to see.
  int end_of(nvml::Device device, unsigned link, const std::string& address, int gpu) {
    const auto known = by_address_.find(address);
    const bool is_end = known != by_address_.end() &&
                        (node(known->second).kind == NodeKind::gpu || node(known->second).kind == NodeKind::nv_switch);
    if (is_end) return known->second;
    nvml::LinkEnd type = nvml::LinkEnd::unknown;
    if (api_.link_remote_type == nullptr || api_.link_remote_type(device, link, &type) != nvml::kSuccess) return -1;
    if (type == nvml::LinkEnd::ibm_npu) return graph_.enclosing(gpu, NodeKind::numa);
    if (type != nvml::LinkEnd::nv_switch) return -1;
    Node made;
    made.kind = NodeKind::nv_switch;
    made.parent = graph_.enclosing(gpu, NodeKind::machine);
    made.pci = address;
    const int index = graph_.add(std::move(made));
    by_address_[address] = index;
    return index;
  }

  const NvmlApi& api_;
  Graph& graph_;
  std::map<std::string, int> by_address_;
  ReportedLinks links_;
  unsigned version_ = 0;  ///< of the last link: a machine's GPUs have the same
  bool has_links_ = false;
};

}  // namespace

const NvmlApi* load_nvml() {
  static constinit MadeOnce<std::optional<NvmlApi>> found;
  const std::optional<NvmlApi>& api = found.get(find_nvml);
  return api ? &*api : nullptr;
}

Status complete_from_nvml(const NvmlApi& api, Graph& graph) {
  const Session session(api);
  if (session.started() != nvml::kSuccess) return refused(api, "cannot start", session.started());
  return NvmlReader(api, graph).read();
}

}  // namespace tutti
