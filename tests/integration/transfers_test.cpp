// Point to point: what runs behind the caller's back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "tests/support/ranks.h"

namespace tutti::test {
namespace {

/// Signals that the thread of this process with this name blocks, as /proc writes them; empty where there is none.
std::string blocked_signals_of(const std::string& thread) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream file(task.path() / "comm");
    std::getline(file, name);
    if (name != thread) continue;
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("SigBlk:")) return line.substr(line.find_last_of(" \t") + 1);
    }
  }
  return {};
}

TEST(Transfers, InTheBackgroundRunOnAThreadThatLeavesSignalsToTheProgram) {
  const Ranks ranks(1);
  tutti_queue* queue = nullptr;
  ASSERT_EQ(tutti_queue_create(&queue), TUTTI_SUCCESS) << last_error();
  int x = 1;
  int y = 0;
  ASSERT_EQ(tutti_recv(&y, 1, TUTTI_INT32, 0, ranks[0], {TUTTI_STREAM_QUEUE, queue}, nullptr), TUTTI_SUCCESS)
      << last_error();
  const std::string blocked = blocked_signals_of("tutti transfers");
  ASSERT_FALSE(blocked.empty()) << "the thread has its name";
  constexpr std::uint64_t interrupt_and_terminate = 1u << 1 | 1u << 14;
  EXPECT_EQ(std::stoull(blocked, nullptr, 16) & interrupt_and_terminate, interrupt_and_terminate) << blocked;
  EXPECT_EQ(tutti_send(&x, 1, TUTTI_INT32, 0, ranks[0], {}, nullptr), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_queue_wait(queue, 0), TUTTI_SUCCESS);
  EXPECT_EQ(y, 1);
  EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
}

tutti_status post(bool sends, void* memory, int peer, std::uint64_t tag, tutti_comm* comm) {
  tutti_call call = TUTTI_CALL_INIT;
  call.tag = tag;
  return sends ? tutti_send(memory, 1, TUTTI_INT32, peer, comm, {}, &call)
               : tutti_recv(memory, 1, TUTTI_INT32, peer, comm, {}, &call);
}

/// Rank 0 sends to itself and receives from itself or anybody, few tags, in any order: each receive in the order of posting
/// gets the first message of its tag that no receive before it got.
TEST(Transfers, MeetInTheOrderOfPosting) {
  const Ranks ranks(1);
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<int> kinds(40);  // each tag's sends and receives are as many
    for (std::size_t i = 0; i < kinds.size(); ++i) kinds[i] = static_cast<int>(i / 2 % 3 * 2 + i % 2);
    std::shuffle(kinds.begin(), kinds.end(), random);
    std::array<std::vector<int>, 3> sent;
    std::array<std::vector<int*>, 3> received;
    std::vector<int> values(kinds.size());
    std::vector<int> results(kinds.size(), -1);
    ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const auto tag = static_cast<std::size_t>(kinds[i] / 2);
      const bool sends = kinds[i] % 2 == 0;
      values[i] = static_cast<int>(i);
      if (sends) sent[tag].push_back(values[i]);
      if (!sends) received[tag].push_back(&results[i]);
      const int peer = sends || random() % 2 == 0 ? 0 : TUTTI_ANY_SOURCE;
      ASSERT_EQ(post(sends, sends ? &values[i] : &results[i], peer, tag, ranks[0]), TUTTI_SUCCESS) << last_error();
    }
    ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
    for (std::size_t tag = 0; tag < 3; ++tag) {
      for (std::size_t i = 0; i < sent[tag].size(); ++i) EXPECT_EQ(*received[tag][i], sent[tag][i]) << "tag " << tag;
    }
  }
}

/// Were the work of each a matter of how many there are, this would take minutes.
TEST(Transfers, OfWhichThereAreManyInAGroupAllFindTheirMatch) {
  Ranks ranks(2);
  constexpr std::size_t count = 20'000;
  ranks.run([](int rank, tutti_comm* comm) {
    std::vector<int> out(count);
    std::vector<int> in(count, -1);
    ASSERT_EQ(tutti_group_start(), TUTTI_SUCCESS);
    for (std::size_t i = 0; i < count; ++i) {
      out[i] = static_cast<int>(i);
      ASSERT_EQ(post(true, &out[i], 1 - rank, i, comm), TUTTI_SUCCESS);
      ASSERT_EQ(post(false, &in[count - 1 - i], 1 - rank, count - 1 - i, comm), TUTTI_SUCCESS);
    }
    ASSERT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error();
    EXPECT_EQ(in, out);
  });
}

}  // namespace
}  // namespace tutti::test
