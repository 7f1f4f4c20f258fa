// A thousand strangers at every socket of ranks that are about to form a communicator: it forms all the same, and soon.
//
// TEST_STRANGERS sets how many connections each socket gets (250 unless told), TEST_REPEATS how often each
// case is tried, with and without strangers in turn (3 unless told).
#include "tests/fault/strangers.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "include/tutti/tutti.h"
#include "src/base/clock.h"

namespace tutti::fault {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

int setting(const char* name, int otherwise) {
  const char* told = std::getenv(name);
  return told != nullptr ? std::atoi(told) : otherwise;
}

/// What all processes of one trial share.
struct Stage {
  Scene scene;
  std::uint64_t created_ns[kMostVictims] = {};
  std::uint64_t reduced_ns[kMostVictims] = {};
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
  Stage* operator->() const { return stage_; }
  Stage& operator*() const { return *stage_; }

 private:
  Stage* stage_;
};

pid_t spawn(const std::function<void()>& life) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  life();
  ::_exit(0);
}

/// A rank's life; exits with 0 where all went well. Has few descriptors, so that strangers could exhaust them.
void live(Stage& stage, const std::string& address, const char* transports, int ranks, int rank) {
  const rlimit few{1024, 1024};
  ::setrlimit(RLIMIT_NOFILE, &few);
  tutti_config config = TUTTI_CONFIG_INIT;
  config.transports = transports;
  config.connect_timeout_ns = 40'000 * kMs;
  config.operation_timeout_ns = 20'000 * kMs;
  tutti_comm* comm = nullptr;
  tutti_status status = tutti_comm_create_address(&comm, address.c_str(), ranks, rank, &config);
  stage.created_ns[rank] = now_ns();
  std::vector<std::int32_t> data(1000, rank + 1);
  if (status == TUTTI_SUCCESS) {
    status = tutti_all_reduce(data.data(), data.data(), data.size(), TUTTI_INT32, TUTTI_SUM, comm, {}, nullptr);
  }
  stage.reduced_ns[rank] = now_ns();
  tutti_error error{};
  error.size = sizeof error;
  static_cast<void>(tutti_error_get(comm, &error));
  if (status != TUTTI_SUCCESS) std::fprintf(stderr, "rank %d: %s\n", rank, error.message);
  const std::int32_t expected = ranks * (ranks + 1) / 2;
  const bool right = std::all_of(data.begin(), data.end(), [&](std::int32_t value) { return value == expected; });
  if (status == TUTTI_SUCCESS) status = tutti_comm_finalize(comm);
  tutti_comm_destroy(comm);
  ::_exit(status != TUTTI_SUCCESS ? 1 : right ? 0 : 2);
}

struct Case {
  int ranks;
  const char* transports;
  Kind kind;
};

struct Trial {
  double created_ms = 0;  ///< from the last rank's start until all have a communicator
  double reduced_ms = 0;  ///< until all have finished their first operation
  int places = 0, before = 0, during = 0, held = 0, wrong_keys = 0;
};

bool wait_until(const std::function<bool()>& true_now, int seconds) {
  const std::uint64_t until = now_ns() + static_cast<std::uint64_t>(seconds) * 1000 * kMs;
  while (!true_now()) {
    if (now_ns() > until) return false;
    ::usleep(2000);
  }
  return true;
}

/// All ranks but the last have joined and wait; rank 0 holds the rendezvous and its own door.
bool all_listen(const Scene& scene, int ranks) {
  for (int r = 0; r + 1 < ranks; ++r) {
    if (listening(scene.pids[r]).size() < (r == 0 ? 2u : 1u)) return false;
  }
  return true;
}

Trial perform(const Case& at, int strangers, const std::string& address) {
  SharedStage stage;
  Scene& scene = stage->scene;
  const auto rank = [&](int r) {
    scene.pids[r] = spawn([&] { live(*stage, address, at.transports, at.ranks, r); });
    scene.victims.store(r + 1, std::memory_order_release);  // release: its pid is there
  };
  for (int r = 0; r + 1 < at.ranks; ++r) rank(r);
  EXPECT_TRUE(wait_until([&] { return all_listen(scene, at.ranks); }, 10)) << "ranks do not wait for the last one";
  ::usleep(50'000);
  const pid_t attacker = strangers != 0 ? spawn([&] { attack(scene, strangers, at.kind); }) : 0;
  if (attacker != 0) {
    // Acquire: the figures below are from before. Two rounds: those who lie have been answered where somebody answers.
    EXPECT_TRUE(wait_until([&] { return scene.rounds.load(std::memory_order_acquire) >= 2; }, 20)) << "strangers are slow";
  }
  Trial trial;
  trial.before = scene.connected.load();
  trial.held = scene.held.load();
  const std::uint64_t start = now_ns();
  rank(at.ranks - 1);
  for (int r = 0; r < at.ranks; ++r) {
    int status = 0;
    ::waitpid(scene.pids[r], &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "rank " << r << " ended with " << status;
  }
  trial.during = scene.connected.load() - trial.before;
  trial.places = scene.places.load();
  trial.wrong_keys = scene.wrong_keys.load();
  scene.stop.store(true, std::memory_order_release);  // release: as the attacker's acquire wants it
  if (attacker != 0) ::waitpid(attacker, nullptr, 0);
  const auto last = [&](const std::uint64_t* times) {
    return static_cast<double>(*std::max_element(times, times + at.ranks) - start) / static_cast<double>(kMs);
  };
  trial.created_ms = last(stage->created_ns);
  trial.reduced_ms = last(stage->reduced_ns);
  return trial;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class Strangers : public testing::TestWithParam<Case> {};

TEST_P(Strangers, DoNotKeepRanksFromMeetingSoon) {
  const int each = setting("TEST_STRANGERS", 250);
  const int repeats = setting("TEST_REPEATS", 3);
  const auto folder = std::filesystem::temp_directory_path() / ("tutti-strangers-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  std::vector<double> quiet, disturbed, quiet_reduced, disturbed_reduced;
  for (int i = 0; i < repeats; ++i) {
    const std::string address = "file://" + (folder / std::to_string(i)).string();
    const Trial alone = perform(GetParam(), 0, address + "-alone");
    const Trial crowded = perform(GetParam(), each, address + "-crowded");
    EXPECT_GE(crowded.before, each * GetParam().ranks) << "the attack did not take place";
    quiet.push_back(alone.created_ms);
    disturbed.push_back(crowded.created_ms);
    quiet_reduced.push_back(alone.reduced_ms);
    disturbed_reduced.push_back(crowded.reduced_ms);
    std::printf(
        "alone %.0f ms, first operation after %.0f; with strangers %.0f ms, %.0f; %d connections before the last rank, "
        "%d of them open, %d more later, at %d sockets; %d wrong keys\n",
        alone.created_ms, alone.reduced_ms, crowded.created_ms, crowded.reduced_ms, crowded.before, crowded.held,
        crowded.during, crowded.places, crowded.wrong_keys);
  }
  std::printf("medians: created %.0f and %.0f ms, ratio %.2f; first operation %.0f and %.0f ms, ratio %.2f\n",
              median(quiet), median(disturbed), median(disturbed) / median(quiet), median(quiet_reduced),
              median(disturbed_reduced), median(disturbed_reduced) / median(quiet_reduced));
  EXPECT_LE(median(disturbed), 2 * median(quiet) + 100);
  EXPECT_TRUE(std::filesystem::is_empty(folder)) << "left behind: " << std::filesystem::directory_iterator(folder)->path();
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Of, Strangers,
                         testing::Values(Case{4, "shm", Kind::kMix}, Case{4, "tcp", Kind::kMix},
                                         Case{4, "tcp", Kind::kSilent}, Case{8, "shm,tcp", Kind::kMix}),
                         [](const testing::TestParamInfo<Case>& p) {
                           const std::string transports = p.param.transports;
                           return (transports.size() > 3 ? "both" : transports) + std::to_string(p.param.ranks) +
                                  (p.param.kind == Kind::kSilent ? "silent" : "mixed");
                         });

}  // namespace
}  // namespace tutti::fault
