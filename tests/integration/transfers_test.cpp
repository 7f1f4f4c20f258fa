// Point to point: what runs behind the caller's back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

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
  ASSERT_EQ(tutti_recv(&y, 1, TUTTI_INT32, 0, ranks[0], {TUTTI_STREAM_QUEUE, queue}, nullptr), TUTTI_SUCCESS) << last_error();
  const std::string blocked = blocked_signals_of("tutti transfers");
  ASSERT_FALSE(blocked.empty()) << "the thread has its name";
  constexpr std::uint64_t interrupt_and_terminate = 1u << 1 | 1u << 14;
  EXPECT_EQ(std::stoull(blocked, nullptr, 16) & interrupt_and_terminate, interrupt_and_terminate) << blocked;
  EXPECT_EQ(tutti_send(&x, 1, TUTTI_INT32, 0, ranks[0], {}, nullptr), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(tutti_queue_wait(queue, 0), TUTTI_SUCCESS);
  EXPECT_EQ(y, 1);
  EXPECT_EQ(tutti_queue_destroy(queue), TUTTI_SUCCESS);
}

}  // namespace
}  // namespace tutti::test
