// The ways between all devices of the sample topologies, against matrices worked out from the XML by hand and by other
// rules' means than ours (tests/data/topologies/expected; the reasoning is in each file and in docs/topology.md).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/unit/topology/files.h"

namespace tutti {
namespace {

struct Expected {
  std::string file;
  std::vector<std::string> devices;
  std::map<std::pair<std::string, std::string>, std::string> cells;  ///< "NV2:50": type and GB/s
};

std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> all;
  for (std::string word; in >> word;) all.push_back(word);
  return all;
}

Expected read_expected(const std::string& path) {
  Expected expected;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("# file: ")) expected.file = line.substr(8);
    if (line.starts_with("#")) continue;
    const std::vector<std::string> row = words(line);
    if (row.at(0) == "-") expected.devices.assign(row.begin() + 1, row.end());
    for (std::size_t i = 1; row.at(0) != "-" && i < row.size(); ++i) {
      expected.cells[{row[0], expected.devices.at(i - 1)}] = row[i];
    }
  }
  return expected;
}

/// Whether a path is what a cell says: its type, and its bandwidth to the three digits that are written.
void expect_cell(const Path& path, const std::string& cell, const std::string& where) {
  const std::size_t colon = cell.find(':');
  EXPECT_EQ(path.text(), cell.substr(0, colon)) << where;
  const double gbytes = colon == std::string::npos ? 0 : std::stod(cell.substr(colon + 1));
  EXPECT_NEAR(path.gbytes, gbytes, .01 * gbytes) << where;
}

void compare(const Expected& expected) {
  const auto graph = read_topology(expected.file);
  ASSERT_TRUE(graph.ok()) << graph.status().text();
  std::map<std::string, int> devices;
  for (const NodeKind kind : {NodeKind::gpu, NodeKind::nic}) {
    for (const int index : graph->of(kind)) devices[node_label(graph->nodes[static_cast<std::size_t>(index)])] = index;
  }
  ASSERT_EQ(devices.size(), expected.devices.size()) << expected.file;
  for (const std::string& name : expected.devices) ASSERT_TRUE(devices.contains(name)) << expected.file << ": " << name;
  for (const auto& [pair, cell] : expected.cells) {
    const Path path = path_between(*graph, devices[pair.first], devices[pair.second]);
    expect_cell(path, cell, expected.file + ": " + pair.first + " to " + pair.second);
  }
}

TEST(Matrices, AreWhatFollowsFromTheFiles) {
  int compared = 0;
  int missing = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TUTTI_TEST_DATA "/topologies/expected")) {
    const Expected expected = read_expected(entry.path());
    ASSERT_FALSE(expected.file.empty()) << entry.path();
    ASSERT_EQ(expected.cells.size(), expected.devices.size() * expected.devices.size()) << entry.path();
    if (!std::filesystem::exists(topology_file(expected.file))) {
      ++missing;
      continue;
    }
    compare(expected);
    ++compared;
  }
  EXPECT_GE(compared, 3) << "our own are always there";
  if (missing > 0) GTEST_SKIP() << missing << " topologies are not in the shared folder";
}

TEST(Matrices, EveryFileIsRead) {
  const std::vector<std::string> names = all_topologies();
  ASSERT_GE(names.size(), 3u);
  for (const std::string& name : names) {
    const auto graph = read_topology(name);
    ASSERT_TRUE(graph.ok()) << graph.status().text();
    EXPECT_GE(graph->of(NodeKind::numa).size(), 1u) << name;
  }
}

}  // namespace
}  // namespace tutti
