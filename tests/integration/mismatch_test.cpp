// Ranks that do not call the same thing learn so, whoever of them has to wait, and whoever is through already.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "include/tutti/tutti.h"
#include "tests/support/ranks.h"

namespace tutti::test {
namespace {

using ::testing::HasSubstr;

std::string message_of(tutti_comm* comm) { return error_of(comm).message; }

// Rank 1 waits for rank 2, which has long sent to others, or finished, what it took for the operation.
TEST(Mismatch, OfTheRootIsSeenThoughOthersWereDoneWithTheCall) {
  const Ranks ranks(3);
  ranks.run([](int rank, tutti_comm* comm) {
    std::vector<float> data(10, 1);
    const int root = rank == 1 ? 2 : 0;
    tutti_status status = tutti_broadcast(data.data(), data.data(), data.size(), TUTTI_FLOAT32, root, comm, {}, nullptr);
    if (status == TUTTI_SUCCESS) status = tutti_barrier(comm, {}, nullptr);
    EXPECT_EQ(status, TUTTI_MISMATCH);
    EXPECT_THAT(message_of(comm), HasSubstr("root 2"));
    EXPECT_THAT(message_of(comm), HasSubstr("root 0"));
  });
}

TEST(Mismatch, WhileLinksAreBeingOpenedIsSeenToo) {
  const Ranks ranks(2);
  ranks.run([](int rank, tutti_comm* comm) {
    std::vector<float> data(20, 1);
    const tutti_status status = rank == 0
                                    ? tutti_gather(data.data(), data.data(), 10, TUTTI_FLOAT32, 0, comm, {}, nullptr)
                                    : tutti_broadcast(data.data(), data.data(), 10, TUTTI_FLOAT32, 0, comm, {}, nullptr);
    EXPECT_EQ(status, TUTTI_MISMATCH);
    EXPECT_THAT(message_of(comm), HasSubstr("gather of 10 float32"));
    EXPECT_THAT(message_of(comm), HasSubstr("broadcast of 10 float32"));
  });
}

// A split and the end of a communicator are calls like any other: who calls something else meanwhile learns of both.
TEST(Mismatch, WithASplitOrTheEndNamesThem) {
  for (const bool splits : {true, false}) {
    const Ranks ranks(3);
    ranks.run([splits](int rank, tutti_comm* comm) {
      std::vector<float> data(20, 1);
      tutti_comm* part = nullptr;
      const tutti_status status =
          rank != 2 ? tutti_all_reduce(data.data(), data.data(), data.size(), TUTTI_FLOAT32, TUTTI_SUM, comm, {}, nullptr)
          : splits  ? tutti_comm_split(comm, 0, 0, &part, nullptr)
                    : tutti_comm_finalize(comm);
      EXPECT_EQ(status, TUTTI_MISMATCH);
      EXPECT_EQ(part, nullptr);
      EXPECT_THAT(message_of(comm), HasSubstr("all_reduce of 20 float32"));
      EXPECT_THAT(message_of(comm), HasSubstr(splits ? "tutti_comm_split" : "tutti_comm_finalize"));
    });
  }
}

TEST(Mismatch, OfTheAlgorithmNamesBoth) {
  const Ranks ranks(2);
  ranks.run([](int rank, tutti_comm* comm) {
    std::vector<float> data(100, 1);
    tutti_call call = TUTTI_CALL_INIT;
    call.algorithm = rank == 0 ? "ring" : "tree";
    EXPECT_EQ(tutti_all_reduce(data.data(), data.data(), data.size(), TUTTI_FLOAT32, TUTTI_SUM, comm, {}, &call),
              TUTTI_MISMATCH);
    EXPECT_THAT(message_of(comm), HasSubstr("algorithm ring"));
    EXPECT_THAT(message_of(comm), HasSubstr("algorithm tree"));
  });
}

// Both send, neither waits, and only the next operation meets what the other sent.
TEST(Mismatch, ThatNobodyHadToWaitForIsNamedByTheNextOperation) {
  const Ranks ranks(2);
  ranks.run([](int rank, tutti_comm* comm) {
    std::vector<float> data(10, 1);
    tutti_status status = tutti_broadcast(data.data(), data.data(), data.size(), TUTTI_FLOAT32, rank, comm, {}, nullptr);
    for (int i = 0; i < 3 && status == TUTTI_SUCCESS; ++i) {
      status = tutti_all_reduce(data.data(), data.data(), data.size(), TUTTI_FLOAT32, TUTTI_SUM, comm, {}, nullptr);
    }
    EXPECT_EQ(status, TUTTI_MISMATCH);
    EXPECT_THAT(message_of(comm), HasSubstr("broadcast of 10 float32 with root 0 as #0"));
    EXPECT_THAT(message_of(comm), HasSubstr("broadcast of 10 float32 with root 1 as #0"));
  });
}

// The deadline is shorter than the time to the first comparison: the sentence is the mismatch's all the same.
TEST(Mismatch, IsNotATimeOutWhereTheDeadlineComesFirst) {
  const Ranks ranks(2, "", 60'000'000);
  ranks.run([](int rank, tutti_comm* comm) {
    std::vector<float> data(10, 1);
    const std::size_t count = rank == 0 ? 0 : data.size();
    tutti_status status = tutti_broadcast(data.data(), data.data(), count, TUTTI_FLOAT32, 0, comm, {}, nullptr);
    if (rank == 0) status = tutti_barrier(comm, {}, nullptr);
    EXPECT_EQ(status, TUTTI_MISMATCH) << message_of(comm);
  });
}

// A rank that comes late with something else: the comparison is made again and again.
TEST(Mismatch, OfALateRankIsSeen) {
  const Ranks ranks(2);
  ranks.run([](int rank, tutti_comm* comm) {
    std::vector<float> data(10, 1);
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(250));
    // Rank 1 sends, and waits for nothing; rank 0 waits for another root's data.
    tutti_status status =
        tutti_broadcast(data.data(), data.data(), rank == 1 ? 0 : 10, TUTTI_FLOAT32, 1, comm, {}, nullptr);
    if (rank == 1 && status == TUTTI_SUCCESS) status = tutti_barrier(comm, {}, nullptr);
    EXPECT_EQ(status, TUTTI_MISMATCH) << message_of(comm);
  });
}

}  // namespace
}  // namespace tutti::test
