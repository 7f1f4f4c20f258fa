#include "src/communicator/plan_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace tutti {
namespace {

using ::testing::HasSubstr;

Problem all_reduce_of(std::uint64_t count) {
  Problem problem;
  problem.ranks = 4;
  problem.count = count;
  return problem;
}

class PlanCacheTest : public ::testing::Test {
 protected:
  PlanCacheTest() {
    inputs_.rank = 1;
    inputs_.view = flat_view(4);
  }
  const PreparedPlan* made(const Problem& problem, const std::string& wish = "") {
    const auto plan = cache_.make(problem, wish);
    EXPECT_TRUE(plan.ok()) << plan.status().text();
    return plan.ok() ? *plan : nullptr;
  }

  PlanInputs inputs_;
  PlanCache cache_{inputs_};
};

TEST_F(PlanCacheTest, FindsWhatItHasMadeAndNothingElse) {
  const Problem one = all_reduce_of(1), other = all_reduce_of(1000);
  EXPECT_EQ(cache_.find(one, ""), nullptr);
  const PreparedPlan* const plan = made(one);
  EXPECT_EQ(cache_.find(one, ""), plan);
  EXPECT_EQ(cache_.find(other, ""), nullptr);
  const PreparedPlan* const longer = made(other);
  EXPECT_EQ(cache_.find(one, ""), plan) << "not the last one, so out of the table";
  EXPECT_EQ(cache_.find(other, ""), longer);
  EXPECT_EQ(plan->plan.problem, one);
  EXPECT_EQ(longer->plan.problem, other);
}

TEST_F(PlanCacheTest, TellsApartWhateverAProblemSays) {
  std::vector<Problem> problems(7, all_reduce_of(16));
  problems[1].type = TUTTI_INT32;
  problems[2].op = TUTTI_MAX;
  problems[3].collective = Collective::reduce;
  problems[4].collective = Collective::reduce;
  problems[4].root = 2;
  problems[5].count = 17;
  problems[6].collective = Collective::all_gather;
  std::set<const PreparedPlan*> plans;
  for (const Problem& problem : problems) {
    EXPECT_EQ(cache_.find(problem, ""), nullptr);
    plans.insert(made(problem));
  }
  EXPECT_EQ(plans.size(), problems.size());
  for (const Problem& problem : problems) EXPECT_EQ(cache_.find(problem, "")->plan.problem, problem);
}

TEST_F(PlanCacheTest, GivesOneAlgorithmsPlansOfAllCountsOneProgram) {
  const PreparedPlan* const shorter = made(all_reduce_of(1000), "ring");
  const PreparedPlan* const longer = made(all_reduce_of(1'000'000), "ring");
  EXPECT_EQ(shorter->linked, longer->linked);
  EXPECT_STREQ(longer->algorithm, "ring");
  const std::shared_ptr<LinkedProgram> ring = longer->linked;  // another wish takes the plans away
  EXPECT_NE(made(all_reduce_of(1000), "direct")->linked, ring);
}

TEST_F(PlanCacheTest, KeepsThePlansOfTheLastWish) {
  const Problem problem = all_reduce_of(1000);
  made(problem, "ring");
  EXPECT_EQ(cache_.find(problem, ""), nullptr);
  EXPECT_NE(cache_.find(problem, "ring"), nullptr) << "to ask in vain takes nothing away";
  EXPECT_STREQ(made(problem, "direct")->algorithm, "direct");
  EXPECT_EQ(cache_.find(problem, "ring"), nullptr);
}

TEST_F(PlanCacheTest, RefusesWhatSelectionRefusesAndKeepsTheRest) {
  const Problem problem = all_reduce_of(1000);
  made(problem);
  const auto plan = cache_.make(problem, "rign");
  ASSERT_FALSE(plan.ok());
  EXPECT_THAT(plan.status().text(), HasSubstr("has no algorithm \"rign\""));
  EXPECT_STRNE(made(problem)->algorithm, "rign");
}

TEST_F(PlanCacheTest, ForgetsAllWhereItIsTold) {
  const Problem problem = all_reduce_of(1000);
  const std::weak_ptr<LinkedProgram> linked = made(problem)->linked;
  cache_.clear();
  EXPECT_EQ(cache_.find(problem, ""), nullptr);
  EXPECT_TRUE(linked.expired());
}

TEST_F(PlanCacheTest, KeepsNoMoreThanSoManyPlans) {
  for (std::uint64_t count = 1; count <= 4096; ++count) made(all_reduce_of(count), "ring");
  EXPECT_NE(cache_.find(all_reduce_of(1), "ring"), nullptr);
  made(all_reduce_of(5000), "ring");
  EXPECT_EQ(cache_.find(all_reduce_of(1), "ring"), nullptr);
  EXPECT_NE(cache_.find(all_reduce_of(5000), "ring"), nullptr);
}

TEST_F(PlanCacheTest, SaysByWhatAlgorithmItWouldRunEachSize) {
  ASSERT_TRUE(Overrides::parse("all_reduce:64K-:ring").ok());
  inputs_.overrides = *Overrides::parse("all_reduce:64K-:ring");
  const auto by_size = cache_.algorithms_by_size(all_reduce_of(1));
  ASSERT_FALSE(by_size.empty());
  EXPECT_EQ(by_size.front().bytes, 8u);
  EXPECT_EQ(by_size.back().bytes, std::uint64_t{1} << 30);
  EXPECT_EQ(by_size.back().name, "ring");
}

}  // namespace
}  // namespace tutti
