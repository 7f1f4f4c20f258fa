// Ranks that do not call the same thing learn so, whoever of them has to wait, and whoever is through already.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "include/tutti/tutti.h"
#include "tests/support/ranks.h"

namespace tutti::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string message_of(tutti_comm* comm) { return error_of(comm).message; }

void pause_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

tutti_status sum(tutti_comm* comm, std::size_t count) {
  std::vector<float> data(count, 1);
  return tutti_all_reduce(data.data(), data.data(), count, TUTTI_FLOAT32, TUTTI_SUM, comm, {}, nullptr);
}

tutti_status broadcast(tutti_comm* comm, int root, std::size_t count = 10) {
  std::vector<float> data(count, 1);
  return tutti_broadcast(data.data(), data.data(), count, TUTTI_FLOAT32, root, comm, {}, nullptr);
}

/// The numbers of the operations that a mismatch's message says both ranks called; -1 where it says something else.
std::vector<int> numbers_in(const std::string& message) {
  std::vector<int> numbers;
  static const std::regex called("as #([0-9]+)");
  for (std::sregex_iterator at(message.begin(), message.end(), called), end; at != end; ++at) {
    numbers.push_back(std::stoi((*at)[1]));
  }
  return numbers;
}

/// Before the ranks part. The others may be further, so that a slow rank hears of it in here.
void sum_in_step(tutti_comm* comm, std::size_t count) {
  const tutti_status status = sum(comm, count);
  EXPECT_TRUE(status == TUTTI_SUCCESS || status == TUTTI_MISMATCH) << message_of(comm);
}

/// Of each rank's thread: the one communicator that it destroys itself.
void on_own_ranks(int ranks, const char* transports, const std::function<void(int rank, tutti_comm* comm)>& body) {
  std::vector<tutti_comm*> comms(static_cast<std::size_t>(ranks));
  tutti_config config = TUTTI_CONFIG_INIT;
  config.transports = transports;
  ASSERT_EQ(tutti_comm_create_all(comms.data(), ranks, &config), TUTTI_SUCCESS) << last_error();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&body, rank, comm = comms[static_cast<std::size_t>(rank)]] {
      body(rank, comm);
      EXPECT_EQ(tutti_comm_destroy(comm), TUTTI_SUCCESS);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

struct Group {
  int ranks;
  const char* transports;
};

class Mismatches : public testing::TestWithParam<Group> {
 protected:
  /// Each rank's life up to its end. Those that `body` gives false for destroy their communicators at once; the others
  /// have failed by a mismatch, first of operation `number`, whose words are `expected`.
  static void live(const std::function<bool(int rank, tutti_comm* comm)>& body, int number,
                   const testing::Matcher<std::string>& expected) {
    on_own_ranks(GetParam().ranks, GetParam().transports, [&](int rank, tutti_comm* comm) {
      if (!body(rank, comm)) return;
      EXPECT_EQ(sum(comm, 1), TUTTI_MISMATCH);
      EXPECT_EQ(numbers_in(message_of(comm)), (std::vector<int>{number, number})) << message_of(comm);
      EXPECT_EQ(error_of(comm).operation, static_cast<std::uint64_t>(number));
      EXPECT_THAT(message_of(comm), expected);
    });
  }
  /// A rank that is slow to return from the call by which it parts may have heard of that.
  static bool leaves_after(tutti_status status) {
    EXPECT_TRUE(status == TUTTI_SUCCESS || status == TUTTI_MISMATCH) << status;
    return status == TUTTI_MISMATCH;
  }
  static int last() { return GetParam().ranks - 1; }
};

// With a count of 0 a rank is done at once; it goes on, and leaves.
TEST_P(Mismatches, OfARankThatCalledNothingAndLeftAreNotToldAsItsLeave) {
  for (const int late_ms : {0, 100}) {
    const auto body = [late_ms](int rank, tutti_comm* comm) {
      sum_in_step(comm, 100);
      if (rank == last()) return leaves_after(sum(comm, 0));
      pause_ms(late_ms);
      EXPECT_EQ(sum(comm, 100), TUTTI_MISMATCH);
      return true;
    };
    live(body, 1, AllOf(HasSubstr("all_reduce of 0 float32"), HasSubstr("all_reduce of 100 float32")));
  }
}

TEST_P(Mismatches, WithARankThatHasLeftSayThatItLeft) {
  const auto body = [](int rank, tutti_comm* comm) {
    sum_in_step(comm, 100);
    if (rank == last()) return leaves_after(sum(comm, 0));
    pause_ms(300);
    EXPECT_EQ(sum(comm, 100), TUTTI_MISMATCH);
    return true;
  };
  live(body, 1, HasSubstr(GetParam().ranks == 2 ? "later rank 1 left" : " left"));
}

TEST_P(Mismatches, OfTheRootOfARankThatLeftAreNotToldAsItsLeave) {
  const auto body = [](int rank, tutti_comm* comm) {
    sum_in_step(comm, 100);
    const tutti_status status = broadcast(comm, rank == last() ? last() : 0);
    if (rank == last()) return leaves_after(status);
    EXPECT_EQ(status == TUTTI_SUCCESS ? tutti_barrier(comm, {}, nullptr) : status, TUTTI_MISMATCH);
    return true;
  };
  live(body, 1, AllOf(HasSubstr("with root 0"), HasSubstr("with root " + std::to_string(last()))));
}

// A receive waits for a rank that has left because of what it called before.
TEST_P(Mismatches, AreToldToTransfersThatWaitForARankThatLeft) {
  const auto body = [](int rank, tutti_comm* comm) {
    sum_in_step(comm, 100);
    if (rank == last()) return leaves_after(sum(comm, 0));
    static_cast<void>(broadcast(comm, 0, 0));  // which may have heard of it already
    float x = 1;
    EXPECT_EQ(tutti_recv(&x, 1, TUTTI_FLOAT32, last(), comm, {}, nullptr), TUTTI_MISMATCH);
    return true;
  };
  live(body, 1, AllOf(HasSubstr("all_reduce of 0 float32"), HasSubstr("broadcast of 0 float32"), HasSubstr(" left")));
}

// The root runs ahead as far as its credit goes, far beyond the operation that differs.
TEST_P(Mismatches, InALoopOfBroadcastsNameTheFirstThatDiffers) {
  const auto body = [](int rank, tutti_comm* comm) {
    tutti_status status = TUTTI_SUCCESS;
    for (int i = 0; i < 1000 && status == TUTTI_SUCCESS; ++i) {
      if (rank == last() && i == 2) pause_ms(50);
      status = broadcast(comm, rank == last() && i == 1 ? last() : 0);
    }
    EXPECT_EQ(status, TUTTI_MISMATCH);
    return true;
  };
  live(body, 1, AllOf(HasSubstr("with root 0"), HasSubstr("with root " + std::to_string(last()))));
}

// So do calls that are all different: of these it is remembered more than credit lets a rank run ahead.
TEST_P(Mismatches, AmongBroadcastsOfManySizesNameTheFirstThatDiffers) {
  const auto body = [](int rank, tutti_comm* comm) {
    tutti_status status = TUTTI_SUCCESS;
    for (int i = 0; i < 1000 && status == TUTTI_SUCCESS; ++i) {
      if (rank == last() && i == 2) pause_ms(50);
      status = broadcast(comm, rank == last() && i == 1 ? last() : 0, static_cast<std::size_t>(i + 1));
    }
    EXPECT_EQ(status, TUTTI_MISMATCH);
    return true;
  };
  live(body, 1, AllOf(HasSubstr("with root 0"), HasSubstr("with root " + std::to_string(last()))));
}

TEST_P(Mismatches, InALoopOfSumsNameTheOneThatWasEmpty) {
  const auto body = [](int rank, tutti_comm* comm) {
    tutti_status status = TUTTI_SUCCESS;
    for (int i = 0; i < 1000 && status == TUTTI_SUCCESS; ++i) status = sum(comm, rank == last() && i == 500 ? 0 : 4);
    EXPECT_EQ(status, TUTTI_MISMATCH);
    return true;
  };
  live(body, 500, AllOf(HasSubstr("all_reduce of 0 float32"), HasSubstr("all_reduce of 4 float32")));
}

/// Calls that send nothing, and are not the same: no message can show it. Others may be further and know it already.
void part_silently(int rank, tutti_comm* comm) {
  sum_in_step(comm, 4);
  const tutti_status status = rank == 0 ? sum(comm, 0) : broadcast(comm, 0, 0);
  EXPECT_TRUE(status == TUTTI_SUCCESS || status == TUTTI_MISMATCH) << message_of(comm);
}
const auto silent_words = [] { return AllOf(HasSubstr("all_reduce of 0 float32"), HasSubstr("broadcast of 0 float32")); };

TEST_P(Mismatches, ThatNoMessageShowedAreToldByTheNextOperation) {
  const auto body = [](int rank, tutti_comm* comm) {
    part_silently(rank, comm);
    EXPECT_EQ(sum(comm, 4), TUTTI_MISMATCH);
    return true;
  };
  live(body, 1, silent_words());
}

TEST_P(Mismatches, ThatNoMessageShowedAreToldByFinalize) {
  const auto body = [](int rank, tutti_comm* comm) {
    part_silently(rank, comm);
    EXPECT_EQ(tutti_comm_finalize(comm), TUTTI_MISMATCH);
    return true;
  };
  live(body, 1, silent_words());
}

TEST_P(Mismatches, ThatNoMessageShowedAreToldByASplit) {
  const auto body = [](int rank, tutti_comm* comm) {
    part_silently(rank, comm);
    tutti_comm* part = nullptr;
    EXPECT_EQ(tutti_comm_split(comm, rank % 2, 0, &part, nullptr), TUTTI_MISMATCH);
    return true;
  };
  live(body, 1, silent_words());
}

// The two splits would find each other, and nothing else would ever show it.
TEST_P(Mismatches, OfTheNumberOfASplitAreTold) {
  const auto body = [](int rank, tutti_comm* comm) {
    if (rank == 0) {
      EXPECT_EQ(sum(comm, 0), TUTTI_SUCCESS);
    }
    tutti_comm* part = nullptr;
    EXPECT_EQ(tutti_comm_split(comm, 0, 0, &part, nullptr), TUTTI_MISMATCH);
    return true;
  };
  live(body, 0, AllOf(HasSubstr("all_reduce of 0 float32"), HasSubstr("tutti_comm_split")));
}

TEST_P(Mismatches, OfABarrierWithTheEndAreTold) {
  const auto body = [](int rank, tutti_comm* comm) {
    EXPECT_EQ(rank == 0 ? tutti_barrier(comm, {}, nullptr) : tutti_comm_finalize(comm), TUTTI_MISMATCH);
    return true;
  };
  live(body, 0, AllOf(HasSubstr("called barrier as"), HasSubstr("tutti_comm_finalize")));
}

// Nobody waits for anybody any more: the log says it, on every rank that knows of it, once.
TEST_P(Mismatches, ThatNobodyMetAreInTheLogWhenTheCommunicatorIsDestroyed) {
  testing::internal::CaptureStderr();
  on_own_ranks(GetParam().ranks, GetParam().transports, [](int rank, tutti_comm* comm) {
    part_silently(rank, comm);
    pause_ms(50);
  });
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, AllOf(silent_words(), HasSubstr(" warn: "), HasSubstr("as #1")));
  int lines = 0;
  for (const char c : log) lines += c == '\n' ? 1 : 0;
  EXPECT_LE(lines, GetParam().ranks) << log;
  EXPECT_GE(lines, 2) << log;
}

TEST_P(Mismatches, ThatWereToldAsErrorsAreNotInTheLogAsWell) {
  testing::internal::CaptureStderr();
  on_own_ranks(GetParam().ranks, GetParam().transports, [](int rank, tutti_comm* comm) {
    part_silently(rank, comm);
    EXPECT_EQ(sum(comm, 4), TUTTI_MISMATCH);
  });
  EXPECT_THAT(testing::internal::GetCapturedStderr(), Not(HasSubstr("warn")));
}

// What both ranks have forgotten is not made up: a later operation is never said to be the first.
TEST_P(Mismatches, OfLongAgoAreToldWithoutANumberThatNobodyKnows) {
  on_own_ranks(GetParam().ranks, GetParam().transports, [](int rank, tutti_comm* comm) {
    part_silently(rank, comm);
    for (int i = 0; i < 300; ++i) static_cast<void>(i % 2 == 0 ? sum(comm, 0) : broadcast(comm, 0, 0));
    EXPECT_EQ(sum(comm, 4), TUTTI_MISMATCH);
    EXPECT_THAT(message_of(comm), HasSubstr("called different operations before #"));
    EXPECT_EQ(numbers_in(message_of(comm)), std::vector<int>());
  });
}

// ---- And what is none.

TEST_P(Mismatches, AreNotSeenWhereRanksAreLateByManyCalls) {
  testing::internal::CaptureStderr();
  on_own_ranks(GetParam().ranks, GetParam().transports, [](int rank, tutti_comm* comm) {
    for (int round = 0; round < 3; ++round) {
      if (rank == last()) pause_ms(150);
      for (std::size_t i = 0; i < 200; ++i) {
        ASSERT_EQ(i % 3 == 0 ? sum(comm, 0) : broadcast(comm, 0, i % 5), TUTTI_SUCCESS) << last_error();
      }
    }
    if (rank == 0) pause_ms(150);
    EXPECT_EQ(tutti_comm_finalize(comm), TUTTI_SUCCESS) << last_error();
  });
  EXPECT_THAT(testing::internal::GetCapturedStderr(), Not(HasSubstr("warn")));
}

TEST_P(Mismatches, AreNotSeenInTransfersOrColorsThatDiffer) {
  testing::internal::CaptureStderr();
  on_own_ranks(GetParam().ranks, GetParam().transports, [](int rank, tutti_comm* comm) {
    float x = 1;
    if (rank == 0) {
      EXPECT_EQ(tutti_send(&x, 1, TUTTI_FLOAT32, last(), comm, {}, nullptr), TUTTI_SUCCESS);
    }
    if (rank == last()) {
      EXPECT_EQ(tutti_recv(&x, 1, TUTTI_FLOAT32, 0, comm, {}, nullptr), TUTTI_SUCCESS);
    }
    tutti_comm* part = nullptr;
    EXPECT_EQ(tutti_comm_split(comm, rank == 0 ? -1 : rank % 2, -rank, &part, nullptr), TUTTI_SUCCESS) << last_error();
    if (part != nullptr) {
      for (int i = 0; i < rank % 2 + 3; ++i) EXPECT_EQ(tutti_barrier(part, {}, nullptr), TUTTI_SUCCESS) << last_error();
      EXPECT_EQ(tutti_comm_destroy(part), TUTTI_SUCCESS);
    }
    EXPECT_EQ(sum(comm, 4), TUTTI_SUCCESS) << last_error();
    if (rank != 1) {
      EXPECT_EQ(sum(comm, 0), TUTTI_SUCCESS) << "one that the last rank never calls";
    }
  });
  EXPECT_THAT(testing::internal::GetCapturedStderr(), Not(HasSubstr("warn")));
}

TEST_P(Mismatches, AreNotSeenInAbortsAndTimeouts) {
  for (const bool aborts : {true, false}) {
    testing::internal::CaptureStderr();
    on_own_ranks(GetParam().ranks, GetParam().transports, [aborts](int rank, tutti_comm* comm) {
      EXPECT_EQ(sum(comm, 4), TUTTI_SUCCESS) << last_error();
      EXPECT_EQ(tutti_comm_set_timeout(comm, 200'000'000), TUTTI_SUCCESS);
      if (rank == last()) {
        pause_ms(aborts ? 30 : 1000);
        if (aborts) {
          EXPECT_EQ(tutti_comm_abort(comm), TUTTI_SUCCESS);
        }
        return;
      }
      EXPECT_EQ(sum(comm, 4), aborts ? TUTTI_ABORTED : TUTTI_TIMEOUT) << message_of(comm);
    });
    EXPECT_THAT(testing::internal::GetCapturedStderr(), Not(HasSubstr("warn")));
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Mismatches,
                         testing::Values(Group{2, "shm"}, Group{3, "shm"}, Group{5, "shm"}, Group{2, "tcp"},
                                         Group{3, "tcp"}, Group{7, "tcp"}),
                         [](const testing::TestParamInfo<Group>& p) {
                           return p.param.transports + std::to_string(p.param.ranks);
                         });

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

/// Ranks of which the first is no neighbour of the one opposite to it in the control plane: 3 is no power of two.
constexpr int with_opposite = 6;
constexpr int opposite = 3;

// The neighbours of the one that left have nothing to say before they are asked.
TEST(Mismatch, IsToldToATransferWithARankThatLeftAndIsNoNeighbour) {
  for (const char* const transports : {"shm", "tcp"}) {
    on_own_ranks(with_opposite, transports, [](int rank, tutti_comm* comm) {
      sum_in_step(comm, 100);
      float x = 1;
      if (rank == opposite) {
        EXPECT_EQ(tutti_send(&x, 1, TUTTI_FLOAT32, 0, comm, {}, nullptr), TUTTI_SUCCESS);
        EXPECT_EQ(sum(comm, 0), TUTTI_SUCCESS);
        return;
      }
      if (rank == 0) {
        EXPECT_EQ(tutti_recv(&x, 1, TUTTI_FLOAT32, opposite, comm, {}, nullptr), TUTTI_SUCCESS);
        EXPECT_EQ(broadcast(comm, 0, 0), TUTTI_SUCCESS);
        EXPECT_EQ(tutti_recv(&x, 1, TUTTI_FLOAT32, opposite, comm, {}, nullptr), TUTTI_MISMATCH);
        EXPECT_EQ(numbers_in(message_of(comm)), (std::vector<int>{1, 1})) << message_of(comm);
        return;
      }
      // The others stay until rank 0 has told them.
      EXPECT_EQ(tutti_recv(&x, 1, TUTTI_FLOAT32, 0, comm, {}, nullptr), TUTTI_MISMATCH);
    });
  }
}

TEST(Mismatch, IsNotALossWhereARankThatIsNoNeighbourLeft) {
  for (const char* const transports : {"shm", "tcp"}) {
    on_own_ranks(with_opposite, transports, [](int rank, tutti_comm* comm) {
      float x = 1;
      if (rank == opposite) {
        EXPECT_EQ(tutti_send(&x, 1, TUTTI_FLOAT32, 0, comm, {}, nullptr), TUTTI_SUCCESS);
        return;
      }
      if (rank == 0) {
        EXPECT_EQ(tutti_recv(&x, 1, TUTTI_FLOAT32, opposite, comm, {}, nullptr), TUTTI_SUCCESS);
      }
      EXPECT_EQ(tutti_recv(&x, 1, TUTTI_FLOAT32, rank == 0 ? opposite : 0, comm, {}, nullptr), TUTTI_REMOTE_ERROR);
      EXPECT_THAT(message_of(comm), HasSubstr("left while others still needed it"));
    });
  }
}

TEST(Mismatch, IsNotATimeOutOfATransferWithARankThatIsNoNeighbourNorWithAnyRank) {
  for (const int from : {opposite, TUTTI_ANY_SOURCE}) {
    on_own_ranks(with_opposite, "shm", [from](int rank, tutti_comm* comm) {
      sum_in_step(comm, 100);
      EXPECT_EQ(rank == opposite ? sum(comm, 0) : broadcast(comm, 0, 0), TUTTI_SUCCESS);
      float x = 1;
      tutti_call call = TUTTI_CALL_INIT;
      call.timeout_ns = rank == 0 ? 200'000'000 : 30'000'000'000;
      EXPECT_EQ(tutti_recv(&x, 1, TUTTI_FLOAT32, rank == 0 ? from : 0, comm, {}, &call), TUTTI_MISMATCH);
      EXPECT_THAT(message_of(comm), HasSubstr("all_reduce of 0 float32"));
    });
  }
}

}  // namespace
}  // namespace tutti::test
