#include "topology/live_machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <sstream>

#include "tests/unit/topology/fake_files.h"
#include "topology/read_sysfs.h"
#include "topology/render.h"

namespace tutti {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Node& node(const Graph& graph, int index) { return graph.nodes[static_cast<std::size_t>(index)]; }

/// A PCI function at a path below /sys/devices, its last part being its address.
void pci(FakeFiles& fake, const std::string& path, const char* pci_class, const char* vendor, int numa) {
  const std::string folder = "/sys/devices/" + path;
  const std::string address = path.substr(path.rfind('/') + 1);
  fake.file(folder + "/class", pci_class).file(folder + "/vendor", vendor).file(folder + "/device", "0x2330");
  fake.file(folder + "/numa_node", std::to_string(numa)).file(folder + "/max_link_speed", "32.0 GT/s PCIe");
  fake.file(folder + "/max_link_width", "16").link("/sys/bus/pci/devices/" + address, folder);
}

/// Two packages with two cores of two CPUs each; on the first a switch with a GPU and a NIC, on the second another GPU.
void two_socket_machine(FakeFiles& fake) {
  fake.file("/sys/devices/system/cpu/online", "0-7").file("/proc/sys/kernel/hostname", "node7");
  for (int cpu = 0; cpu < 8; ++cpu) {
    const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu);
    const int core = cpu % 4;
    const std::string siblings = std::to_string(core) + "," + std::to_string(core + 4);
    fake.file(folder + "/topology/physical_package_id", std::to_string(core / 2));
    fake.file(folder + "/topology/core_id", std::to_string(core % 2))
        .file(folder + "/topology/thread_siblings_list", siblings);
    fake.file(folder + "/cache/index0/level", "2").file(folder + "/cache/index0/type", "Unified");
    fake.file(folder + "/cache/index0/size", "1024K").file(folder + "/cache/index0/shared_cpu_list", siblings);
  }
  for (int numa = 0; numa < 2; ++numa) {
    const std::string folder = "/sys/devices/system/node/node" + std::to_string(numa);
    fake.file(folder + "/cpulist", numa == 0 ? "0-1,4-5" : "2-3,6-7");
    fake.file(folder + "/meminfo", "Node " + std::to_string(numa) + " MemTotal:       1048576 kB");
  }
  const std::string upstream = "pci0000:00/0000:00:01.0/0000:01:00.0";
  pci(fake, upstream + "/0000:02:00.0/0000:03:00.0", "0x030200", "0x10de", 0);
  pci(fake, upstream + "/0000:02:01.0/0000:04:00.0", "0x020700", "0x15b3", 0);
  pci(fake, "pci0000:80/0000:80:01.0/0000:81:00.0", "0x030200", "0x10de", 1);
  pci(fake, "pci0000:80/0000:80:02.0", "0x030000", "0x1a03", 1);
  const std::string nic = "/sys/devices/" + upstream + "/0000:02:01.0/0000:04:00.0";
  fake.folder(nic + "/net/ib0").folder(nic + "/infiniband/mlx5_0");
  fake.file("/sys/class/net/ib0/speed", "200000").link("/sys/class/net/ib0/device", nic);
  fake.file("/sys/class/infiniband/mlx5_0/ports/1/rate", "200 Gb/sec (4X HDR)");
  fake.link("/sys/class/infiniband/mlx5_0/device", nic).folder("/sys/module/nvidia_peermem");
  fake.file("/sys/class/net/lo/speed", "0");
  fake.file("/proc/driver/nvidia/gpus/0000:03:00.0/information", "Model: \t\t NVIDIA H100\nIRQ: 5");
}

TEST(ReadSysfs, SeesPackagesNodesCoresCachesAndDevices) {
  FakeFiles fake;
  two_socket_machine(fake);
  const Graph graph = read_live(nullptr, fake.files());
  EXPECT_EQ(graph.source, "sysfs");
  EXPECT_EQ(graph.nodes[0].name, "node7");
  ASSERT_EQ(graph.of(NodeKind::package).size(), 2u);
  ASSERT_EQ(graph.of(NodeKind::numa).size(), 2u);
  EXPECT_EQ(graph.cores.size(), 4u);
  EXPECT_EQ(graph.cores[3].numa, 1);
  EXPECT_EQ(graph.caches.size(), 4u);
  EXPECT_EQ(graph.caches[0].bytes, 1u << 20);
  const Node& numa = node(graph, graph.of(NodeKind::numa)[1]);
  EXPECT_THAT(numa.cpus, ElementsAre(2, 3, 6, 7));
  EXPECT_EQ(numa.memory_bytes, 1u << 30);
  EXPECT_EQ(node(graph, numa.parent).kind, NodeKind::package);
  EXPECT_EQ(node(graph, numa.parent).id, 1);
}

TEST(ReadSysfs, PlacesGpusAndNicsAndKnowsTheWayBetweenThem) {
  FakeFiles fake;
  two_socket_machine(fake);
  const Graph graph = read_live(nullptr, fake.files());
  const std::vector<int> gpus = graph.of(NodeKind::gpu);
  const std::vector<int> nics = graph.of(NodeKind::nic);
  ASSERT_EQ(gpus.size(), 2u) << "a console is no GPU";
  ASSERT_EQ(nics.size(), 1u) << "the loopback is no NIC";
  EXPECT_EQ(node(graph, gpus[0]).name, "NVIDIA H100");
  EXPECT_EQ(graph.numa_id(gpus[0]), 0);
  EXPECT_EQ(graph.numa_id(gpus[1]), 1);
  EXPECT_NEAR(node(graph, gpus[0]).uplink_gbytes, 63.0, .1);
  const Node& nic = node(graph, nics[0]);
  EXPECT_EQ(nic.name, "mlx5_0");
  EXPECT_THAT(nic.nic.interfaces, ElementsAre("ib0"));
  EXPECT_DOUBLE_EQ(nic.nic.speed_gbps, 200);
  EXPECT_TRUE(nic.nic.verbs);
  EXPECT_TRUE(nic.nic.gdr);
  EXPECT_EQ(path_between(graph, gpus[0], nics[0]).text(), "PIX");
  EXPECT_EQ(path_between(graph, gpus[1], nics[0]).text(), "SYS");
  EXPECT_EQ(device_paths(graph).size(), 3u);
}

TEST(ReadSysfs, ANicNeedsNoPciButHardware) {
  FakeFiles fake;
  fake.folder("/sys/devices/vmbus/netvsc").link("/sys/class/net/eth3/device", "/sys/devices/vmbus/netvsc");
  fake.file("/sys/class/net/eth3/speed", "40000").folder("/sys/class/net/veth0");
  const Graph graph = read_live(nullptr, fake.files());
  const std::vector<int> nics = graph.of(NodeKind::nic);
  ASSERT_EQ(nics.size(), 1u);
  EXPECT_EQ(node(graph, nics[0]).name, "eth3");
  EXPECT_DOUBLE_EQ(node(graph, nics[0]).nic.speed_gbps, 40);
  EXPECT_EQ(graph.numa_id(nics[0]), 0);
}

TEST(ReadSysfs, AMachineThatShowsNothingHasOneNodeWithTheAllowedCpus) {
  FakeFiles fake;
  const Graph graph = read_live(nullptr, fake.files());
  ASSERT_EQ(graph.of(NodeKind::numa).size(), 1u);
  EXPECT_EQ(node(graph, graph.of(NodeKind::numa)[0]).cpus, cpu_limits(fake.files()).allowed);
}

TEST(ReadHwloc, ASyntheticMachineHasItsPackagesNodesCoresAndCaches) {
  const HwlocApi* api = load_hwloc();
  if (api == nullptr) GTEST_SKIP() << "libhwloc.so.15 is not installed";
  const auto objects = read_hwloc(*api, "pack:2 numa:2 l3:1(size=8388608) core:3 l2:1(size=524288) pu:2");
  ASSERT_TRUE(objects.ok()) << objects.status().text();
  const auto graph = graph_of(*objects);
  ASSERT_TRUE(graph.ok()) << graph.status().text();
  EXPECT_EQ(graph->of(NodeKind::package).size(), 2u);
  ASSERT_EQ(graph->of(NodeKind::numa).size(), 4u);
  EXPECT_EQ(graph->cores.size(), 12u);
  EXPECT_EQ(graph->cores[11].numa, 3);
  EXPECT_EQ(graph->nodes[0].cpus.size(), 24u);
  EXPECT_EQ(std::count_if(graph->caches.begin(), graph->caches.end(), [](const Cache& c) { return c.bytes == 524288; }),
            12);
  const Node& last = node(*graph, graph->of(NodeKind::numa)[3]);
  EXPECT_EQ(last.cpus.size(), 6u);
  EXPECT_EQ(node(*graph, last.parent).kind, NodeKind::package);
  EXPECT_EQ(node(*graph, last.parent).id, 1);
}

TEST(ReadHwloc, ADescriptionThatIsNoneIsRefused) {
  const HwlocApi* api = load_hwloc();
  if (api == nullptr) GTEST_SKIP() << "libhwloc.so.15 is not installed";
  EXPECT_EQ(read_hwloc(*api, "pack:two").status().code(), TUTTI_INVALID_ARGUMENT);
}

TEST(ReadLive, AHwlocThatFailsIsReplacedBySysfs) {
  const HwlocApi* api = load_hwloc();
  if (api == nullptr) GTEST_SKIP() << "libhwloc.so.15 is not installed";
  HwlocApi broken = *api;
  broken.topology_load = [](hwloc_topology_t) { return -1; };
  const Graph graph = read_live(&broken);
  EXPECT_EQ(graph.source, "sysfs");
  EXPECT_FALSE(graph.of(NodeKind::numa).empty());
}

std::vector<std::string> summary(const Graph& graph) {
  std::vector<std::string> lines;
  for (const NodeKind kind : {NodeKind::package, NodeKind::numa, NodeKind::gpu, NodeKind::nic}) {
    for (const int index : graph.of(kind)) {
      const Node& n = node(graph, index);
      lines.push_back(node_label(n) + " " + n.pci + " cpus " + cpu_list_text(n.cpus) + " numa " +
                      std::to_string(graph.numa_id(index)) + " interfaces " + std::to_string(n.nic.interfaces.size()));
    }
  }
  lines.push_back("cores " + std::to_string(graph.cores.size()));
  for (const int level : {1, 2, 3}) {
    std::uint64_t bytes = 0;
    for (const Cache& cache : graph.caches) {
      bytes += cache.level == level && cache.kind != CacheKind::instruction ? cache.bytes : 0;
    }
    lines.push_back("L" + std::to_string(level) + " " + std::to_string(bytes));
  }
  return lines;
}

TEST(ReadLive, HwlocAndSysfsAgreeOnThisMachine) {
  const HwlocApi* api = load_hwloc();
  if (api == nullptr) GTEST_SKIP() << "libhwloc.so.15 is not installed";
  EXPECT_EQ(summary(read_live(api)), summary(read_live(nullptr)));
}

/// What a command prints; empty where it cannot be run.
std::string output_of(const char* command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command, "r"), &::pclose);
  std::string all;
  std::array<char, 4096> part;
  while (pipe && ::fgets(part.data(), static_cast<int>(part.size()), pipe.get()) != nullptr) all += part.data();
  return all;
}

TEST(ReadLive, AgreesWithLscpuUnderARestrictedAffinityToo) {
  // Columns CPU, core, socket, node: one line for each CPU that is online.
  const std::string text = output_of("lscpu -p=CPU,CORE,SOCKET,NODE 2>/dev/null");
  if (text.empty()) GTEST_SKIP() << "lscpu is not installed";
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  CPU_SET(cpu_limits().allowed.front(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const Graph graph = read_live();
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);

  std::istringstream lines(text);
  int cpus = 0;
  std::set<int> cores;
  for (std::string line; std::getline(lines, line);) {
    int cpu = 0, core = 0, package = 0, numa = -1;
    if (std::sscanf(line.c_str(), "%d,%d,%d,%d", &cpu, &core, &package, &numa) < 3) continue;
    ++cpus;
    cores.insert(core);
    EXPECT_TRUE(std::binary_search(graph.nodes[0].cpus.begin(), graph.nodes[0].cpus.end(), cpu)) << cpu;
    for (const Core& ours : graph.cores) {
      if (!std::binary_search(ours.cpus.begin(), ours.cpus.end(), cpu)) continue;
      EXPECT_EQ(ours.package, package) << "CPU " << cpu;
      EXPECT_TRUE(numa < 0 || ours.numa == numa) << "CPU " << cpu << " is near node " << numa << ", not " << ours.numa;
    }
  }
  EXPECT_EQ(graph.nodes[0].cpus.size(), static_cast<std::size_t>(cpus)) << "CPUs outside the affinity are still there";
  EXPECT_EQ(graph.cores.size(), cores.size());
  EXPECT_EQ(graph.limits.effective(), 1);
}

TEST(ReadLive, InAnotherNetworkNamespaceTheInterfacesOfThisOneAreGone) {
  const std::size_t here = read_live().of(NodeKind::nic).size();
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNET) != 0) _exit(99);
    const Graph graph = read_live();
    std::size_t interfaces = 0;
    for (const int nic : graph.of(NodeKind::nic)) interfaces += node(graph, nic).nic.interfaces.size();
    // A function of PCI is still to be seen, as lstopo sees it; what is not on PCI leaves with its interface.
    _exit(interfaces == 0 && graph.of(NodeKind::nic).size() <= here ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 99) GTEST_SKIP() << "this process may make no network namespace";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(ReadLive, AgreesWithLstopo) {
  const std::string text = output_of("lstopo-no-graphics --only pu --disallowed 2>/dev/null");
  if (text.empty()) GTEST_SKIP() << "lstopo-no-graphics is not installed";
  EXPECT_EQ(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')), read_live().nodes[0].cpus.size());
}

TEST(Render, ShowsEveryNodeOnce) {
  FakeFiles fake;
  two_socket_machine(fake);
  const Graph graph = read_live(nullptr, fake.files());
  const std::string tree = text_tree(graph);
  const std::string dot = dot_graph(graph);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    EXPECT_THAT(tree, HasSubstr(node_label(graph.nodes[i]) + ": "));
    EXPECT_THAT(dot, HasSubstr("n" + std::to_string(i) + " [label=\"" + node_label(graph.nodes[i])));
  }
  EXPECT_THAT(tree, HasSubstr("      host_bridge0: pci0000:00"));
  EXPECT_THAT(tree, HasSubstr("200 Gbit/s"));
  EXPECT_THAT(path_matrix(graph), HasSubstr("gpu0        X      SYS    PIX"));
}

}  // namespace
}  // namespace tutti
