#include "topology/hwloc_xml.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <fstream>
#include <map>
#include <pugixml.hpp>
#include <sstream>

namespace tutti {
namespace {

constexpr std::size_t kLongestFile = 64u << 20;
constexpr std::size_t kMostCpus = 65536;
constexpr int kDeepest = 64;
constexpr int kMostObjects = 1'000'000;

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

template <typename T>
bool number_in(std::string_view text, T& out, int base = 10) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), out, base);
  return error == std::errc() && stop == text.data() + text.size() && !text.empty();
}

/// hwloc's bitmaps: "0x0000000f,,0x00000003", 32 bits a word, the most significant first, empty words being zero.
bool parse_bitmap(std::string_view text, std::vector<int>& out) {
  out.clear();
  if (text.starts_with("0xf...f")) return false;  // without end: no real machine's
  std::vector<std::uint32_t> words;
  while (true) {
    const std::size_t comma = text.find(',');
    std::string_view word = text.substr(0, comma);
    if (word.starts_with("0x")) word.remove_prefix(2);
    std::uint32_t value = 0;
    if (!word.empty() && !number_in(word, value, 16)) return false;
    words.push_back(value);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  if (words.size() > kMostCpus / 32) return false;
  std::reverse(words.begin(), words.end());
  for (std::size_t w = 0; w < words.size(); ++w) {
    for (unsigned bit = 0; bit < 32; ++bit) {
      if ((words[w] >> bit & 1u) != 0) out.push_back(static_cast<int>(w * 32 + bit));
    }
  }
  return true;
}

class XmlReader {
 public:
  explicit XmlReader(unsigned version) : version_(version) {}

  Status read(const pugi::xml_node& from, HwObject& object, int depth) {
    if (depth > kDeepest) return refusal(from, "objects within objects deeper than a machine has");
    if (++objects_ > kMostObjects) return refusal(from, "more objects than a machine has");
    set_type(from, object);
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
  static Status refusal(const pugi::xml_node& at, const std::string& why) {
    return Status(TUTTI_INVALID_ARGUMENT, fmt::format("byte {}: {}", at.offset_debug(), why),
                  "Write the file anew with lstopo");
  }

  static Status bad_value(const pugi::xml_node& at, const char* name) {
    return refusal(at, fmt::format("{}=\"{}\" is no value for it", name, at.attribute(name).value()));
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

  /// Reads an attribute where there is one; false where it is malformed.
  template <typename T>
  static bool optional(const pugi::xml_node& from, const char* name, T& out) {
    const pugi::xml_attribute attribute = from.attribute(name);
    return attribute.empty() || number_in(std::string_view(attribute.value()), out);
  }

  Status read_common(const pugi::xml_node& from, HwObject& object) {
    object.name = from.attribute("name").value();
    object.subtype = from.attribute("subtype").value();
    if (!optional(from, "os_index", object.os_index)) return bad_value(from, "os_index");
    const auto bitmap = [&](const char* name, std::vector<int>& out) {
      return from.attribute(name).empty() || parse_bitmap(from.attribute(name).value(), out);
    };
    if (!bitmap("cpuset", object.cpus)) return bad_value(from, "cpuset");
    if (!bitmap("nodeset", object.nodes)) return bad_value(from, "nodeset");
    if (object.kind == ObjectKind::numa) {
      if (object.os_index < 0) return refusal(from, "a NUMA node without os_index");
      if (object.nodes.empty()) object.nodes = {object.os_index};
      if (!optional(from, "local_memory", object.bytes)) return bad_value(from, "local_memory");
    }
    if (object.kind == ObjectKind::cache) {
      if (!optional(from, "cache_size", object.bytes)) return bad_value(from, "cache_size");
      if (!optional(from, "depth", object.cache_level)) return bad_value(from, "depth");
      unsigned kind = static_cast<unsigned>(object.cache_kind);
      if (!optional(from, "cache_type", kind) || kind > 2) return bad_value(from, "cache_type");
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
    if (object.pci.empty() || object.pci.size() > 16) return bad_value(from, "pci_busid");
    if (!(object.link_gbytes >= 0 && object.link_gbytes < 1e6)) return bad_value(from, "pci_link_speed");
    // "0302 [10de:1db8] [10de:131d] a1 00": class, vendor, device, the board's, revision.
    const std::string_view type = from.attribute("pci_type").value();
    const bool known = type.size() >= 16 && number_in(type.substr(0, 4), object.pci_class, 16) &&
                       number_in(type.substr(6, 4), object.vendor, 16) && number_in(type.substr(11, 4), object.device, 16);
    return known ? Status() : bad_value(from, "pci_type");
  }

  unsigned version_;
  int objects_ = 0;
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
    return Status(TUTTI_INVALID_ARGUMENT, "it has no <topology>", "Give a file that lstopo wrote");
  }
  const unsigned version = version_of(topology);
  if (version < 1 || version > 3) {
    return Status(TUTTI_INVALID_ARGUMENT, fmt::format("its version is \"{}\", and versions 1 to 3 are known",
                                                      topology.attribute("version").value()));
  }
  return topology;
}

Status load(std::string_view text, pugi::xml_document& document) {
  const pugi::xml_parse_result parsed = document.load_buffer(text.data(), text.size());
  if (parsed) return Status();
  return Status(TUTTI_INVALID_ARGUMENT, fmt::format("byte {}: {}", parsed.offset, parsed.description()),
                "Give a file that lstopo wrote");
}

Result<HwObject> objects_in(const pugi::xml_document& document) {
  const auto topology = topology_in(document);
  if (!topology.ok()) return topology.status();
  const pugi::xml_node root = topology->child("object");
  if (!root) return Status(TUTTI_INVALID_ARGUMENT, "its <topology> holds no object", "Give a file that lstopo wrote");
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

/// The matrix "NVLinkBandwidth", in MB/s between GPUs, NVSwitches and, if POWER, CPUs. One link's speed tells how many
/// there are.
void add_nvlinks(const pugi::xml_document& document, Graph& graph) {
  constexpr double slowest = 20000;  // MB/s of the first generation's link; later ones have 25000 and 50000
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
        const double one = megabytes >= 25000 ? 25000 : slowest;
        const int count = std::max(1, static_cast<int>(megabytes / one + .5));
        graph.links.push_back({nodes[a], nodes[b], LinkKind::nvlink, count, megabytes / 1000, 0});
      }
    }
  }
}

Status named(const std::string& path, const Status& status) {
  return Status(status.code(), path + " is refused: " + status.error().message, status.error().remedy);
}

}  // namespace

Result<HwObject> parse_hwloc_xml(std::string_view text) {
  pugi::xml_document document;
  if (Status status = load(text, document); !status.ok()) return status;
  return objects_in(document);
}

Result<Graph> read_hwloc_xml(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return named(path, Status(TUTTI_INVALID_ARGUMENT, std::strerror(errno), "Give a file that can be read"));
  std::string text;
  std::array<char, 65536> part;
  while (file.read(part.data(), part.size()) || file.gcount() > 0) {
    text.append(part.data(), static_cast<std::size_t>(file.gcount()));
    if (text.size() > kLongestFile) return named(path, Status(TUTTI_INVALID_ARGUMENT, "it is longer than 64 MiB"));
  }
  pugi::xml_document document;
  if (Status status = load(text, document); !status.ok()) return named(path, status);
  const auto objects = objects_in(document);
  if (!objects.ok()) return named(path, objects.status());
  auto graph = graph_of(*objects);
  if (!graph.ok()) return named(path, graph.status());
  graph->source = path;
  add_nvlinks(document, *graph);
  return graph;
}

}  // namespace tutti
