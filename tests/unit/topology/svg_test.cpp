#include "topology/svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <pugixml.hpp>

#include "tests/support/readable_svg.h"
#include "tests/unit/topology/files.h"
#include "topology/live_machine.h"

namespace tutti {
namespace {

using testing::expect_readable;
using ::testing::HasSubstr;
using ::testing::Not;

/// Copies a machine into a graph, as a cluster's builder would, GPUs and NICs numbered on.
void append(Graph& all, const Graph& machine) {
  const int first = static_cast<int>(all.nodes.size());
  const int gpus = static_cast<int>(all.of(NodeKind::gpu).size());
  const int machines = static_cast<int>(all.of(NodeKind::machine).size());
  for (Node node : machine.nodes) {
    node.parent += node.parent >= 0 ? first : 0;
    if (node.kind == NodeKind::gpu) node.id += gpus;
    if (node.kind == NodeKind::machine) node.id = machines;
    all.add(std::move(node));
  }
  for (GraphLink link : machine.links) {
    link.a += first;
    link.b += first;
    all.links.push_back(link);
  }
}

Graph dgx1() { return read_topology("own/dgx1-v100.hwloc2.xml").value(); }

/// Two of them, NIC by NIC on a rail.
Graph two_dgx1s() {
  Graph all;
  append(all, dgx1());
  append(all, dgx1());
  const std::vector<int> nics = all.of(NodeKind::nic);  // by id: each with its likeness in the other machine
  for (std::size_t i = 0; i + 1 < nics.size(); i += 2) {
    all.links.push_back({nics[i], nics[i + 1], LinkKind::network, 1, 12.5, 0});
  }
  return all;
}

TEST(Svg, NoTextCoversAnotherWhateverTheMachine) {
  expect_readable(draw_svg(read_live()), "this machine");
  expect_readable(draw_svg(two_dgx1s(), {{0, 1, 2, 3, 8, 9}}), "two machines");
  for (const std::string& name : all_topologies()) {
    const auto graph = read_topology(name);
    ASSERT_TRUE(graph.ok()) << graph.status().text();
    std::vector<int> ring;
    for (std::size_t i = 0; i < graph->of(NodeKind::gpu).size(); ++i) ring.push_back(static_cast<int>(i));
    expect_readable(draw_svg(*graph), name);
    expect_readable(draw_svg(*graph, {ring, {ring.rbegin(), ring.rend()}}), name + " with rings");
  }
}

/// The rectangle that was drawn last before a text and holds it.
std::string box_around(const SvgDrawing& drawing, const std::string& label) {
  pugi::xml_document document;
  document.load_string(drawing.svg.c_str());
  const pugi::xml_node text = document.select_node(("//text[.='" + label + "']").c_str()).node();
  for (pugi::xml_node before = text.previous_sibling(); before; before = before.previous_sibling()) {
    if (std::string_view(before.name()) == "rect") return before.attribute("fill").value();
  }
  return {};
}

TEST(Svg, ShowsEveryDeviceInABoxOfItsKind) {
  const SvgDrawing drawing = draw_svg(dgx1());
  for (int i = 0; i < 8; ++i) EXPECT_EQ(box_around(drawing, "gpu" + std::to_string(i)), "#cfe8c4") << i;
  for (int i = 0; i < 4; ++i) {
    const std::string number = std::to_string(i);
    EXPECT_EQ(box_around(drawing, "nic" + number + " mlx5_" + number), "#fbe2bd") << i;
  }
  EXPECT_THAT(drawing.svg, HasSubstr(">Tesla V100-SXM2-16GB<"));
  EXPECT_THAT(drawing.svg, HasSubstr(">15.8 GB/s PCIe<"));
}

TEST(Svg, LinksAreAsWideAsTheirBandwidthAndInTheLegend) {
  const SvgDrawing drawing = draw_svg(dgx1());
  pugi::xml_document document;
  ASSERT_TRUE(document.load_string(drawing.svg.c_str()));
  int links = 0;
  for (const pugi::xpath_node& found : document.select_nodes("//line[title]")) {
    const std::string hint = found.node().child_value("title");
    const double width = found.node().attribute("stroke-width").as_double();
    ++links;
    EXPECT_NEAR(width, hint.find("NV2, 50 GB/s") != std::string::npos ? 6 : 3.5, .01) << hint;
  }
  EXPECT_EQ(links, 16) << "8 GPUs with 4 neighbours each";
  EXPECT_THAT(drawing.svg, HasSubstr(">gpu0 to gpu3: NV2, 50 GB/s<"));
  for (const char* entry :
       {">NV1, 25 GB/s<", ">NV2, 50 GB/s<", ">GPU<", ">NIC<", ">NUMA node<", "bytes a second one way"}) {
    EXPECT_THAT(drawing.svg, HasSubstr(entry));
  }
  EXPECT_THAT(drawing.svg, Not(HasSubstr(">NVSwitch<"))) << "there is none";
}

TEST(Svg, SwitchesOfTheSameGpusAreOneHub) {
  Graph graph = dgx1();
  graph.links.clear();
  for (int s = 0; s < 3; ++s) {
    Node node;
    node.kind = NodeKind::nv_switch;
    node.id = s;
    node.parent = 0;
    const int index = graph.add(std::move(node));
    for (const int gpu : graph.of(NodeKind::gpu)) graph.links.push_back({gpu, index, LinkKind::nvlink, 2, 50, 0});
  }
  const SvgDrawing drawing = draw_svg(graph);
  EXPECT_THAT(drawing.svg, HasSubstr(">3 NVSwitches<"));
  EXPECT_THAT(drawing.svg, HasSubstr(">gpu0 to 3 NVSwitches: NV6, 150 GB/s<"));
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST(Svg, RingsAreDrawnWithArrowsAndThoseOfOtherGpusAreLeftOut) {
  const std::string svg = draw_svg(dgx1(), {{0, 3, 2, 1, 5, 6, 7, 4}, {0, 1, 3, 7, 5, 4, 6, 2}, {0, 99}}).svg;
  EXPECT_EQ(count(svg, "<polygon"), 16u);
  EXPECT_THAT(svg, HasSubstr("ring 0: 0 3 2 1 5 6 7 4"));
  EXPECT_THAT(svg, HasSubstr("ring 1: 0 1 3 7 5 4 6 2"));
  EXPECT_THAT(svg, Not(HasSubstr("ring 2")));
}

TEST(Svg, ManyRingsSideBySideEndAtTheBoxesAndTellTheirRates) {
  const std::vector<std::vector<int>> rings(19, {0, 1, 2, 3, 4, 5, 6, 7});
  const SvgDrawing drawing = draw_svg(dgx1(), rings, std::vector<double>(19, 12.25));
  EXPECT_THAT(drawing.svg, HasSubstr("ring 18, 12.2 GB/s: 0 1 2 3 4 5 6 7"));
  expect_readable(drawing, "19 rings");
  pugi::xml_document document;
  ASSERT_TRUE(document.load_string(drawing.svg.c_str()));
  // The circle is the group that has arrows; its last eight boxes are the GPUs.
  const pugi::xml_node circle = document.select_node("//g[polygon]").node();
  const auto inside = [&](double x, double y) {
    for (const pugi::xml_node box : circle.children("rect")) {
      const double left = box.attribute("x").as_double();
      const double top = box.attribute("y").as_double();
      if (x >= left && x <= left + box.attribute("width").as_double() && y >= top &&
          y <= top + box.attribute("height").as_double())
        return true;
    }
    return false;
  };
  int lines = 0;
  for (const pugi::xml_node line : circle.children("line")) {
    ++lines;
    EXPECT_TRUE(inside(line.attribute("x1").as_double(), line.attribute("y1").as_double()));
    EXPECT_TRUE(inside(line.attribute("x2").as_double(), line.attribute("y2").as_double()));
  }
  EXPECT_EQ(lines, 16 + 19 * 8);
}

TEST(Svg, TheLegendListsWhatIsDrawn) {
  const std::string listed = ">PCIe switch or port<";
  EXPECT_EQ(count(draw_svg(dgx1()).svg, listed), 1u);
  Graph bare;
  bare.add(Node{});
  EXPECT_EQ(count(draw_svg(bare).svg, listed), 0u);
  for (const std::string& name : all_topologies()) {
    const auto graph = read_topology(name);
    ASSERT_TRUE(graph.ok()) << graph.status().text();
    const std::string svg = draw_svg(*graph).svg;
    // The legend's own box has the colour, too.
    EXPECT_EQ(count(svg, listed), count(svg, "#f0f0f0") > 1 ? 1u : 0u) << name;
  }
}

TEST(Svg, NamesFromFilesAreEscapedAndCut) {
  Graph graph;
  Node machine;
  machine.name = "<script>\x01\xff & \"" + std::string(500, 'x');
  graph.add(std::move(machine));
  const SvgDrawing drawing = draw_svg(graph);
  expect_readable(drawing, "a hostile name");
  EXPECT_THAT(drawing.svg, HasSubstr(">machine0 &lt;script&gt;?? &amp; &quot;xxx"));
  EXPECT_THAT(drawing.svg, HasSubstr("x…<"));
  EXPECT_LT(drawing.width, 800);
}

}  // namespace
}  // namespace tutti
