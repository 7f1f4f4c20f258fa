// What communicators say of their memory, and memory that callers register.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/support/ranks.h"

namespace tutti::test {
namespace {

using testing::HasSubstr;

tutti_memory_use use_of(const tutti_comm* comm) {
  tutti_memory_use use{};
  use.size = sizeof use;
  EXPECT_EQ(tutti_comm_memory(comm, &use), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(use.size, sizeof use);
  return use;
}

TEST(MemoryUse, GrowsWithLinksMessagesAndBuffers) {
  for (const char* const transport : {"shm", "tcp"}) {
    const Ranks ranks(3, transport);
    ranks.run([](int rank, tutti_comm* comm) {
      const tutti_memory_use before = use_of(comm);
      EXPECT_EQ(before.message_bytes, 0u);
      EXPECT_EQ(before.device_bytes, 0u);
      std::vector<float> data(100'000, 1);
      ASSERT_EQ(tutti_all_reduce(data.data(), data.data(), data.size(), TUTTI_FLOAT32, TUTTI_SUM, comm, {}, nullptr),
                TUTTI_SUCCESS)
          << last_error();
      const tutti_memory_use with_links = use_of(comm);
      EXPECT_GT(with_links.link_bytes, before.link_bytes);
      const tutti_block pieces[2] = {{data.data(), 40'000}, {data.data() + 50'000, 10'000}};
      ASSERT_EQ(tutti_all_reduce_v(pieces, 2, pieces, 2, TUTTI_FLOAT32, TUTTI_SUM, comm, {}, nullptr), TUTTI_SUCCESS);
      EXPECT_GE(use_of(comm).buffer_bytes, with_links.buffer_bytes + 200'000);
      // Rank 1 takes what comes while it waits for something else, and keeps it.
      if (rank == 0) {
        tutti_call call = TUTTI_CALL_INIT;
        for (call.tag = 1; call.tag <= 3; ++call.tag) {
          ASSERT_EQ(tutti_send(data.data(), 250, TUTTI_FLOAT32, 1, comm, {}, &call), TUTTI_SUCCESS) << last_error();
        }
      } else if (rank == 1) {
        tutti_call call = TUTTI_CALL_INIT;
        call.tag = 3;
        ASSERT_EQ(tutti_recv(data.data(), 250, TUTTI_FLOAT32, 0, comm, {}, &call), TUTTI_SUCCESS) << last_error();
        EXPECT_EQ(use_of(comm).message_bytes, 2000u);
        for (call.tag = 1; call.tag <= 2; ++call.tag) {
          ASSERT_EQ(tutti_recv(data.data(), 250, TUTTI_FLOAT32, 0, comm, {}, &call), TUTTI_SUCCESS) << last_error();
        }
        EXPECT_EQ(use_of(comm).message_bytes, 0u);
      }
    });
  }
}

TEST(MemoryUse, OfAShorterStructIsFilledThatFar) {
  const Ranks ranks(1);
  tutti_memory_use use;
  std::memset(&use, 0x5a, sizeof use);
  use.size = offsetof(tutti_memory_use, message_bytes);
  EXPECT_EQ(tutti_comm_memory(ranks[0], &use), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(use.link_bytes, 0u);
  EXPECT_EQ(use.message_bytes, 0x5a5a5a5a5a5a5a5au);
  EXPECT_EQ(tutti_comm_memory(ranks[0], nullptr), TUTTI_INVALID_ARGUMENT);
  use.size = 0;
  EXPECT_EQ(tutti_comm_memory(ranks[0], &use), TUTTI_INVALID_ARGUMENT);
  use.size = sizeof use;
  EXPECT_EQ(tutti_comm_memory(nullptr, &use), TUTTI_INVALID_ARGUMENT);
}

TEST(MemoryRegister, ChangesNoResultAndEndsByItsHandle) {
  for (const char* const transport : {"shm", "tcp"}) {
    const Ranks ranks(3, transport);
    ranks.run([](int, tutti_comm* comm) {
      for (int round = 0; round < 3; ++round) {
        std::vector<float> send(300'000, 1), recv(300'000, -1);
        tutti_registration *sends = nullptr, *receives = nullptr, *part = nullptr;
        ASSERT_EQ(tutti_memory_register(comm, send.data(), send.size() * 4, &sends), TUTTI_SUCCESS) << last_error();
        ASSERT_EQ(tutti_memory_register(comm, recv.data(), recv.size() * 4, &receives), TUTTI_SUCCESS) << last_error();
        ASSERT_EQ(tutti_memory_register(comm, recv.data() + 5, 100, &part), TUTTI_SUCCESS) << last_error();
        for (int again = 0; again < 2; ++again) {
          ASSERT_EQ(tutti_all_reduce(send.data(), recv.data(), send.size(), TUTTI_FLOAT32, TUTTI_SUM, comm, {}, nullptr),
                    TUTTI_SUCCESS)
              << last_error();
          EXPECT_EQ(recv, std::vector<float>(300'000, 3));
          EXPECT_EQ(tutti_memory_unregister(part), TUTTI_SUCCESS);
          part = nullptr;
        }
        EXPECT_EQ(tutti_memory_unregister(sends), TUTTI_SUCCESS);
        EXPECT_EQ(tutti_memory_unregister(receives), TUTTI_SUCCESS);
      }
    });
  }
  EXPECT_EQ(tutti_memory_unregister(nullptr), TUTTI_SUCCESS);
}

TEST(MemoryRegister, RefusesWhatIsNoMemory) {
  const Ranks ranks(1);
  int value = 0;
  tutti_registration* registration = reinterpret_cast<tutti_registration*>(&value);
  EXPECT_EQ(tutti_memory_register(ranks[0], nullptr, 4, &registration), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(registration, nullptr);
  EXPECT_THAT(last_error(), HasSubstr("4 bytes at NULL"));
  EXPECT_EQ(tutti_memory_register(ranks[0], &value, 0, &registration), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_memory_register(ranks[0], &value, UINT64_MAX - 4, &registration), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_memory_register(ranks[0], &value, 4, nullptr), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_memory_register(nullptr, &value, 4, &registration), TUTTI_INVALID_ARGUMENT);
}

TEST(MemoryRegister, AForkedChildGivesItsCopyBack) {
  const Ranks ranks(1);
  int value = 0;
  tutti_registration* registration = nullptr;
  ASSERT_EQ(tutti_memory_register(ranks[0], &value, 4, &registration), TUTTI_SUCCESS) << last_error();
  const pid_t child = ::fork();
  if (child == 0) {
    tutti_registration* another = nullptr;
    const bool refused = tutti_memory_register(ranks[0], &value, 4, &another) == TUTTI_INVALID_USAGE;
    ::_exit(refused && tutti_memory_unregister(registration) == TUTTI_SUCCESS ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(tutti_memory_unregister(registration), TUTTI_SUCCESS);
}

}  // namespace
}  // namespace tutti::test
