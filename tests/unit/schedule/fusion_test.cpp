#include "src/schedule/fusion.h"

#include <gtest/gtest.h>

#include "src/schedule/builder.h"
#include "src/schedule/text.h"

namespace tutti {
namespace {

Plan plan_of(Shape shape, int ranks) {
  Plan plan;
  plan.problem.ranks = ranks;
  plan.shape = shape;
  finish_plan(plan, 1 << 16);
  return plan;
}

std::string steps_of(const Program& program) {
  std::string out;
  for (const Lane& lane : program.lanes) {
    for (std::uint32_t s = lane.first; s < lane.first + lane.count; ++s)
      out += print_step(program, program.steps[s]) + "\n";
  }
  return out;
}

TEST(Fusion, MergesAMoveWithTheOneThatHandsOnWhatItWrote) {
  const Plan plan = plan_of({.scratch_blocks = 1}, 3);
  Builder builder(plan.problem, plan.shape, 0);
  const LaneBuilder lane = builder.lane(0);
  lane.move({input(0), lane.from(1)}, {scratch(0)});
  lane.move({scratch(0)}, {lane.to(1)});
  lane.move({scratch(0)}, {lane.to(2)});
  lane.move({scratch(0)}, {output(0)});
  EXPECT_EQ(steps_of(fuse(plan, 0, builder.finish())),
            "recv_reduce_send input[0;0] from:1.0[0;0] -> scratch[0;0] to:1.0[0;0]@scratch to:2.0[0;0]@scratch\n"
            "copy scratch[0;0] -> output[0;0]\n");
}

TEST(Fusion, TakesReceivesIntoScratchThatAreFoldedOnce) {
  const Plan plan = plan_of({.scratch_blocks = 2}, 3);
  Builder builder(plan.problem, plan.shape, 0);
  const LaneBuilder lane = builder.lane(0);
  const Ref other = scratch(Range{.block = 1});
  lane.move({lane.from(1)}, {scratch(0)});
  lane.move({lane.from(2)}, {other});
  lane.complete({input(0), scratch(0), other}, {output(0)});
  EXPECT_EQ(steps_of(fuse(plan, 0, builder.finish())),
            "recv_reduce input[0;0] from:1.0[0;0]@scratch from:2.0[1;0]@scratch -> output[0;0] complete\n");
}

TEST(Fusion, LeavesReceivesThatAreReadTwice) {
  const Plan plan = plan_of({.scratch_blocks = 1}, 2);
  Builder builder(plan.problem, plan.shape, 0);
  const LaneBuilder lane = builder.lane(0);
  lane.move({lane.from(1)}, {scratch(0)});
  lane.complete({input(0), scratch(0)}, {output(0)});
  lane.move({scratch(0)}, {lane.to(1)});
  EXPECT_EQ(fuse(plan, 0, builder.finish()).steps.size(), 3u);
}

TEST(Fusion, LeavesWhatWouldUseALinkTwice) {
  const Plan plan = plan_of({.scratch_blocks = 1}, 2);
  Builder builder(plan.problem, plan.shape, 0);
  const LaneBuilder lane = builder.lane(0);
  lane.move({input(0)}, {output(0), lane.to(1)});
  lane.move({output(0)}, {lane.to(1)});
  EXPECT_EQ(fuse(plan, 0, builder.finish()).steps.size(), 2u);
}

TEST(Fusion, RenumbersDependenciesOfOtherLanes) {
  const Plan plan = plan_of({.lanes = 2, .scratch_blocks = 1}, 3);
  Builder builder(plan.problem, plan.shape, 0);
  const LaneBuilder first = builder.lane(0);
  const LaneBuilder second = builder.lane(1);
  first.move({input(0)}, {scratch(0)});
  first.move({scratch(0)}, {first.to(1)});
  first.move({input(0), first.from(1)}, {output(0)});
  second.move({output(0)}, {second.to(2)});
  const Program fused = fuse(plan, 0, builder.finish());
  ASSERT_EQ(fused.dependencies.size(), 1u);
  EXPECT_EQ(fused.dependencies[0], (Dependency{0, 1, 0}));
}

}  // namespace
}  // namespace tutti
