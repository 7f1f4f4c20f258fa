#include "src/communicator/rank_info.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Ranks on machines (kernels) of these ids, on node 0, each allowed on CPUs 0 and 1.
struct Group {
  explicit Group(std::initializer_list<std::uint64_t> machines) {
    for (const std::uint64_t machine : machines) {
      Member member;
      member.rank = static_cast<int>(members.size());
      member.machine = machine;
      members.push_back(member);
      RankInfo place;
      place.numa = 0;
      place.cpus.allowed = {0, 1};
      places.push_back(place);
    }
  }
  View view() const { return view_of(members, places); }

  std::vector<Member> members;
  std::vector<RankInfo> places;
};

TEST(RankInfo, MachinesAreNumberedInTheOrderOfRanks) {
  const View view = Group({77, 5, 77, 9}).view();
  EXPECT_THAT(view.machine, ElementsAre(0, 1, 0, 2));
  EXPECT_TRUE(view.rack.empty());
  EXPECT_TRUE(view.torus.empty());
}

TEST(RankInfo, NamesPartAMachineForTheChoiceButNotItsCores) {
  Group group({7, 7, 7, 7});
  for (std::size_t r = 0; r < 4; ++r) group.places[r].machine = r % 2 == 0 ? "even" : "odd";
  EXPECT_THAT(group.view().machine, ElementsAre(0, 1, 0, 1));
  EXPECT_DOUBLE_EQ(group.view().oversubscription, 2);
  EXPECT_DOUBLE_EQ(ranks_a_core(group.members, group.places, 3), 2);
}

TEST(RankInfo, CoresAreKnownWhereEveryRankIsBoundToOneAndSomeShare) {
  Group group({7, 7, 7, 8});
  EXPECT_TRUE(group.view().core.empty());
  const std::vector<int> cpus = {3, 0, 3, 3};
  for (std::size_t r = 0; r < 4; ++r) group.places[r].cpus.allowed = {cpus[r]};
  EXPECT_THAT(group.view().core, ElementsAre(0, 1, 0, 2));
  group.places[1].cpus.allowed = {0, 1};
  EXPECT_TRUE(group.view().core.empty());

  Group alone({7, 7});
  for (int r = 0; r < 2; ++r) alone.places[static_cast<std::size_t>(r)].cpus.allowed = {r};
  EXPECT_TRUE(alone.view().core.empty());
}

TEST(RankInfo, RacksAreKnownWhereTheyDiffer) {
  Group group({1, 2, 3, 4});
  for (RankInfo& place : group.places) place.rack = "one";
  EXPECT_TRUE(group.view().rack.empty());
  group.places[1].rack = group.places[3].rack = "two";
  EXPECT_THAT(group.view().rack, ElementsAre(0, 1, 0, 1));
  EXPECT_EQ(group.view().link_class(0, 2), LinkClass::other_machine);
  EXPECT_EQ(group.view().link_class(0, 1), LinkClass::other_rack);
}

TEST(RankInfo, AMachineIsInOneRack) {
  Group group({1, 1});
  group.places[0].rack = "one";
  group.places[1].rack = "two";
  EXPECT_THAT(group.view().machine, ElementsAre(0, 1));
}

TEST(RankInfo, TheTorusIsAgreed) {
  Group group({1, 1, 1, 1});
  for (RankInfo& place : group.places) place.torus = {2, 2};
  EXPECT_TRUE(check_settings_agree(group.members, group.places).ok());
  EXPECT_THAT(group.view().torus, ElementsAre(2, 2));
  group.places[2].torus = {4};
  EXPECT_THAT(check_settings_agree(group.members, group.places).text(), HasSubstr("TUTTI_TORUS is \"2x2\" for rank 0"));
  EXPECT_THAT(check_settings_agree(group.members, group.places).text(), HasSubstr("\"4\" for rank 2"));
}

TEST(RankInfo, IsReadAsItWasWritten) {
  RankInfo place;
  place.numa = 3;
  place.cpus.allowed = {1, 4};
  place.lanes = 2;
  place.tuning = "digest";
  place.machine = "node 7";
  place.rack = "r1";
  place.torus = {4, 2, 2};
  ByteWriter out;
  pack_rank_info(out, place);
  const auto bytes = out.take();
  ByteReader in(bytes);
  const RankInfo read = unpack_rank_info(in);
  EXPECT_TRUE(in.ok());
  EXPECT_EQ(read.numa, 3);
  EXPECT_EQ(read.cpus.allowed, place.cpus.allowed);
  EXPECT_EQ(read.machine, place.machine);
  EXPECT_EQ(read.rack, place.rack);
  EXPECT_EQ(read.torus, place.torus);
}

}  // namespace
}  // namespace tutti
