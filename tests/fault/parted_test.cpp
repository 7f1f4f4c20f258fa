// A rank that calls something else and is killed: the others hear what it called, and that it died. One that called the
// same has died, and nothing else.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "include/tutti/tutti.h"

namespace tutti::fault {
namespace {

struct Case {
  int ranks;
  const char* transports;
};

tutti_status sum(tutti_comm* comm, std::size_t count) {
  std::vector<float> data(count, 1);
  return tutti_all_reduce(data.data(), data.data(), count, TUTTI_FLOAT32, TUTTI_SUM, comm, {}, nullptr);
}

tutti_error error_of(const tutti_comm* comm) {
  tutti_error error{};
  error.size = sizeof error;
  static_cast<void>(tutti_error_get(comm, &error));
  return error;
}

class Parted : public testing::TestWithParam<Case> {
 protected:
  /// Ranks as processes, each with a communicator; `body` says whether all was as it should be.
  static void run(const std::function<bool(int rank, tutti_comm* comm)>& body) {
    const auto file = std::filesystem::temp_directory_path() / ("tutti-parted-" + std::to_string(::getpid()));
    const std::string address = "file://" + file.string();
    std::vector<pid_t> pids;
    for (int rank = 0; rank < GetParam().ranks; ++rank) {
      const pid_t pid = ::fork();
      if (pid == 0) live(address, rank, body);
      pids.push_back(pid);
    }
    for (int rank = 0; rank < GetParam().ranks; ++rank) {
      int status = -1;
      ::waitpid(pids[static_cast<std::size_t>(rank)], &status, 0);
      const bool killed = rank == victim() && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
      EXPECT_TRUE(killed || (rank != victim() && status == 0)) << "rank " << rank << " ended with " << status;
    }
    std::filesystem::remove(file);
  }
  [[noreturn]] static void live(const std::string& address, int rank,
                                const std::function<bool(int rank, tutti_comm* comm)>& body) {
    tutti_config config = TUTTI_CONFIG_INIT;
    config.transports = GetParam().transports;
    config.operation_timeout_ns = 20'000'000'000;
    tutti_comm* comm = nullptr;
    const bool created =
        tutti_comm_create_address(&comm, address.c_str(), GetParam().ranks, rank, &config) == TUTTI_SUCCESS;
    const bool right = created && body(rank, comm);
    if (!right) std::fprintf(stderr, "rank %d: %s\n", rank, error_of(comm).message);
    tutti_comm_destroy(comm);
    ::_exit(right ? 0 : 1);
  }
  static int victim() { return GetParam().ranks - 1; }
};

TEST_P(Parted, ByAnEmptyCallBeforeItWasKilledIsAMismatchAndItsDeathIsTold) {
  run([](int rank, tutti_comm* comm) {
    if (sum(comm, 100) != TUTTI_SUCCESS) return false;
    if (rank == victim()) {
      static_cast<void>(sum(comm, 0));
      ::usleep(20'000);  // so that the others are in the call that differs
      ::kill(::getpid(), SIGKILL);
    }
    if (sum(comm, 100) != TUTTI_MISMATCH) return false;
    const std::string message = error_of(comm).message;
    return message.find("all_reduce of 0 float32 (sum) as #1") != std::string::npos &&
           message.find("all_reduce of 100 float32 (sum) as #1") != std::string::npos &&
           message.find("later rank " + std::to_string(victim()) + " died") != std::string::npos;
  });
}

// Those that are late have not called what tells the two apart. They hear it from those that have.
TEST_P(Parted, IsToldToRanksThatAreLateAsWell) {
  run([](int rank, tutti_comm* comm) {
    if (sum(comm, 100) != TUTTI_SUCCESS) return false;
    if (rank == victim()) {
      static_cast<void>(sum(comm, 0));
      ::usleep(100'000);
      ::kill(::getpid(), SIGKILL);
    }
    if (rank != 0) ::usleep(400'000);
    return sum(comm, 100) == TUTTI_MISMATCH;
  });
}

TEST_P(Parted, IsNotSaidOfARankThatCalledTheSameAndWasKilled) {
  run([](int rank, tutti_comm* comm) {
    tutti_status status = TUTTI_SUCCESS;
    for (int i = 0; i < 100 && status == TUTTI_SUCCESS; ++i) {
      if (rank == victim() && i == 50) ::kill(::getpid(), SIGKILL);
      status = sum(comm, static_cast<std::size_t>(i % 7 + 1));
    }
    if (status != TUTTI_REMOTE_ERROR) return false;
    const tutti_error error = error_of(comm);
    return error.guilty_count == 1 && error.guilty[0].rank == victim() &&
           std::string(error.message).find("died") != std::string::npos;
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Parted,
                         testing::Values(Case{2, "shm"}, Case{3, "shm"}, Case{5, "shm"}, Case{2, "tcp"}, Case{5, "tcp"}),
                         [](const testing::TestParamInfo<Case>& p) {
                           return p.param.transports + std::to_string(p.param.ranks);
                         });

}  // namespace
}  // namespace tutti::fault
