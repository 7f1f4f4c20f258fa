#include "topology/read_sysfs.h"

#include <net/if.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <sstream>

#include "topology/index.h"
#include "topology/objects.h"
#include "topology/rates.h"

namespace tutti {
namespace {

constexpr const char* kCpus = "/sys/devices/system/cpu";
constexpr const char* kNumaNodes = "/sys/devices/system/node";
constexpr const char* kPci = "/sys/bus/pci/devices/";

/// The number behind a prefix ("cpu12"), -1 where the name is another one ("cpufreq").
int numbered(const std::string& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return -1;
  int number = -1;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + prefix.size(), end, number);
  return error == std::errc() && stop == end ? number : -1;
}

std::vector<int> cpu_list(const Sysfs& files, const std::string& path) {
  return parse_cpu_list(files.text(path).value_or("")).value_or(std::vector<int>());
}

/// "0000:07:00.0"
bool is_pci_address(std::string_view name) {
  return name.size() >= 12 && name.find(':') != std::string_view::npos && name[name.size() - 2] == '.' &&
         name.find_first_not_of("0123456789abcdef:.") == std::string_view::npos;
}

class SysfsReader {
 public:
  explicit SysfsReader(const Sysfs& files) : files_(files) {}

  Graph read() {
    graph_.source = "sysfs";
    Node machine;
    machine.name = files_.text("/proc/sys/kernel/hostname").value_or("");
    machine.cpus = cpu_list(files_, std::string(kCpus) + "/online");
    if (machine.cpus.empty()) machine.cpus = cpu_limits(files_).allowed;
    graph_.add(std::move(machine));
    for (const int cpu : graph_.nodes[0].cpus) read_cpu(cpu);
    add_packages();
    add_numa_nodes();
    for (const std::string& address : files_.entries("/sys/bus/pci/devices")) read_pci(address);
    number_devices(graph_);
    return std::move(graph_);
  }

 private:
  void read_cpu(int cpu) {
    const std::string folder = std::string(kCpus) + "/cpu" + std::to_string(cpu);
    const int package = static_cast<int>(files_.number(folder + "/topology/physical_package_id").value_or(0));
    packages_[std::max(package, 0)].push_back(cpu);
    std::vector<int> siblings = cpu_list(files_, folder + "/topology/thread_siblings_list");
    if (siblings.empty()) siblings = {cpu};
    if (siblings.front() == cpu) {
      const int id = static_cast<int>(files_.number(folder + "/topology/core_id").value_or(cpu));
      graph_.cores.push_back({id, std::max(package, 0), -1, siblings});
    }
    for (const std::string& name : files_.entries(folder + "/cache")) {
      if (name.starts_with("index")) read_cache(folder + "/cache/" + name, cpu);
    }
  }

  /// Every CPU lists its caches: one that is shared is taken from the first of its sharers.
  void read_cache(const std::string& folder, int cpu) {
    Cache cache;
    cache.level = static_cast<int>(files_.number(folder + "/level").value_or(0));
    const std::string type = files_.text(folder + "/type").value_or("");
    cache.kind = type == "Data" ? CacheKind::data : type == "Instruction" ? CacheKind::instruction : CacheKind::unified;
    cache.bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(0, files_.number(folder + "/size").value_or(0))) << 10;
    cache.cpus = cpu_list(files_, folder + "/shared_cpu_list");
    if (cache.cpus.empty()) cache.cpus = {cpu};
    if (cache.level > 0 && cache.cpus.front() == cpu) graph_.caches.push_back(std::move(cache));
  }

  void add_packages() {
    for (auto& [id, cpus] : packages_) {
      Node node;
      node.kind = NodeKind::package;
      node.id = id;
      node.parent = 0;
      node.name = processor_name();
      std::sort(cpus.begin(), cpus.end());
      node.cpus = cpus;
      package_index_[id] = graph_.add(std::move(node));
    }
  }

  std::string processor_name() {
    std::istringstream lines(files_.text("/proc/cpuinfo").value_or(""));
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("model name") && line.find(": ") != std::string::npos) return line.substr(line.find(": ") + 2);
    }
    return {};
  }

  void add_numa_nodes() {
    for (const std::string& name : files_.entries(kNumaNodes)) {
      const int id = numbered(name, "node");
      if (id < 0) continue;
      const std::string folder = std::string(kNumaNodes) + "/" + name;
      add_numa_node(id, cpu_list(files_, folder + "/cpulist"), memory_of(folder + "/meminfo", id));
    }
    if (numa_index_.empty()) add_numa_node(0, graph_.nodes[0].cpus, memory_of("/proc/meminfo", -1));
    for (Core& core : graph_.cores) {
      for (const auto& [id, index] : numa_index_) {
        const std::vector<int>& cpus = graph_.nodes[at(index)].cpus;
        if (std::binary_search(cpus.begin(), cpus.end(), core.cpus.front())) core.numa = id;
      }
    }
  }

  void add_numa_node(int id, std::vector<int> cpus, std::uint64_t bytes) {
    Node node;
    node.kind = NodeKind::numa;
    node.id = id;
    node.parent = 0;
    for (const auto& [package, index] : package_index_) {
      const std::vector<int>& all = packages_[package];
      if (!cpus.empty() && std::includes(all.begin(), all.end(), cpus.begin(), cpus.end())) node.parent = index;
    }
    node.cpus = std::move(cpus);
    node.memory_bytes = bytes;
    numa_index_[id] = graph_.add(std::move(node));
  }

  /// "Node 0 MemTotal:  5597396 kB"
  std::uint64_t memory_of(const std::string& path, int node) {
    const std::string text = files_.text(path).value_or("");
    const std::string key = node < 0 ? "MemTotal:" : "Node " + std::to_string(node) + " MemTotal:";
    const std::size_t start = text.find(key);
    if (start == std::string::npos) return 0;
    std::istringstream rest(text.substr(start + key.size()));
    std::uint64_t kib = 0;
    rest >> kib;
    return kib << 10;
  }

  void read_pci(const std::string& address) {
    const std::string folder = kPci + address;
    const auto pci_class = static_cast<std::uint32_t>(files_.number(folder + "/class").value_or(0) >> 8);
    const auto vendor = static_cast<std::uint16_t>(files_.number(folder + "/vendor").value_or(0));
    const auto device = static_cast<std::uint16_t>(files_.number(folder + "/device").value_or(0));
    Node node;
    if (is_gpu(pci_class, vendor, device)) {
      node.kind = NodeKind::gpu;
    } else if (is_nv_switch(pci_class, vendor)) {
      node.kind = NodeKind::nv_switch;
    } else if (is_network(pci_class)) {
      node.kind = NodeKind::nic;
    } else {
      return;
    }
    node.parent = container_of(address);
    node.pci = address;
    node.pci_class = pci_class;
    node.vendor = vendor;
    node.device = device;
    graph_.add(std::move(node));
  }

  /// The node of what a PCI function hangs from, making the bridges on the way: the folders on its real path are
  /// pciDDDD:BB, the bridges, the function.
  int container_of(const std::string& address) {
    const std::string path = files_.resolved(kPci + address);
    int above = numa_node_of(address);
    std::istringstream parts(path);
    for (std::string part; std::getline(parts, part, '/');) {
      if (part == address) break;
      const bool is_host_bridge = part.starts_with("pci") && part.find(':') != std::string::npos;
      if (!is_host_bridge && !is_pci_address(part)) continue;
      const auto [known, is_new] = bridges_.try_emplace(part, -1);
      if (is_new) known->second = add_bridge(part, is_host_bridge, above);
      above = known->second;
    }
    return above;
  }

  int add_bridge(const std::string& name, bool is_host_bridge, int above) {
    Node node;
    node.kind = is_host_bridge ? NodeKind::host_bridge : NodeKind::bridge;
    node.parent = above;
    if (is_host_bridge) {
      node.name = name;
    } else {
      node.pci = name;
    }
    return graph_.add(std::move(node));
  }

  int numa_node_of(const std::string& address) {
    const int id = static_cast<int>(files_.number(kPci + address + "/numa_node").value_or(-1));
    if (const auto known = numa_index_.find(id); known != numa_index_.end()) return known->second;
    return numa_index_.size() == 1 ? numa_index_.begin()->second : 0;
  }

  const Sysfs& files_;
  Graph graph_;
  std::map<int, std::vector<int>> packages_;
  std::map<int, int> package_index_;
  std::map<int, int> numa_index_;
  std::map<std::string, int> bridges_;
};

/// The PCI function that a device of a class hangs from; empty where it is none.
std::string pci_of(const Sysfs& files, const std::string& device_link) {
  std::istringstream parts(files.resolved(device_link));
  std::string last;
  for (std::string part; std::getline(parts, part, '/');) {
    if (is_pci_address(part)) last = part;
  }
  return last;
}

/// Interfaces that hardware stands behind, in this process's network namespace: /sys may have been mounted in another.
std::vector<std::string> hardware_interfaces(const Sysfs& files) {
  std::vector<std::string> names = files.entries("/sys/class/net");
  std::erase_if(names, [&](const std::string& name) {
    const bool elsewhere = files.root().empty() && if_nametoindex(name.c_str()) == 0;
    return elsewhere || !files.exists("/sys/class/net/" + name + "/device");
  });
  return names;
}

/// Gbit/s, 0 where the driver does not tell.
double interface_speed(const Sysfs& files, const std::string& name) {
  const std::int64_t mbits = files.number("/sys/class/net/" + name + "/speed").value_or(0);
  return mbits > 0 ? static_cast<double>(mbits) / 1000 : 0;
}

/// What /sys/class says of each PCI function's network side.
std::map<std::string, NicFacts> interfaces_by_pci(const Sysfs& files) {
  std::map<std::string, NicFacts> found;
  for (const std::string& name : hardware_interfaces(files)) {
    const std::string pci = pci_of(files, "/sys/class/net/" + name + "/device");
    if (pci.empty()) continue;
    NicFacts& facts = found[pci];
    facts.interfaces.push_back(name);
    facts.speed_gbps = std::max(facts.speed_gbps, interface_speed(files, name));
  }
  return found;
}

struct VerbsDevice {
  std::string name;
  int ports = 0;
  double speed_gbps = 0;
};

std::map<std::string, VerbsDevice> verbs_by_pci(const Sysfs& files) {
  std::map<std::string, VerbsDevice> found;
  for (const std::string& name : files.entries("/sys/class/infiniband")) {
    const std::string folder = "/sys/class/infiniband/" + name;
    VerbsDevice device{name, 0, 0};
    for (const std::string& port : files.entries(folder + "/ports")) {
      ++device.ports;
      // "200 Gb/sec (4X HDR)"
      const auto rate = files.number(folder + "/ports/" + port + "/rate");
      if (rate) device.speed_gbps = std::max(device.speed_gbps, static_cast<double>(*rate));
    }
    found.emplace(pci_of(files, folder + "/device"), device);
  }
  return found;
}

/// The link's own limit and its partner's: the current speed of an idle device is lowered to save power.
double uplink_of(const Sysfs& files, const std::string& address) {
  const std::string folder = kPci + address;
  const auto gbytes = [&](const std::string& where) {
    const int width = static_cast<int>(files.number(where + "/max_link_width").value_or(0));
    return pcie_gbytes(files.text(where + "/max_link_speed").value_or(""), width);
  };
  const double own = gbytes(folder);
  const double partner = gbytes(folder + "/..");
  return own == 0 || partner == 0 ? own : std::min(own, partner);
}

/// "Model: \t\t NVIDIA H100 80GB HBM3"
std::string nvidia_model(const Sysfs& files, const std::string& address) {
  std::istringstream lines(files.text("/proc/driver/nvidia/gpus/" + address + "/information").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("Model:")) continue;
    const std::size_t start = line.find_first_not_of(" \t", std::string_view("Model:").size());
    return start == std::string::npos ? std::string() : line.substr(start);
  }
  return {};
}

bool gpu_memory_registers(const Sysfs& files) {
  const bool by_module = files.exists("/sys/module/nvidia_peermem") || files.exists("/sys/module/nv_peer_mem");
  return by_module || files.exists("/sys/module/amdgpu");
}

void complete_nic(Node& node, const NicFacts* facts, const VerbsDevice* verbs, bool gdr) {
  node.nic = facts != nullptr ? *facts : NicFacts();
  node.name = facts != nullptr ? facts->interfaces.front() : node.pci;
  node.nic.ports = std::max<int>(1, static_cast<int>(node.nic.interfaces.size()));
  if (verbs != nullptr) {
    node.name = verbs->name;
    node.nic.verbs = true;
    node.nic.gdr = gdr;
    node.nic.ports = std::max(node.nic.ports, verbs->ports);
    node.nic.speed_gbps = std::max(node.nic.speed_gbps, verbs->speed_gbps);
  }
}

/// Network devices that are not on PCI: on paravirtual buses, USB, within a system on a chip.
void add_other_nics(const Sysfs& files, Graph& graph) {
  const std::vector<int> numa_nodes = graph.of(NodeKind::numa);
  for (const std::string& name : hardware_interfaces(files)) {
    if (!pci_of(files, "/sys/class/net/" + name + "/device").empty()) continue;
    Node node;
    node.kind = NodeKind::nic;
    node.name = name;
    node.parent = numa_nodes.size() == 1 ? numa_nodes.front() : 0;
    node.nic.interfaces = {name};
    node.nic.ports = 1;
    node.nic.speed_gbps = interface_speed(files, name);
    graph.add(std::move(node));
  }
}

template <typename Map>
const typename Map::mapped_type* found_in(const Map& map, const std::string& key) {
  const auto entry = map.find(key);
  return entry == map.end() ? nullptr : &entry->second;
}

}  // namespace

Graph read_sysfs(const Sysfs& files) { return SysfsReader(files).read(); }

void complete_from_sysfs(const Sysfs& files, Graph& graph) {
  const auto interfaces = interfaces_by_pci(files);
  const auto verbs = verbs_by_pci(files);
  const bool gdr = gpu_memory_registers(files);
  for (Node& node : graph.nodes) {
    if (!node.pci.empty() && node.uplink_gbytes == 0) node.uplink_gbytes = uplink_of(files, node.pci);
    if (node.kind == NodeKind::gpu) {
      if (const std::string model = nvidia_model(files, node.pci); !model.empty()) node.name = model;
      if (node.sm == 0) node.sm = sm_of_device(node.vendor, node.device);
    }
    if (node.kind != NodeKind::nic) continue;
    complete_nic(node, found_in(interfaces, node.pci), found_in(verbs, node.pci), gdr);
  }
  add_other_nics(files, graph);
  number_devices(graph);
}

}  // namespace tutti
