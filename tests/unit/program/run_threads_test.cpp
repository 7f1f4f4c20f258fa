#include "src/program/run_threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <fstream>

namespace tutti::program {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Address space of this process, in bytes.
rlim_t address_space() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

TEST(RunTogether, GivesEachRankAThread) {
  std::barrier all(3);
  std::atomic<int> ranks{0};
  EXPECT_EQ(run_threads(3,
                        [&](int rank) {
                          all.arrive_and_wait();
                          ranks += 1 << rank;
                        }),
            "");
  EXPECT_EQ(ranks, 7);
}

TEST(RunTogether, RunsNobodyWhereAThreadCannotBeStarted) {
  constexpr std::size_t kStack = std::size_t{256} << 20;
  pthread_attr_t usual;
  pthread_attr_t large;
  ASSERT_EQ(::pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(::pthread_getattr_default_np(&large), 0);
  ASSERT_EQ(::pthread_attr_setstacksize(&large, kStack), 0);
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  rlimit tight = before;
  tight.rlim_cur = address_space() + kStack + kStack / 2;  // room for one stack, not for two
  ASSERT_EQ(::pthread_setattr_default_np(&large), 0);
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &tight), 0);
  std::atomic<int> bodies{0};
  const std::string sentence = run_threads(3, [&](int) { ++bodies; });
  ::setrlimit(RLIMIT_AS, &before);
  ::pthread_setattr_default_np(&usual);
  EXPECT_THAT(sentence, AllOf(StartsWith("cannot start a thread for rank 1 of 3: "), HasSubstr("ulimit -v")));
  EXPECT_EQ(bodies, 0);
}

}  // namespace
}  // namespace tutti::program
