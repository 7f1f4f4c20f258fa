// Fuzzes the readers of hwloc's and NCCL's XML: files of real machines are damaged at random, the same way in every run.
// Whatever comes in is refused in a sentence or gives a graph that holds together, is drawn, and survives writing.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "tests/support/text_fuzzer.h"
#include "tests/unit/topology/files.h"
#include "topology/render.h"
#include "topology/svg.h"

namespace tutti::testing {
namespace {

constexpr std::size_t kLongest = 20000;  // longer files are slow to damage and have no other kinds of lines

std::vector<std::string> texts(const std::string& kind) {
  std::vector<std::string> all;
  for (const std::string& name : all_topologies()) {
    if (name.find(kind) == std::string::npos) continue;
    std::ostringstream text;
    text << std::ifstream(topology_file(name)).rdbuf();
    if (text.str().size() < kLongest) all.push_back(text.str());
  }
  return all;
}

/// Every node is below another that was there before it, or is a machine; links end at nodes.
void expect_sound(const Graph& graph, const std::string& text) {
  const int nodes = static_cast<int>(graph.nodes.size());
  ASSERT_GT(nodes, 0) << text;
  for (int i = 0; i < nodes; ++i) {
    const Node& node = graph.nodes[static_cast<std::size_t>(i)];
    ASSERT_TRUE(i == 0 ? node.parent == -1 : node.parent >= 0 && node.parent < i) << text;
  }
  for (const GraphLink& link : graph.links) {
    ASSERT_TRUE(link.a >= 0 && link.a < nodes && link.b >= 0 && link.b < nodes && link.count > 0) << text;
  }
}

std::string ways(const Graph& graph) {
  std::string all;
  for (const Path& path : device_paths(graph))
    all += path.text() + ' ' + std::to_string(std::lround(path.gbytes * 20)) + ' ';
  return all;
}

template <typename Read>
void fuzz(const std::string& kind, int count, Read read) {
  TextFuzzer fuzzer(texts(kind), "\" <>=\n,");
  int parsed = 0;
  for (int i = 0; i < count; ++i) {
    const std::string text = fuzzer.next();
    const Result<Graph> graph = read(text);
    if (!graph.ok()) {
      ASSERT_EQ(graph.status().code(), TUTTI_INVALID_ARGUMENT) << text;
      ASSERT_FALSE(graph.status().error().message.empty()) << text;
      continue;
    }
    ++parsed;
    expect_sound(*graph, text);
    ASSERT_FALSE(text_tree(*graph).empty()) << text;
    path_matrix(*graph);
    dot_graph(*graph);
    if (i % 8 == 0) draw_svg(*graph);
    const auto written = write_nccl_xml(*graph);
    if (kind == "hwloc" && !written.ok()) continue;  // the same GPU twice
    ASSERT_TRUE(written.ok()) << written.status().text() << '\n' << text;
    const auto again = parse_nccl_xml(*written);
    ASSERT_TRUE(again.ok()) << again.status().text() << '\n' << *written << '\n' << text;
    if (kind == "nccl") {
      ASSERT_EQ(ways(*again), ways(*graph)) << *written << '\n' << text;
    }
  }
  std::printf("%d texts, %d parsed\n", count, parsed);
  EXPECT_GT(parsed, count / 50);
  EXPECT_LT(parsed, count);
}

TEST(TopologyXmlFuzz, NcclsFilesEndInAGraphOrASentence) { fuzz("nccl", 20000, parse_nccl_xml); }

TEST(TopologyXmlFuzz, HwlocsFilesEndInAGraphOrASentence) { fuzz("hwloc", 20000, graph_of_hwloc_xml); }

}  // namespace
}  // namespace tutti::testing
