// Ranks as threads that join by whatever each test gives them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/base/socket.h"
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

/// A port that nobody else takes before the test does: from below those that the kernel hands out by itself (to whoever
/// connects anywhere meanwhile), another one at each call, and from another place in each process.
inline std::uint16_t free_port() {
  static constexpr unsigned kFirst = 12'000, kStretch = 40, kStretches = 400;
  static unsigned next = static_cast<unsigned>(::getpid()) % kStretches * kStretch;
  for (unsigned tries = 0; tries < kStretch * kStretches; ++tries) {
    const unsigned port = kFirst + next++ % (kStretch * kStretches);
    if (listen_on("lo", port, port).ok()) return static_cast<std::uint16_t>(port);
  }
  ADD_FAILURE() << "no port is free from " << kFirst << " on";
  return 0;
}

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
