// Very many transfers outstanding at once: posted on a queue by one rank, and matched one by one by the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/ranks.h"

namespace tutti::test {
namespace {

enum class Order { as_posted, against, shuffled };

class Outstanding : public testing::TestWithParam<const char*> {};

tutti_status transfer(bool sends, int* value, std::uint64_t tag, int peer, tutti_comm* comm, tutti_stream stream,
                      std::uint64_t timeout_ns = 0) {
  tutti_call call = TUTTI_CALL_INIT;
  call.tag = tag;
  call.timeout_ns = timeout_ns;
  return sends ? tutti_send(value, 1, TUTTI_INT32, peer, comm, stream, &call)
               : tutti_recv(value, 1, TUTTI_INT32, peer, comm, stream, &call);
}

std::vector<std::uint64_t> tags(Order order, std::size_t count) {
  std::vector<std::uint64_t> tags(count);
  std::iota(tags.begin(), tags.end(), std::uint64_t{0});
  if (order == Order::against) std::reverse(tags.begin(), tags.end());
  if (order == Order::shuffled) std::shuffle(tags.begin(), tags.end(), std::mt19937(1));
  return tags;
}

void post_all(bool sends, std::vector<int>& values, int peer, tutti_comm* comm, tutti_queue* queue) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(transfer(sends, &values[i], i, peer, comm, {TUTTI_STREAM_QUEUE, queue}), TUTTI_SUCCESS) << last_error();
  }
}

/// Rank 0's wait while rank 1 matches them, from whom they come or from anybody.
void match_all(const char* transports, bool sends, Order order, std::size_t count) {
  const Ranks ranks(2, transports);
  std::barrier<> posted(2);
  ranks.run([&](int rank, tutti_comm* comm) {
    if (rank == 0) {
      std::vector<int> values(count, -1);
      if (sends) std::iota(values.begin(), values.end(), 0);
      tutti_queue* queue = nullptr;
      ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS) << last_error();
      post_all(sends, values, 1, comm, queue);
      posted.arrive_and_wait();
      EXPECT_EQ(tutti_queue_wait(queue, 0), TUTTI_SUCCESS) << last_error();
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(values[i], static_cast<int>(i));
      EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
      return;
    }
    posted.arrive_and_wait();
    for (const std::uint64_t tag : tags(order, count)) {
      int value = sends ? -1 : static_cast<int>(tag);
      const int peer = sends && tag % 3 == 0 ? TUTTI_ANY_SOURCE : 0;
      ASSERT_EQ(transfer(!sends, &value, tag, peer, comm, {}), TUTTI_SUCCESS) << tag << ": " << last_error();
      ASSERT_EQ(value, static_cast<int>(tag));
    }
  });
}

TEST_P(Outstanding, SendsFindTheirReceivesInEveryOrder) {
  for (const Order order : {Order::as_posted, Order::against, Order::shuffled}) match_all(GetParam(), true, order, 20'000);
}

TEST_P(Outstanding, ReceivesFindTheirSendsInEveryOrder) {
  for (const Order order : {Order::as_posted, Order::against, Order::shuffled}) match_all(GetParam(), false, order, 5'000);
}

// Those that ask the receiver first travel with their requests, up to a length, and are told so in order all the same.
TEST_P(Outstanding, SendsOfOneTagKeepTheirOrderWhateverTheirLengths) {
  constexpr std::size_t count = 20'000;
  const Ranks ranks(2, GetParam());
  ranks.run([&](int rank, tutti_comm* comm) {
    std::vector<std::uint64_t> block(32);
    if (rank == 0) {
      std::iota(block.begin(), block.end(), std::uint64_t{0});
      tutti_queue* queue = nullptr;
      ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS) << last_error();
      const tutti_stream stream{TUTTI_STREAM_QUEUE, queue};
      std::uint64_t first = 1;
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_EQ(tutti_send(block.data(), i % block.size(), TUTTI_UINT64, 1, comm, stream, nullptr), TUTTI_SUCCESS);
      tutti_call last = TUTTI_CALL_INIT;
      last.tag = 1;
      ASSERT_EQ(tutti_send(&first, 1, TUTTI_UINT64, 1, comm, stream, &last), TUTTI_SUCCESS) << last_error();
      EXPECT_EQ(tutti_queue_wait(queue, 0), TUTTI_SUCCESS) << last_error();
      EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
      return;
    }
    tutti_call last = TUTTI_CALL_INIT;
    last.tag = 1;
    std::uint64_t none = 0;  // all others are there when this one is
    ASSERT_EQ(tutti_recv(&none, 1, TUTTI_UINT64, 0, comm, {}, &last), TUTTI_SUCCESS) << last_error();
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t length = i % block.size();
      block.assign(block.size(), UINT64_MAX);
      // Were another message in its place, this one would be too long for it, or be less than was expected.
      ASSERT_EQ(tutti_recv(block.data(), length, TUTTI_UINT64, 0, comm, {}, nullptr), TUTTI_SUCCESS) << last_error();
      for (std::size_t j = 0; j < block.size(); ++j) ASSERT_EQ(block[j], j < length ? j : UINT64_MAX) << i;
    }
  });
}

// Each with a limit of its own, of which one is short.
TEST_P(Outstanding, ReceivesMissTheirDeadlinesOnTimeHoweverManyWait) {
  constexpr std::size_t count = 30'000;
  constexpr std::uint64_t second = 1'000'000'000;
  constexpr std::uint64_t hurried = 12'345;
  const Ranks ranks(2, GetParam());
  tutti_queue* queue = nullptr;
  ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS) << last_error();
  std::vector<int> values(count);
  const auto begun = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t limit = i == hurried ? second : (60 + i) * second;
    ASSERT_EQ(transfer(false, &values[i], i, 1, ranks[0], {TUTTI_STREAM_QUEUE, queue}, limit), TUTTI_SUCCESS);
  }
  EXPECT_EQ(tutti_queue_wait(queue, 0), TUTTI_TIMEOUT);
  const auto waited = std::chrono::steady_clock::now() - begun;
  EXPECT_THAT(std::string(error_of(ranks[0]).message), testing::HasSubstr("with tag " + std::to_string(hurried)));
  EXPECT_GE(waited, std::chrono::seconds(1));
  EXPECT_LE(waited, std::chrono::seconds(20));
  EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
}

INSTANTIATE_TEST_SUITE_P(Transports, Outstanding, testing::Values("shm", "tcp"));

}  // namespace
}  // namespace tutti::test
