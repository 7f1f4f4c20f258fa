// What the log says of a communicator, and that it stays short on many ranks.
#include "src/control/log_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tutti::test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

Member member(int rank, const std::string& host, std::uint64_t machine) {
  Member one;
  one.rank = rank;
  one.host = host;
  one.machine = machine;
  return one;
}

TEST(LogLines, NameTheTransportToEachPeer) {
  const std::vector<const char*> carriers = {"shm", nullptr, "shm", "tcp", "tcp", "tcp", "shm"};
  EXPECT_EQ(transports_line(carriers), "transports: shm to ranks 0, 2, 6, tcp to ranks 3-5; Tutti 0.1.0");
  const std::vector<const char*> alone = {nullptr};
  EXPECT_EQ(transports_line(alone), "transports: none; Tutti 0.1.0");
}

TEST(LogLines, NameTheHostsInTheOrderOfTheirRanks) {
  const std::vector<Member> members = {member(0, "node7", 1), member(1, "node7", 1), member(2, "node1", 2),
                                       member(3, "node7", 1)};
  EXPECT_EQ(hosts_line(members), "hosts: ranks 0, 1, 3 on node7; rank 2 on node1");
}

TEST(LogLines, TakeMachinesOfOneNameForTwo) {
  const std::vector<Member> members = {member(0, "localhost", 1), member(1, "localhost", 2)};
  EXPECT_EQ(hosts_line(members), "hosts: rank 0 on localhost; rank 1 on localhost");
}

TEST(LogLines, StayShortOnManyRanksDealtOutOverManyHosts) {
  constexpr int ranks = 1000;
  std::vector<Member> dealt_out;
  std::vector<Member> alone;
  std::vector<const char*> carriers;
  for (int r = 0; r < ranks; ++r) {
    dealt_out.push_back(member(r, "node" + std::to_string(r % 20), static_cast<std::uint64_t>(r % 20)));
    alone.push_back(member(r, "node" + std::to_string(r), static_cast<std::uint64_t>(r)));
    carriers.push_back(r == 0 ? nullptr : r % 2 == 0 ? "shm" : "tcp");
  }
  EXPECT_LT(hosts_line(dealt_out).size(), 1500u);
  EXPECT_THAT(hosts_line(dealt_out), HasSubstr("ranks 0, 20, 40, 60, 80, 100, 120, 140 and 42 more on node0"));
  EXPECT_LT(hosts_line(alone).size(), 1500u);
  EXPECT_THAT(hosts_line(alone), EndsWith("rank 15 on node15; and 984 hosts more"));
  EXPECT_LT(transports_line(carriers).size(), 200u);
}

TEST(LogLines, NameTheSettingsThatAreGivenAndWhatGivesThem) {
  SettingRow lanes, spin, secret;
  lanes.name = "TUTTI_LANES";
  lanes.value = "2";
  lanes.origin = "config";
  spin.name = "TUTTI_SPIN";
  spin.value = "adapt";
  spin.origin = "default";
  secret.name = "TUTTI_SECRET";
  secret.value = "(set)";
  secret.origin = "environment";
  const std::vector<SettingRow> rows = {lanes, spin, secret};
  EXPECT_EQ(settings_line(rows), "settings: TUTTI_LANES=2 (config), TUTTI_SECRET=(set) (environment)");
  EXPECT_EQ(settings_line(std::vector<SettingRow>{spin}), "");
}

TEST(LogLines, NameTheSizesAtWhichTheAlgorithmChanges) {
  const std::vector<AlgorithmUpTo> three = {
      {8, "tree"}, {1024, "tree"}, {2048, "direct"}, {1 << 20, "direct"}, {1 << 21, "ring"}};
  EXPECT_EQ(algorithms_line(Collective::all_reduce, Processor::cpu, three),
            "algorithms: all_reduce by tree to 1K, direct to 1M, ring above");
  const std::vector<AlgorithmUpTo> one = {{8, "dissemination"}, {16, "dissemination"}};
  EXPECT_EQ(algorithms_line(Collective::barrier, Processor::cpu, one), "algorithms: barrier by dissemination");
  EXPECT_EQ(algorithms_line(Collective::barrier, Processor::cuda, one),
            "algorithms: barrier on CUDA memory by dissemination");
}

TEST(LogLines, NameADevice) {
  EXPECT_EQ(device_line(1, "NVIDIA H100", "0000:17:00.0", 132),
            "device: 1, NVIDIA H100 at 0000:17:00.0, of 132 multiprocessors");
}

}  // namespace
}  // namespace tutti::test
