#include "topology/nccl_xml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/topology/files.h"
#include "topology/render.h"

namespace tutti {
namespace {

using testing::HasSubstr;
using testing::Not;

const Node& node(const Graph& graph, int index) { return graph.nodes[static_cast<std::size_t>(index)]; }

/// Two GPUs and a NIC of two ports at a switch, an NVSwitch, a GPU on the other node.
std::string small() {
  return R"(<system version="1">
  <cpu numaid="0" affinity="0000000f" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:10:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:11:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="90" rank="1" gdr="1"><nvlink target="0000:99:00.0" count="18" tclass="0x068000"/></gpu>
      </pci>
      <pci busid="0000:12:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="0" gdr="1"><nvlink target="0000:99:00.0" count="18" tclass="0x068000"/></gpu>
      </pci>
      <pci busid="0000:13:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_0" dev="0" speed="400000" port="1" guid="0x1234" gdr="1"/>
             <net name="mlx5_1" dev="1" speed="400000" port="2" guid="0x1234" gdr="1"/></nic>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="1" affinity="000000f0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:91:00.0" class="0x030200" vendor="0x10de" device="0x20b5" link_speed="16 GT/s" link_width="16"/>
    <nic><net name="eth0" dev="2" speed="10000" port="0" guid="0x0" gdr="0"/></nic>
  </cpu>
</system>)";
}

std::string with(const std::string& from, const std::string& to) {
  std::string text = small();
  EXPECT_NE(text.find(from), std::string::npos) << from;
  return text.replace(text.find(from), from.size(), to);
}

TEST(NcclXml, IsReadWithPlacesLinksAndNics) {
  const auto graph = parse_nccl_xml(small());
  ASSERT_TRUE(graph.ok()) << graph.status().text();
  const std::vector<int> gpus = graph->of(NodeKind::gpu);
  const std::vector<int> nics = graph->of(NodeKind::nic);
  ASSERT_EQ(gpus.size(), 3u);
  ASSERT_EQ(nics.size(), 3u);
  EXPECT_EQ(node(*graph, gpus[0]).sm, 90);
  EXPECT_EQ(node(*graph, gpus[2]).sm, 80) << "a skeleton's, by its device number";
  EXPECT_EQ(node(*graph, gpus[0]).pci, "0000:11:00.0") << "one GPU has no dev, so addresses count";
  EXPECT_EQ(path_between(*graph, gpus[0], gpus[1]).text(), "NV18");
  EXPECT_DOUBLE_EQ(path_between(*graph, gpus[0], gpus[1]).gbytes, 450);
  EXPECT_EQ(path_between(*graph, gpus[0], nics[0]).text(), "PIX") << "one element is one switch";
  EXPECT_EQ(path_between(*graph, gpus[2], nics[0]).text(), "SYS");
  EXPECT_DOUBLE_EQ(path_between(*graph, gpus[2], nics[0]).gbytes, 22) << "between Sapphire Rapids";
  const Node& first = node(*graph, nics[0]);
  EXPECT_EQ(first.name, "mlx5_0");
  EXPECT_DOUBLE_EQ(first.nic.speed_gbps, 400);
  EXPECT_TRUE(first.nic.verbs);
  EXPECT_TRUE(first.nic.gdr);
  EXPECT_EQ(first.nic.guid, 0x1234u);
  EXPECT_EQ(node(*graph, nics[1]).nic.port, 2);
  const Node& ethernet = node(*graph, nics[2]);
  EXPECT_FALSE(ethernet.nic.verbs);
  EXPECT_EQ(graph->numa_id(nics[2]), 1);
  EXPECT_THAT(node(*graph, graph->of(NodeKind::numa)[1]).cpus, testing::ElementsAre(4, 5, 6, 7));
}

TEST(NcclXml, NumbersAreTheFilesWhereEveryDeviceHasOne) {
  const auto graph = parse_nccl_xml(with("device=\"0x20b5\" link_speed=\"16 GT/s\" link_width=\"16\"/>",
                                         "device=\"0x20b5\"><gpu dev=\"2\" sm=\"80\"/></pci>"));
  ASSERT_TRUE(graph.ok()) << graph.status().text();
  EXPECT_EQ(node(*graph, graph->of(NodeKind::gpu)[0]).pci, "0000:12:00.0");
}

TEST(NcclXml, LinksToItselfAndToWhatIsNotThereJoinNothing) {
  for (const char* target : {"0000:11:00.0", "0000:77:00.0"}) {
    const auto graph = parse_nccl_xml(with("0000:99:00.0\" count=\"18\" tclass=\"0x068000\"",
                                           std::string(target) + "\" count=\"12\" tclass=\"0x030200\""));
    ASSERT_TRUE(graph.ok()) << graph.status().text();
    const std::vector<int> gpus = graph->of(NodeKind::gpu);
    EXPECT_EQ(path_between(*graph, gpus[0], gpus[1]).text(), "PIX") << target;
  }
}

TEST(NcclXml, SwitchesThatAVirtualMachineHidesJoinAllTheSame) {
  std::string text = small();
  for (std::size_t at = text.find("0000:99:00.0"); at != std::string::npos; at = text.find("0000:99:00.0")) {
    text.replace(at, 12, "fffffff:ffff:ff");
  }
  const auto graph = parse_nccl_xml(text);
  ASSERT_TRUE(graph.ok()) << graph.status().text();
  const std::vector<int> gpus = graph->of(NodeKind::gpu);
  EXPECT_EQ(path_between(*graph, gpus[0], gpus[1]).text(), "NV18");
  EXPECT_TRUE(parse_nccl_xml(write_nccl_xml(*graph).value()).ok());
}

TEST(NcclXml, APairThatTellsItsLinksDifferentlyHasTheFewer) {
  std::string text =
      with("0000:99:00.0\" count=\"18\" tclass=\"0x068000\"", "0000:12:00.0\" count=\"4\" tclass=\"0x030200\"");
  const std::string other = "0000:99:00.0\" count=\"18\" tclass=\"0x068000\"";
  text.replace(text.find(other), other.size(), "0000:11:00.0\" count=\"2\" tclass=\"0x030200\"");
  const auto graph = parse_nccl_xml(text);
  ASSERT_TRUE(graph.ok()) << graph.status().text();
  const std::vector<int> gpus = graph->of(NodeKind::gpu);
  EXPECT_EQ(path_between(*graph, gpus[0], gpus[1]).text(), "NV2");
  EXPECT_EQ(graph->links.size(), 1u);
}

TEST(NcclXml, LinksOfPowersCpusEndAtTheNode) {
  const auto graph = parse_nccl_xml(
      with("0000:99:00.0\" count=\"18\" tclass=\"0x068000\"", "0004:04:00.0\" count=\"3\" tclass=\"0x068001\""));
  ASSERT_TRUE(graph.ok()) << graph.status().text();
  ASSERT_EQ(graph->links.size(), 2u);
  const bool to_node =
      node(*graph, graph->links[0].b).kind == NodeKind::numa || node(*graph, graph->links[1].b).kind == NodeKind::numa;
  EXPECT_TRUE(to_node);
}

TEST(NcclXml, AHostileFileIsRefusedWithTheReason) {
  struct Case {
    const char* from;
    std::string to;
    const char* why;
  };
  for (const Case& c : {Case{"<system version=\"1\">", "<system version=\"9\">", "version"},
                        Case{"<system", "<sistem", "byte"},
                        Case{"</system>", "", "byte"},
                        Case{"numaid=\"0\"", "", "numaid"},
                        Case{"numaid=\"0\"", "numaid=\"-7\"", "numaid"},
                        Case{"numaid=\"0\"", "numaid=\"99999999999\"", "numaid"},
                        Case{"affinity=\"0000000f\"", "affinity=\"zz\"", "affinity"},
                        Case{"affinity=\"0000000f\"", "affinity=\"1" + std::string(5000, ',') + "\"", "affinity"},
                        Case{"modelid=\"143\"", "modelid=\"x\"", "modelid"},
                        Case{"busid=\"0000:10:00.0\"", "", "busid"},
                        Case{"0000:10:00.0", "0000:10:00", "busid"},
                        Case{"0000:10:00.0", "zzzz:10:00.0", "busid"},
                        Case{"0x060400", "0x6060400", "class"},
                        Case{"0x060400", "sixty", "class"},
                        Case{"0x10de", "0x10dede", "vendor"},
                        Case{"link_width=\"16\"", "link_width=\"-16\"", "link_width"},
                        Case{"dev=\"1\"", "dev=\"-2\"", "dev"},
                        Case{"sm=\"90\"", "sm=\"ninety\"", "sm"},
                        Case{"count=\"18\"", "count=\"0\"", "count"},
                        Case{"count=\"18\"", "count=\"2000000000\"", "count"},
                        Case{"0000:99:00.0", "nowhere", "target"},
                        Case{"tclass=\"0x068000\"", "tclass=\"switch\"", "tclass"},
                        Case{"speed=\"400000\"", "speed=\"-1\"", "speed"},
                        Case{"port=\"1\"", "port=\"one\"", "port"},
                        Case{"guid=\"0x1234\"", "guid=\"0x12345678901234567890\"", "guid"},
                        Case{"0000:12:00.0", "0000:11:00.0", "two GPUs"}}) {
    const auto graph = parse_nccl_xml(with(c.from, c.to));
    ASSERT_FALSE(graph.ok()) << c.from << " as " << c.to;
    EXPECT_EQ(graph.status().code(), TUTTI_INVALID_ARGUMENT) << c.to;
    EXPECT_THAT(graph.status().text(), HasSubstr(c.why)) << c.to;
  }
  EXPECT_THAT(parse_nccl_xml("<system version=\"1\"/>").status().text(), HasSubstr("no cpu"));
  EXPECT_THAT(parse_nccl_xml("<topology/>").status().text(), HasSubstr("no <system>"));
  EXPECT_THAT(read_nccl_xml("/no/such/machine.xml").status().text(), HasSubstr("/no/such/machine.xml"));
}

TEST(NcclXml, WhatNoMachineHoldsIsRefusedNotFollowed) {
  const std::string pci = "<pci busid=\"0000:00:00.0\" class=\"0x060400\">";
  std::string deep = "<system version=\"1\"><cpu numaid=\"0\">";
  for (int i = 0; i < 5000; ++i) deep += pci;
  for (int i = 0; i < 5000; ++i) deep += "</pci>";
  EXPECT_THAT(parse_nccl_xml(deep + "</cpu></system>").status().text(), HasSubstr("deeper"));
  std::string many = "<system version=\"1\"><cpu numaid=\"0\">";
  for (int i = 0; i < 1025; ++i) {
    char address[16];
    std::snprintf(address, sizeof address, "0000:%02x:%02x.0", i / 32, i % 32);
    many += "<pci busid=\"" + std::string(address) + "\" class=\"0x030200\"/>";
  }
  EXPECT_THAT(parse_nccl_xml(many + "</cpu></system>").status().text(), HasSubstr("more GPUs"));
}

/// So many <cpu>s of one package, each with a mask of so many words.
std::string with_cpus(int count, int words) {
  std::string mask = "ffffffff";
  for (int i = 1; i < words; ++i) mask += ",ffffffff";
  std::string text = "<system version=\"1\">";
  for (int i = 0; i < count; ++i)
    text += "<cpu numaid=\"" + std::to_string(i) + "\" affinity=\"" + mask + "\" package=\"0\"/>";
  return text + "</system>";
}

TEST(NcclXml, CpusThatSeveralNumaNodesListAreOneOfTheMachine) {
  const auto graph = parse_nccl_xml(with_cpus(3, 2));
  ASSERT_TRUE(graph.ok()) << graph.status().text();
  EXPECT_EQ(graph->nodes[0].cpus.size(), 64u);
  EXPECT_EQ(node(*graph, graph->of(NodeKind::package).at(0)).cpus.size(), 64u);
  EXPECT_EQ(node(*graph, graph->of(NodeKind::numa).at(2)).cpus.size(), 64u);
}

TEST(NcclXml, MoreNumaNodesOrListedCpusThanAMachineHasAreRefused) {
  EXPECT_TRUE(parse_nccl_xml(with_cpus(1024, 1)).ok());
  EXPECT_THAT(parse_nccl_xml(with_cpus(1025, 1)).status().text(), HasSubstr("more NUMA nodes than a machine has"));
  EXPECT_THAT(parse_nccl_xml(with_cpus(700, 50)).status().text(), HasSubstr("more CPUs than a machine has"));
}

/// What must survive writing and reading: the way between any two devices.
std::vector<std::string> ways(const Graph& graph) {
  std::vector<int> devices = graph.of(NodeKind::gpu);
  for (const int nic : graph.of(NodeKind::nic)) devices.push_back(nic);
  std::vector<std::string> all;
  for (const int a : devices) {
    for (const int b : devices) {
      const Path path = path_between(graph, a, b);
      char speed[32];
      std::snprintf(speed, sizeof speed, "%.2f", path.gbytes);
      all.push_back(node_label(node(graph, a)) + " (" + node(graph, a).pci + ") " + node_label(node(graph, b)) + " " +
                    path.text() + " " + speed);
    }
  }
  return all;
}

TEST(NcclXml, WhatIsWrittenReadsBackWithTheSameWays) {
  for (const std::string& name : all_topologies()) {
    const auto graph = read_topology(name);
    ASSERT_TRUE(graph.ok()) << graph.status().text();
    const auto text = write_nccl_xml(*graph);
    ASSERT_TRUE(text.ok()) << name << ": " << text.status().text();
    const auto again = parse_nccl_xml(*text);
    ASSERT_TRUE(again.ok()) << name << ": " << again.status().text() << "\n" << *text;
    EXPECT_EQ(ways(*again), ways(*graph)) << name << "\n" << *text;
    EXPECT_EQ(write_nccl_xml(*again).value(), *text) << name << ": a second time it is the same text";
  }
}

TEST(NcclXml, WhatIsWrittenIsInNcclsWords) {
  const auto graph = parse_nccl_xml(small());
  ASSERT_TRUE(graph.ok());
  const std::string text = write_nccl_xml(*graph).value();
  EXPECT_THAT(
      text,
      HasSubstr(R"(<cpu numaid="0" affinity="0000000f" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">)"));
  EXPECT_THAT(text, HasSubstr(R"(<nvlink target="0000:99:00.0" count="18" tclass="0x068000" />)"));
  EXPECT_THAT(text, HasSubstr(R"(<net name="mlx5_1" dev="1" speed="400000" port="2" guid="0x1234" gdr="1" />)"));
  EXPECT_THAT(text,
              HasSubstr(R"(class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16")"));
  EXPECT_THAT(text, Not(HasSubstr("hostbridge")));
}

TEST(NcclXml, GpusThatCannotBeToldApartAreNotWritten) {
  Graph graph = parse_nccl_xml(small()).value();
  for (const int gpu : graph.of(NodeKind::gpu)) graph.nodes[static_cast<std::size_t>(gpu)].pci = "0000:11:00.0";
  EXPECT_THAT(write_nccl_xml(graph).status().text(), HasSubstr("another GPU's PCI address"));
  for (const int gpu : graph.of(NodeKind::gpu)) graph.nodes[static_cast<std::size_t>(gpu)].pci.clear();
  EXPECT_THAT(write_nccl_xml(graph).status().text(), HasSubstr("no PCI address"));
}

TEST(NcclXml, TwoMachinesAreNotWritten) {
  Graph graph;
  graph.add(Node());
  graph.add(Node());
  EXPECT_THAT(write_nccl_xml(graph).status().text(), HasSubstr("2 machines"));
}

}  // namespace
}  // namespace tutti
