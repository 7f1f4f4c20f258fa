// Settings that ranks must share, and settings that cannot be had: each is a sentence on every rank, not a hang.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

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
  for (const Outcome& mine :
       create(3, [](int rank, tutti_config& config) { config.algorithm = rank == 2 ? "tree" : "ring"; })) {
    EXPECT_EQ(mine.status, TUTTI_INVALID_ARGUMENT);
    EXPECT_THAT(mine.words, HasSubstr("TUTTI_ALGORITHM is \"ring\" for rank 0"));
    EXPECT_THAT(mine.words, HasSubstr("\"tree\" for rank 2"));
  }
}

TEST(SharedSettings, AnAlgorithmThatOneRankAloneNamesOrMisspellsIsRefusedOnAll) {
  for (const Outcome& mine :
       create(2, [](int rank, tutti_config& config) { config.algorithm = rank == 1 ? "telepathy" : nullptr; })) {
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

TEST(SharedSettings, TuningTablesCountForWhatTheySayAndMustSayTheSame) {
  const TemporaryFolder folder;
  const auto table = [&](const std::string& name, const std::string& lines) {
    std::ofstream(folder.file(name)) << "tutti tuning 1\n" << lines;
    return folder.file(name);
  };
  // Its links are slower than what tcp says of itself: they are for the choice of algorithms alone.
  const std::string links = "link shm same_numa 3e-06 5e-09\nlink shm same_machine 3e-06 5e-09\n";
  const std::string ring = table("ring", "use all_reduce 2 0 4096 ring  # by hand\nfold 2e-10\n" + links);
  const std::string same = table("same", "# the same\nuse all_reduce 2 0 4096 ring\n" + links + "fold 2e-10\n");
  const std::string tree = table("tree", "use all_reduce 2 0 4096 tree\n");
  const std::string bad = table("bad", "use all_reduce 2 0 4096 telepathy\n");

  tutti_comm* comms[2] = {};
  tutti_config config = TUTTI_CONFIG_INIT;
  config.tuning = ring.c_str();
  ASSERT_EQ(tutti_comm_create_all(comms, 2, &config), TUTTI_SUCCESS) << last_error();
  std::thread other([&] {
    int one = 1;
    EXPECT_EQ(tutti_all_reduce(&one, &one, 1, TUTTI_INT32, TUTTI_SUM, comms[1], {}, nullptr), TUTTI_SUCCESS);
  });
  int one = 1;
  EXPECT_EQ(tutti_all_reduce(&one, &one, 1, TUTTI_INT32, TUTTI_SUM, comms[0], {}, nullptr), TUTTI_SUCCESS);
  other.join();
  tutti_comm_choice choice = {sizeof choice, nullptr, nullptr, nullptr};
  EXPECT_EQ(tutti_comm_last_choice(comms[0], &choice), TUTTI_SUCCESS);
  EXPECT_STREQ(choice.algorithm, "ring");
  EXPECT_STREQ(choice.transport, "shm");
  for (tutti_comm* comm : comms) tutti_comm_destroy(comm);

  const auto both = [&](const std::string& first, const std::string& second) {
    return create(2, [&](int rank, tutti_config& c) { c.tuning = rank == 0 ? first.c_str() : second.c_str(); });
  };
  for (const Outcome& mine : both(ring, same)) EXPECT_EQ(mine.status, TUTTI_SUCCESS) << mine.words;
  for (const Outcome& mine : both(ring, tree)) {
    EXPECT_EQ(mine.status, TUTTI_INVALID_ARGUMENT);
    EXPECT_THAT(mine.words, HasSubstr("TUTTI_TUNING"));
  }
  for (const Outcome& mine : both(ring, bad)) {
    EXPECT_EQ(mine.status, TUTTI_INVALID_ARGUMENT);
    EXPECT_THAT(mine.words, HasSubstr("line 2 of the tuning table"));
    EXPECT_THAT(mine.words, HasSubstr("telepathy"));
  }
  for (const Outcome& mine : both(ring, "/nowhere")) EXPECT_THAT(mine.words, HasSubstr("\"/nowhere\" cannot be read"));
}

TEST(Transports, ThatAreNamedTwiceAreMeantOnce) {
  for (const char* transports : {"shm,shm", "tcp,shm,tcp"}) {
    const Ranks ranks(2, transports, 10'000'000'000);
    ranks.run([](int rank, tutti_comm* comm) {
      int sum = rank + 1;
      EXPECT_EQ(tutti_all_reduce(&sum, &sum, 1, TUTTI_INT32, TUTTI_SUM, comm, {}, nullptr), TUTTI_SUCCESS) << last_error();
      EXPECT_EQ(sum, 3);
    });
  }
}

TEST(Transports, ThatDoNotExistAreNamedWithThePlaceThatNamesThem) {
  std::array<tutti_comm*, 2> comms{};
  tutti_config config = TUTTI_CONFIG_INIT;
  config.transports = "shm,pigeon";
  EXPECT_EQ(tutti_comm_create_all(comms.data(), 2, &config), TUTTI_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("config.transports names a transport \"pigeon\""));
  ASSERT_EQ(setenv("TUTTI_TRANSPORTS", "pigeon", 1), 0);
  EXPECT_EQ(tutti_comm_create_all(comms.data(), 2, nullptr), TUTTI_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("TUTTI_TRANSPORTS names a transport \"pigeon\""));
  unsetenv("TUTTI_TRANSPORTS");
}

TEST(Plugins, InAFolderThatCannotBeReadAreAnErrorThatNamesIt) {
  std::array<tutti_comm*, 2> comms{};
  for (const char* path : {"/no/such/folder", "/proc/self/stat", "/:/no/such/folder"}) {
    ASSERT_EQ(setenv("TUTTI_PLUGIN_PATH", path, 1), 0);
    EXPECT_EQ(tutti_comm_create_all(comms.data(), 2, nullptr), TUTTI_INVALID_ARGUMENT) << path;
    EXPECT_THAT(last_error(), HasSubstr("TUTTI_PLUGIN_PATH")) << path;
  }
  unsetenv("TUTTI_PLUGIN_PATH");
}

}  // namespace
}  // namespace tutti::test
