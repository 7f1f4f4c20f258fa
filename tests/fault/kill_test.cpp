// A rank is killed at a random moment: every other returns an error that names it, within five seconds, and nothing is
// left. TUTTI_TEST_KILLS sets how many moments are tried (8 unless told).
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "include/tutti/tutti.h"
#include "src/base/clock.h"

namespace {

constexpr int good = 0;
constexpr int not_joined = 10;
constexpr int names_nobody = 11;
constexpr int names_another = 12;
constexpr int no_error = 13;

/// A rank's life: joins, then reduces until something goes wrong. Exits with what it learnt.
[[noreturn]] void live(const std::string& address, int ranks, int rank, int victim, const char* transports, std::size_t count) {
  tutti_config config = TUTTI_CONFIG_INIT;
  config.transports = transports;
  config.operation_timeout_ns = 20'000'000'000;
  tutti_comm* comm = nullptr;
  const bool joined = tutti_comm_create_address(&comm, address.c_str(), ranks, rank, &config) == TUTTI_SUCCESS;
  std::vector<float> data(count, 1);
  tutti_status status = TUTTI_SUCCESS;
  for (int i = 0; joined && i < 10'000'000 && status == TUTTI_SUCCESS; ++i) {
    status = tutti_all_reduce(data.data(), data.data(), count, TUTTI_FLOAT32, TUTTI_MAX, comm, {}, nullptr);
  }
  tutti_error error{};
  error.size = sizeof error;
  static_cast<void>(tutti_error_get(joined ? comm : nullptr, &error));
  if (error.status == TUTTI_SUCCESS) _exit(no_error);
  if (error.guilty_count == 0) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.message);
    _exit(joined ? names_nobody : not_joined);
  }
  if (error.guilty[0].rank != victim) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.message);
    _exit(names_another);
  }
  tutti_comm_destroy(comm);
  _exit(good);
}

struct Case {
  int ranks;
  const char* transports;
};

class Kill : public testing::TestWithParam<Case> {};

TEST_P(Kill, TheOthersNameTheDeadRankWithinFiveSeconds) {
  const Case& at = GetParam();
  const char* told = std::getenv("TUTTI_TEST_KILLS");
  const int moments = told != nullptr ? std::atoi(told) : 8;
  const auto folder = std::filesystem::temp_directory_path() / ("tutti-kill-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  std::minstd_rand random(static_cast<unsigned>(at.ranks));
  for (int moment = 0; moment < moments; ++moment) {
    const int victim = static_cast<int>(random() % static_cast<unsigned>(at.ranks));
    const std::string address = "file://" + (folder / std::to_string(moment)).string();
    const std::size_t count = std::size_t{1} << (random() % 19);
    std::vector<pid_t> pids;
    for (int r = 0; r < at.ranks; ++r) {
      const pid_t pid = fork();
      if (pid == 0) live(address, at.ranks, r, victim, at.transports, count);
      pids.push_back(pid);
    }
    // From the middle of the rendezvous to well into the operations.
    usleep(300'000 + static_cast<useconds_t>(random() % 700'000));
    kill(pids[static_cast<std::size_t>(victim)], SIGKILL);
    const std::uint64_t killed = tutti::now_ns();
    for (int r = 0; r < at.ranks; ++r) {
      int status = 0;
      waitpid(pids[static_cast<std::size_t>(r)], &status, 0);
      if (r == victim) continue;
      EXPECT_TRUE(WIFEXITED(status)) << "rank " << r << " was ended by signal " << WTERMSIG(status);
      EXPECT_EQ(WEXITSTATUS(status), good) << "rank " << r << ", victim " << victim << ", moment " << moment;
    }
    EXPECT_LT(tutti::now_ns() - killed, 5'000'000'000u) << "victim " << victim << ", moment " << moment;
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder)) << "left behind: " << std::filesystem::directory_iterator(folder)->path();
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Kill, testing::Values(Case{2, "shm"}, Case{4, "shm"}, Case{2, "tcp"}, Case{4, "tcp"}),
                         [](const testing::TestParamInfo<Case>& p) { return p.param.transports + std::to_string(p.param.ranks); });

}  // namespace
