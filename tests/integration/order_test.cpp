// The order of entry, and the end of communicators that still have work to do.
#include <gmock/gmock.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <memory>

#include "tests/support/ranks.h"

namespace tutti::test {
namespace {

constexpr std::uint64_t ms = 1'000'000;
constexpr useconds_t late_us = 200'000;  // a rank that comes this late has let the others do what they must not do

struct DestroyQueue {
  void operator()(tutti_queue* queue) const { EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS); }
};
using QueuePtr = std::unique_ptr<tutti_queue, DestroyQueue>;
QueuePtr make_queue() {
  tutti_queue* queue = nullptr;
  EXPECT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS) << last_error();
  return QueuePtr(queue);
}
tutti_stream on(const QueuePtr& queue) { return {TUTTI_STREAM_QUEUE, queue.get()}; }

tutti_status sum(std::vector<int>& data, tutti_comm* comm, tutti_stream stream = {}, const tutti_call* call = nullptr) {
  return tutti_all_reduce(data.data(), data.data(), data.size(), TUTTI_INT32, TUTTI_SUM, comm, stream, call);
}

/// Communicators that a test destroys itself.
std::array<tutti_comm*, 2> pair_of_ranks(std::uint64_t timeout_ns = 60'000 * ms) {
  std::array<tutti_comm*, 2> comms{};
  tutti_config config = TUTTI_CONFIG_INIT;
  config.operation_timeout_ns = timeout_ns;
  EXPECT_EQ(tutti_comm_create_all(comms.data(), 2, &config), TUTTI_SUCCESS) << last_error();
  return comms;
}

void on_both(const std::function<void(int)>& body) {
  std::thread other([&] { body(1); });
  body(0);
  other.join();
}

TEST(Order, OperationsOnTwoQueuesRunInTheOrderInWhichTheyWereEntered) {
  const Ranks first(2), second(2);
  on_both([&](int rank) {
    std::vector<int> a(1, 1), b(1000, 1), c(10, 1);
    if (rank == 1) {
      usleep(late_us);
      EXPECT_EQ(sum(a, first[1]), TUTTI_SUCCESS) << last_error();
      EXPECT_EQ(sum(b, second[1]), TUTTI_SUCCESS) << last_error();
      EXPECT_EQ(sum(c, second[1]), TUTTI_SUCCESS) << last_error();
      return;
    }
    const QueuePtr slow = make_queue(), fast = make_queue();
    EXPECT_EQ(sum(a, first[0], on(slow)), TUTTI_SUCCESS);
    EXPECT_EQ(sum(b, second[0], on(slow)), TUTTI_SUCCESS);
    EXPECT_EQ(sum(c, second[0], on(fast)), TUTTI_SUCCESS);
    EXPECT_EQ(tutti_queue_wait(fast.get(), 0), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(b, std::vector<int>(1000, 2)) << "what was entered before has ended before";
    EXPECT_EQ(tutti_queue_wait(slow.get(), 0), TUTTI_SUCCESS) << last_error();
  });
}

TEST(Order, DirectCallsRunAfterWhatIsOnAQueue) {
  const Ranks first(2), second(2);
  on_both([&](int rank) {
    std::vector<int> a(1, 1), b(1000, 1), c(10, 1);
    tutti_comm* part = nullptr;
    const QueuePtr queue = make_queue();
    if (rank == 1) usleep(late_us);
    const tutti_stream stream = rank == 0 ? on(queue) : tutti_stream{};
    EXPECT_EQ(sum(a, first[rank], stream), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(sum(b, second[rank], stream), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(sum(c, second[rank]), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(tutti_barrier(second[rank], {}, nullptr), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(tutti_comm_split(second[rank], 0, rank, &part, nullptr), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(tutti_comm_destroy(part), TUTTI_SUCCESS);
    EXPECT_EQ(tutti_queue_wait(queue.get(), 0), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(b, std::vector<int>(1000, 2));
    EXPECT_EQ(c, std::vector<int>(10, 2));
  });
}

TEST(Order, ManyThreadsAndQueuesOnOneCommunicatorAllGetTheirTurns) {
  const Ranks ranks(2);
  std::vector<int> data(200, 1);
  on_both([&](int rank) {
    const QueuePtr queue = make_queue();
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 50; ++i)
          EXPECT_EQ(tutti_barrier(ranks[rank], t == 0 ? on(queue) : tutti_stream{}, nullptr), TUTTI_SUCCESS);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(tutti_queue_wait(queue.get(), 0), TUTTI_SUCCESS) << last_error();
    std::uint64_t sequence = 0;
    EXPECT_EQ(tutti_comm_sequence(ranks[rank], &sequence), TUTTI_SUCCESS);
    EXPECT_EQ(sequence, 150u);
  });
}

TEST(Order, AnAbortEndsTheWaitForATurn) {
  const Ranks held_up(2), ranks(2);
  std::vector<int> a(1, 1), b(1, 1), c(1, 1);
  const QueuePtr queue = make_queue();
  EXPECT_EQ(sum(a, held_up[0], on(queue)), TUTTI_SUCCESS);  // nobody else comes
  EXPECT_EQ(sum(b, ranks[0], on(queue)), TUTTI_SUCCESS);
  const auto begin = std::chrono::steady_clock::now();
  std::thread direct([&] { EXPECT_EQ(sum(c, ranks[0]), TUTTI_ABORTED); });
  usleep(50'000);
  EXPECT_EQ(tutti_comm_abort(ranks[0]), TUTTI_SUCCESS);
  direct.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_EQ(tutti_comm_abort(held_up[0]), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_queue_wait(queue.get(), 0), TUTTI_ABORTED);
}

TEST(Destroy, CompletesWhatWasEnqueuedFirst) {
  const auto comms = pair_of_ranks();
  std::vector<int> a(1000, 1), b(1000, 1), c(300'000, 7), d(300'000, 0);
  on_both([&](int rank) {
    if (rank == 1) {
      usleep(late_us);
      EXPECT_EQ(sum(b, comms[1]), TUTTI_SUCCESS) << last_error();
      EXPECT_EQ(tutti_recv(d.data(), d.size(), TUTTI_INT32, 0, comms[1], {}, nullptr), TUTTI_SUCCESS) << last_error();
      EXPECT_EQ(tutti_comm_destroy(comms[1]), TUTTI_SUCCESS);
      return;
    }
    const QueuePtr queue = make_queue();
    EXPECT_EQ(sum(a, comms[0], on(queue)), TUTTI_SUCCESS);
    EXPECT_EQ(tutti_send(c.data(), c.size(), TUTTI_INT32, 1, comms[0], on(queue), nullptr), TUTTI_SUCCESS);
    EXPECT_EQ(tutti_comm_destroy(comms[0]), TUTTI_SUCCESS);
    EXPECT_EQ(tutti_queue_wait(queue.get(), 0), TUTTI_SUCCESS) << last_error();
  });
  EXPECT_EQ(a, std::vector<int>(1000, 2));
  EXPECT_EQ(d, c);
}

TEST(Destroy, AbortsWhatOutlastsTheOperationTimeout) {
  const auto comms = pair_of_ranks(300 * ms);
  std::vector<int> a(1, 1);
  const QueuePtr queue = make_queue();
  tutti_call call = TUTTI_CALL_INIT;
  call.timeout_ns = 60'000 * ms;
  EXPECT_EQ(sum(a, comms[0], on(queue), &call), TUTTI_SUCCESS);  // the other rank never comes
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(tutti_comm_destroy(comms[0]), TUTTI_SUCCESS);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_EQ(tutti_queue_wait(queue.get(), 0), TUTTI_ABORTED) << last_error();
  EXPECT_EQ(tutti_comm_destroy(comms[1]), TUTTI_SUCCESS);
}

TEST(Destroy, DoesNotWaitForWhatIsBehindAnotherCommunicatorsOperation) {
  const auto ahead = pair_of_ranks();
  const auto behind = pair_of_ranks(300 * ms);
  std::vector<int> a(1, 1), peers(1, 1), b(1, 1);
  tutti_work* work = nullptr;
  tutti_call call = TUTTI_CALL_INIT;
  call.work = &work;
  {
    const QueuePtr queue = make_queue();
    EXPECT_EQ(sum(a, ahead[0], on(queue)), TUTTI_SUCCESS);
    EXPECT_EQ(sum(b, behind[0], on(queue), &call), TUTTI_SUCCESS);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(tutti_comm_destroy(behind[0]), TUTTI_SUCCESS);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
    EXPECT_EQ(sum(peers, ahead[1]), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(tutti_work_wait(work, 0), TUTTI_ABORTED);
    EXPECT_THAT(last_error(), testing::HasSubstr("destroyed before"));
  }
  EXPECT_EQ(b, std::vector<int>(1, 1));
  tutti_work_release(work);
  for (tutti_comm* comm : {ahead[0], ahead[1], behind[1]}) EXPECT_EQ(tutti_comm_destroy(comm), TUTTI_SUCCESS);
}

TEST(Finalize, CompletesWhatWasEnqueuedAndThenRefusesEverything) {
  const Ranks first(2), second(2);
  std::vector<int> sent(300'000, 7), received(300'000, 0);
  on_both([&](int rank) {
    std::vector<int> a(1, 1), b(1000, 1);
    const QueuePtr queue = make_queue();
    if (rank == 0) {
      EXPECT_EQ(sum(a, first[0], on(queue)), TUTTI_SUCCESS);
      EXPECT_EQ(sum(b, second[0], on(queue)), TUTTI_SUCCESS);
      EXPECT_EQ(tutti_send(sent.data(), sent.size(), TUTTI_INT32, 1, second[0], on(queue), nullptr), TUTTI_SUCCESS);
    } else {
      usleep(late_us);
      EXPECT_EQ(sum(a, first[1]), TUTTI_SUCCESS) << last_error();
      EXPECT_EQ(sum(b, second[1]), TUTTI_SUCCESS) << last_error();
      EXPECT_EQ(tutti_recv(received.data(), received.size(), TUTTI_INT32, 0, second[1], {}, nullptr), TUTTI_SUCCESS)
          << last_error();
    }
    EXPECT_EQ(tutti_comm_finalize(second[rank]), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(b, std::vector<int>(1000, 2));
    tutti_comm_state_kind state;
    EXPECT_EQ(tutti_comm_state(second[rank], &state), TUTTI_SUCCESS);
    EXPECT_EQ(state, TUTTI_COMM_FINALIZED);
    for (const tutti_stream stream : {tutti_stream{}, on(queue)}) {
      EXPECT_EQ(sum(b, second[rank], stream), TUTTI_INVALID_USAGE);
      EXPECT_EQ(tutti_send(b.data(), 1, TUTTI_INT32, 1 - rank, second[rank], stream, nullptr), TUTTI_INVALID_USAGE);
      EXPECT_EQ(tutti_recv(b.data(), 1, TUTTI_INT32, 1 - rank, second[rank], stream, nullptr), TUTTI_INVALID_USAGE);
      EXPECT_THAT(last_error(), testing::HasSubstr("has been finalized"));
    }
    EXPECT_EQ(tutti_comm_finalize(second[rank]), TUTTI_INVALID_USAGE);
    EXPECT_EQ(tutti_queue_wait(queue.get(), 0), TUTTI_SUCCESS) << last_error();
  });
  EXPECT_EQ(received, sent);
}

}  // namespace
}  // namespace tutti::test
