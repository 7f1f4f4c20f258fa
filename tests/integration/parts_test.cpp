// Communicators that are made from others: by split and by create_members; their names, and what does not block.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "include/tutti/tutti.h"
#include "tests/support/holdings.h"
#include "tests/support/ranks.h"

namespace tutti::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// That the ranks of `comm` sum up what they should.
void expect_sum(tutti_comm* comm, std::int64_t own, std::int64_t sum, std::size_t count = 3) {
  std::vector<std::int64_t> data(count, own);
  ASSERT_EQ(tutti_all_reduce(data.data(), data.data(), count, TUTTI_INT64, TUTTI_SUM, comm, {}, nullptr), TUTTI_SUCCESS)
      << last_error();
  EXPECT_EQ(data, std::vector<std::int64_t>(count, sum));
}

tutti_comm_state_kind state_of(const tutti_comm* comm) {
  auto state = TUTTI_COMM_CREATING;
  EXPECT_EQ(tutti_comm_state(comm, &state), TUTTI_SUCCESS);
  return state;
}

bool leaves(const tutti_comm* comm, tutti_comm_state_kind state) {
  const auto over = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (state_of(comm) == state && std::chrono::steady_clock::now() < over) usleep(500);
  return state_of(comm) != state;
}

tutti_comm* members_of(tutti_comm* comm, const std::vector<int>& members, std::uint64_t tag,
                       const tutti_config* config = nullptr) {
  tutti_comm* part = nullptr;
  EXPECT_EQ(tutti_comm_create_members(comm, members.data(), static_cast<int>(members.size()), tag, &part, config),
            TUTTI_SUCCESS)
      << last_error();
  return part;
}

TEST(Members, AloneCallAndAreRankedAsListed) {
  for (const int n : {1, 2, 3, 5, 9}) {
    const Ranks ranks(n);
    std::mt19937 random(static_cast<unsigned>(n));
    for (int round = 0; round < 8; ++round) {
      std::vector<int> members(static_cast<std::size_t>(n));
      std::iota(members.begin(), members.end(), 0);
      std::ranges::shuffle(members, random);
      members.resize(1 + random() % members.size());
      const std::int64_t sum = std::accumulate(members.begin(), members.end(), std::int64_t{0});
      ranks.run([&](int rank, tutti_comm* comm) {
        const auto place = std::ranges::find(members, rank);
        if (place == members.end()) return;
        tutti_comm* const part = members_of(comm, members, static_cast<std::uint64_t>(round % 2));
        ASSERT_NE(part, nullptr);
        int own = -1, size = -1;
        EXPECT_EQ(tutti_comm_rank(part, &own), TUTTI_SUCCESS);
        EXPECT_EQ(tutti_comm_size(part, &size), TUTTI_SUCCESS);
        EXPECT_EQ(own, place - members.begin());
        EXPECT_EQ(size, static_cast<int>(members.size()));
        expect_sum(part, rank, sum);
        EXPECT_EQ(tutti_comm_destroy(part), TUTTI_SUCCESS);
      });
    }
    ranks.run([n](int, tutti_comm* comm) { expect_sum(comm, 1, n); });
  }
}

/// Overlapping ones at the same time, while the parent is busy.
TEST(Members, AreMadeByManyThreadsBesideCollectives) {
  constexpr int n = 6;
  const Ranks ranks(n);
  const std::vector<std::vector<int>> all = {{0, 1, 2}, {5, 3, 1, 0}, {2, 4}, {4, 0, 5}};
  ranks.run([&](int rank, tutti_comm* comm) {
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < all.size(); ++t) {
      if (std::ranges::find(all[t], rank) == all[t].end()) continue;
      threads.emplace_back([&, t] {
        for (int round = 0; round < 5; ++round) {
          tutti_comm* const part = members_of(comm, all[t], t);
          ASSERT_NE(part, nullptr);
          expect_sum(part, 1, static_cast<std::int64_t>(all[t].size()));
          EXPECT_EQ(tutti_comm_destroy(part), TUTTI_SUCCESS);
        }
      });
    }
    for (int i = 0; i < 50; ++i) expect_sum(comm, 1, n, 1000);
    for (std::thread& thread : threads) thread.join();
  });
}

TEST(Members, ThatCannotBeAreRefused) {
  const Ranks ranks(3);
  tutti_comm* part = nullptr;
  const auto refused = [&](const std::vector<int>& members, const char* why) {
    EXPECT_EQ(tutti_comm_create_members(ranks[1], members.data(), static_cast<int>(members.size()), 0, &part, nullptr),
              TUTTI_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr(why));
    EXPECT_EQ(part, nullptr);
  };
  refused({}, "needs its members");
  refused({0, 2}, "rank 1 is none of the members");
  refused({0, 1, 3}, "member 3 is outside \"world\"");
  refused({1, -1}, "member -1 is outside");
  refused({1, 2, 1}, "rank 1 is a member twice");
  EXPECT_EQ(tutti_comm_create_members(ranks[1], nullptr, 2, 0, &part, nullptr), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_comm_create_members(nullptr, nullptr, 2, 0, &part, nullptr), TUTTI_INVALID_ARGUMENT);
  ranks.run([](int, tutti_comm* comm) { expect_sum(comm, 1, 3); });
}

TEST(Members, ThatDoNotComeAreNamedAndTheParentStaysSound) {
  const Ranks ranks(5);
  const std::vector<int> members = {0, 1, 3};
  ranks.run([&](int rank, tutti_comm* comm) {
    if (rank > 1) return;
    tutti_config config = TUTTI_CONFIG_INIT;
    config.connect_timeout_ns = 300'000'000;
    tutti_comm* part = nullptr;
    EXPECT_NE(tutti_comm_create_members(comm, members.data(), 3, 4, &part, &config), TUTTI_SUCCESS);
    EXPECT_THAT(last_error(), AllOf(HasSubstr("rank 2 (global 3,"), Not(HasSubstr("rank 1 ("))))
        << "rank 3 is the late one";
  });
  ranks.run([&](int rank, tutti_comm* comm) {
    expect_sum(comm, 1, 5);
    if (std::ranges::find(members, rank) == members.end()) return;
    tutti_comm* const part = members_of(comm, members, 5);
    expect_sum(part, 1, 3);
    EXPECT_EQ(tutti_comm_destroy(part), TUTTI_SUCCESS);
  });
}

/// Nothing that was only asked for counts: the others have not heard of it.
TEST(Members, AreMadeAfterOneWasRefusedOrOnlyEstimated) {
  const Ranks ranks(2);
  const std::vector<int> members = {1, 0};
  ranks.run([&](int rank, tutti_comm* comm) {
    tutti_comm* part = nullptr;
    tutti_config bad = TUTTI_CONFIG_INIT;
    if (rank == 1) bad.traffic_class = 100;
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(tutti_comm_create_members(comm, members.data(), 2, 7, &part, &bad), TUTTI_INVALID_ARGUMENT) << last_error();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30)) << "it waited for its deadline";
    if (rank == 1) {
      std::uint64_t ns = 0;
      EXPECT_EQ(tutti_group_start(), TUTTI_SUCCESS);
      EXPECT_EQ(tutti_comm_create_members(comm, members.data(), 2, 7, &part, nullptr), TUTTI_SUCCESS);
      EXPECT_EQ(tutti_group_estimate(&ns), TUTTI_INVALID_USAGE);
    }
    part = members_of(comm, members, 7);
    ASSERT_NE(part, nullptr);
    expect_sum(part, 1, 2);
    EXPECT_EQ(tutti_comm_destroy(part), TUTTI_SUCCESS);
  });
}

/// What is wrong on one of them alone, all hear.
TEST(Members, HearWhatOneOfThemLacks) {
  const Ranks ranks(4);
  const std::vector<int> members = {3, 0, 2};
  ranks.run([&](int rank, tutti_comm* comm) {
    if (rank == 1) return;
    tutti_config config = TUTTI_CONFIG_INIT;
    if (rank == 0) config.transports = "nonesuch";
    tutti_comm* part = nullptr;
    EXPECT_NE(tutti_comm_create_members(comm, members.data(), 3, 0, &part, &config), TUTTI_SUCCESS);
    EXPECT_THAT(last_error(), HasSubstr("nonesuch"));
    EXPECT_EQ(part, nullptr);
  });
  ranks.run([](int, tutti_comm* comm) { expect_sum(comm, 1, 4); });
}

TEST(Members, OfAGroupAreMadeAtItsEnd) {
  const Ranks ranks(3);
  const std::vector<int> members = {2, 0};
  tutti_comm* parts[2] = {};
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  for (const int i : {0, 1}) {
    EXPECT_EQ(
        tutti_comm_create_members(ranks[members[static_cast<std::size_t>(i)]], members.data(), 2, 0, &parts[i], nullptr),
        TUTTI_SUCCESS)
        << last_error();
    EXPECT_EQ(parts[i], nullptr);
  }
  ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
  for (const int i : {0, 1}) {
    ASSERT_NE(parts[i], nullptr);
    int rank = -1;
    EXPECT_EQ(tutti_comm_rank(parts[i], &rank), TUTTI_SUCCESS);
    EXPECT_EQ(rank, i);
    EXPECT_EQ(tutti_comm_destroy(parts[i]), TUTTI_SUCCESS);
  }
}

/// A few ways to use a communicator of `size` ranks, all of which tell by their result.
void use_in_many_ways(tutti_comm* comm, int size, std::size_t way) {
  int rank = -1;
  ASSERT_EQ(tutti_comm_rank(comm, &rank), TUTTI_SUCCESS);
  if (way == 0) return expect_sum(comm, rank, size * (size - 1) / 2, 1);
  if (way == 1) return expect_sum(comm, rank, size * (size - 1) / 2, 20'000);
  if (way == 2) {
    std::vector<std::int32_t> all(static_cast<std::size_t>(size));
    ASSERT_EQ(tutti_all_gather(&rank, all.data(), 1, TUTTI_INT32, comm, {}, nullptr), TUTTI_SUCCESS) << last_error();
    for (int r = 0; r < size; ++r) EXPECT_EQ(all[static_cast<std::size_t>(r)], r);
    return;
  }
  if (way == 3) {
    std::int32_t data = rank == size - 1 ? 77 : 0;
    ASSERT_EQ(tutti_broadcast(&data, &data, 1, TUTTI_INT32, size - 1, comm, {}, nullptr), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(data, 77);
    return;
  }
  std::int32_t got = -1;
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_send(&rank, 1, TUTTI_INT32, (rank + 1) % size, comm, {}, nullptr), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_recv(&got, 1, TUTTI_INT32, (rank + size - 1) % size, comm, {}, nullptr), TUTTI_SUCCESS);
  ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(got, (rank + size - 1) % size);
}

/// What a config leaves unset is the parent's: with a name alone, a part shares what its parent has, and goes by its
/// settings.
TEST(Parts, InheritWhatTheirConfigLeavesUnset) {
  constexpr int n = 3;
  std::atomic<int> parent_asked = 0, own_asked = 0;
  const auto ask = [](void* count) { return ++*static_cast<std::atomic<int>*>(count), 0; };
  tutti_config config = TUTTI_CONFIG_INIT;
  config.reproducible = 1;
  config.transports = "shm";
  config.connect_timeout_ns = 20'000'000'000;
  config.operation_timeout_ns = 400'000'000;
  config.poll = ask;
  config.poll_ctx = &parent_asked;
  const Ranks ranks(n, config);
  ranks.run([](int, tutti_comm* comm) { expect_sum(comm, 1, n); });
  const Holdings before = Holdings::now();
  std::array<tutti_comm*, n> parts{};
  ranks.run([&](int rank, tutti_comm* comm) {
    tutti_config named = TUTTI_CONFIG_INIT;
    named.name = "named";
    ASSERT_EQ(tutti_comm_split(comm, 0, 0, &parts[static_cast<std::size_t>(rank)], &named), TUTTI_SUCCESS) << last_error();
    tutti_call ring = TUTTI_CALL_INIT;
    ring.algorithm = "ring";
    float one = 1;
    tutti_comm* const part = parts[static_cast<std::size_t>(rank)];
    EXPECT_EQ(tutti_all_reduce(&one, &one, 1, TUTTI_FLOAT32, TUTTI_SUM, part, {}, &ring), TUTTI_INVALID_ARGUMENT)
        << "a ring's sums are not reproducible";
    expect_sum(part, 1, n);
  });
  // One each, of the activity board: it shares the endpoints of its parent.
  EXPECT_LE(Holdings::now().descriptors - before.descriptors, n + 2 * 2 * n * (n - 1));
  parent_asked = 0;
  std::int64_t data = 1;
  EXPECT_EQ(tutti_all_reduce(&data, &data, 1, TUTTI_INT64, TUTTI_SUM, parts[0], {}, nullptr), TUTTI_TIMEOUT);
  EXPECT_THAT(last_error(), HasSubstr("within 400 ms"));
  EXPECT_GT(parent_asked, 0);
  for (tutti_comm* part : parts) EXPECT_EQ(tutti_comm_destroy(part), TUTTI_SUCCESS);
  ranks.run([&](int rank, tutti_comm* comm) {
    tutti_config polled = TUTTI_CONFIG_INIT;
    polled.poll = ask;
    polled.poll_ctx = &own_asked;
    const std::vector<int> members = {0, 1, 2};
    tutti_comm* const part = members_of(comm, members, 5, &polled);
    own_asked = 0;
    expect_sum(part, 1, n);
    if (rank == 0) usleep(50'000);
    expect_sum(part, 1, n);
    EXPECT_GT(own_asked, 0) << "while the first one was late";
    EXPECT_EQ(tutti_comm_destroy(part), TUTTI_SUCCESS);
  });
}

/// Many at the same time: 500 whole, else some. Each thread of a rank has those of its own.
TEST(Many, AreUsedByManyThreadsAndTakeLittle) {
  constexpr int n = 4;
  constexpr std::size_t threads = 4;
  const std::size_t parts = std::getenv("TEST_WHOLE") != nullptr ? 500 : 60;
  const Ranks ranks(n);
  ranks.run([](int, tutti_comm* comm) { expect_sum(comm, 1, n); });
  const Holdings before = Holdings::now();
  std::vector<std::vector<tutti_comm*>> made(n, std::vector<tutti_comm*>(parts));
  std::vector<std::uint64_t> took;
  const auto color_of = [](int rank, std::size_t part) { return part % 3 == 0 ? 0 : part % 3 == 1 ? rank % 2 : rank / 2; };
  ranks.run([&](int rank, tutti_comm* comm) {
    for (std::size_t i = 0; i < parts; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      ASSERT_EQ(tutti_comm_split(comm, color_of(rank, i), 0, &made[static_cast<std::size_t>(rank)][i], nullptr),
                TUTTI_SUCCESS)
          << last_error();
      const auto ns = std::chrono::steady_clock::now() - begin;
      if (rank == 0) took.push_back(static_cast<std::uint64_t>(ns.count()));
    }
  });
  std::ranges::nth_element(took, took.begin() + static_cast<std::ptrdiff_t>(parts / 2));
  std::cout << "split: " << static_cast<double>(took[parts / 2]) / 1e3 << " us, median of " << parts << '\n';
  ranks.run([&](int rank, tutti_comm*) {
    std::vector<std::thread> running;
    for (std::size_t t = 0; t < threads; ++t) {
      running.emplace_back([&, t] {
        for (int round = 0; round < 3; ++round) {
          for (std::size_t i = t; i < parts; i += threads) {
            const int size = i % 3 == 0 ? n : 2;
            use_in_many_ways(made[static_cast<std::size_t>(rank)][i], size, (i + static_cast<std::size_t>(round)) % 5);
          }
        }
      });
    }
    for (std::thread& thread : running) thread.join();
  });
  const Holdings now = Holdings::now();
  std::cout << "each communicator of a rank: "
            << static_cast<double>(now.descriptors - before.descriptors) / static_cast<double>(n * parts)
            << " descriptors\n";
  // One each, of the activity board, and what two ranks have in common: a socket and a doorbell in each class of traffic.
  EXPECT_LE(now.descriptors - before.descriptors, static_cast<std::ptrdiff_t>(n * parts + 2 * 2 * n * (n - 1)));
  EXPECT_LE(now.threads, before.threads);
  for (auto& own : made) {
    for (tutti_comm* comm : own) EXPECT_EQ(tutti_comm_destroy(comm), TUTTI_SUCCESS);
  }
  // What two ranks have in common stays: with each peer a socket and a doorbell, for each class of traffic.
  EXPECT_TRUE(holds_no_more_than({before.threads, before.descriptors + 2 * 2 * n * (n - 1)}));
  ranks.run([](int, tutti_comm* comm) { expect_sum(comm, 1, n); });
}

/// One thread has all ranks.
TEST(NonBlocking, SplitsMembersAndFinalizeEndBeside) {
  constexpr int n = 4;
  const Ranks ranks(n);
  tutti_config config = TUTTI_CONFIG_INIT;
  config.non_blocking = 2;
  std::vector<tutti_comm*> halves(n), pairs(n);
  const std::vector<int> members = {3, 1};
  for (int r = 0; r < n; ++r) {
    const auto at = static_cast<std::size_t>(r);
    EXPECT_EQ(tutti_comm_split(ranks[r], r == 2 ? -1 : 0, -r, &halves[at], &config), TUTTI_IN_PROGRESS) << last_error();
    EXPECT_EQ(halves[at] == nullptr, r == 2);
    int rank = 0;
    if (r == 0) {
      EXPECT_EQ(tutti_comm_rank(halves[at], &rank), TUTTI_IN_PROGRESS) << "nobody has come yet";
    }
  }
  for (const int r : members) {
    const auto at = static_cast<std::size_t>(r);
    EXPECT_EQ(tutti_comm_create_members(ranks[r], members.data(), 2, 0, &pairs[at], &config), TUTTI_IN_PROGRESS);
    int rank = -1;
    EXPECT_EQ(tutti_comm_rank(pairs[at], &rank), TUTTI_SUCCESS);
    EXPECT_EQ(rank, r == 3 ? 0 : 1);
  }
  for (const auto& made : {halves, pairs}) {
    for (tutti_comm* comm : made) {
      if (comm == nullptr) continue;
      EXPECT_TRUE(leaves(comm, TUTTI_COMM_CREATING));
      EXPECT_EQ(state_of(comm), TUTTI_COMM_READY) << error_of(comm).message;
    }
  }
  int rank = -1, size = 0;
  EXPECT_EQ(tutti_comm_rank(halves[0], &rank), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_comm_size(halves[0], &size), TUTTI_SUCCESS);
  EXPECT_EQ(rank, 2);
  EXPECT_EQ(size, 3);
  for (const int r : members) {
    tutti_comm* const pair = pairs[static_cast<std::size_t>(r)];
    EXPECT_EQ(tutti_comm_finalize(pair), TUTTI_IN_PROGRESS);
    int value = 1;
    EXPECT_EQ(tutti_barrier(pair, {}, nullptr), TUTTI_INVALID_USAGE) << "the other has not come yet";
    EXPECT_EQ(tutti_all_reduce(&value, &value, 1, TUTTI_INT32, TUTTI_SUM, pair, {}, nullptr), TUTTI_INVALID_USAGE);
    EXPECT_EQ(tutti_send(&value, 1, TUTTI_INT32, 0, pair, {}, nullptr), TUTTI_INVALID_USAGE);
  }
  for (const int r : members) {
    tutti_comm* const pair = pairs[static_cast<std::size_t>(r)];
    EXPECT_TRUE(leaves(pair, TUTTI_COMM_FINALIZING));
    EXPECT_EQ(state_of(pair), TUTTI_COMM_FINALIZED) << error_of(pair).message;
    EXPECT_EQ(tutti_comm_finalize(pair), TUTTI_INVALID_USAGE);
    EXPECT_EQ(tutti_comm_destroy(pair), TUTTI_SUCCESS);
  }
  ranks.run([&](int r, tutti_comm* comm) {
    expect_sum(comm, 1, n);
    if (r != 2) expect_sum(halves[static_cast<std::size_t>(r)], r, 4);
    EXPECT_EQ(tutti_comm_destroy(halves[static_cast<std::size_t>(r)]), TUTTI_SUCCESS);
  });
}

/// A handle that is destroyed, or aborted, before the others have come.
TEST(NonBlocking, ASplitMayBeGivenUp) {
  for (const bool aborts : {false, true}) {
    const Ranks ranks(2);
    tutti_config config = TUTTI_CONFIG_INIT;
    config.non_blocking = 1;
    tutti_comm* part = nullptr;
    ASSERT_EQ(tutti_comm_split(ranks[0], 0, 0, &part, &config), TUTTI_IN_PROGRESS);
    if (aborts) {
      EXPECT_EQ(tutti_comm_abort(part), TUTTI_SUCCESS);
      EXPECT_TRUE(leaves(part, TUTTI_COMM_CREATING));
      EXPECT_EQ(state_of(part), TUTTI_COMM_FAILED);
    }
    EXPECT_EQ(tutti_comm_destroy(part), TUTTI_SUCCESS);
    EXPECT_EQ(error_of(ranks[0]).status, TUTTI_ABORTED) << "the split had begun";
  }
}

/// Peers beat by the longer limit of what they had before.
TEST(Parts, MayHaveAShortIdleTimeout) {
  const Ranks ranks(4);
  ranks.run([](int, tutti_comm* comm) {
    tutti_config config = TUTTI_CONFIG_INIT;
    config.idle_timeout_ns = 300'000'000;
    for (int round = 0; round < 3; ++round) {
      tutti_comm* part = nullptr;
      ASSERT_EQ(tutti_comm_split(comm, 0, 0, &part, &config), TUTTI_SUCCESS) << last_error();
      usleep(400'000);
      expect_sum(part, 1, 4);
      EXPECT_EQ(tutti_comm_destroy(part), TUTTI_SUCCESS);
    }
  });
}

TEST(NonBlocking, SplitsWithoutAGroupLeaveNothing) {
  const Ranks ranks(2);
  const Holdings before = Holdings::now();
  ranks.run([](int rank, tutti_comm* comm) {
    tutti_config config = TUTTI_CONFIG_INIT;
    config.non_blocking = 1;
    for (int round = 0; round < 50; ++round) {
      tutti_comm* part = nullptr;
      EXPECT_EQ(tutti_comm_split(comm, rank == 0 ? -1 : 0, 0, &part, rank == 0 ? &config : nullptr),
                rank == 0 ? TUTTI_IN_PROGRESS : TUTTI_SUCCESS);
      EXPECT_EQ(tutti_comm_destroy(part), TUTTI_SUCCESS);
    }
  });
  EXPECT_TRUE(holds_no_more_than(before));
}

TEST(Names, ChangeInSentences) {
  const Ranks ranks(2);
  EXPECT_EQ(tutti_comm_set_name(ranks[0], nullptr), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_comm_set_name(ranks[0], "weights"), TUTTI_SUCCESS);
  int none = 0;
  EXPECT_EQ(tutti_broadcast(&none, &none, 1, TUTTI_INT32, 7, ranks[0], {}, nullptr), TUTTI_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("root 7 is outside \"weights\""));
  EXPECT_EQ(tutti_comm_set_name(ranks[1], "two\nlines\x1b[1m"), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_broadcast(&none, &none, 1, TUTTI_INT32, 7, ranks[1], {}, nullptr), TUTTI_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("\"two?lines?[1m\""));
  EXPECT_EQ(tutti_comm_abort(ranks[0]), TUTTI_SUCCESS);
  EXPECT_THAT(error_of(ranks[0]).message, HasSubstr("\"weights\" was aborted"));
}

TEST(Names, ReadersSeeOneOrTheOther) {
  const Ranks ranks(1);
  std::atomic<bool> over{false};
  std::thread names([&] {
    for (int i = 0; i < 2000; ++i)
      EXPECT_EQ(tutti_comm_set_name(ranks[0], i % 2 == 0 ? "even, and long" : "odd"), TUTTI_SUCCESS);
    over = true;
  });
  int none = 0;
  while (!over) {
    EXPECT_EQ(tutti_broadcast(&none, &none, 1, TUTTI_INT32, 7, ranks[0], {}, nullptr), TUTTI_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(),
                testing::AnyOf(HasSubstr("\"world\""), HasSubstr("\"even, and long\""), HasSubstr("\"odd\"")));
  }
  names.join();
}

/// A part's ranks are told by what its caller knows them as.
TEST(GlobalRanks, AreToldInSentences) {
  const Ranks ranks(4);
  ranks.run([](int rank, tutti_comm* comm) {
    tutti_comm* part = nullptr;
    ASSERT_EQ(tutti_comm_split(comm, rank % 2, 0, &part, nullptr), TUTTI_SUCCESS) << last_error();
    if (rank == 3) {
      EXPECT_EQ(tutti_comm_abort(part), TUTTI_SUCCESS);
    }
    if (rank == 1) {
      EXPECT_EQ(tutti_barrier(part, {}, nullptr), TUTTI_ABORTED);
      EXPECT_THAT(last_error(), HasSubstr("rank 1 (global 3, "));
    }
    EXPECT_EQ(tutti_comm_destroy(part), TUTTI_SUCCESS);
    const std::vector<int> pair = {2, 0};
    if (rank % 2 != 0) return;
    tutti_config config = TUTTI_CONFIG_INIT;
    const std::int32_t global[] = {700, 900};
    config.global_ranks = global;
    part = members_of(comm, pair, 0, &config);
    ASSERT_NE(part, nullptr);
    if (rank == 0) {
      EXPECT_EQ(tutti_comm_abort(part), TUTTI_SUCCESS);
    }
    EXPECT_EQ(tutti_barrier(part, {}, nullptr), TUTTI_ABORTED);
    EXPECT_THAT(last_error(), HasSubstr("rank 1 (global 900, "));
    EXPECT_EQ(tutti_comm_destroy(part), TUTTI_SUCCESS);
  });
}

TEST(GlobalRanks, OfACreationAreItsConfigs) {
  tutti_unique_id id;
  ASSERT_EQ(tutti_get_unique_id(&id), TUTTI_SUCCESS);
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      tutti_config config = TUTTI_CONFIG_INIT;
      const std::int32_t global[] = {40, 41};
      config.global_ranks = global;
      tutti_comm* comm = nullptr;
      ASSERT_EQ(tutti_comm_create(&comm, 2, &id, r, &config), TUTTI_SUCCESS) << last_error();
      if (r == 1) {
        EXPECT_EQ(tutti_comm_abort(comm), TUTTI_SUCCESS);
      }
      EXPECT_EQ(tutti_barrier(comm, {}, nullptr), TUTTI_ABORTED);
      EXPECT_THAT(last_error(), HasSubstr("rank 1 (global 41, "));
      EXPECT_EQ(tutti_comm_destroy(comm), TUTTI_SUCCESS);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tutti::test
