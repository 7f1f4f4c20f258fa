// Many ranks on one machine, as processes and as threads: they meet, add up once, and leave, and the time is printed.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "include/tutti/tutti.h"
#include "src/base/clock.h"

namespace {

constexpr int kFailed = 1;
constexpr int kWrong = 2;

int complain(const tutti_comm* comm, int rank) {
  tutti_error error{};
  error.size = sizeof error;
  static_cast<void>(tutti_error_get(comm, &error));
  std::fprintf(stderr, "rank %d: %s\n", rank, error.message);
  return kFailed;
}

double ms_since(std::uint64_t start) { return static_cast<double>(tutti::now_ns() - start) / 1e6; }

// Adds up once and takes leave. Returns 0, kFailed or kWrong.
int use(tutti_comm* comm, int ranks, int rank) {
  std::vector<std::int64_t> data(1000, rank + 1);
  tutti_status status = tutti_all_reduce(data.data(), data.data(), data.size(), TUTTI_INT64, TUTTI_SUM, comm, {}, nullptr);
  const std::int64_t expected = std::int64_t{ranks} * (ranks + 1) / 2;
  const bool right = std::all_of(data.begin(), data.end(), [&](std::int64_t value) { return value == expected; });
  if (status == TUTTI_SUCCESS) status = tutti_comm_finalize(comm);
  if (status != TUTTI_SUCCESS) complain(comm, rank);
  tutti_comm_destroy(comm);
  return status != TUTTI_SUCCESS ? kFailed : right ? 0 : kWrong;
}

class ManyRanks : public testing::TestWithParam<const char*> {};

TEST_P(ManyRanks, MeetAsSixtyFourProcesses) {
  constexpr int kRanks = 64;
  const auto file = std::filesystem::temp_directory_path() / ("tutti-many-" + std::to_string(getpid()));
  const std::string address = "file://" + file.string();
  const std::uint64_t start = tutti::now_ns();
  std::vector<pid_t> pids;
  for (int r = 0; r < kRanks; ++r) {
    const pid_t pid = fork();
    if (pid != 0) {
      pids.push_back(pid);
      continue;
    }
    tutti_config config = TUTTI_CONFIG_INIT;
    config.transports = GetParam();
    tutti_comm* comm = nullptr;
    if (tutti_comm_create_address(&comm, address.c_str(), kRanks, r, &config) != TUTTI_SUCCESS) _exit(complain(nullptr, r));
    if (r == 0) std::fprintf(stderr, "rank 0 has its communicator after %.0f ms\n", ms_since(start));
    _exit(use(comm, kRanks, r));
  }
  for (int r = 0; r < kRanks; ++r) {
    int status = 0;
    waitpid(pids[static_cast<std::size_t>(r)], &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "rank " << r << " ended with " << status;
  }
  std::printf("%d processes over %s met, added up and left within %.0f ms\n", kRanks, GetParam(), ms_since(start));
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST_P(ManyRanks, MeetAsThirtyTwoThreads) {
  constexpr int kRanks = 32;
  const std::uint64_t start = tutti::now_ns();
  tutti_config config = TUTTI_CONFIG_INIT;
  config.transports = GetParam();
  std::vector<tutti_comm*> comms(kRanks);
  ASSERT_EQ(tutti_comm_create_all(comms.data(), kRanks, &config), TUTTI_SUCCESS);
  std::printf("created after %.0f ms\n", ms_since(start));
  std::vector<int> results(kRanks, kFailed);
  std::vector<std::thread> threads;
  for (int r = 0; r < kRanks; ++r) {
    const auto at = static_cast<std::size_t>(r);
    threads.emplace_back([&, at, r] { results[at] = use(comms[at], kRanks, r); });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("%d threads over %s met, added up and left within %.0f ms\n", kRanks, GetParam(), ms_since(start));
  EXPECT_EQ(results, std::vector<int>(kRanks, 0));
}

INSTANTIATE_TEST_SUITE_P(Over, ManyRanks, testing::Values("shm", "tcp"),
                         [](const testing::TestParamInfo<const char*>& p) { return std::string(p.param); });

}  // namespace
