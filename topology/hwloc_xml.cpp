#include "topology/hwloc_xml.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <sstream>

#include "src/base/text_file.h"
#include "topology/rates.h"
#include "topology/xml.h"

namespace tutti {
namespace {

using xml::number_in;

constexpr const char* kAnew = "Write the file anew with lstopo";
constexpr const char* kOtherHwlocFile = "Give a file that lstopo wrote";

struct TypeName {
  std::string_view name;
  ObjectKind kind;
  int cache_level;
  CacheKind cache_kind;
};
/// Names of versions 2 and 3; in version 1 a package is a Socket, and a Cache's level is its depth.
constexpr std::array<TypeName, 18> kTypes = {{{"Machine", ObjectKind::machine, 0, {}},
                                              {"System", ObjectKind::machine, 0, {}},
                                              {"Package", ObjectKind::package, 0, {}},
                                              {"Socket", ObjectKind::package, 0, {}},
                                              {"NUMANode", ObjectKind::numa, 0, {}},
                                              {"Core", ObjectKind::core, 0, {}},
                                              {"PU", ObjectKind::cpu, 0, {}},
                                              {"Cache", ObjectKind::cache, 0, CacheKind::unified},
                                              {"L1Cache", ObjectKind::cache, 1, CacheKind::data},
                                              {"L2Cache", ObjectKind::cache, 2, CacheKind::unified},
                                              {"L3Cache", ObjectKind::cache, 3, CacheKind::unified},
                                              {"L4Cache", ObjectKind::cache, 4, CacheKind::unified},
                                              {"L5Cache", ObjectKind::cache, 5, CacheKind::unified},
                                              {"L1iCache", ObjectKind::cache, 1, CacheKind::instruction},
                                              {"L2iCache", ObjectKind::cache, 2, CacheKind::instruction},
                                              {"L3iCache", ObjectKind::cache, 3, CacheKind::instruction},
                                              {"Bridge", ObjectKind::bridge, 0, {}},
                                              {"PCIDev", ObjectKind::pci, 0, {}}}};

/// osdev_type: an enumeration up to version 2, flags from version 3 on (hwloc_obj_osdev_type_e of either).
struct OsDeviceRule {
  unsigned version_from;
  unsigned value;
  ObjectKind kind;
};
constexpr std::array<OsDeviceRule, 4> kOsDevices = {{{1, 2, ObjectKind::network},
                                                     {1, 3, ObjectKind::verbs},
                                                     {3, 1u << 4, ObjectKind::network},
                                                     {3, 1u << 5, ObjectKind::verbs}}};

/// More than a machine could hold, see xml.h: what is looked up in others, or others in it.
struct KindLimit {
  ObjectKind kind;
  int most;
  const char* what;
};
constexpr std::array<KindLimit, 4> kKindLimits = {{{ObjectKind::package, xml::kMostNumaNodes, "packages"},
                                                   {ObjectKind::numa, xml::kMostNumaNodes, "NUMA nodes"},
                                                   {ObjectKind::core, static_cast<int>(xml::kMostCpus), "cores"},
                                                   {ObjectKind::cache, static_cast<int>(4 * xml::kMostCpus), "caches"}}};

class XmlReader {
 public:
  explicit XmlReader(unsigned version) : version_(version) {}

  Status read(const pugi::xml_node& from, HwObject& object, int depth) {
    if (depth > xml::kDeepest) return refusal(from, "objects within objects deeper than a machine has");
    if (++objects_ > xml::kMostObjects) return refusal(from, "more objects than a machine has");
    set_type(from, object);
    if (Status status = count(from, object.kind); !status.ok()) return status;
    if (Status status = read_common(from, object); !status.ok()) return status;
    if (Status status = read_io(from, object); !status.ok()) return status;
    for (const pugi::xml_node& info : from.children("info")) {
      object.infos.emplace_back(info.attribute("name").value(), info.attribute("value").value());
    }
    for (const pugi::xml_node& child : from.children("object")) {
      object.children.emplace_back();
      if (Status status = read(child, object.children.back(), depth + 1); !status.ok()) return status;
    }
    return Status();
  }

 private:
  static Status refusal(const pugi::xml_node& at, const std::string& why) { return xml::refusal(at, why, kAnew); }

  static Status bad_value(const pugi::xml_node& at, const char* name) {
    return refusal(at, fmt::format("{}=\"{}\" is no value for it", name, at.attribute(name).value()));
  }

  Status count(const pugi::xml_node& from, ObjectKind kind) {
    for (std::size_t i = 0; i < kKindLimits.size(); ++i) {
      if (kKindLimits[i].kind != kind || ++of_kind_[i] <= kKindLimits[i].most) continue;
      return refusal(from, fmt::format("more {} than a machine has", kKindLimits[i].what));
    }
    return Status();
  }

  void set_type(const pugi::xml_node& from, HwObject& object) const {
    const std::string_view type = from.attribute("type").value();
    for (const TypeName& known : kTypes) {
      if (known.name != type) continue;
      object.kind = known.kind;
      object.cache_level = known.cache_level;
      object.cache_kind = known.cache_kind;
    }
    if (type != "OSDev") return;
    unsigned value = 0;
    if (!number_in(std::string_view(from.attribute("osdev_type").value()), value)) return;
    for (const OsDeviceRule& rule : kOsDevices) {
      const bool applies = (rule.version_from == 3) == (version_ >= 3);
      if (applies && (version_ >= 3 ? (value & rule.value) != 0 : value == rule.value)) object.kind = rule.kind;
    }
  }

  Status read_common(const pugi::xml_node& from, HwObject& object) {
    object.name = from.attribute("name").value();
    object.subtype = from.attribute("subtype").value();
    if (!xml::optional_number(from, "os_index", object.os_index)) return bad_value(from, "os_index");
    const auto bitmap = [&](const char* name, std::vector<int>& out) {
      return from.attribute(name).empty() || xml::parse_mask(from.attribute(name).value(), out);
    };
    if (!bitmap("cpuset", object.cpus)) return bad_value(from, "cpuset");
    if (!bitmap("nodeset", object.nodes)) return bad_value(from, "nodeset");
    listed_ += object.cpus.size() + object.nodes.size();
    if (listed_ > xml::kMostListedCpus) return refusal(from, "more CPUs and NUMA nodes in its masks than a machine has");
    if (object.kind == ObjectKind::numa) {
      if (object.os_index < 0) return refusal(from, "a NUMA node without os_index");
      if (object.nodes.empty()) object.nodes = {object.os_index};
      if (!xml::optional_number(from, "local_memory", object.bytes)) return bad_value(from, "local_memory");
    }
    if (object.kind == ObjectKind::cache) {
      if (!xml::optional_number(from, "cache_size", object.bytes)) return bad_value(from, "cache_size");
      if (!xml::optional_number(from, "depth", object.cache_level)) return bad_value(from, "depth");
      unsigned kind = static_cast<unsigned>(object.cache_kind);
      if (!xml::optional_number(from, "cache_type", kind) || kind > 2) return bad_value(from, "cache_type");
      object.cache_kind = static_cast<CacheKind>(kind);
    }
    return Status();
  }

  static Status read_io(const pugi::xml_node& from, HwObject& object) {
    if (object.kind != ObjectKind::bridge && object.kind != ObjectKind::pci) return Status();
    // "0-1" is a bridge from the host to PCI, "1-1" one from PCI to PCI.
    if (object.kind == ObjectKind::bridge && std::string_view(from.attribute("bridge_type").value()).starts_with('0')) {
      object.kind = ObjectKind::host_bridge;
      object.name = std::string("pci") + from.attribute("bridge_pci").value();
      return Status();
    }
    object.pci = from.attribute("pci_busid").value();
    object.link_gbytes = from.attribute("pci_link_speed").as_double(0);
    if (!xml::is_pci_address(object.pci)) return bad_value(from, "pci_busid");
    if (!(object.link_gbytes >= 0 && object.link_gbytes < 1e6)) return bad_value(from, "pci_link_speed");
    // "0302 [10de:1db8] [10de:131d] a1 00": class, vendor, device, the board's, revision.
    const std::string_view type = from.attribute("pci_type").value();
    const bool known = type.size() >= 16 && number_in(type.substr(0, 4), object.pci_class, 16) &&
                       number_in(type.substr(6, 4), object.vendor, 16) && number_in(type.substr(11, 4), object.device, 16);
    return known ? Status() : bad_value(from, "pci_type");
  }

  unsigned version_;
  int objects_ = 0;
  std::array<int, kKindLimits.size()> of_kind_{};  // by the limits
  std::size_t listed_ = 0;
};

/// "2.0" is 2; a file without a version is of hwloc 1.
unsigned version_of(const pugi::xml_node& topology) {
  const std::string_view text = topology.attribute("version").value();
  unsigned version = text.empty() ? 1 : 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  return error == std::errc() || text.empty() ? version : 0;
}

Result<pugi::xml_node> topology_in(const pugi::xml_document& document) {
  const pugi::xml_node topology = document.child("topology");
  if (!topology) {
    const bool nccls = document.child("system");
    return Status(TUTTI_INVALID_ARGUMENT, nccls ? "it has NCCL's <system> and no <topology>" : "it has no <topology>",
                  nccls ? "Give it by --nccl-xml" : kOtherHwlocFile);
  }
  const unsigned version = version_of(topology);
  if (version < 1 || version > 3) {
    return Status(TUTTI_INVALID_ARGUMENT, fmt::format("its version is \"{}\", and versions 1 to 3 are known",
                                                      topology.attribute("version").value()));
  }
  return topology;
}

Result<HwObject> objects_in(const pugi::xml_document& document) {
  const auto topology = topology_in(document);
  if (!topology.ok()) return topology.status();
  const pugi::xml_node root = topology->child("object");
  if (!root) return Status(TUTTI_INVALID_ARGUMENT, "its <topology> holds no object", kOtherHwlocFile);
  HwObject machine;
  if (Status status = XmlReader(version_of(*topology)).read(root, machine, 0); !status.ok()) return status;
  return machine;
}

std::string words_in(const pugi::xml_node& matrix, const char* element) {
  std::string all;
  for (const pugi::xml_node& part : matrix.children(element)) all += std::string(part.child_value()) + ' ';
  return all;
}

/// PCI addresses by the number that the distance matrices call an object by: a PCI function's own, or that of a device
/// of the system's within it.
std::map<std::string, std::string> pci_by_number(const pugi::xml_document& document) {
  std::map<std::string, std::string> found;
  for (const pugi::xpath_node& entry : document.select_nodes("//object[@type='PCIDev']")) {
    const pugi::xml_node pci = entry.node();
    found[pci.attribute("gp_index").value()] = pci.attribute("pci_busid").value();
    for (const pugi::xml_node& inner : pci.children("object")) {
      found[inner.attribute("gp_index").value()] = pci.attribute("pci_busid").value();
    }
  }
  return found;
}

/// MB/s of one of the NVLinks between two nodes that carry so much together: by the GPU's generation where it is known,
/// else the first generation's where it must be.
double one_nvlink(const Node& a, const Node& b, double megabytes) {
  const int sm = std::max(a.sm, b.sm);
  if (sm == 0) return megabytes >= 25000 ? 25000 : 20000;
  return std::min(megabytes, nvlink_gbytes(sm) * 1000);
}

/// The matrix "NVLinkBandwidth", in MB/s between GPUs, NVSwitches and, if POWER, CPUs. One link's speed tells how many
/// there are.
void add_nvlinks(const pugi::xml_document& document, Graph& graph) {
  constexpr double slowest = 10000;  // MB/s; what is less is no NVLink
  const auto addresses = pci_by_number(document);
  std::map<std::string, int> by_address;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) by_address[graph.nodes[i].pci] = static_cast<int>(i);
  for (const pugi::xpath_node& entry : document.select_nodes("//distances2hetero[@name='NVLinkBandwidth']")) {
    std::vector<int> nodes;
    std::istringstream indexes(words_in(entry.node(), "indexes"));
    for (std::string word; indexes >> word;) {
      const auto address = addresses.find(word.substr(word.find(':') + 1));
      const auto known = address == addresses.end() ? by_address.end() : by_address.find(address->second);
      nodes.push_back(known == by_address.end() ? -1 : known->second);
    }
    std::istringstream values(words_in(entry.node(), "u64values"));
    for (std::size_t a = 0; a < nodes.size(); ++a) {
      for (std::size_t b = 0; b < nodes.size(); ++b) {
        double megabytes = 0;
        if (!(values >> megabytes)) return;
        if (b <= a || nodes[a] < 0 || nodes[b] < 0 || megabytes < slowest || megabytes > 1e7) continue;
        const Node& left = graph.nodes[static_cast<std::size_t>(nodes[a])];
        const Node& right = graph.nodes[static_cast<std::size_t>(nodes[b])];
        const int count = std::max(1, static_cast<int>(megabytes / one_nvlink(left, right, megabytes) + .5));
        graph.links.push_back({nodes[a], nodes[b], LinkKind::nvlink, count, megabytes / 1000, 0});
      }
    }
  }
}

}  // namespace

Result<HwObject> parse_hwloc_xml(std::string_view text) {
  pugi::xml_document document;
  if (Status status = xml::load(text, kOtherHwlocFile, document); !status.ok()) return status;
  return objects_in(document);
}

Result<Graph> graph_of_hwloc_xml(std::string_view text) {
  pugi::xml_document document;
  if (Status status = xml::load(text, kOtherHwlocFile, document); !status.ok()) return status;
  const auto objects = objects_in(document);
  if (!objects.ok()) return objects.status();
  auto graph = graph_of(*objects);
  if (graph.ok()) add_nvlinks(document, *graph);
  return graph;
}

Result<Graph> read_hwloc_xml(const std::string& path) {
  const auto text = read_text_file(path);
  if (!text.ok()) return xml::of_file(path, text.status());
  auto graph = graph_of_hwloc_xml(*text);
  if (!graph.ok()) return xml::of_file(path, graph.status());
  graph->source = path;
  return graph;
}

}  // namespace tutti
