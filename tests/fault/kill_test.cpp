// A rank is killed at a random moment: every other returns an error that names it, within five seconds, and nothing is
// left. TEST_KILLS sets how many moments are tried in each case (4 unless told); they are printed where one fails.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "include/tutti/tutti.h"
#include "src/base/clock.h"
#include "tests/fault/strangers.h"
#include "tests/support/holdings.h"

namespace tutti::fault {
namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kBoundNs = 5'000 * kMs;
constexpr int kMostRanks = 16;

/// How a rank's life ended.
enum Outcome { kNothing, kNamesVictim, kNamesNobody, kNamesAnother, kNoError };

/// What a rank learnt; lives in memory that the test shares with it.
struct Learnt {
  std::atomic<bool> created{false};
  std::uint64_t returned_ns = 0;  ///< when it had its error
  Outcome outcome = kNothing;
  bool descriptors_left = false;  ///< more are open after destroy than were before creation
  char message[768] = {};
};

struct Stage {
  Learnt ranks[kMostRanks];
};

class SharedStage {
 public:
  SharedStage() {
    void* memory = ::mmap(nullptr, sizeof(Stage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    stage_ = new (memory) Stage;
  }
  ~SharedStage() { ::munmap(stage_, sizeof(Stage)); }
  SharedStage(const SharedStage&) = delete;
  SharedStage& operator=(const SharedStage&) = delete;
  Learnt& operator[](int rank) const { return stage_->ranks[rank]; }

 private:
  Stage* stage_;
};

struct Case {
  int ranks;
  const char* transports;
};

struct Plan {
  std::string address;
  int victim = 0;
  std::size_t count = 1;
  std::uint64_t connect_timeout_ns = 0;
};

Outcome judge(const tutti_error& error, int victim) {
  if (error.status == TUTTI_SUCCESS) return kNoError;
  if (error.guilty_count == 0) return kNamesNobody;
  const auto named = std::min<std::uint32_t>(error.guilty_count, std::size(error.guilty));
  for (std::uint32_t i = 0; i < named; ++i) {
    if (error.guilty[i].rank != victim) return kNamesAnother;
  }
  return kNamesVictim;
}

/// A rank's life: joins, then reduces until something goes wrong, and notes what it learnt.
[[noreturn]] void live(Learnt& learnt, const Case& at, const Plan& plan, int rank) {
  tutti_config config = TUTTI_CONFIG_INIT;
  config.transports = at.transports;
  config.operation_timeout_ns = 20'000 * kMs;
  config.connect_timeout_ns = plan.connect_timeout_ns;
  const test::Holdings before = test::Holdings::now();
  tutti_comm* comm = nullptr;
  tutti_status status = tutti_comm_create_address(&comm, plan.address.c_str(), at.ranks, rank, &config);
  // Release: pairs with the acquire of whoever waits for all to be there.
  learnt.created.store(status == TUTTI_SUCCESS, std::memory_order_release);
  std::vector<float> data(plan.count, 1);
  for (int i = 0; i < 100'000'000 && status == TUTTI_SUCCESS; ++i) {
    status = tutti_all_reduce(data.data(), data.data(), plan.count, TUTTI_FLOAT32, TUTTI_MAX, comm, {}, nullptr);
  }
  learnt.returned_ns = now_ns();
  tutti_error error{};
  error.size = sizeof error;
  static_cast<void>(tutti_error_get(comm, &error));
  std::copy(std::begin(error.message), std::end(error.message), learnt.message);
  learnt.outcome = judge(error, plan.victim);
  const bool was_created = comm != nullptr;
  tutti_comm_destroy(comm);
  learnt.descriptors_left = was_created && !test::holds_no_more_than(before);
  ::_exit(0);
}

/// What of /dev/shm has "tutti" in its name.
std::set<std::string> files_of_shared_memory() {
  std::set<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator i("/dev/shm", error), end; !error && i != end; i.increment(error)) {
    const std::string name = i->path().string();
    if (name.find("tutti") != std::string::npos) names.insert(name);
  }
  return names;
}

class Kill : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    // Whatever a rank left running would become a child of this process.
    ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    folder_ = std::filesystem::temp_directory_path() / ("tutti-kill-" + std::to_string(::getpid()));
    std::filesystem::create_directory(folder_);
    ::setenv("TMPDIR", folder_.c_str(), 1);  // what ranks leave in the folder of temporary files is seen there
    const char* told = std::getenv("TEST_KILLS");
    moments_ = told != nullptr ? std::atoi(told) : 4;
  }
  void TearDown() override {
    ::unsetenv("TMPDIR");
    std::filesystem::remove_all(folder_);
  }

  Plan plan(int victim, std::size_t count, std::uint64_t connect_timeout_ns) {
    return {"file://" + (folder_ / std::to_string(trial_++)).string(), victim, count, connect_timeout_ns};
  }
  /// One trial: all start, the victim is killed at `kill_ns` after `from`, and everything is looked at.
  struct Trial {
    double slowest_ms = 0;        ///< from the kill to the last survivor's error
    bool before_created = false;  ///< killed before it had its communicator
  };
  enum class From { kStart, kCreated };
  std::vector<pid_t> start_ranks(const SharedStage& stage, const Plan& plan, From from, std::uint64_t kill_ns);
  Trial perform(const Plan& plan, From from, std::uint64_t kill_ns);
  void judge_survivor(const Learnt& learnt, int rank, From from, std::uint64_t killed_ns, const std::string& moment);
  void expect_nothing_left(const std::set<std::string>& sockets, const std::set<std::string>& shared_before,
                           const std::string& moment);

  std::filesystem::path folder_;
  int moments_ = 0;
  int trial_ = 0;
  int reported_ = 0;  ///< failures that tell_all has followed
};

bool wait_for_all(const SharedStage& stage, int ranks) {
  const std::uint64_t until = now_ns() + 30'000 * kMs;
  for (int r = 0; r < ranks; ++r) {
    // Acquire: the flag's other side is a release.
    while (!stage[r].created.load(std::memory_order_acquire)) {
      if (now_ns() > until) return false;
      ::usleep(200);
    }
  }
  return true;
}

// True where all have ended in time.
bool reap(const std::vector<pid_t>& pids, std::uint64_t until_ns, std::vector<int>& statuses) {
  statuses.assign(pids.size(), -1);
  std::vector<bool> ended(pids.size(), false);
  for (;;) {
    for (std::size_t r = 0; r < pids.size(); ++r) {
      if (!ended[r]) ended[r] = ::waitpid(pids[r], &statuses[r], WNOHANG) == pids[r];
    }
    if (std::all_of(ended.begin(), ended.end(), [](bool yes) { return yes; })) return true;
    if (now_ns() > until_ns) break;
    ::usleep(500);
  }
  for (std::size_t r = 0; r < pids.size(); ++r) {
    if (ended[r]) continue;
    ::kill(pids[r], SIGKILL);
    ::waitpid(pids[r], &statuses[r], 0);
  }
  return false;
}

// What each rank knew when, for whoever looks for the reason.
void tell_all(const SharedStage& stage, int ranks, std::uint64_t killed_ns) {
  for (int r = 0; r < ranks; ++r) {
    const double after_ms =
        (static_cast<double>(stage[r].returned_ns) - static_cast<double>(killed_ns)) / static_cast<double>(kMs);
    std::printf("  rank %d after %.1f ms, created %d: %s\n", r, after_ms, stage[r].created.load() ? 1 : 0,
                stage[r].message);
  }
}

// The ranks' processes, once the moment to kill has come.
std::vector<pid_t> Kill::start_ranks(const SharedStage& stage, const Plan& plan, From from, std::uint64_t kill_ns) {
  const int ranks = GetParam().ranks;
  std::vector<pid_t> pids;
  const std::uint64_t start = now_ns();
  for (int r = 0; r < ranks; ++r) {
    const pid_t pid = ::fork();
    if (pid == 0) live(stage[r], GetParam(), plan, r);
    pids.push_back(pid);
  }
  if (from == From::kCreated) {
    EXPECT_TRUE(wait_for_all(stage, ranks)) << "the ranks did not meet";
  }
  const std::uint64_t at = (from == From::kCreated ? now_ns() : start) + kill_ns;
  const std::uint64_t now = now_ns();
  if (at > now) ::usleep(static_cast<useconds_t>((at - now) / 1000));
  return pids;
}

Kill::Trial Kill::perform(const Plan& plan, From from, std::uint64_t kill_ns) {
  const int ranks = GetParam().ranks;
  const SharedStage stage;
  const auto shared_before = files_of_shared_memory();
  const std::vector<pid_t> pids = start_ranks(stage, plan, from, kill_ns);
  std::set<std::string> sockets;
  for (const pid_t pid : pids) sockets.merge(socket_inodes(pid));
  Trial trial;
  trial.before_created = !stage[plan.victim].created.load(std::memory_order_acquire);  // acquire: as above
  const std::uint64_t killed_ns = now_ns();  // before: the others may know before this process runs again
  ::kill(pids[static_cast<std::size_t>(plan.victim)], SIGKILL);
  const std::string moment = "victim " + std::to_string(plan.victim) + ", " + std::to_string(plan.count) +
                             " elements, killed " + std::to_string(kill_ns / 1000) + " us after " +
                             (from == From::kStart ? "the start" : "creation") +
                             (trial.before_created ? ", before it had its communicator" : "");
  std::vector<int> statuses;
  EXPECT_TRUE(reap(pids, killed_ns + 3 * kBoundNs, statuses)) << "survivors hang: " << moment;
  for (int r = 0; r < ranks; ++r) {
    if (r == plan.victim) continue;
    const int status = statuses[static_cast<std::size_t>(r)];
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
        << "rank " << r << " ended with " << status << ": " << moment;
    judge_survivor(stage[r], r, from, killed_ns, moment);
    if (stage[r].returned_ns > killed_ns) {
      trial.slowest_ms =
          std::max(trial.slowest_ms, static_cast<double>(stage[r].returned_ns - killed_ns) / static_cast<double>(kMs));
    }
  }
  expect_nothing_left(sockets, shared_before, moment);
  const auto* result = testing::UnitTest::GetInstance()->current_test_info()->result();
  if (result->total_part_count() > reported_) tell_all(stage, ranks, killed_ns);
  reported_ = result->total_part_count();
  return trial;
}

void Kill::judge_survivor(const Learnt& learnt, int rank, From from, std::uint64_t killed_ns, const std::string& moment) {
  EXPECT_EQ(learnt.outcome, kNamesVictim) << "rank " << rank << " says \"" << learnt.message << "\": " << moment;
  EXPECT_GE(learnt.returned_ns, killed_ns)
      << "rank " << rank << " had an error before: " << learnt.message << ": " << moment;
  EXPECT_LT(learnt.returned_ns, killed_ns + kBoundNs) << "rank " << rank << " was slow: " << moment;
  EXPECT_FALSE(from == From::kCreated && learnt.descriptors_left) << "rank " << rank << " kept descriptors: " << moment;
}

void Kill::expect_nothing_left(const std::set<std::string>& sockets, const std::set<std::string>& shared_before,
                               const std::string& moment) {
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a process is left: " << moment;
  EXPECT_EQ(still_open(sockets), std::set<std::string>()) << "sockets are left: " << moment;
  EXPECT_EQ(files_of_shared_memory(), shared_before) << "shared memory is left: " << moment;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    ADD_FAILURE() << entry.path() << " is left: " << moment;
    std::filesystem::remove_all(entry.path());
  }
}

// Most moments are early, where links are being opened.
std::uint64_t moment_within(std::minstd_rand& random, std::uint64_t most_ns) {
  const double u = std::uniform_real_distribution<double>(0, 1)(random);
  return static_cast<std::uint64_t>(u * u * static_cast<double>(most_ns));
}

int seed_of(const Case& at) { return at.ranks * 2 + (at.transports[0] == 't' ? 1 : 0); }

TEST_P(Kill, DuringOperationsIsNamedWithinFiveSeconds) {
  std::minstd_rand random(static_cast<unsigned>(seed_of(GetParam())));
  double slowest = 0;
  for (int i = 0; i < moments_; ++i) {
    const int victim = i % GetParam().ranks;
    const std::size_t count = std::size_t{1} << (random() % 19);
    slowest =
        std::max(slowest, perform(plan(victim, count, 0), From::kCreated, moment_within(random, 700 * kMs)).slowest_ms);
  }
  std::printf("%d moments, the slowest survivor knew after %.0f ms\n", moments_, slowest);
}

// A rank that has not come is missed only when the time to connect is over, so that is what bounds the wait here.
TEST_P(Kill, DuringCreationIsNamedWithinFiveSeconds) {
  std::minstd_rand random(static_cast<unsigned>(seed_of(GetParam())));
  double slowest = 0;
  int early = 0;
  for (int i = 0; i < moments_; ++i) {
    const int victim = i % GetParam().ranks;
    std::uniform_int_distribution<std::uint64_t> moment(0, 10 * kMs * static_cast<std::uint64_t>(GetParam().ranks));
    const Trial trial = perform(plan(victim, 1024, 3'000 * kMs), From::kStart, moment(random));
    slowest = std::max(slowest, trial.slowest_ms);
    early += trial.before_created ? 1 : 0;
  }
  std::printf("%d moments, %d of them during creation, the slowest survivor knew after %.0f ms\n", moments_, early,
              slowest);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Kill,
                         testing::Values(Case{2, "shm"}, Case{4, "shm"}, Case{2, "tcp"}, Case{4, "tcp"}, Case{8, "shm"},
                                         Case{8, "tcp"}),
                         [](const testing::TestParamInfo<Case>& p) {
                           return p.param.transports + std::to_string(p.param.ranks);
                         });

}  // namespace
}  // namespace tutti::fault
