#include "topology/view.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(View, AFlatViewIsOneNodeOfOneMachine) {
  const View view = flat_view(5);
  EXPECT_EQ(view.ranks(), 5);
  EXPECT_EQ(view.machines(), 1);
  EXPECT_EQ(view.link_class(0, 4), LinkClass::same_numa);
  EXPECT_EQ(view.link_class(3, 3), LinkClass::self);
}

TEST(View, ClassesFollowMachineAndNumaNode) {
  const View view = uniform_view(3, 4, 2);
  EXPECT_EQ(view.ranks(), 12);
  EXPECT_EQ(view.machines(), 3);
  EXPECT_EQ(view.link_class(0, 1), LinkClass::same_numa);
  EXPECT_EQ(view.link_class(1, 2), LinkClass::same_machine);
  EXPECT_EQ(view.link_class(3, 4), LinkClass::other_machine);
  EXPECT_EQ(view.link_class(0, 8), LinkClass::other_machine);
  EXPECT_TRUE(view.same_machine(4, 7));
  EXPECT_FALSE(view.same_machine(7, 8));
}

TEST(View, AnUnknownNumaNodeCountsAsAnotherOne) {
  View view = flat_view(2);
  view.numa = {-1, -1};
  EXPECT_EQ(view.link_class(0, 1), LinkClass::same_machine);
}

TEST(View, KnowsItsDearestLinks) {
  EXPECT_STREQ(name_of(dearest_links(flat_view(1))), "self");
  EXPECT_STREQ(name_of(dearest_links(flat_view(3))), "same_numa");
  EXPECT_STREQ(name_of(dearest_links(uniform_view(1, 4, 2))), "same_machine");
  View view = uniform_view(4, 2);
  EXPECT_STREQ(name_of(dearest_links(view)), "other_machine");
  view.rack = {0, 0, 0, 0, 1, 1, 1, 1};
  EXPECT_STREQ(name_of(dearest_links(view)), "other_rack");
}

TEST(View, EstimatesAreOfTheClassAndCanBeReplacedByMeasuredOnes) {
  View view = uniform_view(2, 2);
  EXPECT_LT(view.estimate(0, 1).seconds(1e6), view.estimate(0, 2).seconds(1e6));
  view.link(LinkClass::other_machine) = {1e-3, 2e-9};
  EXPECT_DOUBLE_EQ(view.estimate(1, 3).seconds(1e6), 3e-3);
  EXPECT_NE(view, uniform_view(2, 2));
}

TEST(View, SixtyFiveThousandRanksTakeAFewBytesEach) {
  const View view = uniform_view(8192, 8, 2);
  EXPECT_EQ(view.ranks(), 65536);
  EXPECT_EQ(view.machines(), 8192);
  EXPECT_LE(view.machine.capacity() * sizeof(view.machine[0]) + view.numa.capacity() * sizeof(view.numa[0]), 65536u * 16);
}

TEST(View, NoRanksAreNoMachines) { EXPECT_EQ(flat_view(0).machines(), 0); }

}  // namespace
}  // namespace tutti
