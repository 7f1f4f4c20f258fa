// Ranks as threads that join by whatever each test gives them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "src/base/socket.h"
#include "src/base/unique_fd.h"
#include "src/bootstrap/rendezvous.h"
#include "tests/support/temporary_folder.h"

namespace tutti::test {

using testing::HasSubstr;

inline Settings settings_of_test() {
  auto settings = effective_settings(nullptr);
  EXPECT_TRUE(settings.ok()) << settings.status().text();
  settings->interfaces = {"lo"};
  return *settings;
}

inline JoinRequest request_of(int rank, int ranks, double seconds = 20) {
  JoinRequest request;
  request.rank = rank;
  request.ranks = ranks;
  request.settings = settings_of_test();
  request.wait_limits.deadline = Deadline::in(static_cast<std::uint64_t>(seconds * 1e9));
  return request;
}

using Prepare = std::function<void(int thread, JoinRequest& request)>;

/// `threads` calls of join at once; thread t is rank t of `threads` unless `prepare` says otherwise.
inline std::vector<Result<Membership>> join_all(int threads, const Prepare& prepare, double seconds = 20) {
  std::vector<std::unique_ptr<Result<Membership>>> results(static_cast<std::size_t>(threads));
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      JoinRequest request = request_of(t, threads, seconds);
      prepare(t, request);
      results[static_cast<std::size_t>(t)] = std::make_unique<Result<Membership>>(join(request));
    });
  }
  for (std::thread& thread : running) thread.join();
  std::vector<Result<Membership>> all;
  for (auto& result : results) all.push_back(std::move(*result));
  return all;
}

inline tutti_unique_id id_of_test() {
  const auto id = make_unique_id(settings_of_test());
  EXPECT_TRUE(id.ok()) << id.status().text();
  return *id;
}

/// n members that met by a unique id.
inline std::vector<Membership> world_of(int n) {
  const tutti_unique_id id = id_of_test();
  auto results = join_all(n, [&](int, JoinRequest& request) { request.id = &id; });
  std::vector<Membership> members;
  for (auto& result : results) {
    EXPECT_TRUE(result.ok()) << result.status().text();
    if (result) members.push_back(std::move(result).value());
  }
  return members;
}

/// Runs body(member) on a thread for each.
template <typename Body>
void on_each(std::vector<Membership>& members, const Body& body) {
  std::vector<std::thread> running;
  for (Membership& member : members) running.emplace_back([&] { body(member); });
  for (std::thread& thread : running) thread.join();
}

/// Ports that this process alone takes, from below those that the kernel hands out by itself (to whoever connects anywhere
/// meanwhile). An abstract Unix socket keeps the stretch, so that it is free again however the process ends.
class OwnPorts {
 public:
  static constexpr unsigned kPorts = 800;
  OwnPorts() {
    for (unsigned tries = 0; tries < kStretches && stretch_ == kStretches; ++tries)
      take((static_cast<unsigned>(::getpid()) + tries) % kStretches);
  }
  /// One that nobody listens at, and that was not given within the last seconds: whoever got it may not listen yet.
  std::uint16_t take_free() {
    const Deadline deadline = Deadline::in(15'000'000'000);  // of those in use, each is for ten seconds at most
    for (unsigned tries = 1; stretch_ < kStretches && !deadline.passed(); ++tries) {
      const unsigned index = next_++ % kPorts;
      const unsigned port = kFirst + stretch_ * kPorts + index;
      const bool rested = given_ns_[index] == 0 || now_ns() - given_ns_[index] > kRestNs;
      if (rested && listen_on("lo", port, port).ok()) {
        given_ns_[index] = now_ns();
        return static_cast<std::uint16_t>(port);
      }
      if (tries % kPorts == 0) ::usleep(10'000);
    }
    ADD_FAILURE() << "this process has no free port from " << kFirst + stretch_ * kPorts << " on";
    return 0;
  }

 private:
  static constexpr unsigned kFirst = 12'000, kStretches = 20;
  static constexpr std::uint64_t kRestNs = 5'000'000'000;

  void take(unsigned stretch) {
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string name = "tutti-test-ports-" + std::to_string(stretch);
    name.copy(address.sun_path + 1, sizeof address.sun_path - 1);  // a zero first: abstract
    if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return;
    kept_ = std::move(fd);
    stretch_ = stretch;
  }

  UniqueFd kept_;
  unsigned stretch_ = kStretches;  ///< none
  unsigned next_ = 0;
  std::array<std::uint64_t, kPorts> given_ns_{};
};
/// Taken before `main`, so that tests which count descriptors find it there.
inline OwnPorts own_ports;

/// A port that nobody else takes before the test does. One thread at a time.
inline std::uint16_t free_port() { return own_ports.take_free(); }

/// Waits until `condition`, at most 5 s.
inline bool eventually(const std::function<bool()>& condition) {
  const Deadline deadline = Deadline::in(5'000'000'000);
  while (!condition()) {
    if (deadline.passed()) return false;
    ::usleep(1000);
  }
  return true;
}

inline WaitLimits patience_of(double seconds) {
  WaitLimits wait_limits;
  wait_limits.deadline = Deadline::in(static_cast<std::uint64_t>(seconds * 1e9));
  return wait_limits;
}

}  // namespace tutti::test
