// A limit of the process that rules a transport out: another one takes its place, which is said once, and where there is no
// other the error has the transport's own sentence. Ranks are threads of a child each, which has the limit.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>

#include "tests/support/child.h"
#include "tests/support/ranks.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temporary_folder.h"

namespace tutti::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr rlim_t short_file = 1 << 20;  // longer than an endpoint's page, shorter than a link's memory

void expect_sum(int ranks, tutti_comm* comm) {
  float x = 1;
  ASSERT_EQ(tutti_all_reduce(&x, &x, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, {}, nullptr), TUTTI_SUCCESS) << last_error();
  EXPECT_EQ(x, static_cast<float>(ranks));
}

std::string transport_of(tutti_comm* comm) {
  tutti_comm_choice choice{};
  choice.size = sizeof choice;
  EXPECT_EQ(tutti_comm_last_choice(comm, &choice), TUTTI_SUCCESS) << last_error();
  return choice.transport;
}

/// Where this process's log goes from now on; it has not logged yet.
class LogOf {
 public:
  LogOf() { EXPECT_EQ(::setenv("TUTTI_LOG_FILE", folder_.file("log").c_str(), 1), 0); }
  /// Its lines that contain `text`.
  std::vector<std::string> lines(const std::string& text) const {
    std::ifstream file(folder_.file("log"));
    std::vector<std::string> found;
    for (std::string line; std::getline(file, line);) {
      if (line.find(text) != std::string::npos) found.push_back(line);
    }
    return found;
  }

 private:
  TemporaryFolder folder_;
};

TEST(WhereFilesMustBeShort, RanksUseTcpInsteadOfSharedMemoryAndSayWhyOnce) {
  const Child child([] {
    const LogOf log;
    limit(RLIMIT_FSIZE, short_file);
    for (int again = 0; again < 2; ++again) {
      const Ranks ranks(2);
      ranks.run([](int, tutti_comm* comm) { expect_sum(2, comm); });
      EXPECT_EQ(transport_of(ranks[0]), "tcp");
      EXPECT_EQ(transport_of(ranks[1]), "tcp");
    }
    const auto said = log.lines("shm is not used");
    ASSERT_EQ(said.size(), 1u);
    EXPECT_THAT(said[0], AllOf(HasSubstr(" warn: "), HasSubstr("longer than files may be (1048576 bytes)"),
                               HasSubstr("`ulimit -f`")));
  });
}

TEST(WhereFilesMustBeShort, SharedMemoryAloneIsRefusedAtOnceWithItsReasonAndRemedy) {
  const Child child([] {
    limit(RLIMIT_FSIZE, short_file);
    std::array<tutti_comm*, 2> comms{};
    tutti_config config = TUTTI_CONFIG_INIT;
    config.transports = "shm";
    EXPECT_EQ(tutti_comm_create_all(comms.data(), 2, &config), TUTTI_SYSTEM_ERROR);
    const tutti_error error = error_of(nullptr);
    EXPECT_THAT(std::string(error.message),
                AllOf(HasSubstr("shm: this process cannot share memory"), HasSubstr("longer than files may be")));
    EXPECT_THAT(std::string(error.remedy), HasSubstr("`ulimit -f`"));
  });
}

TEST(WhereFilesMustBeShort, AfterTheCreationAnErrorHasTheTransportsWholeSentenceAndItsRemedy) {
  const Child child([] {
    const Ranks ranks(2, "shm");
    limit(RLIMIT_FSIZE, short_file);
    ranks.run([](int rank, tutti_comm* comm) {
      float x = 1;
      const tutti_status status = tutti_all_reduce(&x, &x, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, {}, nullptr);
      EXPECT_EQ(status, TUTTI_SYSTEM_ERROR) << rank;
      const tutti_error error = error_of(comm);
      EXPECT_THAT(std::string(error.message),
                  AllOf(HasSubstr("could not open its shm link to rank"), HasSubstr("it cannot share memory"),
                        HasSubstr("longer than files may be (1048576 bytes)")));
      EXPECT_THAT(std::string(error.remedy), HasSubstr("`ulimit -f`"));
    });
  });
  const Child transfers([] {
    const Ranks ranks(2, "shm");
    limit(RLIMIT_FSIZE, short_file);
    ranks.run([](int rank, tutti_comm* comm) {
      float x = 1;
      const tutti_status status = rank == 0 ? tutti_send(&x, 1, TUTTI_FLOAT32, 1, comm, {}, nullptr)
                                            : tutti_recv(&x, 1, TUTTI_FLOAT32, 0, comm, {}, nullptr);
      EXPECT_EQ(status, TUTTI_SYSTEM_ERROR) << rank;
      EXPECT_THAT(std::string(error_of(comm).message), HasSubstr("longer than files may be (1048576 bytes)"));
      EXPECT_THAT(std::string(error_of(comm).remedy), HasSubstr("`ulimit -f`"));
    });
  });
}

/// Three processes, of which `limited` has short files; what each says carries it.
void expect_transports(int limited, const std::array<std::string, 3>& expected) {
  const TemporaryFolder folder;
  const std::string address = "file://" + folder.file("meet");
  const auto body = [&](int rank) {
    if (rank == limited) limit(RLIMIT_FSIZE, short_file);
    tutti_comm* comm = nullptr;
    ASSERT_EQ(tutti_comm_create_address(&comm, address.c_str(), 3, rank, nullptr), TUTTI_SUCCESS) << last_error();
    expect_sum(3, comm);
    EXPECT_EQ(transport_of(comm), expected[static_cast<std::size_t>(rank)]) << rank;
    EXPECT_EQ(tutti_comm_finalize(comm), TUTTI_SUCCESS);
    tutti_comm_destroy(comm);
  };
  const Child first([&] { body(0); });
  const Child second([&] { body(1); });
  const Child third([&] { body(2); });
}

TEST(WhereOneRanksFilesMustBeShort, ItsPairsUseTcpAndTheOthersSharedMemory) {
  expect_transports(2, {"shm+tcp", "shm+tcp", "shm+tcp"});
}

TEST(WhereOneRanksFilesMustBeShort, ItMayBeRankZeroToo) {
  // A list of all ranks' transports counts, whoever has which: those that the lowest rank has come first.
  expect_transports(0, {"tcp+shm", "tcp+shm", "tcp+shm"});
}

// Which of both comes depends on what the process has open already: the call after a creation never fails.
TEST(WhereDescriptorsAreFew, ThreeRanksAreRefusedWithTheRemedyOrServedByTcpOrSharedMemory) {
  if (under_asan) GTEST_SKIP() << "the sanitizer looks at objects through a pipe, for which there is no descriptor";
  for (rlim_t most = 18; most < 56; most += 2) {
    const TemporaryFolder folder;
    const std::string address = "file://" + folder.file("meet");
    const auto live = [&](int rank) {
      limit(RLIMIT_NOFILE, most);
      tutti_comm* comm = nullptr;
      tutti_config config = TUTTI_CONFIG_INIT;
      config.connect_timeout_ns = 60'000'000'000;
      if (tutti_comm_create_address(&comm, address.c_str(), 3, rank, &config) != TUTTI_SUCCESS) {
        EXPECT_THAT(last_error(), HasSubstr("ulimit -n")) << "rank " << rank << " with " << most;
        return;
      }
      expect_sum(3, comm);
      const int next = (rank + 1) % 3;
      const int before = (rank + 2) % 3;
      int got = -1;
      EXPECT_EQ(tutti_group_start(), TUTTI_SUCCESS);
      EXPECT_EQ(tutti_send(&rank, 1, TUTTI_INT32, next, comm, {}, nullptr), TUTTI_SUCCESS);
      EXPECT_EQ(tutti_recv(&got, 1, TUTTI_INT32, before, comm, {}, nullptr), TUTTI_SUCCESS);
      EXPECT_EQ(tutti_group_end(nullptr), TUTTI_SUCCESS) << last_error() << " with " << most;
      EXPECT_EQ(got, before);
      tutti_comm_destroy(comm);
    };
    const Child first([&] { live(0); });
    const Child second([&] { live(1); });
    const Child third([&] { live(2); });
  }
}

TEST(ATransportThatRefusesToOpen, HasItsReasonInTheErrorOfEachVerb) {
  const Child child([] {
    ::setenv("TUTTI_PLUGIN_PATH", TUTTI_PLUGINS, 1);
    ::setenv("TUTTI_FAULTY", "shm:rank=0,point=open,action=break", 1);
    const Ranks ranks(2, "faulty");
    ranks.run([](int rank, tutti_comm* comm) {
      float x = 1;
      EXPECT_EQ(tutti_all_reduce(&x, &x, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, {}, nullptr), TUTTI_SYSTEM_ERROR) << rank;
      const tutti_error error = error_of(comm);
      EXPECT_THAT(std::string(error.message), AllOf(HasSubstr("rank 0 could not open its faulty link"),
                                                    HasSubstr("rank 1: it is refused it on purpose")));
      EXPECT_THAT(std::string(error.remedy), HasSubstr("TUTTI_FAULTY"));
    });
  });
}

/// Runs a sum of two ranks over faulty around tcp, or shm, with a probe that fails as told. What the log says of paths.
std::string log_of_probe(const char* orders) {
  const LogOf log;
  ::setenv("TUTTI_LOG", "debug", 1);
  ::setenv("TUTTI_PLUGIN_PATH", TUTTI_PLUGINS, 1);
  ::setenv("TUTTI_FAULTY", orders, 1);
  {
    const Ranks ranks(2, "faulty,tcp");
    ranks.run([](int, tutti_comm* comm) { expect_sum(2, comm); });
  }
  std::string all;
  for (const char* part : {"does not use faulty", "fail as TUTTI_FAULTY says", "link with rank"}) {
    for (const std::string& line : log.lines(part)) all += line + "\n";
  }
  return all;
}

TEST(APathThatDoesNotProveItself, IsNotUsedAndTheLogSaysWhy) {
  const Child child([] {
    const std::string all = log_of_probe("shm:rank=0,point=probe,action=break");
    EXPECT_THAT(all,
                HasSubstr("rank 0 does not use faulty to rank 1, as no path has proved itself: this process is refused"));
    EXPECT_THAT(all, Not(HasSubstr("rank 1 does not use"))) << "its own probe was good";
    EXPECT_THAT(all, AllOf(HasSubstr("tcp link with rank 1: 1 message"), Not(HasSubstr("faulty link with"))));
  });
}

TEST(APathThatDoesNotProveItself, IsNamedInTheErrorWhereThereIsNoOther) {
  const Child child([] {
    ::setenv("TUTTI_PLUGIN_PATH", TUTTI_PLUGINS, 1);
    ::setenv("TUTTI_FAULTY", "shm:point=probe,action=break", 1);
    tutti_config config = TUTTI_CONFIG_INIT;
    config.transports = "faulty";
    std::array<tutti_comm*, 2> comms{};
    EXPECT_EQ(tutti_comm_create_all(comms.data(), 2, &config), TUTTI_UNSUPPORTED);
    EXPECT_THAT(last_error(), AllOf(HasSubstr("no transport connects rank 0 and rank 1"), HasSubstr("does not reach rank"),
                                    HasSubstr("faulty: no path has proved itself: this process is refused it on purpose"),
                                    HasSubstr("Take that out of TUTTI_FAULTY")));
  });
}

TEST(APathThatProvesItselfLate, IsUsedWithinItsTimeAndNotBeyond) {
  const Child soon([] {
    const std::string all = log_of_probe("shm:rank=1,point=probe,action=delay,ms=200");
    EXPECT_THAT(all, Not(HasSubstr("does not use")));
    EXPECT_THAT(all, HasSubstr("links to rank 1 fail as TUTTI_FAULTY says, around shm"));
    EXPECT_THAT(all, HasSubstr("faulty link with rank 1: 1 message"));
  });
  const Child never([] {
    const std::string all = log_of_probe("shm:rank=1,point=probe,action=delay,ms=3600000");
    EXPECT_THAT(all, HasSubstr("rank 1 does not use faulty to rank 0, as no path has proved itself: none did within 3 s"));
    EXPECT_THAT(all, HasSubstr("tcp link with rank 1: 1 message"));
  });
}

TEST(MemoryThatATransportDoesNotRegister, IsCopiedAndTheLogSaysWhy) {
  const Child child([] {
    const LogOf log;
    ::setenv("TUTTI_LOG", "debug", 1);
    ::setenv("TUTTI_PLUGIN_PATH", TUTTI_PLUGINS, 1);
    ::setenv("TUTTI_FAULTY", "shm:rank=0,point=register,action=break", 1);
    const Ranks ranks(2, "faulty");
    constexpr std::size_t count = 1 << 18;
    ranks.run([](int, tutti_comm* comm) {
      void* memory = nullptr;
      ASSERT_EQ(tutti_memory_alloc(&memory, count * sizeof(float)), TUTTI_SUCCESS);
      std::fill_n(static_cast<float*>(memory), count, 1.0F);
      EXPECT_EQ(tutti_all_reduce(memory, memory, count, TUTTI_FLOAT32, TUTTI_SUM, comm, {}, nullptr), TUTTI_SUCCESS);
      EXPECT_EQ(static_cast<float*>(memory)[count - 1], 2.0F);
      EXPECT_EQ(tutti_memory_free(memory), TUTTI_SUCCESS);
    });
    EXPECT_EQ(log.lines("are not registered with faulty, and are copied: this process is refused it on purpose").size(),
              1u);
  });
}

}  // namespace
}  // namespace tutti::test
