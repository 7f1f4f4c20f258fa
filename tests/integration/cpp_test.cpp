// The C++ face: every verb in both forms, and what they throw or fill.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "include/tutti/tutti.hpp"
#include "tests/support/ranks.h"

namespace tutti::test {
namespace {

using Values = std::vector<std::int32_t>;

/// Runs `body` on each of `ranks` ranks as threads, with a Communicator of its own.
void on_ranks(int ranks, const std::function<void(const Communicator&)>& body) {
  std::vector<tutti_comm*> comms(static_cast<std::size_t>(ranks));
  ASSERT_EQ(tutti_comm_create_all(comms.data(), ranks, nullptr), TUTTI_SUCCESS) << last_error();
  std::vector<std::thread> threads;
  for (tutti_comm* comm : comms) {
    threads.emplace_back([comm, &body] {
      const Communicator communicator(comm);
      body(communicator);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// Calls a verb's two forms one after the other: `verb` gets what stands behind the arguments that it must have.
template <typename Verb>
void in_both_forms(const Verb& verb) {
  verb();
  std::error_code why = std::make_error_code(std::errc::interrupted);
  verb(why);
  EXPECT_FALSE(why) << why.message();
}

class CppFaceOfRanks : public testing::TestWithParam<int> {};

TEST_P(CppFaceOfRanks, Reduces) {
  on_ranks(GetParam(), [](const Communicator& comm) {
    const int ranks = comm.size(), total = ranks * (ranks + 1) / 2;
    in_both_forms([&](auto&... why) {
      Values data(5, comm.rank() + 1), sum(5);
      comm.all_reduce(std::as_const(data), sum, why...);
      EXPECT_EQ(sum, Values(5, total));
      comm.all_reduce(std::span(data).first(2), why..., TUTTI_MAX);
      EXPECT_EQ(data, (Values{ranks, ranks, comm.rank() + 1, comm.rank() + 1, comm.rank() + 1}));
      const std::array<float, 3> third = {1, 2, 3};
      std::array<float, 3> thirds{};
      comm.reduce(third, thirds, ranks - 1, why..., TUTTI_AVG);
      if (comm.rank() == ranks - 1) {
        EXPECT_EQ(thirds, third);
      }
      Values blocks(2 * static_cast<std::size_t>(ranks), 1), block(2);
      comm.reduce_scatter(blocks, block, why...);
      EXPECT_EQ(block, Values(2, ranks));
    });
  });
}

TEST_P(CppFaceOfRanks, Moves) {
  on_ranks(GetParam(), [](const Communicator& comm) {
    const int ranks = comm.size(), rank = comm.rank();
    Values all(static_cast<std::size_t>(ranks)), counted(static_cast<std::size_t>(ranks));
    for (int r = 0; r < ranks; ++r) counted[static_cast<std::size_t>(r)] = 10 * r;
    in_both_forms([&](auto&... why) {
      const Values own(1, 10 * rank);
      comm.all_gather(own, all, why...);
      EXPECT_EQ(all, counted);
      Values root(3, rank);
      comm.broadcast(root, ranks - 1, why...);
      EXPECT_EQ(root, Values(3, ranks - 1));
      Values got;
      if (rank == 0) got.resize(static_cast<std::size_t>(ranks));
      comm.gather(own, got, 0, why...);  // elsewhere recv may be empty
      if (rank == 0) {
        EXPECT_EQ(got, counted);
      }
      Values back(1);
      comm.scatter(got, back, 0, why...);
      EXPECT_EQ(back, own);
      Values to(static_cast<std::size_t>(ranks), rank), from(static_cast<std::size_t>(ranks));
      comm.all_to_all(to, from, why...);
      for (int r = 0; r < ranks; ++r) EXPECT_EQ(from[static_cast<std::size_t>(r)], r);
      comm.barrier(why...);
    });
  });
}

// What has other elements at its two ends does not compile.
template <typename S, typename B>
concept Gathers = requires(const Communicator& comm, S& send, B& blocks) { comm.all_gather_v(send, blocks); };
template <typename S, typename R>
concept Exchanges = requires(const Communicator& comm, S& send, R& recv) { comm.all_to_all_v(send, recv); };
template <typename B, typename R>
concept Scatters = requires(const Communicator& comm, B& blocks, R& recv) { comm.scatter_v(blocks, recv, 0); };
template <typename B, typename R>
concept Folds = requires(const Communicator& comm, B& blocks, R& recv) { comm.reduce_scatter_v(blocks, recv); };
using Floats = std::vector<float>;
static_assert(Gathers<Values, std::vector<Values>> && !Gathers<Floats, std::vector<Values>>);
static_assert(!Gathers<Values, const std::vector<Values>>, "it is written");
static_assert(Exchanges<std::vector<Values>, std::vector<Values>> && !Exchanges<std::vector<Floats>, std::vector<Values>>);
static_assert(Scatters<const std::vector<Values>, Values> && !Scatters<std::vector<Values>, Floats>);
static_assert(Folds<std::vector<Values>, Values> && !Folds<std::vector<Values>, Floats>);

TEST_P(CppFaceOfRanks, MovesBlocksOfAnyLengths) {
  on_ranks(GetParam(), [](const Communicator& comm) {
    const std::size_t ranks = static_cast<std::size_t>(comm.size()), rank = static_cast<std::size_t>(comm.rank());
    // Rank r's share is r elements of its number.
    const Values own(rank, comm.rank());
    std::vector<Values> right, sums;
    for (std::size_t r = 0; r < ranks; ++r) {
      right.emplace_back(r, static_cast<int>(r));
      sums.emplace_back(r, 1);
    }
    in_both_forms([&](auto&... why) {
      std::vector<Values> all;
      for (std::size_t r = 0; r < ranks; ++r) all.emplace_back(r, -1);
      comm.all_gather_v(own, all, why...);
      EXPECT_EQ(all, right);
      Values sum(rank);
      comm.reduce_scatter_v(std::as_const(sums), sum, why...);
      EXPECT_EQ(sum, Values(rank, comm.size()));
      std::vector<Values> gathered;
      if (rank == 0) gathered = std::vector<Values>(all.size());
      for (std::size_t r = 0; r < gathered.size(); ++r) gathered[r].resize(r);
      comm.gather_v(own, gathered, 0, why...);  // elsewhere the list may be empty
      Values back(rank);
      comm.scatter_v(gathered, back, 0, why...);
      EXPECT_EQ(back, own);
      // Everybody has r elements for rank r.
      std::vector<Values> to = right, from(ranks, Values(rank));
      std::vector<std::span<std::int32_t>> spans(from.begin(), from.end());
      comm.all_to_all_v(to, spans, why...);
      EXPECT_EQ(from, std::vector<Values>(ranks, Values(rank, comm.rank())));
    });
    std::vector<Values> too_few(ranks + 1);
    std::error_code why;
    comm.all_gather_v(own, too_few, why);
    EXPECT_EQ(why, std::errc::invalid_argument);
  });
}

TEST_P(CppFaceOfRanks, SendsAlongARing) {
  on_ranks(GetParam(), [](const Communicator& comm) {
    const int ranks = comm.size(), rank = comm.rank();
    in_both_forms([&](auto&... why) {
      const std::vector<double> own(3, rank);
      std::vector<double> got(7, -1);
      ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
      comm.send(own, (rank + 1) % ranks, why..., 9);
      comm.recv(got, (rank + ranks - 1) % ranks, why..., 9);
      ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
      const double before = (rank + ranks - 1) % ranks;
      EXPECT_EQ(got, (std::vector<double>{before, before, before, -1, -1, -1, -1}));
    });
  });
}

TEST_P(CppFaceOfRanks, RunsBehindTheCallersBack) {
  on_ranks(GetParam(), [](const Communicator& comm) {
    const Queue queue;
    Values first(1000, 1), second(1000, 2);
    const Work work = comm.all_reduce(first, queue);
    comm.all_reduce(second, TUTTI_MIN, queue.stream());
    queue.wait();
    EXPECT_TRUE(work.done());
    work.wait();
    EXPECT_EQ(first, Values(1000, comm.size()));
    EXPECT_EQ(second, Values(1000, 2));
  });
}

/// Sizes that do not fit are refused before anything is sent, so the next call still works on every rank.
TEST_P(CppFaceOfRanks, RefusesSizesThatDoNotFit) {
  on_ranks(GetParam(), [](const Communicator& comm) {
    const auto ranks = static_cast<std::size_t>(comm.size());
    const int own = comm.rank();  // as the root
    const Values two(2);
    Values one(1), other(2), most(2 * ranks + 1);
    const auto refuses = [](const auto& verb) {
      EXPECT_THROW(verb(), std::invalid_argument);
      std::error_code why;
      verb(why);
      EXPECT_EQ(why, std::errc::invalid_argument);
    };
    refuses([&](auto&... why) { comm.all_reduce(two, one, why...); });
    refuses([&](auto&... why) { comm.reduce(two, one, own, why...); });
    refuses([&](auto&... why) { comm.all_gather(two, most, why...); });
    refuses([&](auto&... why) { comm.reduce_scatter(most, other, why...); });
    refuses([&](auto&... why) { comm.all_to_all(two, one, why...); });
    refuses([&](auto&... why) { comm.gather(two, most, own, why...); });
    refuses([&](auto&... why) { comm.scatter(most, other, own, why...); });
    if (ranks > 1) refuses([&](auto&... why) { comm.all_to_all(most, most, why...); });
    comm.barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, CppFaceOfRanks, testing::Values(1, 2, 3));

TEST(CppFace, MakesCommunicatorsInAGroupWhereverTheyMoveMeanwhile) {
  tutti_unique_id id;
  ASSERT_EQ(tutti_get_unique_id(&id), TUTTI_SUCCESS) << last_error();
  std::vector<Communicator> comms;
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  for (int rank = 0; rank < 3; ++rank) {
    comms.emplace_back(id, 3, rank);
    EXPECT_EQ(comms.back().get(), nullptr) << "it is made by the group's end";
  }
  ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
  std::vector<Communicator> halves;
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  for (const Communicator& comm : comms) halves.push_back(comm.split(comm.rank() % 2, 0));
  ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(comms[1].size(), 3);
  EXPECT_EQ(halves[0].size(), 2);
  EXPECT_EQ(halves[1].size(), 1);
  EXPECT_EQ(halves[2].rank(), 1);
}

TEST(CppFace, KeepsWhatIsStillBeingMade) {
  tutti_unique_id id;
  ASSERT_EQ(tutti_get_unique_id(&id), TUTTI_SUCCESS) << last_error();
  tutti_config config = TUTTI_CONFIG_INIT;
  config.non_blocking = 1;
  const Communicator first(id, 2, 0, &config), second(id, 2, 1, &config);
  for (const Communicator* comm : {&first, &second}) {
    tutti_comm_state_kind state = TUTTI_COMM_CREATING;
    while (state == TUTTI_COMM_CREATING) ASSERT_EQ(tutti_comm_state(comm->get(), &state), TUTTI_SUCCESS);
    EXPECT_EQ(state, TUTTI_COMM_READY) << error_of(comm->get()).message;
  }
}

static_assert(Received<Values&> && Received<std::span<float>> && Received<double (&)[4]>);
static_assert(!Received<Values> && !Sent<Values>, "a temporary is gone before a queue or a group's end comes to it");
static_assert(Sent<const Values&> && !Received<const Values&> && !Received<std::span<const float>>);
static_assert(!Sent<std::vector<bool>&> && !Sent<std::string&>);

TEST_P(CppFaceOfRanks, AGroupThatIsLeftByAnExceptionRunsNothing) {
  on_ranks(GetParam(), [](const Communicator& comm) {
    const int ranks = comm.size(), next = (comm.rank() + 1) % ranks, before = (comm.rank() + ranks - 1) % ranks;
    const std::array<long long, 1> one = {1}, two = {2};
    std::vector<long long> got(1, -1);
    EXPECT_THROW(
        {
          const Group group;
          comm.send(one, next);
          comm.recv(got, before);
          throw std::runtime_error("something of the caller's");
        },
        std::runtime_error);
    Group group;
    comm.send(two, next);
    comm.recv(got, before);
    group.end();
    EXPECT_EQ(got.front(), 2);
  });
}

// Its thread's group holds a send of it, so that it cannot be destroyed: its peers must not wait for it.
TEST(CppFace, ACommunicatorThatGoesInAnOpenGroupIsAborted) {
  std::array<tutti_comm*, 2> comms{};
  ASSERT_EQ(tutti_comm_create_all(comms.data(), 2, nullptr), TUTTI_SUCCESS) << last_error();
  const std::array one = {1};
  std::thread leaver([&] {
    ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
    {
      const Communicator comm(comms[0]);
      comm.send(one, 1);
    }
    EXPECT_NE(tutti_group_end(nullptr), TUTTI_SUCCESS);
    EXPECT_EQ(tutti_comm_destroy(comms[0]), TUTTI_SUCCESS);  // for the sake of the leak check: its owner is gone
  });
  const Communicator other(comms[1]);
  std::array<int, 1> got{};
  std::error_code why;
  other.recv(got, 0, why);
  EXPECT_EQ(why, std::error_code(TUTTI_ABORTED, status_category())) << why.message();
  leaver.join();
}

TEST(CppFace, TellsWhatTheLibraryRefuses) {
  on_ranks(1, [](const Communicator& comm) {
    Values data(1);
    std::error_code why;
    comm.broadcast(data, 7, why);
    EXPECT_EQ(why, std::error_code(TUTTI_INVALID_ARGUMENT, status_category()));
    try {
      comm.broadcast(data, 7);
      ADD_FAILURE() << "there is no rank 7";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.status(), TUTTI_INVALID_ARGUMENT);
      EXPECT_EQ(failure.what(), std::string(error_of(nullptr).message));
    }
  });
}

TEST(CppFace, ThrowsTheSentenceWithItsRemedyAndItsStatus) {
  try {
    const Communicator comm("carrier://pigeon");
    FAIL() << "it was created";
  } catch (const Failure& failure) {
    tutti_error error{};
    error.size = sizeof error;
    ASSERT_EQ(tutti_error_get(nullptr, &error), TUTTI_SUCCESS);
    EXPECT_STREQ(failure.what(), error.message);
    EXPECT_EQ(failure.remedy(), error.remedy);
    EXPECT_EQ(failure.status(), TUTTI_INVALID_ARGUMENT);
  }
}

}  // namespace
}  // namespace tutti::test
