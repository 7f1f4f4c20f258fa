// Ranks for tests: as threads of this process, each with a communicator of its own.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "include/tutti/tutti.h"

namespace tutti::test {

/// The communicator's error; of NULL this thread's last failure.
inline tutti_error error_of(const tutti_comm* comm) {
  tutti_error error{};
  error.size = sizeof error;
  EXPECT_EQ(tutti_error_get(comm, &error), TUTTI_SUCCESS);
  return error;
}

/// The last failure of this thread, for messages.
inline std::string last_error() {
  const tutti_error error = error_of(nullptr);
  return std::string(error.message) + " | " + error.remedy;
}

/// A group of ranks as threads. `transports` as TUTTI_TRANSPORTS, empty for all.
class Ranks {
 public:
  explicit Ranks(int ranks, const std::string& transports = "", std::uint64_t timeout_ns = 60'000'000'000)
      : Ranks(ranks, with(transports, timeout_ns)) {}
  Ranks(int ranks, const tutti_config& config) : comms_(ranks) {
    EXPECT_EQ(tutti_comm_create_all(comms_.data(), ranks, &config), TUTTI_SUCCESS) << last_error();
  }
  ~Ranks() {
    for (tutti_comm* comm : comms_) tutti_comm_destroy(comm);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  tutti_comm* operator[](int rank) const { return comms_[static_cast<std::size_t>(rank)]; }
  int size() const { return static_cast<int>(comms_.size()); }

  /// Runs `body(rank, comm)` on every rank at once.
  void run(const std::function<void(int, tutti_comm*)>& body) const {
    std::vector<std::thread> threads;
    for (int r = 0; r < size(); ++r) threads.emplace_back([&, r] { body(r, (*this)[r]); });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  static tutti_config with(const std::string& transports, std::uint64_t timeout_ns) {
    tutti_config config = TUTTI_CONFIG_INIT;
    config.transports = transports.empty() ? nullptr : transports.c_str();
    config.operation_timeout_ns = timeout_ns;
    return config;
  }

  std::vector<tutti_comm*> comms_;
};

}  // namespace tutti::test
