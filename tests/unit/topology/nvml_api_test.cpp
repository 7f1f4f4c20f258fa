#include "topology/nvml_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>

#include "topology/live_machine.h"
#include "topology/rates.h"

namespace tutti {
namespace {

using testing::HasSubstr;

/// A driver with GPUs and links of our making, behind NVML's functions, which take no context: there is one at a time.
struct FakeDriver {
  struct Link {
    int active = 0;
    unsigned bus = 0;  ///< of the other end
    nvml::LinkEnd type = nvml::LinkEnd::gpu;
    unsigned version = 2;
  };
  struct Gpu {
    unsigned bus = 0;
    std::string name;
    int major = 0;
    int minor = 0;
    std::vector<Link> links;
  };
  std::vector<Gpu> gpus;
  nvml::Return init_result = nvml::kSuccess;
  nvml::Return count_result = nvml::kSuccess;
  int started = 0;

  static FakeDriver* now;
  FakeDriver() { now = this; }
  ~FakeDriver() { now = nullptr; }
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  static Gpu& of(nvml::Device device) { return now->gpus[reinterpret_cast<std::uintptr_t>(device) - 1]; }
  static const Link& link_of(nvml::Device device, unsigned link) { return of(device).links.at(link); }
  static void fill(nvml::PciInfo* pci, unsigned bus) {
    *pci = {};
    pci->bus = bus;
    std::snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", bus);
  }

  static NvmlApi api() {
    constexpr nvml::Return invalid = 2;
    NvmlApi api;
    api.init = [] { return ++now->started, now->init_result; };
    api.shutdown = [] { return --now->started, nvml::kSuccess; };
    api.error_string = [](nvml::Return) { return "Driver Not Loaded"; };
    api.device_count = [](unsigned* count) { return *count = static_cast<unsigned>(now->gpus.size()), now->count_result; };
    api.device_by_index = [](unsigned index, nvml::Device* device) {
      *device = reinterpret_cast<nvml::Device>(std::uintptr_t{index} + 1);
      return nvml::kSuccess;
    };
    api.pci_info = [](nvml::Device device, nvml::PciInfo* pci) { return fill(pci, of(device).bus), nvml::kSuccess; };
    api.name = [](nvml::Device device, char* text, unsigned bytes) {
      return std::snprintf(text, bytes, "%s", of(device).name.c_str()), nvml::kSuccess;
    };
    api.capability = [](nvml::Device device, int* major, int* minor) {
      *major = of(device).major;
      *minor = of(device).minor;
      return of(device).major > 0 ? nvml::kSuccess : invalid;
    };
    api.link_state = [](nvml::Device device, unsigned link, int* active) {
      if (link >= of(device).links.size()) return invalid;
      return *active = link_of(device, link).active, nvml::kSuccess;
    };
    api.link_version = [](nvml::Device device, unsigned link, unsigned* version) {
      return *version = link_of(device, link).version, nvml::kSuccess;
    };
    api.link_remote = [](nvml::Device device, unsigned link, nvml::PciInfo* pci) {
      return fill(pci, link_of(device, link).bus), nvml::kSuccess;
    };
    api.link_remote_type = [](nvml::Device device, unsigned link, nvml::LinkEnd* type) {
      return *type = link_of(device, link).type, nvml::kSuccess;
    };
    return api;
  }
};
FakeDriver* FakeDriver::now = nullptr;

/// A machine with GPUs at these buses on one NUMA node.
Graph machine(const std::vector<unsigned>& buses) {
  Graph graph;
  graph.add(Node());
  Node numa;
  numa.kind = NodeKind::numa;
  numa.parent = 0;
  const int parent = graph.add(std::move(numa));
  for (const unsigned bus : buses) {
    Node gpu;
    gpu.kind = NodeKind::gpu;
    gpu.parent = parent;
    gpu.vendor = 0x10de;
    char address[16];
    std::snprintf(address, sizeof address, "0000:%02x:00.0", bus);
    gpu.pci = address;
    gpu.id = static_cast<int>(graph.of(NodeKind::gpu).size());
    graph.add(std::move(gpu));
  }
  return graph;
}

const Node& gpu(const Graph& graph, std::size_t i) {
  return graph.nodes[static_cast<std::size_t>(graph.of(NodeKind::gpu)[i])];
}
Path way(const Graph& graph, std::size_t a, std::size_t b) {
  const std::vector<int> gpus = graph.of(NodeKind::gpu);
  return path_between(graph, gpus[a], gpus[b]);
}

FakeDriver::Link up(unsigned bus, nvml::LinkEnd type = nvml::LinkEnd::gpu, unsigned version = 2) {
  return {1, bus, type, version};
}

TEST(Nvml, NamesGpusAndJoinsThemByTheLinksThatAreUp) {
  FakeDriver driver;
  driver.gpus = {{0x3b, "Tesla V100", 7, 0, {up(0xd8), up(0xd8), {0, 0xd8, nvml::LinkEnd::gpu, 2}}},
                 {0xd8, "Tesla V100", 7, 0, {up(0x3b), up(0x3b), up(0x3b)}}};
  Graph graph = machine({0x3b, 0xd8});
  const NvmlApi api = FakeDriver::api();
  ASSERT_TRUE(complete_from_nvml(api, graph).ok());
  EXPECT_EQ(gpu(graph, 0).name, "Tesla V100");
  EXPECT_EQ(gpu(graph, 1).sm, 70);
  EXPECT_EQ(way(graph, 0, 1).text(), "NV2") << "a link that only one end has up carries nothing";
  EXPECT_DOUBLE_EQ(way(graph, 0, 1).gbytes, 50);
  EXPECT_EQ(graph.links.size(), 1u);
  EXPECT_EQ(driver.started, 0) << "what was started is stopped";
  ASSERT_TRUE(complete_from_nvml(api, graph).ok());
  EXPECT_EQ(graph.links.size(), 1u) << "a second time adds nothing";
}

TEST(Nvml, SwitchesThatSysfsDoesNotShowAreMadeOnce) {
  FakeDriver driver;
  const auto nv_switch = [](unsigned bus) { return up(bus, nvml::LinkEnd::nv_switch, 7); };
  for (const unsigned bus : {0x0fu, 0x2du, 0x44u}) {
    driver.gpus.push_back({bus, "NVIDIA H100", 9, 0, {nv_switch(0x1a), nv_switch(0x1a), nv_switch(0x1b)}});
  }
  Graph graph = machine({0x0f, 0x2d, 0x44});
  ASSERT_TRUE(complete_from_nvml(FakeDriver::api(), graph).ok());
  EXPECT_EQ(graph.of(NodeKind::nv_switch).size(), 2u);
  EXPECT_EQ(way(graph, 0, 2).text(), "NV3");
  EXPECT_DOUBLE_EQ(way(graph, 0, 2).gbytes, 75) << "25 GB/s by the compute capability, whatever version the driver claims";
}

TEST(Nvml, WithoutACapabilityTheLinksVersionTells) {
  FakeDriver driver;
  driver.gpus = {{0x01, "", 0, 0, {up(0x02, nvml::LinkEnd::gpu, 7)}}, {0x02, "", 0, 0, {up(0x01, nvml::LinkEnd::gpu, 7)}}};
  Graph graph = machine({0x01, 0x02});
  graph.nodes[2].name = "a name of /proc's";
  ASSERT_TRUE(complete_from_nvml(FakeDriver::api(), graph).ok());
  EXPECT_DOUBLE_EQ(way(graph, 0, 1).gbytes, 50);
  EXPECT_EQ(gpu(graph, 0).name, "a name of /proc's") << "an empty name is none";
}

TEST(Nvml, GpusThatTheGraphLacksAndTheirLinksArePassedOver) {
  FakeDriver driver;
  driver.gpus = {{0x01, "A", 8, 0, {up(0x02), up(0x03)}}, {0x02, "B", 8, 0, {up(0x01)}}, {0x03, "C", 8, 0, {up(0x01)}}};
  Graph graph = machine({0x01, 0x02});
  ASSERT_TRUE(complete_from_nvml(FakeDriver::api(), graph).ok());
  EXPECT_EQ(graph.of(NodeKind::gpu).size(), 2u);
  EXPECT_EQ(graph.links.size(), 1u);
  EXPECT_EQ(way(graph, 0, 1).text(), "NV1");
}

TEST(Nvml, AnOldDriverWithoutTypesOfRemotesStillJoinsGpus) {
  FakeDriver driver;
  driver.gpus = {{0x01, "A", 6, 0, {up(0x02), up(0x77)}}, {0x02, "B", 6, 0, {up(0x01)}}};
  NvmlApi api = FakeDriver::api();
  api.link_remote_type = nullptr;
  Graph graph = machine({0x01, 0x02});
  ASSERT_TRUE(complete_from_nvml(api, graph).ok());
  EXPECT_DOUBLE_EQ(way(graph, 0, 1).gbytes, 20);
  EXPECT_TRUE(graph.of(NodeKind::nv_switch).empty());
}

TEST(Nvml, LinksOfPowersCpusEndAtTheNode) {
  FakeDriver driver;
  driver.gpus = {{0x01, "A", 7, 0, {up(0x77, nvml::LinkEnd::ibm_npu), up(0x77, nvml::LinkEnd::ibm_npu)}}};
  Graph graph = machine({0x01});
  ASSERT_TRUE(complete_from_nvml(FakeDriver::api(), graph).ok());
  EXPECT_EQ(path_between(graph, 2, 1).text(), "NV2");
}

TEST(Nvml, ADriverThatDoesNotStartLeavesTheGraphAndSaysWhy) {
  FakeDriver driver;
  driver.init_result = 9;
  Graph graph = machine({0x01});
  const Status status = complete_from_nvml(FakeDriver::api(), graph);
  EXPECT_EQ(status.code(), TUTTI_SYSTEM_ERROR);
  EXPECT_THAT(status.text(), HasSubstr("NVML cannot start: Driver Not Loaded"));
  EXPECT_EQ(driver.started, 1) << "what did not start is not stopped";
  driver.init_result = nvml::kSuccess;
  driver.count_result = 9;
  EXPECT_THAT(complete_from_nvml(FakeDriver::api(), graph).text(), HasSubstr("cannot count"));
  EXPECT_EQ(graph.nodes.size(), 3u);
}

TEST(Nvml, TheLibraryIsFoundOrNot) {
  const NvmlApi* api = load_nvml();
  EXPECT_EQ(load_nvml(), api) << "loaded once";
  if (api == nullptr) GTEST_SKIP() << "libnvidia-ml.so.1 is not installed";
  Graph graph = read_live();
  for (const int index : graph.of(NodeKind::gpu)) {
    const Node& found = graph.nodes[static_cast<std::size_t>(index)];
    EXPECT_TRUE(found.vendor != 0x10de || found.sm > 0) << found.pci;
  }
}

TEST(Rates, AreTheDataSheets) {
  EXPECT_DOUBLE_EQ(nvlink_gbytes(60), 20);
  EXPECT_DOUBLE_EQ(nvlink_gbytes(70), 25);
  EXPECT_DOUBLE_EQ(nvlink_gbytes(86), 14.0625);
  EXPECT_DOUBLE_EQ(nvlink_gbytes(90), 25);
  EXPECT_DOUBLE_EQ(nvlink_gbytes(100), 50);
  EXPECT_DOUBLE_EQ(nvlink_gbytes(0), 25) << "unknown";
  EXPECT_DOUBLE_EQ(nvlink_gbytes_of_version(1), 20);
  EXPECT_DOUBLE_EQ(nvlink_gbytes_of_version(99), 25) << "unknown";
  EXPECT_DOUBLE_EQ(xgmi_gbytes("908"), 46);
  EXPECT_DOUBLE_EQ(xgmi_gbytes("gfx90a"), xgmi_gbytes("910"));
  EXPECT_DOUBLE_EQ(xgmi_gbytes("gfx942"), 64);
  EXPECT_DOUBLE_EQ(xgmi_gbytes(""), 46) << "unknown";
  EXPECT_DOUBLE_EQ(between_packages_gbytes({"x86_64", "GenuineIntel", 6, 143}), 22);
  EXPECT_DOUBLE_EQ(between_packages_gbytes({"x86_64", "AuthenticAMD", 143, 49}), 16);
  EXPECT_DOUBLE_EQ(between_packages_gbytes({"arm64", "", 0, 0}), 6);
  EXPECT_DOUBLE_EQ(between_packages_gbytes({}), 10) << "unknown";
  EXPECT_EQ(sm_of_device(0x10de, 0x2330), 90);
  EXPECT_EQ(sm_of_device(0x1002, 0x2330), 0);
}

TEST(Rates, APcieLinkIsFoundByWhatItCarries) {
  for (const char* speed : {"2.5 GT/s PCIe", "8.0 GT/s PCIe", "16.0 GT/s PCIe", "32.0 GT/s PCIe", "64.0 GT/s PCIe"}) {
    const PcieLink link = pcie_link(pcie_gbytes(speed, 16));
    EXPECT_EQ(link.speed, speed);
    EXPECT_EQ(link.width, 16);
  }
  EXPECT_EQ(pcie_link(7.876923).width, 8) << "not 5 GT/s x 16, which is 8";
  EXPECT_EQ(pcie_link(.2).width, 0);
  EXPECT_EQ(pcie_link(0).width, 0);
}

}  // namespace
}  // namespace tutti
