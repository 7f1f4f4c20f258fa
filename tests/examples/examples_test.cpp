// The examples, on some numbers of ranks, each a process: they check what they compute.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace tutti {
namespace {

using testing::HasSubstr;

/// Starts rank `rank` of an example, whose output goes into a file.
pid_t start(const std::string& program, const std::string& id, int ranks, int rank, const std::string& out) {
  const pid_t child = fork();
  if (child != 0) return child;
  setenv("TUTTI_COMM_ID", ("file://" + id).c_str(), 1);
  setenv("TUTTI_RANKS", std::to_string(ranks).c_str(), 1);
  setenv("TUTTI_RANK", std::to_string(rank).c_str(), 1);
  const std::string command = "exec " TUTTI_EXAMPLES "/" + program + " >>" + out + " 2>&1";
  execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
  _exit(127);
}

/// Exit statuses by rank; -1 where a signal ended it.
std::vector<int> statuses_of(const std::vector<pid_t>& children) {
  std::vector<int> statuses;
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    statuses.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  }
  return statuses;
}

class Examples : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(Examples, FindTheirResultsRightOnOneToFourRanks) {
  const auto& [program, said] = GetParam();
  for (int ranks = 1; ranks <= 4; ++ranks) {
    const test::TemporaryFolder folder;
    std::vector<pid_t> children;
    for (int r = 0; r < ranks; ++r) children.push_back(start(program, folder.file("id"), ranks, r, folder.file("out")));
    const std::vector<int> statuses = statuses_of(children);
    std::ostringstream out;
    out << std::ifstream(folder.file("out")).rdbuf();
    EXPECT_EQ(statuses, std::vector<int>(static_cast<std::size_t>(ranks), 0)) << program << ": " << out.str();
    EXPECT_THAT(out.str(), HasSubstr(std::to_string(ranks) + " ranks, " + said)) << program;
  }
}

TEST_P(Examples, ExitWithOneWhereARankIsMissing) {
  const test::TemporaryFolder folder;
  setenv("TUTTI_CONNECT_TIMEOUT", "500ms", 1);
  const pid_t alone = start(GetParam().first, folder.file("id"), 2, 0, folder.file("out"));
  unsetenv("TUTTI_CONNECT_TIMEOUT");
  EXPECT_EQ(statuses_of({alone}), std::vector<int>{1});
  std::ostringstream out;
  out << std::ifstream(folder.file("out")).rdbuf();
  EXPECT_THAT(out.str(), HasSubstr("rank 1"));
}

INSTANTIATE_TEST_SUITE_P(All, Examples,
                         testing::Values(std::pair("tutti-hello", "element 7 is"),
                                         std::pair("tutti-gradients", "all sums are right"),
                                         std::pair("tutti-experts", "all"),
                                         std::pair("tutti-overlap", "all means are right")),
                         [](const auto& named) { return std::string(named.param.first).substr(6); });

}  // namespace
}  // namespace tutti
