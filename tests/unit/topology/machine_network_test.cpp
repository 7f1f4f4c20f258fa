#include "topology/machine_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "tests/unit/topology/machines.h"
#include "topology/hwloc_xml.h"
#include "topology/nccl_xml.h"

namespace tutti {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names(const Network& network, int a, int b) {
  std::vector<std::uint32_t> way;
  network.route(a, b, way);
  std::vector<std::string> found;
  for (const std::uint32_t link : way) found.push_back(network.link(link).name);
  return found;
}

double bottleneck(const Network& network, int a, int b) {
  std::vector<std::uint32_t> way;
  network.route(a, b, way);
  double least = std::numeric_limits<double>::infinity();
  for (const std::uint32_t link : way) least = std::min(least, network.link(link).bytes_per_second);
  return least / 1e9;
}

TEST(MachineNetwork, ABundleIsOneLinkEachWay) {
  const test::Machines machines = test::dgx1(true);
  const MachineNetwork network = *network_of(machines.graph, machines.graph.of(NodeKind::gpu));
  EXPECT_THAT(names(network, 0, 3), ElementsAre("gpu0 > gpu3 (NVLink)"));
  EXPECT_THAT(names(network, 3, 0), ElementsAre("gpu3 > gpu0 (NVLink)"));
  EXPECT_DOUBLE_EQ(bottleneck(network, 0, 3), 50);
  EXPECT_DOUBLE_EQ(bottleneck(network, 0, 1), 25);
  EXPECT_TRUE(network.peers(0, 3));
  EXPECT_FALSE(network.peers(0, 7));
}

TEST(MachineNetwork, WithoutNvlinkTheWayGoesUpAndDownTheTreeAndBetweenPackages) {
  const test::Machines machines = test::dgx1(true);
  const MachineNetwork network = *network_of(machines.graph, machines.graph.of(NodeKind::gpu));
  EXPECT_THAT(names(network, 0, 7),
              ElementsAre("gpu0 > bridge0 (PCIe)", "bridge0 > host_bridge0 (PCIe)", "package0 > package1",
                          "bridge3 < host_bridge3 (PCIe)", "gpu7 < bridge3 (PCIe)"));
  EXPECT_TRUE(names(network, 4, 4).empty());
}

TEST(MachineNetwork, ByASwitchTheWayIsUpAndDown) {
  const test::Machines machines = test::switched(4, 6);
  const MachineNetwork network = *network_of(machines.graph, machines.graph.of(NodeKind::gpu));
  EXPECT_THAT(names(network, 1, 3), ElementsAre("gpu1 > NVSwitch", "NVSwitch > gpu3"));
  EXPECT_DOUBLE_EQ(bottleneck(network, 1, 3), 150);
}

TEST(MachineNetwork, UnknownSpeedsAreThoseOfTheNeighborsAndElseNccls) {
  test::Machines machines;
  const int host = machines.host_bridge(machines.package(machines.machine()));
  const int a = machines.gpu(machines.bridge(host, 0), 16);
  const int b = machines.gpu(machines.bridge(host, 32), 0);
  const int c = machines.gpu(machines.bridge(host, 0), 0);
  const MachineNetwork network = *network_of(machines.graph, {a, b, c});
  EXPECT_DOUBLE_EQ(bottleneck(network, 0, 1), 16) << "the bridge above a is no narrower than a";
  EXPECT_DOUBLE_EQ(bottleneck(network, 1, 2), 12) << "nothing is known of c";
  machines.graph.nodes[static_cast<std::size_t>(a)].uplink_gbytes = 64;
  EXPECT_DOUBLE_EQ(bottleneck(*network_of(machines.graph, {a, b}), 0, 1), 32) << "b is as wide as its bridge";
}

TEST(MachineNetwork, BetweenMachinesTheWayIsByTheNearestNics) {
  const test::Machines machines = test::pod(2, 8);
  const MachineNetwork network = *network_of(machines.graph, machines.graph.of(NodeKind::gpu));
  EXPECT_EQ(network.machines(), 2);
  EXPECT_THAT(names(network, 1, 10), ElementsAre("machine0/gpu1 > bridge1 (PCIe)", "machine0/nic1 < bridge1 (PCIe)",
                                                 "machine0/nic1 > network", "network > machine1/nic10",
                                                 "machine1/nic10 > bridge10 (PCIe)", "machine1/gpu10 < bridge10 (PCIe)"));
  EXPECT_DOUBLE_EQ(bottleneck(network, 1, 10), 50);
  ASSERT_EQ(network.nics(1).size(), 1u);
  EXPECT_EQ(network.nics(1)[0].rail, 1);
  EXPECT_THAT(names(network, 0, 5), ElementsAre("machine0/gpu0 > NVSwitch", "NVSwitch > machine0/gpu5"));
}

TEST(MachineNetwork, WithoutGpuMemoryANicIsReachedByTheHost) {
  test::Machines machines = test::pod(2, 1);
  for (const int nic : machines.graph.of(NodeKind::nic))
    machines.graph.nodes[static_cast<std::size_t>(nic)].nic.gdr = false;
  const MachineNetwork network = *network_of(machines.graph, machines.graph.of(NodeKind::gpu));
  EXPECT_FALSE(network.nics(0)[0].gdr);
  EXPECT_THAT(
      names(network, 0, 1),
      ElementsAre("machine0/gpu0 > bridge0 (PCIe)", "machine0/bridge0 > host_bridge0 (PCIe)",
                  "machine0/bridge0 < host_bridge0 (PCIe)", "machine0/nic0 < bridge0 (PCIe)", "machine0/nic0 > network",
                  "network > machine1/nic1", "machine1/nic1 > bridge1 (PCIe)", "machine1/bridge1 > host_bridge2 (PCIe)",
                  "machine1/bridge1 < host_bridge2 (PCIe)", "machine1/gpu1 < bridge1 (PCIe)"));
}

TEST(MachineNetwork, GpusThatShareTheirNearestNicsTakeTurns) {
  test::Machines machines;
  for (int m = 0; m < 2; ++m) {
    const int host = machines.host_bridge(machines.package(machines.machine()));
    const int bridge = machines.bridge(host, 64);
    for (int i = 0; i < 2; ++i) machines.gpu(bridge, 64);
    for (int i = 0; i < 2; ++i) machines.nic(bridge, 100, true);
    machines.nic(host, 100, true);
  }
  const MachineNetwork network = *network_of(machines.graph, machines.graph.of(NodeKind::gpu));
  for (int gpu = 0; gpu < 4; ++gpu) {
    ASSERT_EQ(network.nics(gpu).size(), 2u) << "not the one past the host bridge";
    EXPECT_EQ(network.nics(gpu)[0].rail, gpu % 2);
    EXPECT_EQ(network.nics(gpu)[0].type, PathType::pix);
  }
}

TEST(MachineNetwork, PortsOfOneCardShareItsSlot) {
  test::Machines machines;
  for (int m = 0; m < 2; ++m) {
    const int bridge = machines.bridge(machines.host_bridge(machines.package(machines.machine())), 64);
    machines.gpu(bridge, 64);
    for (int i = 0; i < 2; ++i)
      machines.graph.nodes[static_cast<std::size_t>(machines.nic(bridge, 200, true, 32))].pci = "0000:10:00.0";
  }
  const MachineNetwork network = *network_of(machines.graph, machines.graph.of(NodeKind::gpu));
  ASSERT_EQ(network.nics(0).size(), 2u);
  EXPECT_EQ(network.nics(0)[0].out[1], network.nics(0)[1].out[1]);
  EXPECT_NE(network.nics(0)[0].out[2], network.nics(0)[1].out[2]) << "but each port is its own";
}

TEST(MachineNetwork, NicsAreEndpointsWhereAsked) {
  const test::Machines machines = test::dgx1(true);
  const std::vector<int> gpus = machines.graph.of(NodeKind::gpu);
  const std::vector<int> nics = machines.graph.of(NodeKind::nic);
  const MachineNetwork network = *network_of(machines.graph, {gpus[0], nics[0]});
  EXPECT_THAT(names(network, 0, 1), ElementsAre("gpu0 > bridge0 (PCIe)", "nic0 < bridge0 (PCIe)"));
  EXPECT_EQ(network.label(1), "nic0");
  EXPECT_EQ(network.device(1), nics[0]);
}

TEST(MachineNetwork, WrongDevicesAreRefused) {
  const test::Machines machines = test::dgx1(true);
  const std::vector<int> gpus = machines.graph.of(NodeKind::gpu);
  EXPECT_THAT(network_of(machines.graph, {0}).status().text(), HasSubstr("node 0 of the graph is no GPU"));
  EXPECT_THAT(network_of(machines.graph, {-1}).status().text(), HasSubstr("node -1"));
  EXPECT_THAT(network_of(machines.graph, {gpus[0], gpus[0]}).status().text(), HasSubstr("gpu0 is given twice"));
  test::Machines apart = test::switched(2, 6);
  apart.add_switched_machine(2, 150, 0, 0);
  EXPECT_THAT(network_of(apart.graph, apart.graph.of(NodeKind::gpu)).status().text(), HasSubstr("has no NIC"));
  EXPECT_TRUE(network_of(apart.graph, {apart.graph.of(NodeKind::gpu)[0]}).ok()) << "one machine needs none";
}

std::string samples() {
  const char* shared = getenv("TUTTI_SHARED");
  return (shared != nullptr ? std::string(shared) : TUTTI_DEFAULT_SHARED) + "/data/topologies";
}

/// Whether all PCIe links that a way may pass tell their speeds; those of other ways do not count.
bool known(const Graph& graph, const Path& path) {
  if (path.type == PathType::nvlink || path.type == PathType::xgmi) return path.gbytes > 0;
  for (int node : {path.a, path.b}) {
    for (; node >= 0; node = graph.nodes[static_cast<std::size_t>(node)].parent) {
      const Node& n = graph.nodes[static_cast<std::size_t>(node)];
      if ((n.kind == NodeKind::gpu || n.kind == NodeKind::bridge) && n.uplink_gbytes <= 0) return false;
    }
  }
  return true;
}

// What path_between says is narrowest, is narrowest on the way.
TEST(MachineNetwork, WaysAreThoseOfPathBetweenOnAllSampleMachines) {
  if (!std::filesystem::exists(samples())) GTEST_SKIP() << "no sample files at " << samples();
  int compared = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(samples())) {
    if (entry.path().extension() != ".xml") continue;
    SCOPED_TRACE(entry.path().filename());
    const bool nccl = entry.path().parent_path().filename() == "nccl";
    const Result<Graph> graph = nccl ? read_nccl_xml(entry.path()) : read_hwloc_xml(entry.path());
    ASSERT_TRUE(graph.ok()) << graph.status().text();
    const std::vector<int> gpus = graph->of(NodeKind::gpu);
    const Result<MachineNetwork> network = network_of(*graph, gpus);
    ASSERT_TRUE(network.ok()) << network.status().text();
    for (int a = 0; a < network->endpoints(); ++a) {
      for (int b = 0; b < network->endpoints(); ++b) {
        if (a == b) continue;
        const Path path = path_between(*graph, network->device(a), network->device(b));
        if (known(*graph, path)) {
          EXPECT_NEAR(bottleneck(*network, a, b), path.gbytes, 1e-6) << path.text() << " " << a << " " << b;
        }
        EXPECT_EQ(network->peers(a, b), path.type == PathType::nvlink || path.type == PathType::xgmi);
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 100);
}

}  // namespace
}  // namespace tutti
