// Settings that ranks must share, and settings that cannot be had: each is a sentence on every rank, not a hang.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/ranks.h"

namespace tutti::test {
namespace {

using testing::HasSubstr;

struct Outcome {
  tutti_status status = TUTTI_SUCCESS;
  std::string words;
};

/// What each rank's creation came to, with the config that `prepare` gives it.
std::vector<Outcome> create(int ranks, const std::function<void(int rank, tutti_config& config)>& prepare) {
  tutti_unique_id id;
  EXPECT_EQ(tutti_get_unique_id(&id), TUTTI_SUCCESS) << last_error();
  std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      tutti_config config = TUTTI_CONFIG_INIT;
      config.connect_timeout_ns = 20'000'000'000;
      prepare(r, config);
      tutti_comm* comm = nullptr;
      Outcome& mine = outcomes[static_cast<std::size_t>(r)];
      mine.status = tutti_comm_create(&comm, ranks, &id, r, &config);
      if (mine.status != TUTTI_SUCCESS) mine.words = last_error();
      tutti_comm_destroy(comm);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

TEST(SharedSettings, AnAlgorithmThatDiffersIsRefusedAtCreationNamingBoth) {
  for (const Outcome& mine : create(3, [](int rank, tutti_config& config) { config.algorithm = rank == 2 ? "tree" : "ring"; })) {
    EXPECT_EQ(mine.status, TUTTI_INVALID_ARGUMENT);
    EXPECT_THAT(mine.words, HasSubstr("TUTTI_ALGORITHM is \"ring\" for rank 0"));
    EXPECT_THAT(mine.words, HasSubstr("\"tree\" for rank 2"));
  }
}

TEST(SharedSettings, AnAlgorithmThatOneRankAloneNamesOrMisspellsIsRefusedOnAll) {
  for (const Outcome& mine : create(2, [](int rank, tutti_config& config) { config.algorithm = rank == 1 ? "telepathy" : nullptr; })) {
    EXPECT_EQ(mine.status, TUTTI_INVALID_ARGUMENT);
    EXPECT_THAT(mine.words, HasSubstr("unset for rank 0"));
    EXPECT_THAT(mine.words, HasSubstr("\"telepathy\" for rank 1"));
  }
}

TEST(SharedSettings, LanesThatDifferAreRefusedAtCreation) {
  for (const Outcome& mine : create(2, [](int rank, tutti_config& config) { config.lanes = rank + 1; })) {
    EXPECT_EQ(mine.status, TUTTI_INVALID_ARGUMENT);
    EXPECT_THAT(mine.words, HasSubstr("TUTTI_LANES is \"1\" for rank 0"));
  }
}

}  // namespace
}  // namespace tutti::test
