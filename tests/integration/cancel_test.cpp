// Transfers that are taken back: by their caller, and by soft deadlines. The communicator stays sound.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "tests/support/own_queue.h"
#include "tests/support/ranks.h"

namespace tutti::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::uint64_t kMillisecond = 1'000'000;
constexpr std::size_t kLong = 300'000;  ///< bytes that go once their receiver has asked for them

/// A transfer behind the caller's back, and its memory.
class Posted {
 public:
  Posted(bool sends, std::vector<unsigned char> memory, int peer, tutti_comm* comm, tutti_stream stream,
         std::uint64_t tag = 0, std::uint64_t soft_ns = 0)
      : memory_(std::move(memory)) {
    tutti_call call = TUTTI_CALL_INIT;
    call.work = &work_;
    call.tag = tag;
    call.timeout_ns = soft_ns;
    call.flags = soft_ns != 0 ? TUTTI_SOFT_DEADLINE : 0;
    EXPECT_EQ(sends ? tutti_send(memory_.data(), memory_.size(), TUTTI_UINT8, peer, comm, stream, &call)
                    : tutti_recv(memory_.data(), memory_.size(), TUTTI_UINT8, peer, comm, stream, &call),
              TUTTI_SUCCESS)
        << last_error();
  }
  ~Posted() { tutti_work_release(work_); }
  Posted(Posted&& other) noexcept : memory_(std::move(other.memory_)), work_(std::exchange(other.work_, nullptr)) {}
  Posted(const Posted&) = delete;
  Posted& operator=(const Posted&) = delete;

  tutti_work* work() const { return work_; }
  tutti_status cancel() const { return tutti_work_cancel(work_); }
  tutti_status wait() const { return tutti_work_wait(work_, 0); }
  tutti_status test() const { return tutti_work_test(work_); }
  /// Whose message a receive has met; -1: none's yet.
  int source() const {
    tutti_work_details info{};
    info.size = sizeof info;
    EXPECT_EQ(tutti_work_info(work_, &info), TUTTI_SUCCESS);
    return info.source;
  }
  const std::vector<unsigned char>& memory() const { return memory_; }

 private:
  std::vector<unsigned char> memory_;
  tutti_work* work_ = nullptr;
};

std::vector<unsigned char> bytes_of(std::uint32_t number, std::size_t bytes) {
  std::vector<unsigned char> memory(bytes, static_cast<unsigned char>(number));
  std::copy_n(reinterpret_cast<const unsigned char*>(&number), std::min(bytes, sizeof number), memory.begin());
  return memory;
}
std::uint32_t number_in(const std::vector<unsigned char>& memory) {
  std::uint32_t number = 0;
  std::memcpy(&number, memory.data(), sizeof number);
  return number;
}

/// The communicator works: collectives, and a message each way.
void expect_sound(int rank, tutti_comm* comm) {
  int sum = 1, ranks = 0, other = -1;
  ASSERT_EQ(tutti_comm_size(comm, &ranks), TUTTI_SUCCESS);
  ASSERT_EQ(tutti_all_reduce(&sum, &sum, 1, TUTTI_INT32, TUTTI_SUM, comm, {}, nullptr), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(sum, ranks);
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  ASSERT_EQ(tutti_send(&rank, 1, TUTTI_INT32, (rank + 1) % ranks, comm, {}, nullptr), TUTTI_SUCCESS);
  ASSERT_EQ(tutti_recv(&other, 1, TUTTI_INT32, (rank + ranks - 1) % ranks, comm, {}, nullptr), TUTTI_SUCCESS);
  ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(other, (rank + ranks - 1) % ranks);
}

class TakenBackOver : public testing::TestWithParam<const char*> {};

TEST_P(TakenBackOver, AReceiveEndsAtOnceAndTakesNoMessageAnyMore) {
  const Ranks ranks(2, GetParam());
  std::barrier<> meeting(2);
  ranks.run([&](int rank, tutti_comm* comm) {
    for (int round = 0; round < 20; ++round) {
      for (const int source : {1, TUTTI_ANY_SOURCE}) {
        const OwnQueue queue;
        if (rank == 0) {
          const Posted first(false, bytes_of(0, 8), source, comm, queue.stream(), 7);
          const Posted second(false, bytes_of(0, 8), source, comm, queue.stream(), 7);
          if (round % 2 == 0) ::usleep(300);
          EXPECT_EQ(first.cancel(), TUTTI_SUCCESS) << last_error();
          EXPECT_EQ(first.wait(), TUTTI_ABORTED);
          EXPECT_THAT(last_error(), AllOf(HasSubstr("rank 0's recv of 8 bytes from"), HasSubstr("tag 7"),
                                          HasSubstr("was taken back by tutti_work_cancel")));
          meeting.arrive_and_wait();
          EXPECT_EQ(second.wait(), TUTTI_SUCCESS) << last_error();
          EXPECT_EQ(number_in(second.memory()), 5u);
          EXPECT_EQ(number_in(first.memory()), 0u);
          EXPECT_EQ(queue.wait(), TUTTI_ABORTED) << "the first error of what was on it";
        } else {
          meeting.arrive_and_wait();
          const auto message = bytes_of(5, 8);
          tutti_call call = TUTTI_CALL_INIT;
          call.tag = 7;
          EXPECT_EQ(tutti_send(message.data(), 8, TUTTI_UINT8, 0, comm, {}, &call), TUTTI_SUCCESS) << last_error();
        }
        ASSERT_NO_FATAL_FAILURE(expect_sound(rank, comm));
      }
    }
  });
}

// The receiver has heard of it, and no receive has met it.
TEST_P(TakenBackOver, ASendThatItsReceiverHasHeardOfIsForgottenThere) {
  const Ranks ranks(2, GetParam());
  std::barrier<> meeting(2);
  ranks.run([&](int rank, tutti_comm* comm) {
    for (int round = 0; round < 10; ++round) {
      const OwnQueue queue;
      if (rank == 0) {
        const Posted first(true, bytes_of(1, kLong), 1, comm, queue.stream());
        const Posted second(true, bytes_of(2, kLong), 1, comm, queue.stream());
        ::usleep(2000);
        EXPECT_EQ(first.cancel(), TUTTI_SUCCESS) << last_error();
        EXPECT_EQ(first.cancel(), TUTTI_SUCCESS) << last_error();
        EXPECT_EQ(first.wait(), TUTTI_ABORTED) << last_error();
        EXPECT_THAT(last_error(), HasSubstr("rank 0's send of 300000 bytes to rank 1"));
        EXPECT_EQ(first.cancel(), TUTTI_SUCCESS) << "it has ended";
        meeting.arrive_and_wait();
        EXPECT_EQ(second.wait(), TUTTI_SUCCESS) << last_error();
      } else {
        // Which nothing matches: it keeps this rank taking what comes.
        const Posted other(false, bytes_of(0, 8), 0, comm, queue.stream(), 99);
        meeting.arrive_and_wait();
        std::vector<unsigned char> got(kLong);
        EXPECT_EQ(tutti_recv(got.data(), got.size(), TUTTI_UINT8, 0, comm, {}, nullptr), TUTTI_SUCCESS) << last_error();
        EXPECT_EQ(got, bytes_of(2, kLong));
        EXPECT_EQ(other.cancel(), TUTTI_SUCCESS);
        EXPECT_EQ(other.wait(), TUTTI_ABORTED);
      }
      ASSERT_NO_FATAL_FAILURE(expect_sound(rank, comm));
    }
  });
}

// Its receiver's process makes no progress meanwhile. When it does, a receive meets what is no more.
TEST_P(TakenBackOver, ASendEndsWithoutItsReceiverWhoseReceiveTakesTheNextMessage) {
  for (const bool soft : {false, true}) {
    const Ranks ranks(2, GetParam());
    std::barrier<> meeting(2);
    ranks.run([&](int rank, tutti_comm* comm) {
      ASSERT_NO_FATAL_FAILURE(expect_sound(rank, comm));
      meeting.arrive_and_wait();
      const OwnQueue queue;
      if (rank == 0) {
        const Posted first(true, bytes_of(1, kLong), 1, comm, queue.stream(), 0, soft ? 20 * kMillisecond : 0);
        ::usleep(2000);
        if (!soft) {
          EXPECT_EQ(first.cancel(), TUTTI_SUCCESS) << last_error();
        }
        EXPECT_EQ(first.wait(), soft ? TUTTI_TIMEOUT : TUTTI_ABORTED) << last_error();
        if (soft) {
          EXPECT_THAT(last_error(), AllOf(HasSubstr("found no match"), HasSubstr("20 ms")));
        }
        const Posted second(true, bytes_of(2, kLong), 1, comm, queue.stream());
        const Posted third(true, bytes_of(3, 100), 1, comm, queue.stream());
        meeting.arrive_and_wait();
        EXPECT_EQ(second.wait(), TUTTI_SUCCESS) << last_error();
        EXPECT_EQ(third.wait(), TUTTI_SUCCESS) << last_error();
      } else {
        meeting.arrive_and_wait();
        std::vector<unsigned char> got(kLong);
        for (const std::uint32_t number : {2u, 3u}) {
          got.assign(kLong, 0);
          EXPECT_EQ(tutti_recv(got.data(), got.size(), TUTTI_UINT8, 0, comm, {}, nullptr), TUTTI_SUCCESS) << last_error();
          EXPECT_EQ(number_in(got), number);
        }
      }
      ASSERT_NO_FATAL_FAILURE(expect_sound(rank, comm));
    });
  }
}

// The receiver keeps the request, and meets it when the sender's program makes no progress any more.
TEST_P(TakenBackOver, ASendThatEndedWithoutItsReceiverAnswersThoughItsProgramComputes) {
  for (const bool blocking : {false, true}) {
    const Ranks ranks(2, GetParam());
    std::barrier<> meeting(2);
    ranks.run([&](int rank, tutti_comm* comm) {
      ASSERT_NO_FATAL_FAILURE(expect_sound(rank, comm));
      std::vector<unsigned char> got(kLong);
      tutti_call other = TUTTI_CALL_INIT;
      other.tag = 9;
      if (rank == 0) {
        const OwnQueue queue;
        const tutti_stream stream = blocking ? tutti_stream{} : queue.stream();
        const Posted behind(true, bytes_of(2, 8), 1, comm, queue.stream(), 9);
        if (blocking) {
          tutti_call soft = TUTTI_CALL_INIT;
          soft.timeout_ns = 20 * kMillisecond;
          soft.flags = TUTTI_SOFT_DEADLINE;
          EXPECT_EQ(tutti_send(got.data(), got.size(), TUTTI_UINT8, 1, comm, stream, &soft), TUTTI_TIMEOUT) << last_error();
        } else {
          const Posted soft(true, bytes_of(1, kLong), 1, comm, stream, 0, 20 * kMillisecond);
          EXPECT_EQ(soft.wait(), TUTTI_TIMEOUT) << last_error();
        }
        meeting.arrive_and_wait();
        EXPECT_EQ(tutti_send(bytes_of(3, 8).data(), 8, TUTTI_UINT8, 1, comm, {}, nullptr), TUTTI_SUCCESS) << last_error();
        meeting.arrive_and_wait();  // it computes
      } else {
        meeting.arrive_and_wait();
        EXPECT_EQ(tutti_recv(got.data(), 8, TUTTI_UINT8, 0, comm, {}, &other), TUTTI_SUCCESS) << last_error();
        EXPECT_EQ(tutti_recv(got.data(), got.size(), TUTTI_UINT8, 0, comm, {}, nullptr), TUTTI_SUCCESS) << last_error();
        EXPECT_EQ(number_in(got), 3u);
        meeting.arrive_and_wait();
      }
      ASSERT_NO_FATAL_FAILURE(expect_sound(rank, comm));
    });
  }
}

// The receive is too short for what is no more, and no mismatch with it.
TEST_P(TakenBackOver, ASendThatEndedWithoutItsReceiverIsNoMismatch) {
  const Ranks ranks(2, GetParam());
  std::barrier<> meeting(2);
  ranks.run([&](int rank, tutti_comm* comm) {
    ASSERT_NO_FATAL_FAILURE(expect_sound(rank, comm));
    meeting.arrive_and_wait();
    if (rank == 0) {
      const OwnQueue queue;
      const Posted first(true, bytes_of(1, kLong), 1, comm, queue.stream(), 0, kMillisecond);
      EXPECT_EQ(first.wait(), TUTTI_TIMEOUT) << last_error();
      const Posted second(true, bytes_of(2, 8), 1, comm, queue.stream());
      meeting.arrive_and_wait();
      EXPECT_EQ(second.wait(), TUTTI_SUCCESS) << last_error();
      // What is still there is one.
      meeting.arrive_and_wait();
      const Posted third(true, bytes_of(3, kLong), 1, comm, queue.stream());
      static_cast<void>(third.wait());  // it may have left before the receiver says so
    } else {
      std::vector<unsigned char> got(8);
      meeting.arrive_and_wait();
      EXPECT_EQ(tutti_recv(got.data(), 8, TUTTI_UINT8, 0, comm, {}, nullptr), TUTTI_SUCCESS) << last_error();
      EXPECT_EQ(number_in(got), 2u);
      meeting.arrive_and_wait();
      EXPECT_EQ(tutti_recv(got.data(), 8, TUTTI_UINT8, 0, comm, {}, nullptr), TUTTI_MISMATCH);
      EXPECT_THAT(last_error(), HasSubstr("sent 300000 bytes of uint8 with tag 0"));
      EXPECT_EQ(number_in(got), 2u);
    }
  });
}

TEST_P(TakenBackOver, ASoftReceiveEndsAloneAndOthersGoOn) {
  const Ranks ranks(3, GetParam());
  std::barrier<> meeting(3);
  ranks.run([&](int rank, tutti_comm* comm) {
    for (int round = 0; round < 5; ++round) {
      int value = -1, other = -1;
      tutti_call call = TUTTI_CALL_INIT;
      call.tag = 3;
      call.timeout_ns = 3 * kMillisecond;
      call.flags = TUTTI_SOFT_DEADLINE;
      call.user_tag = 71;
      if (rank == 0) {
        EXPECT_EQ(tutti_recv(&value, 1, TUTTI_INT32, round % 2 == 0 ? 1 : TUTTI_ANY_SOURCE, comm, {}, &call),
                  TUTTI_TIMEOUT);
        EXPECT_THAT(last_error(), AllOf(HasSubstr("found no match within 3 ms"), HasSubstr("with tag 3 (user tag 71)")));
        EXPECT_EQ(error_of(comm).status, TUTTI_SUCCESS);
        // In a group, whose other receive has its message; the group's options are for those that have none.
        meeting.arrive_and_wait();
        tutti_call whole = TUTTI_CALL_INIT;
        whole.timeout_ns = 50 * kMillisecond;
        whole.flags = TUTTI_SOFT_DEADLINE;
        ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
        EXPECT_EQ(tutti_recv(&value, 1, TUTTI_INT32, 1, comm, {}, nullptr), TUTTI_SUCCESS);
        tutti_call tagged = TUTTI_CALL_INIT;
        tagged.tag = 4;
        EXPECT_EQ(tutti_recv(&other, 1, TUTTI_INT32, 2, comm, {}, &tagged), TUTTI_SUCCESS);
        EXPECT_EQ(tutti_group_end(&whole), TUTTI_TIMEOUT);
        EXPECT_EQ(value, 41);
        EXPECT_EQ(other, -1);
      } else {
        const int mine = 40 + rank;
        if (rank == 1) {
          EXPECT_EQ(tutti_send(&mine, 1, TUTTI_INT32, 0, comm, {}, nullptr), TUTTI_SUCCESS);
        }
        meeting.arrive_and_wait();
      }
      ASSERT_NO_FATAL_FAILURE(expect_sound(rank, comm));
    }
  });
}

// What has met its match is no more to be taken back.
TEST_P(TakenBackOver, ALongTransferThatHasBegunGoesOn) {
  constexpr std::size_t bytes = 96 << 20;
  const Ranks ranks(2, GetParam());
  std::atomic<bool> has_begun{false};
  ranks.run([&has_begun](int rank, tutti_comm* comm) {
    const OwnQueue queue;
    const Posted all(rank == 0, bytes_of(rank == 0 ? 9 : 0, bytes), 1 - rank, comm, queue.stream(), 0);
    if (rank == 1) {
      while (all.source() < 0) std::this_thread::yield();
      has_begun.store(true);
    } else {
      while (!has_begun.load()) std::this_thread::yield();
      EXPECT_EQ(all.cancel(), TUTTI_SUCCESS) << last_error();
    }
    EXPECT_EQ(all.wait(), TUTTI_SUCCESS) << last_error();
    if (rank == 1) {
      EXPECT_TRUE(all.memory() == bytes_of(9, bytes));
    }
    ASSERT_NO_FATAL_FAILURE(expect_sound(rank, comm));
  });
}

// Where a machine is slow its limit may pass before it begins: then both ends are taken back.
TEST_P(TakenBackOver, ALongSoftTransferThatHasBegunGoesOnOnBothEnds) {
  constexpr std::size_t bytes = 96 << 20;
  const Ranks ranks(2, GetParam());
  ranks.run([](int rank, tutti_comm* comm) {
    const OwnQueue queue;
    const Posted all(rank == 0, bytes_of(rank == 0 ? 9 : 0, bytes), 1 - rank, comm, queue.stream(), 0, 40 * kMillisecond);
    const tutti_status ended = all.wait();
    if (ended == TUTTI_SUCCESS && rank == 1) {
      EXPECT_TRUE(all.memory() == bytes_of(9, bytes));
    }
    int both[2] = {0, 0};
    ASSERT_EQ(tutti_all_gather(&ended, both, 1, TUTTI_INT32, comm, {}, nullptr), TUTTI_SUCCESS);
    EXPECT_EQ(both[0], both[1]);
    if (rank == 0) RecordProperty("end", static_cast<int>(ended));
    ASSERT_NO_FATAL_FAILURE(expect_sound(rank, comm));
  });
}

/// What one rank sends to the other, some of which it takes back; and what the other has received.
class Storm {
 public:
  Storm(int rank, tutti_comm* comm, unsigned seed, bool receiver_sleeps)
      : rank_(rank), comm_(comm), random_(seed + static_cast<unsigned>(rank)), receiver_sleeps_(receiver_sleeps) {}

  /// The numbers of those that were sent, as the sends say.
  std::vector<std::uint32_t> send_all() {
    const OwnQueue queue;
    std::vector<Posted> sends;
    for (std::uint32_t n = 0; n < kMessages; ++n) {
      const std::size_t bytes = random_() % 2 == 0 ? 4 + random_() % 2000 : 150'000 + random_() % 200'000;
      sends.emplace_back(true, bytes_of(n, bytes), 1, comm_, queue.stream(), n % 3);
      if (random_() % 3 == 0) {
        EXPECT_EQ(sends[random_() % sends.size()].cancel(), TUTTI_SUCCESS) << last_error();
      }
      if (random_() % 8 == 0) ::usleep(static_cast<useconds_t>(random_() % 400));
    }
    std::vector<std::uint32_t> sent;
    for (std::uint32_t n = 0; n < kMessages; ++n) {
      const tutti_status ended = sends[n].wait();
      EXPECT_TRUE(ended == TUTTI_SUCCESS || ended == TUTTI_ABORTED) << last_error();
      if (ended == TUTTI_SUCCESS) sent.push_back(n);
    }
    return sent;
  }

  /// The numbers of those that were received, until the sender says that there are no more.
  std::vector<std::uint32_t> receive_all() {
    const OwnQueue queue;
    std::vector<std::uint32_t> received;
    std::vector<Posted> receives;
    const auto take = [&](const Posted& each) {
      const tutti_status ended = each.wait();
      EXPECT_TRUE(ended == TUTTI_SUCCESS || ended == TUTTI_ABORTED) << last_error();
      if (ended == TUTTI_SUCCESS) received.push_back(number_in(each.memory()));
    };
    std::uint32_t sent = 0;
    const Posted end(false, std::vector<unsigned char>(sizeof sent), 0, comm_, queue.stream(), 100);
    while (received.size() < sent || end.test() == TUTTI_IN_PROGRESS) {
      if (receiver_sleeps_ && random_() % 4 == 0) ::usleep(static_cast<useconds_t>(random_() % 1000));
      for (std::uint64_t tag = 0; tag < 3; ++tag) {
        const int source = random_() % 2 == 0 ? 0 : TUTTI_ANY_SOURCE;
        receives.emplace_back(false, std::vector<unsigned char>(kMost), source, comm_, queue.stream(), tag);
      }
      if (random_() % 2 == 0) ::usleep(static_cast<useconds_t>(random_() % 400));
      for (const Posted& each : receives) EXPECT_EQ(each.cancel(), TUTTI_SUCCESS) << last_error();
      for (const Posted& each : receives) take(each);
      receives.clear();
      if (end.test() != TUTTI_IN_PROGRESS) sent = number_in(end.memory());
    }
    return received;
  }
  void run() {
    if (rank_ == 0) {
      const auto sent = send_all();
      const auto count = static_cast<std::uint32_t>(sent.size());
      tutti_call call = TUTTI_CALL_INIT;
      call.tag = 100;
      ASSERT_EQ(tutti_send(&count, 1, TUTTI_UINT32, 1, comm_, {}, &call), TUTTI_SUCCESS) << last_error();
      call.tag = 101;
      ASSERT_EQ(tutti_send(sent.data(), sent.size(), TUTTI_UINT32, 1, comm_, {}, &call), TUTTI_SUCCESS) << last_error();
    } else {
      auto received = receive_all();
      std::vector<std::uint32_t> sent(kMessages);
      tutti_work* work = nullptr;
      tutti_call call = TUTTI_CALL_INIT;
      call.tag = 101;
      call.work = &work;
      ASSERT_EQ(tutti_recv(sent.data(), sent.size(), TUTTI_UINT32, 0, comm_, {}, &call), TUTTI_SUCCESS) << last_error();
      tutti_work_details info{};
      info.size = sizeof info;
      ASSERT_EQ(tutti_work_info(work, &info), TUTTI_SUCCESS);
      tutti_work_release(work);
      sent.resize(info.received_count);
      std::ranges::sort(received);
      EXPECT_EQ(received, sent);
    }
    expect_sound(rank_, comm_);
  }

 private:
  static constexpr std::uint32_t kMessages = 120;
  static constexpr std::size_t kMost = 400'000;
  const int rank_;
  tutti_comm* const comm_;
  std::minstd_rand random_;
  const bool receiver_sleeps_;
};

// Every send whose end says so was received, once, and no other was.
TEST_P(TakenBackOver, AtRandomMomentsNothingIsLostOrReceivedTwice) {
  for (unsigned seed = 1; seed <= 6; ++seed) {
    const Ranks ranks(2, GetParam());
    ranks.run([seed](int rank, tutti_comm* comm) { Storm(rank, comm, seed * 10, seed % 2 == 0).run(); });
  }
}

// With a send under way that nobody will ever answer, communicators end as ever.
TEST_P(TakenBackOver, CommunicatorsEndInOrderAfterwards) {
  for (const bool finalize : {false, true}) {
    const Ranks ranks(2, GetParam());
    std::barrier<> meeting(2);
    ranks.run([&](int rank, tutti_comm* comm) {
      ASSERT_NO_FATAL_FAILURE(expect_sound(rank, comm));
      meeting.arrive_and_wait();
      if (rank == 0) {
        const auto data = bytes_of(1, kLong);
        tutti_call call = TUTTI_CALL_INIT;
        call.timeout_ns = kMillisecond;
        call.flags = TUTTI_SOFT_DEADLINE;
        EXPECT_EQ(tutti_send(data.data(), data.size(), TUTTI_UINT8, 1, comm, {}, &call), TUTTI_TIMEOUT) << last_error();
      }
      meeting.arrive_and_wait();
      if (finalize) {
        EXPECT_EQ(tutti_comm_finalize(comm), TUTTI_SUCCESS) << last_error();
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, TakenBackOver, testing::Values("shm", "tcp"));

TEST(TakenBack, ToOneself) {
  const Ranks ranks(1);
  const OwnQueue queue;
  const Posted sent(true, bytes_of(1, 100), 0, ranks[0], queue.stream());
  const Posted other(true, bytes_of(2, 100), 0, ranks[0], queue.stream());
  EXPECT_EQ(sent.cancel(), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(sent.wait(), TUTTI_ABORTED);
  const Posted received(false, bytes_of(0, 100), 0, ranks[0], queue.stream());
  EXPECT_EQ(received.wait(), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(number_in(received.memory()), 2u);
  EXPECT_EQ(other.wait(), TUTTI_SUCCESS);
}

TEST(TakenBack, FromAnotherThreadThanTheOneThatWaits) {
  const Ranks ranks(1);
  for (int round = 0; round < 50; ++round) {
    tutti_work* work = nullptr;
    tutti_call call = TUTTI_CALL_INIT;
    call.work = &work;
    const OwnQueue queue;
    int value = 0;
    ASSERT_EQ(tutti_recv(&value, 1, TUTTI_INT32, 0, ranks[0], queue.stream(), &call), TUTTI_SUCCESS);
    std::thread waits([work] { EXPECT_EQ(tutti_work_wait(work, 0), TUTTI_ABORTED); });
    EXPECT_EQ(tutti_work_cancel(work), TUTTI_SUCCESS) << last_error();
    waits.join();
    tutti_work_release(work);
  }
}

TEST(TakenBack, BeforeItsGroupHasEnded) {
  const Ranks ranks(1);
  tutti_work* work = nullptr;
  tutti_call call = TUTTI_CALL_INIT;
  call.work = &work;
  int value = 0;
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  ASSERT_EQ(tutti_recv(&value, 1, TUTTI_INT32, 0, ranks[0], {}, &call), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_work_cancel(work), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_work_test(work), TUTTI_IN_PROGRESS);
  EXPECT_EQ(tutti_group_end(nullptr), TUTTI_ABORTED);
  EXPECT_EQ(tutti_work_test(work), TUTTI_ABORTED);
  tutti_work_release(work);
  expect_sound(0, ranks[0]);
}

TEST(TakenBack, AreSendsAndReceivesAlone) {
  const Ranks ranks(1);
  EXPECT_EQ(tutti_work_cancel(nullptr), TUTTI_INVALID_ARGUMENT);
  int value = 1;
  tutti_work* work = nullptr;
  tutti_call call = TUTTI_CALL_INIT;
  call.work = &work;
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  ASSERT_EQ(tutti_all_reduce(&value, &value, 1, TUTTI_INT32, TUTTI_SUM, ranks[0], {}, &call), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_work_cancel(work), TUTTI_INVALID_USAGE);
  EXPECT_THAT(last_error(), HasSubstr("all_reduce cannot be taken back"));
  EXPECT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_work_cancel(work), TUTTI_SUCCESS) << "it has ended";
  tutti_work_release(work);

  call = TUTTI_CALL_INIT;
  call.flags = TUTTI_SOFT_DEADLINE;
  EXPECT_EQ(tutti_all_reduce(&value, &value, 1, TUTTI_INT32, TUTTI_SUM, ranks[0], {}, &call), TUTTI_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("all_reduce has a soft deadline"));
  for (const std::uint32_t flags : {2u, 3u, 0x80000000u}) {
    call.flags = flags;
    EXPECT_EQ(tutti_send(&value, 1, TUTTI_INT32, 0, ranks[0], {}, &call), TUTTI_INVALID_ARGUMENT) << flags;
    EXPECT_EQ(tutti_barrier(ranks[0], {}, &call), TUTTI_INVALID_ARGUMENT) << flags;
    ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
    EXPECT_EQ(tutti_group_end(&call), TUTTI_INVALID_ARGUMENT) << flags;
  }
  call = TUTTI_CALL_INIT;
  call.fuse = 7;
  EXPECT_EQ(tutti_barrier(ranks[0], {}, &call), TUTTI_INVALID_ARGUMENT);
  ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
  EXPECT_EQ(tutti_group_end(&call), TUTTI_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("fuse is 7"));
  call = TUTTI_CALL_INIT;
  call.min_blocks = 3;
  call.max_blocks = 2;
  EXPECT_EQ(tutti_barrier(ranks[0], {}, &call), TUTTI_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("at least 3 and at most 2 thread blocks"));
}

TEST(Works, TellWhatTheyAre) {
  const Ranks ranks(2);
  ranks.run([](int rank, tutti_comm* comm) {
    const OwnQueue queue;
    const auto details_of = [](tutti_work* work) {
      tutti_work_details info{};
      info.size = sizeof info;
      EXPECT_EQ(tutti_work_wait(work, 0), TUTTI_SUCCESS) << last_error();
      EXPECT_EQ(tutti_work_info(work, &info), TUTTI_SUCCESS);
      tutti_work_release(work);
      return info;
    };
    tutti_work* work = nullptr;
    tutti_call call = TUTTI_CALL_INIT;
    call.work = &work;
    call.user_tag = 0xfeedfacecafe;
    std::vector<double> data(1000, 1);
    ASSERT_EQ(tutti_all_reduce(data.data(), data.data(), 1000, TUTTI_FLOAT64, TUTTI_SUM, comm, queue.stream(), &call),
              TUTTI_SUCCESS);
    tutti_work_details info = details_of(work);
    tutti_comm_choice choice{};
    choice.size = sizeof choice;
    ASSERT_EQ(tutti_comm_last_choice(comm, &choice), TUTTI_SUCCESS);
    EXPECT_STREQ(info.kind, "all_reduce");
    EXPECT_STREQ(info.algorithm, choice.algorithm);
    EXPECT_EQ(info.bytes, 8000u);
    EXPECT_EQ(info.user_tag, 0xfeedfacecafeu);

    const tutti_block blocks[2] = {{data.data(), 3}, {data.data() + 3, 4}};
    tutti_block into[2] = {{data.data() + 100, 3u + static_cast<unsigned>(rank)},
                           {data.data() + 200, 3u + static_cast<unsigned>(rank)}};
    ASSERT_EQ(tutti_all_to_all_v(blocks, into, TUTTI_FLOAT64, comm, queue.stream(), &call), TUTTI_SUCCESS) << last_error();
    info = details_of(work);
    EXPECT_STREQ(info.kind, "all_to_all_v");
    EXPECT_EQ(info.bytes, 56u);

    ASSERT_EQ(rank == 0 ? tutti_send(data.data(), 5, TUTTI_FLOAT64, 1, comm, queue.stream(), &call)
                        : tutti_recv(data.data(), 5, TUTTI_FLOAT64, 0, comm, queue.stream(), &call),
              TUTTI_SUCCESS);
    info = details_of(work);
    EXPECT_STREQ(info.kind, rank == 0 ? "send" : "recv");
    EXPECT_STREQ(info.algorithm, "");
    EXPECT_EQ(info.bytes, 40u);

    ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
    ASSERT_EQ(tutti_barrier(comm, {}, nullptr), TUTTI_SUCCESS);
    ASSERT_EQ(tutti_group_end(&call), TUTTI_SUCCESS) << last_error();
    EXPECT_STREQ(details_of(work).kind, "");
  });
}

}  // namespace
}  // namespace tutti::test
