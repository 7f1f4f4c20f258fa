// The log of a good run, as an operator reads it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace tutti::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;
using testing::SizeIs;

constexpr char kMark[] = "LOG_TEST_RUNS";
constexpr char kSecret[] = "swordfish-3141592653589793";

/// Three ranks that run two collectives, a transfer and a split. The library reads its settings once a process.
TEST(LogBody, ARunOfThreeRanks) {
  if (std::getenv(kMark) == nullptr) GTEST_SKIP() << "a body for the tests below";
  tutti_config config = TUTTI_CONFIG_INIT;
  config.operation_timeout_ns = 50'000'000'000;
  std::array<tutti_comm*, 3> comms{};
  ASSERT_EQ(tutti_comm_create_all(comms.data(), 3, &config), TUTTI_SUCCESS) << last_error();
  const auto run = [&](int rank) {
    tutti_comm* const comm = comms[static_cast<std::size_t>(rank)];
    std::vector<float> data(100'000, 1);
    for (const std::size_t count : {std::size_t{2}, data.size(), std::size_t{2}}) {
      EXPECT_EQ(tutti_all_reduce(data.data(), data.data(), count, TUTTI_FLOAT32, TUTTI_SUM, comm, {}, nullptr),
                TUTTI_SUCCESS);
    }
    EXPECT_EQ(tutti_barrier(comm, {}, nullptr), TUTTI_SUCCESS);
    const tutti_status met = rank == 0   ? tutti_send(data.data(), 1, TUTTI_FLOAT32, 1, comm, {}, nullptr)
                             : rank == 1 ? tutti_recv(data.data(), 1, TUTTI_FLOAT32, 0, comm, {}, nullptr)
                                         : TUTTI_SUCCESS;
    EXPECT_EQ(met, TUTTI_SUCCESS) << last_error();
    tutti_comm* part = nullptr;
    EXPECT_EQ(tutti_comm_split(comm, rank == 2 ? -1 : 7, 0, &part, nullptr), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(tutti_comm_destroy(part), TUTTI_SUCCESS);
    EXPECT_EQ(tutti_comm_finalize(comm), TUTTI_SUCCESS) << last_error();
  };
  std::vector<std::thread> ranks;
  for (int r = 0; r < 3; ++r) ranks.emplace_back([&, r] { run(r); });
  for (std::thread& rank : ranks) rank.join();
  for (tutti_comm* comm : comms) EXPECT_EQ(tutti_comm_destroy(comm), TUTTI_SUCCESS);
}

/// A creation in a thread of the library's, whose caller has changed the config's strings when it comes to the log.
TEST(LaterBody, ACreationThatEndsWhenItsConfigIsGone) {
  if (std::getenv(kMark) == nullptr) GTEST_SKIP() << "a body for a test below";
  std::string algorithm = "all_reduce:ring";
  tutti_config config = TUTTI_CONFIG_INIT;
  config.non_blocking = 1;
  config.algorithm = algorithm.c_str();
  tutti_unique_id id;
  ASSERT_EQ(tutti_get_unique_id(&id), TUTTI_SUCCESS) << last_error();
  std::array<tutti_comm*, 2> comms{};
  ASSERT_EQ(tutti_comm_create(&comms[0], 2, &id, 0, &config), TUTTI_IN_PROGRESS) << last_error();
  algorithm.assign(algorithm.size(), 'X');
  config.non_blocking = 0;
  config.algorithm = "all_reduce:ring";  // as rank 0 was given
  ASSERT_EQ(tutti_comm_create(&comms[1], 2, &id, 1, &config), TUTTI_SUCCESS) << last_error();
  tutti_comm_state_kind state = TUTTI_COMM_CREATING;  // rank 0 may not have come to the log yet
  while (tutti_comm_state(comms[0], &state) == TUTTI_SUCCESS && state == TUTTI_COMM_CREATING) ::usleep(100);
  EXPECT_EQ(state, TUTTI_COMM_READY);
  for (tutti_comm* comm : comms) EXPECT_EQ(tutti_comm_destroy(comm), TUTTI_SUCCESS);
}

using Variables = std::vector<std::pair<std::string, std::string>>;

/// The log of a body above, in lines, where the environment has these besides.
std::vector<std::string> log_of(Variables variables, const std::string& body = "LogBody") {
  const TemporaryFolder folder;
  variables.insert(variables.end(), {{kMark, "1"}, {"TUTTI_LOG_FILE", folder.file("log")}, {"TUTTI_INTERFACE", "lo"}});
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  std::array<char, 64> name{"log_test"};
  std::string filter = "--gtest_filter=" + body + ".*";
  std::array<char, 64> brief{"--gtest_brief=1"};
  std::array<char, 64> once{"--gtest_repeat=1"};
  const std::array<char*, 5> arguments = {name.data(), filter.data(), brief.data(), once.data(), nullptr};
  pid_t pid = 0;
  EXPECT_EQ(posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, arguments.data(), environ), 0);
  int status = -1;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  for (const auto& [each, value] : variables) unsetenv(each.c_str());
  std::vector<std::string> lines;
  std::ifstream file(folder.file("log"));
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> with(const std::vector<std::string>& lines, const std::string& part) {
  std::vector<std::string> found;
  std::copy_if(lines.begin(), lines.end(), std::back_inserter(found),
               [&](const std::string& line) { return line.find(part) != std::string::npos; });
  return found;
}

TEST(Log, SaysNothingOfAGoodRunByDefault) {
  EXPECT_THAT(log_of({}), IsEmpty());
  EXPECT_THAT(log_of({{"TUTTI_LOG", "warn"}}), IsEmpty());
}

TEST(Log, AtInfoTellsWhoTheRanksAreWhatCarriesThemAndHowTheyChoose) {
  const auto lines = log_of({{"TUTTI_LOG", "info"}, {"TUTTI_LANES", "1"}});
  for (const std::string& line : lines) EXPECT_THAT(line, MatchesRegex("tutti [0-9:.]+ [^ ]+:[0-9]+ info: .*")) << line;
  const auto transports = with(lines, "\"world\" rank 1 of 3: transports: ");
  ASSERT_THAT(transports, SizeIs(1));
  EXPECT_THAT(transports[0], AllOf(HasSubstr(" to ranks 0, 2"), HasSubstr("; Tutti 0.1.0")));
  std::array<char, 256> host{};
  ASSERT_EQ(gethostname(host.data(), host.size() - 1), 0);
  EXPECT_THAT(lines, Contains(HasSubstr(std::string("\"world\" rank 0 of 3: hosts: ranks 0-2 on ") + host.data())));
  const auto settings = with(lines, "\"world\" rank 2 of 3: settings: ");
  ASSERT_THAT(settings, SizeIs(1));
  EXPECT_THAT(settings[0], AllOf(HasSubstr("TUTTI_LANES=1 (environment)"),
                                 HasSubstr("TUTTI_OPERATION_TIMEOUT=50s (config)"), Not(HasSubstr("TUTTI_SPIN"))));
  EXPECT_THAT(with(lines, "algorithms: all_reduce by "), SizeIs(1));
  EXPECT_THAT(with(lines, "\"world\" rank 0 of 3: algorithms: barrier by "), SizeIs(1));
  EXPECT_THAT(with(lines, "\"world/7\""), SizeIs(2)) << "one line for each rank of a part";
  EXPECT_THAT(with(lines, "plan: "), IsEmpty());
  EXPECT_THAT(with(lines, "link: "), IsEmpty());
}

TEST(Log, TellsTheSettingsThatACreationWasGivenAlsoWhereTheirStringsAreGone) {
  const auto settings = with(log_of({{"TUTTI_LOG", "info"}}, "LaterBody"), "\"world\" rank 0 of 2: settings: ");
  ASSERT_THAT(settings, SizeIs(1));
  EXPECT_THAT(settings[0], HasSubstr("TUTTI_ALGORITHM=all_reduce:ring (config)"));
}

TEST(Log, NamesTheAlgorithmsThatCallsOfEverySizeRunBy) {
  const auto lines = log_of({{"TUTTI_LOG", "info"}, {"TUTTI_ALGORITHM", "all_reduce:0-64K:direct,all_reduce:ring"}});
  EXPECT_THAT(lines, Contains(HasSubstr("algorithms: all_reduce by direct to 64K, ring above")));
}

TEST(Log, AtDebugTellsEachPlanAndEachLinkToo) {
  const auto lines = log_of({{"TUTTI_LOG", "debug"}, {"TUTTI_ALGORITHM", "all_reduce:ring"}});
  EXPECT_THAT(lines, Contains(HasSubstr("\"world\" rank 1 of 3: transports: ")));
  for (const char* rank : {"rank 0", "rank 1", "rank 2"}) {
    const std::string start = std::string("\"world\" ") + rank + " of 3: ";
    EXPECT_THAT(with(lines, start + "plan: all_reduce of 2 elements of 4 B by ring: "), SizeIs(1));
    EXPECT_THAT(with(lines, start + "plan: all_reduce of 100000 elements of 4 B by ring: "), SizeIs(1));
  }
  const auto links = with(lines, "\"world\" rank 0 of 3: link: ");
  EXPECT_THAT(links, Contains(AllOf(HasSubstr(" to rank 1, channel 0, for collectives"))));
  EXPECT_THAT(links, Contains(AllOf(HasSubstr(" from rank 2, channel 0, for collectives"))));
  EXPECT_THAT(with(links, "to rank 1"), Contains(HasSubstr("for point to point")));
}

TEST(Log, PrintsNoSecret) {
  const TemporaryFolder folder;
  const std::string path = folder.file("key");
  std::ofstream(path) << kSecret << "-in-a-file\n";
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  tutti_unique_id id;
  std::array<char, TUTTI_UNIQUE_ID_TEXT> text{};
  ASSERT_EQ(tutti_get_unique_id(&id), TUTTI_SUCCESS) << last_error();
  ASSERT_EQ(tutti_unique_id_to_text(&id, text.data()), TUTTI_SUCCESS);
  const auto lines = log_of(
      {{"TUTTI_LOG", "trace"}, {"TUTTI_SECRET", kSecret}, {"TUTTI_SECRET_FILE", path}, {"TUTTI_COMM_ID", text.data()}});
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("TUTTI_SECRET=(set) (environment)"), HasSubstr("TUTTI_COMM_ID=(set)"))));
  for (const std::string& line : lines) {
    EXPECT_THAT(line, Not(HasSubstr(kSecret)));
    EXPECT_THAT(line, Not(HasSubstr(text.data()))) << "whoever has an id can join";
  }
}

}  // namespace
}  // namespace tutti::test
