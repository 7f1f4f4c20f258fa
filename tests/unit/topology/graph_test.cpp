#include "topology/graph.h"

#include <gtest/gtest.h>

#include "topology/objects.h"
#include "topology/rates.h"
#include "topology/render.h"

namespace tutti {
namespace {

/// A machine of two packages with a NUMA node each, to hang PCIe trees from.
class PathTest : public testing::Test {
 protected:
  PathTest() {
    add(NodeKind::machine, -1);
    for (int i = 0; i < 2; ++i) numa_[i] = add(NodeKind::numa, add(NodeKind::package, 0, i), i);
  }
  int add(NodeKind kind, int parent, int id = 0, double uplink = 0) {
    Node node;
    node.kind = kind;
    node.parent = parent;
    node.id = id;
    node.uplink_gbytes = uplink;
    return graph_.add(std::move(node));
  }
  int host_bridge(int numa) { return add(NodeKind::host_bridge, numa_[numa]); }
  int bridge(int parent, double uplink = 0) { return add(NodeKind::bridge, parent, 0, uplink); }
  int gpu(int parent, double uplink = 0) {
    return add(NodeKind::gpu, parent, static_cast<int>(graph_.of(NodeKind::gpu).size()), uplink);
  }
  void link(int a, int b, LinkKind kind, int count, double gbytes) {
    graph_.links.push_back({a, b, kind, count, gbytes, 0});
  }
  std::string way(int a, int b) {
    EXPECT_EQ(path_between(graph_, a, b).text(), path_between(graph_, b, a).text()) << "a way has one type";
    return path_between(graph_, a, b).text();
  }

  Graph graph_;
  int numa_[2] = {};
};

TEST_F(PathTest, TypesAreThoseOfNvidiaSmi) {
  const int root_port = bridge(host_bridge(0));
  const int upstream = bridge(root_port);
  const int a = gpu(bridge(upstream));
  const int b = gpu(bridge(upstream));
  EXPECT_EQ(way(a, b), "PIX") << "two ports of one switch";
  EXPECT_EQ(way(a, a), "X");

  const int second_upstream = bridge(bridge(upstream));
  const int c = gpu(bridge(second_upstream));
  EXPECT_EQ(way(a, c), "PXB") << "a switch below a switch";

  const int bridge_of_host = graph_.nodes[static_cast<std::size_t>(root_port)].parent;
  const int d = gpu(bridge(bridge_of_host));
  EXPECT_EQ(way(a, d), "PHB") << "two root ports of one host bridge";

  const int e = gpu(bridge(host_bridge(0)));
  EXPECT_EQ(way(a, e), "NODE") << "two host bridges of one NUMA node";

  const int f = gpu(bridge(host_bridge(1)));
  EXPECT_EQ(way(a, f), "SYS") << "two NUMA nodes";
}

TEST_F(PathTest, FunctionsBehindOnePortAreAsNearAsCanBe) {
  const int port = bridge(host_bridge(0));
  EXPECT_EQ(way(gpu(port), gpu(port)), "PIX");
}

TEST_F(PathTest, DevicesOfAHostBridgeWithoutPortsMeetThere) {
  const int host = host_bridge(0);
  EXPECT_EQ(way(gpu(host), gpu(host)), "PHB");
}

TEST_F(PathTest, BandwidthIsTheNarrowestLinks) {
  const int upstream = bridge(bridge(host_bridge(0), 16), 16);
  const int a = gpu(bridge(upstream, 16), 8);
  const int b = gpu(bridge(upstream, 4), 16);
  EXPECT_DOUBLE_EQ(path_between(graph_, a, b).gbytes, 4);
  EXPECT_EQ(path_between(graph_, a, b).hops, 4);
  const int far = gpu(bridge(host_bridge(1), 64), 64);
  const int wide = gpu(bridge(host_bridge(0), 64), 64);
  EXPECT_LT(path_between(graph_, wide, far).gbytes, 64) << "the link between packages is on the way";
  const int unknown = gpu(host_bridge(0));
  EXPECT_DOUBLE_EQ(path_between(graph_, unknown, gpu(graph_.nodes[static_cast<std::size_t>(unknown)].parent)).gbytes, 0);
}

TEST_F(PathTest, NvlinksBeatPcie) {
  const int port = bridge(host_bridge(0));
  const int a = gpu(port, 16);
  const int b = gpu(port, 16);
  link(a, b, LinkKind::nvlink, 2, 40);
  link(b, a, LinkKind::nvlink, 1, 20);
  const Path path = path_between(graph_, a, b);
  EXPECT_EQ(path.text(), "NV3");
  EXPECT_DOUBLE_EQ(path.gbytes, 60);
  EXPECT_EQ(path.hops, 1);
}

TEST_F(PathTest, SwitchesJoinWhatHasLinksToThem) {
  const int port = bridge(host_bridge(0));
  const int a = gpu(port), b = gpu(port), c = gpu(port);
  for (int i = 0; i < 4; ++i) {
    const int nv_switch = add(NodeKind::nv_switch, port, i);
    link(a, nv_switch, LinkKind::nvlink, 3, 75);
    link(nv_switch, b, LinkKind::nvlink, 2, 50);
  }
  EXPECT_EQ(way(a, b), "NV8") << "the fewer links count";
  EXPECT_DOUBLE_EQ(path_between(graph_, a, b).gbytes, 200);
  EXPECT_EQ(path_between(graph_, a, b).hops, 2);
  EXPECT_EQ(way(a, c), "PIX") << "no link of its own";
}

TEST_F(PathTest, XgmiIsNamedAsSuch) {
  const int a = gpu(host_bridge(0)), b = gpu(host_bridge(1));
  link(a, b, LinkKind::xgmi, 1, 50);
  EXPECT_EQ(way(a, b), "XGMI1");
}

TEST_F(PathTest, BetweenMachinesThereIsTheNetwork) {
  const int other = add(NodeKind::machine, -1, 1);
  EXPECT_EQ(way(gpu(host_bridge(0)), gpu(add(NodeKind::host_bridge, other))), "NET");
}

TEST_F(PathTest, OnePathForEachPairOfGpusAndOfGpuAndNic) {
  const int port = bridge(host_bridge(0));
  gpu(port), gpu(port), gpu(port);
  add(NodeKind::nic, port, 0), add(NodeKind::nic, port, 1);
  EXPECT_EQ(device_paths(graph_).size(), 3u + 6u);
}

TEST_F(PathTest, TheMatrixShowsEveryDeviceOnceARowAndALegendOfWhatOccurs) {
  const int port = bridge(host_bridge(0));
  gpu(port);
  gpu(host_bridge(1));
  add(NodeKind::nic, port, 0);
  const std::string matrix = path_matrix(graph_);
  EXPECT_NE(matrix.find("gpu0        X      SYS    PIX"), std::string::npos) << matrix;
  EXPECT_NE(matrix.find("gpu1        SYS    X      SYS"), std::string::npos) << matrix;
  EXPECT_NE(matrix.find("SYS    between NUMA nodes"), std::string::npos) << matrix;
  EXPECT_EQ(matrix.find("NODE   between"), std::string::npos) << matrix;
}

TEST(PcieSpeed, CountsLanesAndTheLineCode) {
  EXPECT_NEAR(pcie_gbytes("2.5 GT/s PCIe", 1), .25, 1e-9);
  EXPECT_NEAR(pcie_gbytes("8.0 GT/s PCIe", 16), 15.754, 1e-3);
  EXPECT_NEAR(pcie_gbytes("16.0 GT/s PCIe", 16), 31.508, 1e-3);
  EXPECT_NEAR(pcie_gbytes("32.0 GT/s PCIe", 16), 63.015, 1e-3);
  EXPECT_EQ(pcie_gbytes("Unknown", 16), 0);
  EXPECT_EQ(pcie_gbytes("8.0 GT/s PCIe", 0), 0);
  EXPECT_EQ(pcie_gbytes("", 16), 0);
}

TEST(Gpus, AreToldFromConsoles) {
  EXPECT_TRUE(is_gpu(0x0302, 0x10de, 0x2330));
  EXPECT_TRUE(is_gpu(0x0300, 0x10de, 0x2330));
  EXPECT_TRUE(is_gpu(0x1200, 0x1002, 0x2330));
  EXPECT_FALSE(is_gpu(0x0300, 0x8086, 0x2330)) << "a processor's display";
  EXPECT_FALSE(is_gpu(0x0300, 0x1a03, 0x2330)) << "a server's console";
  EXPECT_FALSE(is_gpu(0x0300, 0x1234, 0x2330)) << "QEMU's";
  EXPECT_FALSE(is_gpu(0x0403, 0x10de, 0x2330)) << "a GPU's sound";
  EXPECT_FALSE(is_gpu(0x0300, 0x1002, 0x515e)) << "AMD's console";
  EXPECT_TRUE(is_nv_switch(0x0680, 0x10de));
  EXPECT_TRUE(is_network(0x0207));
  EXPECT_FALSE(is_network(0x0302));
}

}  // namespace
}  // namespace tutti
