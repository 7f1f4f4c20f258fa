// The C++ face: every verb in both forms, and what they throw or fill.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "include/tutti/tutti.hpp"
#include "tests/support/ranks.h"

/// A 2 × 2 matrix, whose products do not commute.
struct Matrix {
  std::array<std::int64_t, 4> of;
  bool operator==(const Matrix&) const = default;
};
template <>
inline constexpr bool tutti::is_opaque<Matrix> = true;

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

TEST_P(CppFaceOfRanks, TellsOfWorksAndCallsBetweenThem) {
  on_ranks(GetParam(), [](const Communicator& comm) {
    const Queue queue;
    Values data(100, 1), all(100 * static_cast<std::size_t>(comm.size()));
    Work first, second;
    comm.all_reduce(data, TUTTI_SUM, Options(queue.stream()).work(first).name("first"));
    const Work between = queue.call([&, add = std::make_unique<int>(5)] {
      for (std::int32_t& value : data) value += *add;
    });
    comm.all_gather(data, all, Options(queue.stream()).work(second));
    std::atomic<int> heard{0};
    std::promise<tutti_status> told;
    second.notify([&](tutti_status status) { heard += status == TUTTI_SUCCESS ? 1 : 0; });
    second.on_complete([&](tutti_status status) { told.set_value(status); });
    second.wait();
    EXPECT_EQ(told.get_future().get(), TUTTI_SUCCESS);
    while (heard == 0) std::this_thread::yield();
    EXPECT_EQ(all, Values(all.size(), comm.size() + 5)) << "the call runs between the two";
    EXPECT_EQ(first.info().sequence + 1, second.info().sequence);
    between.wait();
    second = std::move(first);  // gives the other back
    EXPECT_TRUE(second.done());
    EXPECT_EQ(first.get(), nullptr);
  });
}

/// The sum of operand 0 to 11 from left to right. They differ in magnitude, so that another order gives other bits.
std::vector<float> operand(int index) {
  std::vector<float> values(50);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::ldexp(1 + static_cast<float>(i) / 64, (7 * index + static_cast<int>(i)) % 23) / 3;
  }
  return values;
}
std::vector<float> left_fold() {
  std::vector<float> sum = operand(0);
  for (int o = 1; o < 12; ++o) {
    const std::vector<float> next = operand(o);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += next[i];
  }
  return sum;
}

TEST_P(CppFaceOfRanks, WaitsWithLimitsAndTakesLeave) {
  on_ranks(GetParam(), [](const Communicator& comm) {
    using std::chrono::milliseconds;
    EXPECT_EQ(comm.state(), TUTTI_COMM_READY);
    const std::uint64_t before = comm.sequence();
    const Queue queue;
    Work work;
    int received = 0;
    comm.set_timeout(std::chrono::seconds(50));
    tutti_call call = TUTTI_CALL_INIT;
    call.work = work.place();
    ASSERT_EQ(tutti_recv(&received, 1, TUTTI_INT32, comm.rank(), comm.get(), queue.stream(), &call), TUTTI_SUCCESS);
    EXPECT_FALSE(work.wait_for(milliseconds(1)));
    EXPECT_FALSE(queue.wait_for(milliseconds(-5))) << "over already";
    const int sent = 7;
    ASSERT_EQ(tutti_send(&sent, 1, TUTTI_INT32, comm.rank(), comm.get(), {}, nullptr), TUTTI_SUCCESS);
    EXPECT_TRUE(work.wait_for(std::chrono::seconds(20)));
    EXPECT_TRUE(queue.wait_for(std::chrono::seconds(20)));
    EXPECT_EQ(received, 7);
    comm.barrier();
    EXPECT_EQ(comm.sequence(), before + 1);
    comm.finalize();
    EXPECT_EQ(comm.state(), TUTTI_COMM_FINALIZED);
    EXPECT_THROW(comm.barrier(), Failure);
  });
}

TEST_P(CppFaceOfRanks, FoldsOperandsInTheirOrderHoweverManyRanksShareThem) {
  on_ranks(GetParam(), [](const Communicator& comm) {
    const int each = 12 / comm.size(), root = comm.size() - 1;
    std::vector<std::vector<float>> own;
    std::vector<float> send;
    for (int o = each * comm.rank(); o < each * (comm.rank() + 1); ++o) {
      own.push_back(operand(o));
      send.insert(send.end(), own.back().begin(), own.back().end());
    }
    Options options;
    options.canonical(12).reproducible();
    in_both_forms([&](auto&... why) {
      std::vector<float> recv(50, -1), in_place = send;
      comm.all_reduce(send, recv, why..., TUTTI_SUM, options);
      EXPECT_EQ(recv, left_fold());
      comm.all_reduce(in_place, why..., TUTTI_SUM, options);
      EXPECT_EQ(std::vector<float>(in_place.begin(), in_place.begin() + 50), left_fold());
      std::vector<float> there(comm.rank() == root ? 50 : 0);
      comm.reduce(send, there, root, why..., TUTTI_SUM, options);
      EXPECT_EQ(there, comm.rank() == root ? left_fold() : std::vector<float>());
      // Two tensors, and the operands wherever they lie.
      std::vector<std::vector<float>> pieces = {std::vector<float>(20), std::vector<float>(30)};
      comm.all_reduce_v(own, pieces, why..., TUTTI_SUM, options);
      pieces[0].insert(pieces[0].end(), pieces[1].begin(), pieces[1].end());
      EXPECT_EQ(pieces[0], left_fold());
    });
    std::vector<float> wrong(send.size() + 1);
    try {
      comm.all_reduce(send, wrong, TUTTI_SUM, options);
      ADD_FAILURE() << "taken";
    } catch (const std::invalid_argument& refusal) {
      EXPECT_NE(std::string(refusal.what()).find("do not fit: " + std::to_string(send.size())), std::string::npos)
          << refusal.what();
    }
    if (each > 1) {
      EXPECT_THROW(comm.all_reduce(wrong, TUTTI_SUM, options), std::invalid_argument);
    }
    comm.barrier();
  });
}

TEST_P(CppFaceOfRanks, ReducesListsOfTensorsAndGroupsThatAreOneOperation) {
  on_ranks(GetParam(), [](const Communicator& comm) {
    const int ranks = comm.size();
    in_both_forms([&](auto&... why) {
      std::vector<Values> gradients = {Values(3, 1), Values(), Values(5, 2)};
      comm.all_reduce_v(gradients, why...);
      EXPECT_EQ(gradients, (std::vector<Values>{Values(3, ranks), Values(), Values(5, 2 * ranks)}));
      comm.all_reduce_v(std::as_const(gradients), gradients = {Values(3), Values(), Values(5)}, why..., TUTTI_MAX);
    });
    std::uint64_t before = 0, after = 0;
    ASSERT_EQ(tutti_comm_sequence(comm.get(), &before), TUTTI_SUCCESS);
    std::vector<Values> many(20, Values(4, 1));
    Group group;
    for (Values& each : many) comm.all_reduce(each);
    Work work;
    group.end(Options().fuse().work(work));
    work.wait();
    ASSERT_EQ(tutti_comm_sequence(comm.get(), &after), TUTTI_SUCCESS);
    EXPECT_EQ(after, before + (ranks > 1 ? 1 : after - before));
    EXPECT_EQ(many, std::vector<Values>(20, Values(4, ranks)));
    Group estimated;
    comm.all_reduce(many[0]);
    EXPECT_GE(estimated.estimate().count(), 0);
    EXPECT_EQ(many[0], Values(4, ranks)) << "nothing of it has run";
  });
}

TEST_P(CppFaceOfRanks, TakesOperatorsOfTheCallers) {
  on_ranks(GetParam(), [](const Communicator& comm) {
    const auto product = [](const Matrix& a, const Matrix& b) {
      return Matrix{{a.of[0] * b.of[0] + a.of[1] * b.of[2], a.of[0] * b.of[1] + a.of[1] * b.of[3],
                     a.of[2] * b.of[0] + a.of[3] * b.of[2], a.of[2] * b.of[1] + a.of[3] * b.of[3]}};
    };
    const Operator times = comm.make_operator<Matrix>(product, false);
    const auto of_rank = [](int rank) { return Matrix{{1, rank + 1, rank, 2}}; };
    Matrix expected = of_rank(0);
    for (int r = 1; r < comm.size(); ++r) expected = product(expected, of_rank(r));
    std::vector<Matrix> data(7, of_rank(comm.rank()));
    comm.all_reduce(data, times);
    EXPECT_EQ(data, std::vector<Matrix>(7, expected));
    const Operator weighted = comm.make_pre_mul_sum(static_cast<double>(comm.rank() + 1));
    // A ring folds in an order of its own.
    std::error_code why;
    Matrix one = of_rank(comm.rank());
    comm.all_reduce(std::span(&one, 1), why, times, Options().algorithm("ring"));
    EXPECT_EQ(static_cast<bool>(why), comm.size() > 1);
    const Operator either_way = comm.make_operator<Matrix>(product, true);
    comm.all_reduce(std::span(&one, 1), either_way, Options().algorithm("ring"));
    std::vector<double> sums(3, 10);
    comm.all_reduce(sums, weighted);
    EXPECT_EQ(sums, std::vector<double>(3, 5.0 * comm.size() * (comm.size() + 1)));
  });
}

TEST_P(CppFaceOfRanks, PassesOptionsOn) {
  on_ranks(GetParam(), [](const Communicator& comm) {
    Values data(1);
    std::error_code why;
    comm.all_reduce(data, why, TUTTI_SUM, Options().algorithm("telepathy"));
    EXPECT_EQ(why, std::error_code(TUTTI_INVALID_ARGUMENT, status_category()));
    EXPECT_NE(std::string(error_of(nullptr).message).find("telepathy"), std::string::npos) << error_of(nullptr).message;
    std::vector<float> sum(1);
    comm.all_reduce(sum, why, TUTTI_SUM, Options().algorithm("ring").reproducible());
    EXPECT_EQ(static_cast<bool>(why), comm.size() > 2) << "a ring folds in an order of its own";
    comm.all_reduce(sum, why, TUTTI_SUM, Options().accumulate(TUTTI_FLOAT64));
    EXPECT_EQ(why, std::error_code(TUTTI_INVALID_ARGUMENT, status_category()));
    comm.all_reduce(sum, TUTTI_SUM, Options().accumulate().priority(1));
    comm.barrier();
    const Communicator named = comm.split(0, 0);
    named.set_name("the other");
    named.recv(data, comm.rank(), why, 3, Options().timeout(std::chrono::milliseconds(1)).name("nothing"));
    EXPECT_EQ(why, std::error_code(TUTTI_TIMEOUT, status_category()));
    EXPECT_NE(std::string(error_of(nullptr).message).find("the other"), std::string::npos) << error_of(nullptr).message;
    comm.barrier();
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

TEST(CppFace, TakesTransfersBackAndTellsOfMemory) {
  on_ranks(1, [](const Communicator& comm) {
    Values data(5, 1);
    const Registration registered(comm, data);
    const Queue queue;
    Work work;
    comm.recv(data, 0, 0, Options(queue.stream()).work(work).user_tag(9));
    work.cancel();
    EXPECT_THROW(work.wait(), Failure);
    EXPECT_EQ(work.info().status, TUTTI_ABORTED);
    EXPECT_EQ(work.info().user_tag, 9u);
    std::error_code why;
    comm.recv(data, 0, why, 0, Options().soft_timeout(std::chrono::milliseconds(2)));
    EXPECT_EQ(why, std::error_code(TUTTI_TIMEOUT, status_category()));
    comm.all_reduce(data, TUTTI_SUM, Options().blocks(1, 4));
    EXPECT_EQ(data, Values(5, 1));
    EXPECT_EQ(comm.memory().message_bytes, 0u);
    EXPECT_THROW(queue.wait(), Failure);
  });
}

TEST(CppFace, ListsEverySetting) {
  const std::vector<tutti_setting> all = settings();
  const auto named = [&](const std::string& name) {
    return std::count_if(all.begin(), all.end(), [&](const tutti_setting& each) { return each.name == name; });
  };
  EXPECT_EQ(named("TUTTI_LANES"), 1);
  EXPECT_EQ(named("TUTTI_REPRODUCIBLE"), 1);
  EXPECT_NE(tutti_setting_get(static_cast<int>(all.size()), nullptr), TUTTI_SUCCESS);
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
