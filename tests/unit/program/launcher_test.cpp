// Local ranks: who starts them, what becomes of their errors, and that none of them is left behind.
#include "src/program/launcher.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "src/program/launcher_detection.h"
#include "tests/support/default_signals.h"
#include "tests/support/sanitizers.h"

namespace tutti::program {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

// What the children do: this test program starts itself, with a filter for the bodies below.
constexpr char kAction[] = "PROGRAM_TEST_ACTION";
constexpr char kFolder[] = "PROGRAM_TEST_FOLDER";

std::string variable(const char* name) { return std::getenv(name) != nullptr ? std::getenv(name) : ""; }

void pause_for(std::chrono::milliseconds time) { std::this_thread::sleep_for(time); }

// Those that are ended with it have begun: what the tests look for is that they are gone.
void await_all(int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    const fs::path file = fs::path(variable(kFolder)) / std::to_string(rank);
    while (!fs::exists(file) || fs::file_size(file) == 0) pause_for(std::chrono::milliseconds(1));
  }
}

// Rank 1 stays stopped, and the others say so.
void stop_one(int rank, Output& output) {
  if (rank == 1) raise(SIGSTOP);
  pause_for(std::chrono::milliseconds(200));
  _exit(output.fail(kPeerLost, "rank 1 is silent"));
}

// Rank 0 fails once rank 1 has been stopped for a while and has gone on.
void stop_one_for_a_while(int rank, Output& output) {
  if (rank == 1) {
    raise(SIGSTOP);
    pause_for(std::chrono::seconds(3));
    _exit(output.fail(kWrongData, "rank 1 saw it all"));
  }
  pause_for(std::chrono::milliseconds(400));
  pid_t stopped = 0;
  std::ifstream(fs::path(variable(kFolder)) / "1") >> stopped;
  kill(stopped, SIGCONT);
  pause_for(std::chrono::milliseconds(400));
  _exit(output.fail(kPeerLost, "rank 0 saw little"));
}

// Until the test says so.
void await_leave() {
  while (!fs::exists(fs::path(variable(kFolder)) / "leave")) pause_for(std::chrono::milliseconds(1));
}

// A rank of ours: never returns to the test.
TEST(LauncherBody, Child) {
  const auto place = detect_launcher().place;
  if (variable(kAction).empty() || !place || place->launcher != "TUTTI_RANK") GTEST_SKIP() << "a body for the tests below";
  const std::string action = variable(kAction);
  std::ofstream(fs::path(variable(kFolder)) / std::to_string(place->rank)) << getpid() << ' ' << place->ranks << std::endl;
  Output output("child");
  output.set_rank(place->rank);
  if (action == "good") _exit(kGood);
  if (action == "silent") _exit(place->rank == 1 ? kFailed : kGood);
  if (action == "wrong")
    _exit(output.fail(place->rank == 1 ? kWrongData : kPeerLost, "sentence of " + std::to_string(place->rank)));
  if (action == "when told") {
    await_leave();
    _exit(kGood);
  }
  if (action == "child signal") _exit(signal(SIGCHLD, SIG_DFL) == SIG_IGN ? kWrongUse : kGood);
  await_all(place->ranks);
  if (action == "killed" && place->rank == 1) raise(SIGKILL);
  if (action == "piped" && place->rank == 0) raise(SIGPIPE);
  if (action == "one stops") stop_one(place->rank, output);
  if (action == "one goes on") stop_one_for_a_while(place->rank, output);
  if (action == "one fails" && place->rank == 1) _exit(output.fail(kWrongUse, "rank 1 had enough"));
  pause_for(std::chrono::seconds(60));
  _exit(kGood);
}

struct Launched {
  int code;
  std::string err;
};

class LauncherTest : public testing::Test {
 protected:
  LauncherTest() : folder_(fs::temp_directory_path() / ("launcher_test_" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
    test::mind_signals();
    setenv(kFolder, folder_.c_str(), 1);
  }
  ~LauncherTest() override {
    fs::remove_all(folder_);
    unsetenv(kAction);
    unsetenv(kFolder);
  }

  Launched launch(int ranks, const char* action, std::chrono::milliseconds grace = std::chrono::milliseconds(300)) {
    setenv(kAction, action, 1);
    Output output("parent");
    testing::internal::CaptureStderr();
    const int code = launch_local(ranks, child_arguments().data(), output, grace);
    return {code, testing::internal::GetCapturedStderr()};
  }

  static std::vector<char*> child_arguments() {
    static std::string name = "program_test";
    static std::string filter = "--gtest_filter=LauncherBody.Child";
    static std::string quiet = "--gtest_brief=1";
    return {name.data(), filter.data(), quiet.data(), nullptr};
  }

  // Pids that the children wrote, waiting until there are `n`.
  std::set<pid_t> pids(size_t n) const {
    std::set<pid_t> found;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (found.size() < n && std::chrono::steady_clock::now() < deadline) {
      for (size_t rank = 0; rank < n; ++rank) {
        pid_t pid = 0;
        if (std::ifstream(folder_ / std::to_string(rank)) >> pid) found.insert(pid);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_EQ(found.size(), n);
    return found;
  }

  static bool gone_within(const std::set<pid_t>& pids, std::chrono::seconds limit) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (std::chrono::steady_clock::now() < deadline) {
      bool any = false;
      for (const pid_t pid : pids) any = any || kill(pid, 0) == 0;
      if (!any) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  // A process of its own that launches, since a signal is to end it.
  pid_t spawn_parent(const char* action = "sleep") const {
    setenv(kAction, action, 1);
    char name[] = "program_test";
    char filter[] = "--gtest_filter=LauncherBody.Parent";
    char* arguments[] = {name, filter, nullptr};
    pid_t pid = 0;
    EXPECT_EQ(posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, arguments, environ), 0);
    return pid;
  }

  fs::path folder_;
};

TEST(LauncherBody, Parent) {
  const std::string action = variable(kAction);
  if ((action != "sleep" && action != "piped" && action != "when told") || detect_launcher().place)
    GTEST_SKIP() << "a body for the tests below";
  static char name[] = "program_test";
  static char filter[] = "--gtest_filter=LauncherBody.Child";
  char* arguments[] = {name, filter, nullptr};
  Output output("parent");
  _exit(launch_local(3, arguments, output, std::chrono::milliseconds(300)));
}

TEST_F(LauncherTest, GivesEachRankItsPlaceAndReportsSuccess) {
  const Launched launched = launch(3, "good");
  EXPECT_EQ(launched.code, kGood) << launched.err;
  EXPECT_EQ(launched.err, "");
  EXPECT_EQ(pids(3).size(), 3u);
}

TEST_F(LauncherTest, TellsTheWorstErrorOnce) {
  const Launched launched = launch(3, "wrong");
  EXPECT_EQ(launched.code, kWrongData);
  EXPECT_EQ(launched.err, "parent: sentence of 1\n");
}

TEST_F(LauncherTest, NamesTheRankThatWasKilledAndEndsTheOthers) {
  const Launched launched = launch(3, "killed");
  EXPECT_EQ(launched.code, kPeerLost);
  EXPECT_THAT(launched.err, AllOf(HasSubstr("rank 1 (pid "), HasSubstr("signal 9")));
  EXPECT_TRUE(gone_within(pids(3), std::chrono::seconds(10)));
}

// Runs Parent in a process of its own, whose stdout is `out`; its wait status, and what it said on stderr.
int piped_parent(int out, std::string* err) {
  int errors[2];
  EXPECT_EQ(pipe2(errors, O_CLOEXEC), 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors[1], STDERR_FILENO);
  char name[] = "program_test";
  char filter[] = "--gtest_filter=LauncherBody.Parent";
  char* arguments[] = {name, filter, nullptr};
  pid_t pid = 0;
  EXPECT_EQ(posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, arguments, environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  close(errors[1]);
  char bytes[512];
  for (ssize_t n = 0; (n = read(errors[0], bytes, sizeof bytes)) > 0;) err->append(bytes, static_cast<size_t>(n));
  close(errors[0]);
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return status;
}

TEST_F(LauncherTest, EndsQuietlyBySigpipeOnlyWhereTheReaderOfStdoutHasGone) {
  setenv(kAction, "piped", 1);
  int out[2];
  ASSERT_EQ(pipe2(out, O_CLOEXEC), 0);
  std::string err;
  int status = piped_parent(out[1], &err);
  ASSERT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), kPeerLost);
  EXPECT_THAT(err, HasSubstr("signal 13"));
  close(out[0]);
  err.clear();
  status = piped_parent(out[1], &err);
  close(out[1]);
  ASSERT_TRUE(WIFSIGNALED(status)) << status;
  EXPECT_EQ(WTERMSIG(status), SIGPIPE);
  EXPECT_EQ(err, "");
}

TEST_F(LauncherTest, EndsRanksThatSleepWhenOneHasFailed) {
  const Launched launched = launch(3, "one fails");
  EXPECT_EQ(launched.code, kWrongUse);
  EXPECT_EQ(launched.err, "parent: rank 1 had enough\n");
  EXPECT_TRUE(gone_within(pids(3), std::chrono::seconds(10)));
}

TEST_F(LauncherTest, DoesNotWaitForARankThatHasBeenStopped) {
  const auto begin = std::chrono::steady_clock::now();
  const Launched launched = launch(3, "one stops", std::chrono::minutes(2));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_EQ(launched.code, kPeerLost);
  EXPECT_THAT(launched.err, HasSubstr("rank 1 is silent"));
  EXPECT_TRUE(gone_within(pids(3), std::chrono::seconds(5)));
}

TEST_F(LauncherTest, WaitsForARankThatWasStoppedAndHasGoneOn) {
  const Launched launched = launch(2, "one goes on", std::chrono::minutes(2));
  EXPECT_EQ(launched.code, kWrongData);
  EXPECT_THAT(launched.err, HasSubstr("rank 1 saw it all"));
}

// As a shell's trap '' CHLD leaves it to what it starts.
TEST_F(LauncherTest, SeesItsRanksEndWhereSigchldIsInheritedAsIgnored) {
  const auto before = signal(SIGCHLD, SIG_IGN);
  const Launched good = launch(3, "good");
  const Launched killed = launch(3, "killed");
  const Launched ranks = launch(2, "child signal");
  EXPECT_EQ(signal(SIGCHLD, before), SIG_IGN);
  EXPECT_EQ(good.code, kGood) << good.err;
  EXPECT_EQ(killed.code, kPeerLost);
  EXPECT_THAT(killed.err, AllOf(HasSubstr("rank 1 (pid "), HasSubstr("signal 9")));
  EXPECT_EQ(ranks.code, kWrongUse) << "the ranks inherit what this process did";
}

TEST_F(LauncherTest, RanksWhoseEndNobodySawAreAFailure) {
  const auto before = signal(SIGCHLD, SIG_DFL);
  std::thread meddler([this] {
    pids(2);
    signal(SIGCHLD, SIG_IGN);  // from now on the system forgets children that end
    std::ofstream(folder_ / "leave").flush();
  });
  const Launched launched = launch(2, "when told");
  meddler.join();
  signal(SIGCHLD, before);
  EXPECT_EQ(launched.code, kFailed);
  EXPECT_THAT(launched.err, AllOf(HasSubstr("rank 0 (pid "), HasSubstr("nobody knows how"), HasSubstr("SIGCHLD")));
}

int fork_handlers = 0;

// Those of other libraries may wait for ever, as OpenBLAS's does for threads that found no memory.
TEST_F(LauncherTest, RunsNoForkHandlers) {
  if (test::under_tsan) GTEST_SKIP() << "this sanitizer forks where vfork is called";
  static const int registered = pthread_atfork([] { ++fork_handlers; }, nullptr, nullptr);
  ASSERT_EQ(registered, 0);
  fork_handlers = 0;
  EXPECT_EQ(launch(2, "good").code, kGood);
  EXPECT_EQ(fork_handlers, 0);
}

TEST_F(LauncherTest, SaysSomethingWhereTheRanksSayNothing) {
  const Launched launched = launch(2, "silent");
  EXPECT_EQ(launched.code, kFailed);
  EXPECT_THAT(launched.err, HasSubstr("exit code 1"));
}

TEST_F(LauncherTest, ASignalEndsAllRanksAndThisProcessBySignal) {
  for (const int signal : {SIGINT, SIGTERM}) {
    for (int rank = 0; rank < 3; ++rank) fs::remove(folder_ / std::to_string(rank));
    const pid_t parent = spawn_parent();
    const std::set<pid_t> children = pids(3);
    kill(parent, signal);
    int status = 0;
    ASSERT_EQ(waitpid(parent, &status, 0), parent);
    ASSERT_TRUE(WIFSIGNALED(status)) << status;
    EXPECT_EQ(WTERMSIG(status), signal);
    EXPECT_TRUE(gone_within(children, std::chrono::seconds(10)));
  }
}

TEST_F(LauncherTest, ASignalThatIsIgnoredStaysSo) {
  const auto before = signal(SIGHUP, SIG_IGN);  // as nohup has it
  const pid_t parent = spawn_parent("when told");
  signal(SIGHUP, before);
  pids(3);
  kill(parent, SIGHUP);
  std::ofstream(folder_ / "leave").flush();
  int status = 0;
  ASSERT_EQ(waitpid(parent, &status, 0), parent);
  ASSERT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), kGood);
}

TEST_F(LauncherTest, NoRankSurvivesTheParentsSuddenDeath) {
  const pid_t parent = spawn_parent();
  const std::set<pid_t> children = pids(3);
  kill(parent, SIGKILL);
  int status = 0;
  ASSERT_EQ(waitpid(parent, &status, 0), parent);
  EXPECT_TRUE(gone_within(children, std::chrono::seconds(10)));
}

// Sets variables for one test and clears all that launchers use.
class PlaceTest : public testing::Test {
 protected:
  PlaceTest() { clear(); }
  ~PlaceTest() override { clear(); }
  static void clear() {
    for (const char* name :
         {"TUTTI_RANK", "TUTTI_RANKS", "TUTTI_LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
          "OMPI_COMM_WORLD_LOCAL_RANK", "PMI_RANK", "PMI_SIZE", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR",
          "MASTER_PORT", "TUTTI_COMM_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID", "SLURM_LOCALID"}) {
      unsetenv(name);
    }
  }
  static void set(const char* name, const char* value) { setenv(name, value, 1); }
};

TEST_F(PlaceTest, IsNothingWithoutALauncher) {
  EXPECT_FALSE(detect_launcher().place);
  EXPECT_EQ(detect_launcher().refusal, "");
}

TEST_F(PlaceTest, ReadsOpenMpi) {
  set("OMPI_COMM_WORLD_RANK", "5");
  set("OMPI_COMM_WORLD_SIZE", "8");
  set("OMPI_COMM_WORLD_LOCAL_RANK", "1");
  const auto place = detect_launcher().place;
  ASSERT_TRUE(place);
  EXPECT_EQ(place->rank, 5);
  EXPECT_EQ(place->ranks, 8);
  EXPECT_EQ(place->local_rank, 1);
  EXPECT_EQ(place->launcher, "mpirun");
}

TEST_F(PlaceTest, OurOwnVariablesComeFirst) {
  set("OMPI_COMM_WORLD_RANK", "5");
  set("OMPI_COMM_WORLD_SIZE", "8");
  set("TUTTI_RANK", "0");
  set("TUTTI_RANKS", "2");
  EXPECT_EQ(detect_launcher().place->ranks, 2);
}

TEST_F(PlaceTest, RankAloneIsNotTorchrun) {
  set("RANK", "1");
  EXPECT_FALSE(detect_launcher().place);
  EXPECT_EQ(detect_launcher().refusal, "");
  set("WORLD_SIZE", "2");
  set("MASTER_ADDR", "localhost");
  set("MASTER_PORT", "29500");
  ASSERT_TRUE(detect_launcher().place);
  EXPECT_EQ(detect_launcher().place->launcher, "torchrun");
}

TEST_F(PlaceTest, RanksOfTorchrunThatCannotMeetAreRefusedWithWhatIsMissing) {
  set("RANK", "0");
  set("WORLD_SIZE", "2");
  EXPECT_FALSE(detect_launcher().place);
  EXPECT_THAT(detect_launcher().refusal, AllOf(HasSubstr("RANK=0"), HasSubstr("MASTER_ADDR and MASTER_PORT are not")));
  set("MASTER_ADDR", "localhost");
  EXPECT_FALSE(detect_launcher().place);
  EXPECT_THAT(detect_launcher().refusal, HasSubstr("MASTER_PORT is not"));
  unsetenv("MASTER_ADDR");
  set("MASTER_PORT", "29500");
  EXPECT_THAT(detect_launcher().refusal, HasSubstr("MASTER_ADDR is not"));
  set("TUTTI_COMM_ID", "tcp://localhost:4711");
  ASSERT_TRUE(detect_launcher().place);
  EXPECT_EQ(detect_launcher().place->ranks, 2);
  unsetenv("TUTTI_COMM_ID");
  set("WORLD_SIZE", "1");  // nobody would wait
  EXPECT_FALSE(detect_launcher().place);
  EXPECT_EQ(detect_launcher().refusal, "");
  set("WORLD_SIZE", "2");
  set("SLURM_PROCID", "1");
  set("SLURM_STEP_NUM_TASKS", "4");
  set("SLURM_STEP_ID", "0");
  ASSERT_TRUE(detect_launcher().place);
  EXPECT_EQ(detect_launcher().place->launcher, "srun");
}

TEST_F(PlaceTest, SlurmCountsInsideAStepOnly) {
  set("SLURM_PROCID", "1");
  set("SLURM_STEP_NUM_TASKS", "4");
  EXPECT_FALSE(detect_launcher().place);
  set("SLURM_STEP_ID", "4294967291");  // the batch script
  EXPECT_FALSE(detect_launcher().place);
  set("SLURM_STEP_ID", "0");
  ASSERT_TRUE(detect_launcher().place);
  EXPECT_EQ(detect_launcher().place->launcher, "srun");
}

TEST_F(PlaceTest, RefusesWhatNoLauncherWouldSay) {
  set("PMI_SIZE", "2");
  for (const char* rank : {"2", "-1", "x", "", "1x", "99999999999"}) {
    set("PMI_RANK", rank);
    EXPECT_FALSE(detect_launcher().place) << rank;
    EXPECT_THAT(detect_launcher().refusal, AllOf(HasSubstr("PMI_RANK"), HasSubstr(rank))) << rank;
  }
  set("PMI_RANK", "0");
  set("PMI_SIZE", "0");
  EXPECT_THAT(detect_launcher().refusal, HasSubstr("PMI_SIZE is '0'"));
}

TEST_F(PlaceTest, RefusesHalfOfALaunchersVariables) {
  set("OMPI_COMM_WORLD_RANK", "0");
  EXPECT_THAT(detect_launcher().refusal,
              AllOf(HasSubstr("OMPI_COMM_WORLD_RANK=0"), HasSubstr("OMPI_COMM_WORLD_SIZE is not")));
  clear();
  set("TUTTI_RANKS", "2");
  EXPECT_THAT(detect_launcher().refusal, HasSubstr("TUTTI_RANK is not"));
  set("OMPI_COMM_WORLD_RANK", "0");  // a later launcher does not hide it
  set("OMPI_COMM_WORLD_SIZE", "2");
  EXPECT_FALSE(detect_launcher().place);
}

TEST_F(PlaceTest, LeftoversWithoutTheirLaunchersMarkAreNoError) {
  set("RANK", "seven");
  set("SLURM_PROCID", "x");
  EXPECT_FALSE(detect_launcher().place);
  EXPECT_EQ(detect_launcher().refusal, "");
}

}  // namespace
}  // namespace tutti::program
