#include "topology/grid.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

using Dimensions = std::vector<GridDimension>;

TEST(Grid, ATorusHasItsLastCoordinateVaryFastest) {
  View view = flat_view(24);
  view.torus = {2, 1, 3, 4};
  const Grid torus = torus_of(view);
  ASSERT_EQ(torus.dimensions(),
            (Dimensions{{2, 12, LinkClass::same_numa}, {3, 4, LinkClass::same_numa}, {4, 1, LinkClass::same_numa}}));
  EXPECT_EQ(torus.coordinate(18, 0), 1);
  EXPECT_EQ(torus.coordinate(18, 1), 1);
  EXPECT_EQ(torus.coordinate(18, 2), 2);
  EXPECT_EQ(torus.neighbor(18, 2, 4), 16);
  EXPECT_EQ(torus.neighbor(18, 1, -1), 22);
  EXPECT_EQ(torus.neighbor(18, 0, 2), 6);
}

TEST(Grid, ATorusOfAnotherNumberOfRanksIsNone) {
  View view = flat_view(6);
  for (const auto& sizes : {std::vector<std::int32_t>{}, {2, 2}, {7}, {6, 0}, {-2, -3}, {INT32_MAX, INT32_MAX, 4}}) {
    view.torus = sizes;
    EXPECT_EQ(torus_of(view).size(), 0);
  }
}

TEST(Grid, GroupsAreTakenFromTheViewHoweverRanksAreSpread) {
  View view = flat_view(8);
  view.machine = {0, 1, 0, 1, 2, 3, 2, 3};
  view.rack = {0, 0, 0, 0, 1, 1, 1, 1};
  const Grid grid = hierarchy_of(view);
  EXPECT_EQ(grid.dimensions(),
            (Dimensions{{2, 1, LinkClass::same_numa}, {2, 2, LinkClass::other_machine}, {2, 4, LinkClass::other_rack}}));
  EXPECT_EQ(grid.neighbor(0, 0, 1), 2);
  EXPECT_EQ(grid.neighbor(0, 1, 1), 1);
  EXPECT_EQ(grid.neighbor(3, 2, 1), 7);
}

TEST(Grid, LevelsOfUnequalGroupsAreLeftOut) {
  View view = uniform_view(2, 4, 2);
  EXPECT_EQ(hierarchy_of(view).size(), 3);
  view.numa[3] = 0;  // three ranks on one node, one on the other
  EXPECT_EQ(hierarchy_of(view).dimensions(),
            (Dimensions{{4, 1, LinkClass::same_machine}, {2, 4, LinkClass::other_machine}}));
  view.machine[4] = 0;
  EXPECT_EQ(hierarchy_of(view).size(), 1);
  EXPECT_EQ(hierarchy_of(flat_view(4)).size(), 1);
  EXPECT_EQ(hierarchy_of(flat_view(0)).size(), 0);
}

}  // namespace
}  // namespace tutti
