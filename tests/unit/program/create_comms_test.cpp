// What a signal leaves of a program whose ranks have not met yet.
#include "src/program/create_comms.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "src/program/run_ranks.h"
#include "src/program/signals.h"
#include "tests/support/default_signals.h"

namespace tutti::program {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr char kFilter[] = "--gtest_filter=CreationBody.RankThatWaits";
constexpr char kMark[] = "PROGRAM_TEST_CREATES";

// Rank 0 of two, as a program of ours joins: the other one never comes.
TEST(CreationBody, RankThatWaits) {
  if (std::getenv(kMark) == nullptr) GTEST_SKIP() << "a body for the tests below";
  Output output("waiting");
  Options options("waiting", "Waits");
  RankOptions ranks;
  add_rank_options(options, ranks);
  char* arguments[] = {nullptr};
  _exit(run_ranks(options, ranks, arguments, nullptr, output, [](const RankMember&) { return 0; }));
}

class CreationTest : public testing::Test {
 protected:
  CreationTest() : folder_(fs::temp_directory_path() / ("creation_test_" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    test::mind_signals();
    for (const auto& [name, value] : variables()) setenv(name, value.c_str(), 1);
  }
  ~CreationTest() override {
    for (const auto& [name, value] : variables()) unsetenv(name);
    fs::remove_all(folder_);
  }

  std::vector<std::pair<const char*, std::string>> variables() const {
    return {{kMark, "1"},
            {"TUTTI_RANK", "0"},
            {"TUTTI_RANKS", "2"},
            {"TUTTI_COMM_ID", "file://" + meeting().string()},
            {"TUTTI_INTERFACE", "lo"}};
  }
  fs::path meeting() const { return folder_ / "meeting"; }

  // Starts the body with stderr in a file, and waits until it has opened its rendezvous.
  pid_t start() const {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    const std::string err = (folder_ / "stderr").string();
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    std::string name = "program_test";
    std::string filter = kFilter;
    std::string brief = "--gtest_brief=1";
    char* arguments[] = {name.data(), filter.data(), brief.data(), nullptr};
    pid_t pid = 0;
    EXPECT_EQ(posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!fs::exists(meeting()) && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    EXPECT_TRUE(fs::exists(meeting()));
    return pid;
  }

  // The wait status of a rank that was sent `signal`.
  static int ended(pid_t pid) {
    int status = 0;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (waitpid(pid, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > deadline) kill(pid, SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return status;
  }

  fs::path folder_;
};

TEST_F(CreationTest, ASignalBeforeTheRanksHaveMetLeavesNoFileAndNoWord) {
  for (const int signal : kEndingSignals) {
    const pid_t pid = start();
    kill(pid, signal);
    const int status = ended(pid);
    EXPECT_TRUE(WIFSIGNALED(status)) << status;
    EXPECT_EQ(WTERMSIG(status), signal);
    EXPECT_FALSE(fs::exists(meeting())) << "signal " << signal;
    EXPECT_EQ(fs::file_size(folder_ / "stderr"), 0u);
    fs::remove(meeting());
  }
}

TEST_F(CreationTest, AnIgnoredSignalStaysIgnored) {
  // As nohup does; exec keeps it.
  struct sigaction before = {};
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGHUP, &ignore, &before);
  const pid_t pid = start();
  sigaction(SIGHUP, &before, nullptr);
  kill(pid, SIGHUP);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(waitpid(pid, nullptr, WNOHANG), 0) << "it ended by a signal that it was to ignore";
  kill(pid, SIGTERM);
  const int status = ended(pid);
  EXPECT_TRUE(WIFSIGNALED(status)) << status;
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

TEST(Create, TellsTheFirstErrorAndKeepsNoCommunicator) {
  const Created created = create(2, nullptr, [](std::size_t index, tutti_comm** comm, const tutti_config* config) {
    return tutti_comm_create_address(comm, index == 0 ? "tcp://127.0.0.1:4711" : "nowhere", 2, 1, config);
  });
  EXPECT_EQ(created.code, kWrongUse);
  EXPECT_THAT(created.sentence, HasSubstr("\"nowhere\""));
  EXPECT_TRUE(created.comms.empty());
}

TEST(Create, MakesAllRanksAndGivesTheSignalsBack) {
  struct sigaction before = {};
  sigaction(SIGINT, nullptr, &before);
  tutti_unique_id id;
  ASSERT_EQ(tutti_get_unique_id(&id), TUTTI_SUCCESS);
  const Created created = create(3, nullptr, [&](std::size_t rank, tutti_comm** comm, const tutti_config* config) {
    return tutti_comm_create(comm, 3, &id, static_cast<int>(rank), config);
  });
  ASSERT_EQ(created.code, kGood) << created.sentence;
  ASSERT_EQ(created.comms.size(), 3u);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    int own = -1;
    EXPECT_EQ(tutti_comm_rank(created.comms[rank], &own), TUTTI_SUCCESS);
    EXPECT_EQ(own, static_cast<int>(rank));
  }
  for (tutti_comm* comm : created.comms) EXPECT_EQ(tutti_comm_destroy(comm), TUTTI_SUCCESS);
  struct sigaction now = {};
  sigaction(SIGINT, nullptr, &now);
  EXPECT_EQ(now.sa_handler, before.sa_handler);
}

}  // namespace
}  // namespace tutti::program
