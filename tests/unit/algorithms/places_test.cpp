// Hierarchical and torus algorithms: proved for small places of every shape (all_proofs.cpp has the larger ones), and their
// waits and their links' loads as the papers have them.
#include "tests/unit/algorithms/places.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

#include "algorithms/algorithms.h"
#include "algorithms/rings.h"
#include "src/executors/simulator/simulator.h"
#include "topology/grid.h"
#include "topology/oversubscription.h"

namespace tutti::testing {
namespace {

/// Proves all tasks, and returns which algorithms they were of.
std::set<std::string> prove(const std::vector<PlacedTask>& tasks) {
  std::set<std::string> names;
  for (const PlacedTask& task : tasks) {
    names.insert(std::string(name_of(task.algorithm->collective)) + " " + task.algorithm->name);
    EXPECT_EQ(unproved(*task.algorithm, task.view, task.root), "");
  }
  std::printf("%zu plans proved\n", tasks.size());
  return names;
}

TEST(Places, LevelsAreProvedUpTo16Ranks) {
  EXPECT_EQ(prove(level_tasks(16)),
            (std::set<std::string>{"all_reduce hierarchical", "reduce_scatter hierarchical", "all_gather hierarchical",
                                   "all_reduce leaders", "broadcast leaders", "reduce leaders"}));
}

TEST(Places, UnequalMachinesAreProvedUpTo13Ranks) {
  const std::set<std::string> names = prove(unequal_tasks(13, 2));
  for (const char* name : {"all_reduce leaders", "broadcast leaders", "reduce leaders"}) EXPECT_TRUE(names.contains(name));
}

TEST(Places, ToriAreProvedUpTo24Ranks) {
  EXPECT_EQ(prove(torus_tasks(24, 4)),
            (std::set<std::string>{"all_reduce torus", "reduce_scatter torus", "all_gather torus", "all_reduce swing"}));
}

TEST(Places, RingsGoFromCoreToCoreAsSeldomAsCanBe) {
  View view = uniform_view(1, 7);
  const auto ring = [&view] {
    const RankRing order(view);
    std::vector<int> ranks;
    int rank = 0;
    do {
      ranks.push_back(rank);
      const Ring here = order.ring(rank, 1);
      EXPECT_EQ(order.ring(here.next, 1).previous, rank);
      EXPECT_EQ(order.rank(here.owned), here.next);
      rank = here.next;
    } while (rank != 0 && ranks.size() <= 7);
    return ranks;
  };
  const std::vector<int> by_number = {0, 1, 2, 3, 4, 5, 6};
  EXPECT_EQ(ring(), by_number);
  share_cores(view, 3.5, {0, 1, 0, 1, 0, 1, 0});
  EXPECT_EQ(ring(), (std::vector<int>{0, 2, 4, 6, 1, 3, 5}));
  const auto hash = [&view] {
    Problem problem;
    problem.ranks = 7;
    return make_plan(ring_all_reduce, problem, view, {}, 1 << 16).hash;
  };
  std::set<std::uint64_t> hashes{hash()};
  share_cores(view, 3.5, {0, 1, 0, 1, 0, 1, 1});
  hashes.insert(hash());
  share_cores(view, 2, {0, 1, 0, 1, 0, 1, 1});
  EXPECT_EQ(ring(), by_number);
  hashes.insert(hash());
  share_cores(view, 2);
  hashes.insert(hash());
  share_cores(view, 1);
  hashes.insert(hash());
  EXPECT_EQ(hashes.size(), 5u) << "whoever sees the cores differently is told so";
}

TEST(Places, WhatIsNotThereIsRefused) {
  const auto takes = [](const Algorithm& algorithm, const View& view) {
    Problem problem;
    problem.collective = algorithm.collective;
    problem.ranks = view.ranks();
    return algorithm.fits(problem, view);
  };
  EXPECT_FALSE(takes(hierarchical_all_reduce, uniform_view(1, 8, 2)));  // one machine
  EXPECT_FALSE(takes(hierarchical_all_reduce, uniform_view(8, 1)));     // nothing inside
  EXPECT_FALSE(takes(hierarchical_all_reduce, view_of_machines({3, 5})));
  EXPECT_TRUE(takes(leaders_all_reduce, view_of_machines({3, 5})));
  EXPECT_TRUE(takes(hierarchical_all_reduce, view_of_levels({1, 3, 1, 4, Placement::shuffled})));
  EXPECT_FALSE(takes(hierarchical_all_gather, view_of_levels({1, 3, 1, 4, Placement::shuffled})));
  EXPECT_TRUE(takes(hierarchical_all_gather, view_of_levels({1, 3, 1, 4, Placement::round_robin})));
  EXPECT_FALSE(takes(torus_all_reduce, flat_view(16)));
  View torus = view_of_torus({4, 4});
  EXPECT_TRUE(takes(torus_all_reduce, torus));
  torus.torus = {4, 5};
  EXPECT_FALSE(takes(torus_all_reduce, torus));  // another number of ranks
  EXPECT_FALSE(takes(swing_all_reduce, view_of_torus({4, 6})));
}

/// Messages one after the other: the time of a run in which a message takes a second, and nothing else any.
double waits(const Algorithm& algorithm, const View& view) {
  SimulatorConfig config;
  config.view = view;
  config.view.links = {{{0, 0}, {1, 0}, {1, 0}, {1, 0}, {1, 0}}};
  config.view.gamma = 0;
  const std::uint64_t count = std::uint64_t{1} << 20;  // an element for every chunk, and one pass
  const Schedule schedule = make_schedule(algorithm, view, 0, count, std::uint64_t{1} << 24);
  const SimulatorReport report = simulate(schedule.plan, schedule.programs, config);
  EXPECT_EQ(report.verdict, SimulatorReport::Verdict::completed) << report.why;
  return report.seconds;
}

TEST(Places, ATorusOf16By16Takes60WaitsAndAFlatRing510) {
  EXPECT_EQ(waits(torus_all_reduce, view_of_torus({16, 16})), 60);
  EXPECT_EQ(waits(ring_all_reduce, flat_view(256)), 510);
  EXPECT_EQ(waits(swing_all_reduce, view_of_torus({16, 16})), 16);
  EXPECT_EQ(waits(torus_all_reduce, view_of_torus({2, 3, 5})), 2 * (1 + 2 + 4));
  EXPECT_EQ(waits(hierarchical_all_reduce, uniform_view(5, 4)), 2 * 3 + 2 * 4);
  EXPECT_EQ(waits(hierarchical_all_reduce, view_of_levels({2, 3, 2, 4, Placement::round_robin})), 2 * (3 + 1 + 2 + 1));
}

// As long as the waits, not as the ranks: of 65,536 ranks each program is made alone.
TEST(Places, ProgramsOfLargeToriAreAsLongAsTheirWaits) {
  const View view = view_of_torus({256, 256});
  Problem problem;
  problem.ranks = view.ranks();
  problem.count = std::uint64_t{1} << 28;
  const auto steps = [&](const Algorithm& algorithm) {
    const Plan plan = make_plan(algorithm, problem, view, {}, 1 << 18);
    const auto start = std::chrono::steady_clock::now();
    std::size_t most = 0;
    constexpr int some = 16;
    for (int i = 0; i < some; ++i) most = std::max(most, make_program(algorithm, plan, view, i * 4001).steps.size());
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    std::printf("%s: %zu steps, %.2f ms a program\n", algorithm.name, most, took.count() / some);
    return most;
  };
  EXPECT_LE(steps(torus_all_reduce), 4u * (2 * 510 + 4));
  EXPECT_LE(steps(swing_all_reduce), 4u * 2 * 2 * 16);
}

// ALGORITHMS.md's rows, on links that nothing else uses: a message takes α + mβ, a fold γ a byte.
TEST(Places, TimesAreTheirFormulas) {
  const double alpha_inside = 1e-6, alpha_across = 1e-5, beta_inside = 1e-10, beta_across = 1e-9, gamma = 2e-11;
  const std::uint64_t count = std::uint64_t{1} << 22;
  const double m = 4 * static_cast<double>(count);
  const auto seconds = [&](const Algorithm& algorithm, View view) {
    SimulatorConfig config;
    config.shared_ports = config.shared_processor = false;
    view.links = {{{0, 0},
                   {alpha_inside, beta_inside},
                   {alpha_inside, beta_inside},
                   {alpha_across, beta_across},
                   {alpha_across, beta_across}}};
    view.gamma = gamma;
    config.view = view;
    const Schedule schedule = make_schedule(algorithm, view, 0, count, std::uint64_t{1} << 24);
    EXPECT_EQ(schedule.plan.passes(count), 1u);
    return simulate(schedule.plan, schedule.programs, config).seconds;
  };
  const auto expect = [](double got, double formula) { EXPECT_NEAR(got, formula, .01 * formula); };
  const double g = 4, n = 8, p = 32;
  for (const Placement placement : {Placement::blocks, Placement::round_robin, Placement::shuffled}) {
    expect(seconds(hierarchical_all_reduce, view_of_levels({1, 8, 1, 4, placement})),
           2 * (g - 1) * alpha_inside + 2 * (g - 1) / g * m * beta_inside + 2 * (n - 1) * alpha_across +
               2 * (n - 1) / n * (m / g) * beta_across + (p - 1) / p * m * gamma);
  }
  for (const auto& sizes : {std::vector<std::int32_t>{8, 8}, {4, 4, 4}}) {
    const auto D = static_cast<double>(sizes.size());
    expect(seconds(torus_all_reduce, view_of_torus(sizes)),
           2 * D * (sizes[0] - 1) * alpha_across + m / D * (1 - 1 / 64.) * beta_across + (1 - 1 / 64.) * m / 2 / D * gamma);
    expect(seconds(swing_all_reduce, view_of_torus(sizes)),  // without a network nothing is congested: Ξ = 1
           2 * 6 * alpha_across + m / D * (1 - 1 / 64.) * beta_across + (1 - 1 / 64.) * m / 2 / D * gamma);
  }
}

/// What each directed link of a torus carries at a step, messages going the shorter way in a dimension.
class TorusLoad {
 public:
  explicit TorusLoad(const View& view) : torus_(torus_of(view)), load_(static_cast<std::size_t>(view.ranks() * links())) {}

  void send(int from, int to, double bytes) {
    for (int d = 0; d < torus_.size(); ++d) {
      const int size = torus_[d].size;
      const int ahead = (torus_.coordinate(to, d) - torus_.coordinate(from, d) + size) % size;
      const int way = 2 * ahead <= size ? 1 : -1;
      while (torus_.coordinate(from, d) != torus_.coordinate(to, d)) {
        load_[static_cast<std::size_t>(from * links() + 2 * d + (way > 0 ? 0 : 1))] += bytes;
        from = torus_.neighbor(from, d, torus_.coordinate(from, d) + way);
      }
    }
  }
  double most() const { return *std::max_element(load_.begin(), load_.end()); }

 private:
  int links() const { return 2 * torus_.size(); }
  Grid torus_;
  std::vector<double> load_;
};

/// Bytes of the busiest link, step by step, beside the bound (m/D)(1−1/p): the Ξ of the paper. Taken from all messages of
/// all programs; message i of a lane is of step i.
double congestion(const Algorithm& algorithm, const View& view) {
  Problem problem;
  problem.ranks = view.ranks();
  problem.count = std::uint64_t{1} << 30;
  const Plan plan = make_plan(algorithm, problem, view, {}, std::uint64_t{1} << 24);
  std::map<std::uint32_t, TorusLoad> steps;
  for (int rank = 0; rank < view.ranks(); ++rank) {
    const Program program = make_program(algorithm, plan, view, rank);
    for (const Lane& lane : program.lanes) {
      std::uint32_t sent = 0;
      for (std::uint32_t s = lane.first; s < lane.first + lane.count; ++s) {
        const Step& step = program.steps[s];
        for (std::uint32_t o = step.operands + step.sources; o < step.operands + step.sources + step.destinations; ++o) {
          const Operand& operand = program.operands[o];
          if (operand.place != Place::link) continue;
          const auto load = steps.try_emplace(sent++, view).first;
          load->second.send(rank, program.links[operand.link].peer, operand.range.chunks);
        }
      }
    }
  }
  double sum = 0;
  for (const auto& [step, load] : steps) sum += load.most();
  const double p = view.ranks();
  return sum / plan.shape.chunks / (1 / static_cast<double>(view.torus.size()) * (1 - 1 / p));
}

TEST(Places, TorusMessagesNeverMeetWhereDimensionsAreEqual) {
  for (const auto& sizes : {std::vector<std::int32_t>{8}, {5, 5}, {4, 4, 4}, {3, 3, 3, 3}}) {
    EXPECT_NEAR(congestion(torus_all_reduce, view_of_torus(sizes)), 1, 1e-9) << sizes.size();
  }
}

// ALGORITHMS.md's Ξ; those of two dimensions and more are limits, within a percent of which large tori come.
TEST(Places, SwingCongestsATorusAsItsPaperSays) {
  EXPECT_NEAR(congestion(swing_all_reduce, view_of_torus({8})), 1.29, .0129);
  EXPECT_NEAR(congestion(swing_all_reduce, view_of_torus({64})), 2.14, .0214);
  EXPECT_NEAR(congestion(swing_all_reduce, view_of_torus({128, 128})), 1.20, .012);
  EXPECT_NEAR(congestion(swing_all_reduce, view_of_torus({16, 16, 16})), 1.037, .01037);
  EXPECT_NEAR(congestion(swing_all_reduce, view_of_torus({8, 8, 8, 8})), 1.008, .01008);
}

// What costs say that ports carry is what links carry.
TEST(Places, CostsOfToriAreTheLoadOfTheirLinks) {
  Problem problem;
  for (const Algorithm* algorithm : {&torus_all_reduce, &swing_all_reduce}) {
    for (const auto& sizes : {std::vector<std::int32_t>{16}, {8, 8}, {4, 4, 4}}) {
      const View view = view_of_torus(sizes);
      problem.ranks = view.ranks();
      const double bound = (1 - 1.0 / view.ranks()) / static_cast<double>(sizes.size());
      EXPECT_NEAR(algorithm->cost(problem, view).betas, congestion(*algorithm, view) * bound, 1e-9) << algorithm->name;
      EXPECT_EQ(algorithm->cost(problem, view).alphas, waits(*algorithm, view)) << algorithm->name;
      View on_one = flat_view(view.ranks());
      on_one.torus = sizes;
      EXPECT_DOUBLE_EQ(algorithm->cost(problem, on_one).betas, 2 * (1 - 1.0 / view.ranks()))
          << algorithm->name << ": one memory carries what all ports would";
    }
  }
}

}  // namespace
}  // namespace tutti::testing
