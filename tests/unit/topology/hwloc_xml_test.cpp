#include "topology/hwloc_xml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "topology/render.h"

namespace tutti {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string sample(const std::string& name) {
  const char* shared = getenv("TUTTI_SHARED");
  return (shared != nullptr ? std::string(shared) : TUTTI_DEFAULT_SHARED) + "/data/topologies/hwloc/" + name;
}

const Node& node(const Graph& graph, int index) { return graph.nodes[static_cast<std::size_t>(index)]; }

std::string version_1() {
  return R"(<?xml version="1.0"?><topology>
    <object type="Machine" os_index="0" cpuset="0x0000000f" nodeset="0x00000003">
      <object type="NUMANode" os_index="0" cpuset="0x00000003" nodeset="0x00000001" local_memory="1073741824">
        <object type="Socket" os_index="0" cpuset="0x00000003" nodeset="0x00000001">
          <object type="Cache" cpuset="0x00000003" cache_size="1048576" depth="2" cache_linesize="64" cache_type="0">
            <object type="Core" os_index="0" cpuset="0x00000003"><object type="PU" os_index="0" cpuset="0x00000001"/></object>
          </object></object>
        <object type="Bridge" os_index="0" bridge_type="0-1" depth="0" bridge_pci="0000:[00-07]">
          <object type="PCIDev" os_index="1" pci_busid="0000:07:00.0" pci_type="0302 [10de:1021] [10de:097d] a1" pci_link_speed="8.0"/>
          <object type="PCIDev" os_index="2" pci_busid="0000:06:00.0" pci_type="0280 [15b3:1003] [15b3:0000] 00" pci_link_speed="4.0">
            <object type="OSDev" name="ib0" osdev_type="2"/><object type="OSDev" name="mlx4_0" osdev_type="3"/>
          </object></object>
      </object>
      <object type="NUMANode" os_index="1" cpuset="0x0000000c" nodeset="0x00000002" local_memory="2147483648">
        <object type="Socket" os_index="1" cpuset="0x0000000c" nodeset="0x00000002"/>
      </object>
    </object></topology>)";
}

TEST(HwlocXml, Version1WithNodesAroundPackagesIsTheSameGraph) {
  const auto objects = parse_hwloc_xml(version_1());
  ASSERT_TRUE(objects.ok()) << objects.status().text();
  const auto graph = graph_of(*objects);
  ASSERT_TRUE(graph.ok());
  const std::vector<int> numa = graph->of(NodeKind::numa);
  ASSERT_EQ(numa.size(), 2u);
  EXPECT_EQ(node(*graph, numa[1]).memory_bytes, 2u << 30);
  EXPECT_EQ(node(*graph, node(*graph, numa[1]).parent).kind, NodeKind::package);
  ASSERT_EQ(graph->of(NodeKind::gpu).size(), 1u);
  const Node& nic = node(*graph, graph->of(NodeKind::nic)[0]);
  EXPECT_EQ(nic.name, "mlx4_0");
  EXPECT_TRUE(nic.nic.verbs);
  EXPECT_THAT(nic.nic.interfaces, ElementsAre("ib0"));
  const std::vector<Path> paths = device_paths(*graph);
  ASSERT_EQ(paths.size(), 1u);
  EXPECT_EQ(paths[0].text(), "PHB");
  EXPECT_DOUBLE_EQ(paths[0].gbytes, 4);
  EXPECT_EQ(graph->numa_id(graph->of(NodeKind::gpu)[0]), 0);
  ASSERT_EQ(graph->caches.size(), 1u);
  EXPECT_EQ(graph->caches[0].level, 2);
}

TEST(HwlocXml, AHostileFileIsRefusedWithTheReason) {
  struct Case {
    std::string from;
    std::string to;
    const char* why;
  };
  for (const Case& c :
       {Case{"<topology>", "<topology version=\"9.0\">", "version"},
        Case{"<topology>", "<topology version=\"x\">", "version"}, Case{"</topology>", "", "byte"},
        Case{"\"Machine\"", "\"Core\"", "no machine"}, Case{"cpuset=\"0x0000000f\"", "cpuset=\"0xf...f\"", "cpuset"},
        Case{"cpuset=\"0x0000000f\"", "cpuset=\"0xzz\"", "cpuset"},
        Case{"cpuset=\"0x0000000f\"", "cpuset=\"0x123456789\"", "cpuset"},
        Case{"cpuset=\"0x0000000f\"", "cpuset=\"0x1" + std::string(5000, ',') + "\"", "cpuset"},
        Case{"local_memory=\"1073741824\"", "local_memory=\"-1\"", "local_memory"},
        Case{"cache_type=\"0\"", "cache_type=\"7\"", "cache_type"},
        Case{"pci_link_speed=\"8.0\"", "pci_link_speed=\"-8\"", "pci_link_speed"},
        Case{"pci_type=\"0302 [10de:1021]", "pci_type=\"03", "pci_type"},
        Case{"pci_busid=\"0000:07:00.0\"", "", "pci_busid"}, Case{"NUMANode\" os_index=\"0\"", "NUMANode\"", "os_index"}}) {
    std::string text = version_1();
    ASSERT_NE(text.find(c.from), std::string::npos) << c.from;
    text.replace(text.find(c.from), c.from.size(), c.to);
    auto objects = parse_hwloc_xml(text);
    const Status status = objects.ok() ? graph_of(*objects).status() : objects.status();
    EXPECT_EQ(status.code(), TUTTI_INVALID_ARGUMENT) << c.to;
    EXPECT_THAT(status.text(), HasSubstr(c.why)) << c.to;
  }
}

TEST(HwlocXml, DeepNestingIsRefusedNotFollowed) {
  std::string text = "<topology version=\"2.0\">";
  for (int i = 0; i < 5000; ++i) text += "<object type=\"Machine\">";
  for (int i = 0; i < 5000; ++i) text += "</object>";
  EXPECT_THAT(parse_hwloc_xml(text + "</topology>").status().text(), HasSubstr("deeper"));
}

TEST(HwlocXml, MoreOfAKindThanAMachineHasIsRefused) {
  struct Case {
    const char* object;
    int count;
    const char* why;
  };
  for (const Case& c :
       {Case{"<object type=\"Package\" os_index=\"0\"/>", 1025, "more packages"},
        Case{"<object type=\"NUMANode\" os_index=\"0\"/>", 1025, "more NUMA nodes"},
        Case{"<object type=\"Core\"/>", 65537, "more cores"}, Case{"<object type=\"L2Cache\"/>", 262145, "more caches"},
        Case{"<object type=\"Misc\" cpuset=\"0xffffffff,0xffffffff\"/>", 16385, "more CPUs and NUMA"}}) {
    std::string text = "<topology version=\"2.0\"><object type=\"Machine\">";
    for (int i = 1; i < c.count; ++i) text += c.object;
    EXPECT_TRUE(parse_hwloc_xml(text + "</object></topology>").ok()) << c.why;
    EXPECT_THAT(parse_hwloc_xml(text + c.object + "</object></topology>").status().text(), HasSubstr(c.why));
  }
}

TEST(HwlocXml, NumaNodesAndCoresFindTheirPlacesByTheirCpus) {
  const auto graph = graph_of_hwloc_xml(R"(<topology version="2.0"><object type="Machine" cpuset="0xff">
      <object type="NUMANode" os_index="7" cpuset="0x0f"/><object type="NUMANode" os_index="9" cpuset="0xff"/>
      <object type="Package" os_index="0" cpuset="0x0f"><object type="Core" os_index="0" cpuset="0x03"/></object>
      <object type="Package" os_index="1" cpuset="0xf0"><object type="Core" os_index="0" cpuset="0xc0"/></object>
      </object></topology>)");
  ASSERT_TRUE(graph.ok()) << graph.status().text();
  const std::vector<int> numa = graph->of(NodeKind::numa);
  ASSERT_EQ(numa.size(), 2u);
  const auto parent = [&](int node) { return graph->nodes[static_cast<std::size_t>(node)].parent; };
  EXPECT_EQ(parent(numa[0]), graph->of(NodeKind::package)[0]);
  EXPECT_EQ(parent(numa[1]), 0) << "it is in no package";
  ASSERT_EQ(graph->cores.size(), 2u);
  EXPECT_EQ(graph->cores[1].numa, 9);
}

TEST(HwlocXml, NoPrefixOfAFileAndNoSingleChangedByteCrashes) {
  const std::string whole = version_1();
  for (std::size_t n = 0; n < whole.size(); ++n) {
    const auto cut = parse_hwloc_xml(std::string_view(whole).substr(0, n));
    EXPECT_TRUE(!cut.ok() || n + 1 >= whole.size() - 10) << n;
  }
  for (std::size_t n = 0; n < whole.size(); ++n) {
    std::string changed = whole;
    changed[n] = static_cast<char>(changed[n] ^ 0x15);
    const auto objects = parse_hwloc_xml(changed);
    if (!objects.ok()) continue;
    const auto graph = graph_of(*objects);
    EXPECT_TRUE(!graph.ok() || !text_tree(*graph).empty()) << n;
  }
}

TEST(HwlocXml, AMissingFileIsNamed) {
  EXPECT_THAT(read_hwloc_xml("/no/such/machine.xml").status().text(), HasSubstr("/no/such/machine.xml"));
}

/// What a sample file holds, counted by hand (grep) in its XML; an InfiniBand adapter of the old class 0c06 is a NIC too.
struct Sample {
  const char* name;
  std::size_t packages, numa, cores, caches, gpus, nics;
};

TEST(HwlocXml, SampleFilesHaveWhatIsWrittenInThem) {
  for (const Sample& s :
       {Sample{"16intel64-manyVFs.xml", 2, 2, 16, 50, 0, 18}, Sample{"192em64t-12gr2n8c2t.xml", 24, 24, 192, 600, 0, 7},
        Sample{"24em64t-2n6c2t-pci.xml", 2, 2, 12, 26, 3, 3}, Sample{"96em64t-4n4d3ca2co-pci.xml", 16, 4, 96, 160, 0, 8},
        Sample{"nvidiaDGX2.xml", 2, 2, 4, 14, 16, 0}}) {
    if (!std::filesystem::exists(sample(s.name))) GTEST_SKIP() << sample(s.name) << " is not there";
    const auto graph = read_hwloc_xml(sample(s.name));
    ASSERT_TRUE(graph.ok()) << graph.status().text();
    EXPECT_EQ(graph->of(NodeKind::package).size(), s.packages) << s.name;
    EXPECT_EQ(graph->of(NodeKind::numa).size(), s.numa) << s.name;
    EXPECT_EQ(graph->cores.size(), s.cores) << s.name;
    EXPECT_EQ(graph->caches.size(), s.caches) << s.name;
    EXPECT_EQ(graph->of(NodeKind::gpu).size(), s.gpus) << s.name;
    EXPECT_EQ(graph->of(NodeKind::nic).size(), s.nics) << s.name;
    for (const Core& core : graph->cores) EXPECT_GE(core.numa, 0) << s.name;
  }
}

TEST(HwlocXml, TheDgx2JoinsGpusOfABoardBySixLinksThroughSwitches) {
  const std::string path = sample("nvidiaDGX2.xml");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const auto graph = read_hwloc_xml(path);
  ASSERT_TRUE(graph.ok()) << graph.status().text();
  const std::vector<int> gpus = graph->of(NodeKind::gpu);
  ASSERT_EQ(gpus.size(), 16u);
  EXPECT_EQ(node(*graph, gpus[0]).pci, "0000:34:00.0");
  const Path path_01 = path_between(*graph, gpus[0], gpus[1]);
  EXPECT_EQ(path_01.text(), "NV6");
  EXPECT_DOUBLE_EQ(path_01.gbytes, 150) << "6 links of 25 GB/s each way";
  EXPECT_EQ(graph->numa_id(gpus[0]), 0);
  EXPECT_EQ(graph->numa_id(gpus[15]), 1);
}

}  // namespace
}  // namespace tutti
