#include "src/bootstrap/launcher_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace tutti {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

Result<Launched> read(const Variables& variables, std::uint32_t low = 0, std::uint32_t high = 0) {
  return read_launcher(
      [&](const char* name) -> const char* {
        const auto place = variables.find(name);
        return place == variables.end() ? nullptr : place->second.c_str();
      },
      low, high);
}

const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "2"},
                            {"OMPI_COMM_WORLD_SIZE", "4"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                            {"PMIX_NAMESPACE", "1234"}};
const Variables kTorchrun = {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "29500"}};

TEST(Launcher, OurOwnVariablesWinOverEverybodys) {
  Variables all = kOpenMpi;
  all["TUTTI_RANK"] = "0";
  all["TUTTI_RANKS"] = "3";
  const auto found = read(all);
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_EQ(found->rank, 0);
  EXPECT_EQ(found->ranks, 3);
  EXPECT_EQ(found->rendezvous, Launched::Rendezvous::kNowhere);
  EXPECT_THAT(found->remedy, HasSubstr("TUTTI_COMM_ID"));
}

TEST(Launcher, OpenMpiOnOneHostMeetsInThePrivateFileOfItsJob) {
  const auto found = read(kOpenMpi);
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_EQ(found->launcher, "Open MPI");
  EXPECT_EQ(found->rank, 2);
  EXPECT_EQ(found->ranks, 4);
  EXPECT_EQ(found->rendezvous, Launched::Rendezvous::kPrivate);
  Variables other = kOpenMpi;
  other["PMIX_NAMESPACE"] = "1235";
  EXPECT_NE(found->job, read(other)->job);
}

TEST(Launcher, OpenMpiOverSeveralHostsNeedsAPlaceToMeet) {
  Variables several = kOpenMpi;
  several["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";
  const auto found = read(several);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->rendezvous, Launched::Rendezvous::kNowhere);
  EXPECT_THAT(found->remedy, HasSubstr("file://"));
}

TEST(Launcher, PmiNamesItsJobByTheServer) {
  const auto found = read({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "2"}});
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_EQ(found->launcher, "PMI");
  EXPECT_EQ(found->rendezvous, Launched::Rendezvous::kPrivate);
  EXPECT_THAT(found->job, HasSubstr("parent"));
}

TEST(Launcher, TorchrunsPortOrOneBesideItWhereTheAgentHoldsIt) {
  auto found = read(kTorchrun);
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_EQ(found->rendezvous, Launched::Rendezvous::kTcp);
  EXPECT_EQ(found->host, "localhost");
  EXPECT_TRUE(found->one_machine);
  EXPECT_EQ(found->ports.front(), 29500);
  Variables agent = kTorchrun;
  agent["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_EQ(read(agent)->ports.front(), 29501);
  agent["MASTER_PORT"] = "65535";
  EXPECT_GT(read(agent)->ports.front(), 1024);
  EXPECT_THAT(read(agent, 4000, 4001)->ports, ElementsAre(4000, 4001, 4000, 4001, 4000, 4001, 4000, 4001));
}

TEST(Launcher, TorchrunsAddressIsKnownForLoopbackInEveryForm) {
  for (const char* host : {"127.0.0.1", "127.9.9.9", "::1", "[::1]", "::ffff:127.0.0.1", "[::ffff:7f00:1]"}) {
    Variables variables = kTorchrun;
    variables["MASTER_ADDR"] = host;
    const auto found = read(variables);
    ASSERT_TRUE(found.ok()) << found.status().text();
    EXPECT_TRUE(found->one_machine) << host;
    EXPECT_EQ(found->host.find('['), std::string::npos) << host;
  }
}

// mpirun and PMI launchers hand their variables to whatever they start, and so does torchrun that was started by them.
TEST(Launcher, TorchrunIsMeantWhereAnotherLauncherAroundItSaysSomethingElse) {
  Variables within = kTorchrun;
  within.insert({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}});
  auto found = read(within);
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_EQ(found->launcher, "torchrun");
  EXPECT_EQ(std::to_string(found->ranks), kTorchrun.at("WORLD_SIZE"));
  // Where both say the same, somebody has translated the one's variables into the other's.
  within["OMPI_COMM_WORLD_RANK"] = kTorchrun.at("RANK");
  within["OMPI_COMM_WORLD_SIZE"] = within["OMPI_COMM_WORLD_LOCAL_SIZE"] = kTorchrun.at("WORLD_SIZE");
  EXPECT_EQ(read(within)->launcher, "Open MPI");
  within["OMPI_COMM_WORLD_SIZE"] = "1000";
  within["WORLD_SIZE"] = "many";
  EXPECT_EQ(read(within)->launcher, "Open MPI") << "what is no torchrun's";
}

TEST(Launcher, HalfOfTorchrunsVariablesAreRefusedWithWhatIsMissing) {
  Variables half = {{"RANK", "0"}, {"WORLD_SIZE", "2"}};
  EXPECT_THAT(read(half).status().text(), HasSubstr("MASTER_ADDR and MASTER_PORT are not"));
  half["MASTER_ADDR"] = "localhost";
  EXPECT_THAT(read(half).status().text(), HasSubstr("MASTER_PORT is not"));
  half.erase("MASTER_ADDR");
  half["MASTER_PORT"] = "29500";
  EXPECT_THAT(read(half).status().text(), HasSubstr("MASTER_ADDR is not"));
  half["TUTTI_COMM_ID"] = "tcp://localhost:4711";
  const auto found = read(half);
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_EQ(found->rank, 0);
  EXPECT_EQ(found->ranks, 2);
  half["RANK"] = "first";
  EXPECT_THAT(read(half).status().text(), HasSubstr("RANK=\"first\""));
  EXPECT_THAT(read({{"RANK", "0"}}).status().text(), HasSubstr("No launcher says"));
  half = {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "8"}};
  EXPECT_EQ(read(half)->launcher, "Slurm");
}

TEST(Launcher, SlurmCountsInsideAStepOnly) {
  Variables batch = {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "7"}, {"SLURM_NNODES", "1"}};
  EXPECT_FALSE(read(batch).ok());
  batch["SLURM_STEP_ID"] = "0";
  const auto found = read(batch);
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_EQ(found->launcher, "Slurm");
  EXPECT_EQ(found->rendezvous, Launched::Rendezvous::kPrivate);
}

TEST(Launcher, NamesWhatIsMalformedOrMissing) {
  EXPECT_THAT(read({{"TUTTI_RANK", "1"}}).status().text(), HasSubstr("only one is set"));
  EXPECT_THAT(read({{"TUTTI_RANK", "one"}, {"TUTTI_RANKS", "2"}}).status().text(), HasSubstr("TUTTI_RANK=\"one\""));
  EXPECT_THAT(read({}).status().text(), HasSubstr("mpirun"));
  Variables far = kTorchrun;
  far["MASTER_PORT"] = "65536";
  EXPECT_THAT(read(far).status().text(), HasSubstr("MASTER_PORT=\"65536\" is too large"));
  far["MASTER_PORT"] = "65535";
  EXPECT_EQ(read(far)->ports.front(), 65535);
  const std::pair<const char*, const char*> numbers[] = {{"-4", "too small"},
                                                         {"-99999999999", "too small"},
                                                         {"99999999999", "too large"},
                                                         {"1.5", "no integer"},
                                                         {"-", "no integer"}};
  for (const auto& [value, why] : numbers) {
    EXPECT_THAT(read({{"PMI_RANK", value}, {"PMI_SIZE", "2"}}).status().text(),
                HasSubstr(std::string("PMI_RANK=\"") + value + "\" is " + why));
  }
}

}  // namespace
}  // namespace tutti
