// The simulator over networks: fair sharing worked out by hand, folded ranks against all of them, and the formulas of the
// literature.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <random>

#include "algorithms/algorithms.h"
#include "src/executors/simulator/simulator.h"
#include "tests/support/sanitizers.h"
#include "tests/support/schedules.h"
#include "topology/generators.h"

namespace tutti::testing {
namespace {

using ::testing::HasSubstr;
using Verdict = SimulatorReport::Verdict;

constexpr std::uint64_t huge_slots = std::uint64_t{1} << 32;  // one pass, whatever the count

std::shared_ptr<const Network> network(const std::string& spec) {
  auto made = generate_network(spec);
  EXPECT_TRUE(made.ok()) << made.status().text();
  return *std::move(made);
}

SimulatorConfig config_of(const Network& network, int ranks) {
  SimulatorConfig config;
  config.view = flat_view(ranks);
  config.network = &network;
  return config;
}

/// Pairs (from, to, bytes) of messages that are sent at once, each by a rank of its own to one of its own.
struct Sent {
  int from;
  int to;
  int kilobytes;
};
Schedule messages(int ranks, const std::vector<Sent>& all) {
  std::string text = "schedule all_reduce by_hand\nranks " + std::to_string(ranks) +
                     " root 0 count 100000 type uint8 op sum\nlanes 1 depth 1 credit 1 chunks 100 scratch 0 message 100\n"
                     "window 100000 grain 1 hash 0\n";
  for (int r = 0; r < ranks; ++r) {
    std::string links, steps;
    for (const Sent& sent : all) {
      const std::string length = "[0;0+" + std::to_string(sent.kilobytes) + "]";
      if (sent.from == r) {
        links += " to:" + std::to_string(sent.to) + ".0";
        steps = "0 move input" + length + " -> to:" + std::to_string(sent.to) + ".0" + length + "@output\n";
      } else if (sent.to == r) {
        links += " from:" + std::to_string(sent.from) + ".0";
        steps = "0 move from:" + std::to_string(sent.from) + ".0" + length + "@output -> output" + length + "\n";
      }
    }
    text += "rank " + std::to_string(r) + "\nlinks" + links + "\nlane 0\n" + steps;
  }
  auto schedule = parse_schedule(text);
  EXPECT_TRUE(schedule.ok()) << schedule.status().text();
  return schedule.ok() ? *std::move(schedule) : Schedule{};
}

/// When the message to `to` was there.
double delivered(const SimulatorReport& report, int to) {
  for (const SimulatedFlight& flight : report.flights) {
    if (report.links[flight.link].to == to) return flight.delivered;
  }
  return -1;
}

/// Every rank reaches every other over links 0, 1, …, as a table of (from, to, links) says.
std::shared_ptr<ListedNetwork> listed(int endpoints, const std::vector<double>& megabytes_per_second,
                                      const std::vector<std::pair<std::pair<int, int>, std::vector<std::uint32_t>>>& ways) {
  auto made = std::make_shared<ListedNetwork>(endpoints);
  for (const double rate : megabytes_per_second) made->add({"link", rate * 1e6, 1e-6});
  for (const auto& [ends, way] : ways) made->set_route(ends.first, ends.second, way);
  return made;
}

SimulatorReport simulate_on(const Network& network, const Schedule& schedule, bool fold = false) {
  SimulatorConfig config = config_of(network, schedule.plan.problem.ranks);
  config.fold_ranks = fold;
  config.timeline = true;
  const SimulatorReport report = simulate(schedule.plan, schedule.programs, config);
  EXPECT_EQ(report.verdict, Verdict::completed) << report.why;
  return report;
}

TEST(NetworkSimulator, GivesOneMessageTheLatencyOfItsLinksAndTheNarrowestOnesTime) {
  const auto net = listed(2, {10, 5, 20}, {{{0, 1}, {0, 1, 2}}});
  const SimulatorReport report = simulate_on(*net, messages(2, {{0, 1, 50}}));
  EXPECT_DOUBLE_EQ(report.seconds, 3e-6 + 50e3 / 5e6);
  EXPECT_THAT(report.loads, ::testing::ElementsAre(50000, 50000, 50000));
}

// Two share a link; when the shorter one is through, the longer one has it for itself.
TEST(NetworkSimulator, SharesALinkFairlyUntilOneIsThrough) {
  const auto net = listed(4, {10}, {{{0, 1}, {0}}, {{2, 3}, {0}}});
  const SimulatorReport report = simulate_on(*net, messages(4, {{0, 1, 20}, {2, 3, 50}}));
  EXPECT_DOUBLE_EQ(delivered(report, 1), 1e-6 + 2 * 20e3 / 10e6);
  EXPECT_DOUBLE_EQ(delivered(report, 3), 1e-6 + 70e3 / 10e6);
  EXPECT_THAT(report.loads, ::testing::ElementsAre(70000));
}

// Max-min, not proportional: A on links 0 and 1, B on 0, C on 1. Link 0 has 6, link 1 has 10: A and B get 3, C the other 7.
TEST(NetworkSimulator, LetsAFlowHaveWhatOthersCannotUse) {
  const auto net = listed(6, {6, 10}, {{{0, 1}, {0, 1}}, {{2, 3}, {0}}, {{4, 5}, {1}}});
  const SimulatorReport report = simulate_on(*net, messages(6, {{0, 1, 30}, {2, 3, 30}, {4, 5, 70}}));
  EXPECT_NEAR(delivered(report, 1), 2e-6 + 30e3 / 3e6, 1e-12);
  EXPECT_NEAR(delivered(report, 3), 1e-6 + 30e3 / 3e6, 1e-12);
  EXPECT_NEAR(delivered(report, 5), 1e-6 + 70e3 / 7e6, 1e-12);
}

TEST(NetworkSimulator, SaysWhoCannotReachWhomAndWhichNetworkIsTooSmall) {
  const Schedule schedule = messages(3, {{0, 2, 1}});
  const auto cut = listed(3, {10}, {{{0, 1}, {0}}});
  SimulatorReport report = simulate(schedule.plan, schedule.programs, config_of(*cut, 3));
  EXPECT_EQ(report.verdict, Verdict::overrun);
  EXPECT_THAT(report.why, HasSubstr("rank 0 cannot reach rank 2 on the network"));
  const auto small = network("switch:2");
  report = simulate(schedule.plan, schedule.programs, config_of(*small, 3));
  EXPECT_EQ(report.verdict, Verdict::overrun);
  EXPECT_THAT(report.why, HasSubstr("the network has 2 endpoints for 3 ranks"));
}

TEST(NetworkSimulator, MovesRealData) {
  const int ranks = 4;
  const Schedule schedule = make_schedule(ring_all_reduce, ranks, 0, 1000);
  std::vector<std::vector<float>> inputs, outputs;
  std::vector<RankMemory> memory;
  for (int r = 0; r < ranks; ++r) {
    inputs.emplace_back(1000, static_cast<float>(1 << r));
    outputs.emplace_back(1000, 0.0f);
  }
  for (std::size_t r = 0; r < static_cast<std::size_t>(ranks); ++r) {
    memory.push_back(
        {reinterpret_cast<const std::byte*>(inputs[r].data()), reinterpret_cast<std::byte*>(outputs[r].data()), nullptr});
  }
  const auto net = network("fat_tree:2x2,oversubscription=2");
  SimulatorConfig config = config_of(*net, ranks);
  config.memory = memory;
  ASSERT_EQ(simulate(schedule.plan, schedule.programs, config).verdict, Verdict::completed);
  for (const auto& output : outputs) EXPECT_THAT(output, ::testing::Each(15.0f));
}

// ---- Folded against unfolded.

/// A copy of a network whose links all differ: nothing is symmetric there.
std::shared_ptr<Network> crooked(const Network& model) {
  auto made = std::make_shared<ListedNetwork>(model.endpoints());
  for (std::uint32_t l = 0; l < model.links(); ++l) {
    NetworkLink link = model.link(l);
    link.bytes_per_second *= 1 + 0.01 * l;
    made->add(link);
  }
  std::vector<std::uint32_t> way;
  for (int a = 0; a < model.endpoints(); ++a) {
    for (int b = 0; b < model.endpoints(); ++b) {
      model.route(a, b, way);
      made->set_route(a, b, way);
    }
  }
  return made;
}

struct Folding {
  int compared = 0;
  int folded = 0;
  int wholly = 0;  ///< one rank stood for all
};

void expect_equal(const SimulatorReport& folded, const SimulatorReport& all, const std::string& where) {
  ASSERT_EQ(folded.verdict, Verdict::completed) << where << folded.why;
  ASSERT_EQ(all.verdict, Verdict::completed) << where << all.why;
  EXPECT_NEAR(folded.seconds, all.seconds, 1e-9 * all.seconds) << where;
  EXPECT_EQ(folded.messages, all.messages) << where;
  EXPECT_EQ(folded.bytes, all.bytes) << where;
  EXPECT_EQ(folded.loads, all.loads) << where;
  ASSERT_EQ(folded.ranks.size(), all.ranks.size()) << where;
  for (std::size_t r = 0; r < all.ranks.size(); ++r) {
    EXPECT_NEAR(folded.ranks[r].processor, all.ranks[r].processor, 1e-9 * all.seconds) << where << ", rank " << r;
  }
  std::uint64_t stood_for = 0;
  for (const SimulatedPlayer& rank_class : folded.rank_classes) stood_for += rank_class.alike;
  EXPECT_EQ(stood_for, all.ranks.size()) << where;
}

/// Simulates an algorithm folded and by the programs of all ranks.
void compare(const Algorithm& algorithm, const Network& net, View view, std::uint64_t count, const std::string& where,
             Folding& folding) {
  Problem problem;
  problem.collective = algorithm.collective;
  problem.ranks = view.ranks();
  problem.count = algorithm.collective == Collective::barrier ? 1 : count;
  if (view.ranks() < 2 || !algorithm.fits(problem, view)) return;
  const Plan plan = make_plan(algorithm, problem, view, {}, 4096);
  const auto program_of = [&](int rank) { return make_program(algorithm, plan, view, rank); };
  std::vector<int> symmetry;
  if (algorithm.symmetry != nullptr) symmetry = algorithm.symmetry(problem, view);
  std::vector<Program> programs;
  for (int r = 0; r < view.ranks(); ++r) programs.push_back(program_of(r));
  SimulatorConfig config = config_of(net, view.ranks());
  config.view.gamma = 3e-11;
  const SimulatorReport folded = simulate(plan, classify_programs(plan, program_of, symmetry), config);
  config.fold_ranks = false;
  const SimulatorReport all = simulate(plan, programs, config);
  expect_equal(folded, all, where + " " + describe(algorithm, view.ranks(), 0) + " count " + std::to_string(count));
  ++folding.compared;
  folding.folded += folded.rank_classes.size() < folded.ranks.size() ? 1 : 0;
  folding.wholly += folded.rank_classes.size() == 1 ? 1 : 0;
}

Folding compare_all(const std::vector<std::string>& specs, bool flat, bool bent) {
  Folding folding;
  for (const std::string& spec : specs) {
    const auto net = network(spec);
    const View view = generated_view(spec, *net, net->endpoints());
    // Some messages are longer than others, or all alike; a short call, and one of several passes.
    for (const std::uint64_t count : {std::uint64_t{32} * 64 * 12, std::uint64_t{1000}, std::uint64_t{20011}}) {
      for (const Algorithm* algorithm : all_algorithms()) {
        if (flat) compare(*algorithm, *net, view, count, spec, folding);
        if (bent) compare(*algorithm, *crooked(*net), view, count, "crooked " + spec, folding);
      }
    }
  }
  return folding;
}

TEST(Folding, TakesTheTimeOfAllRanksOnEveryNetwork) {
  const Folding folding = compare_all(
      {"switch:8", "switch:9", "fat_tree:4x4", "fat_tree:4x4,oversubscription=4", "fat_tree:2x3x2,spines=2", "torus:4x4",
       "torus:3x5", "torus:2x2x2", "torus:12", "dragonfly:3x2x2", "dragonfly:5x2x1", "pod:2x4", "pod:4x2"},
      true, false);
  EXPECT_GT(folding.compared, 900);
  EXPECT_GT(folding.folded, folding.compared / 4);
  EXPECT_GT(folding.wholly, folding.compared / 20);
}

TEST(Folding, TakesTheTimeOfAllRanksOn64AndMore) {
  std::vector<std::string> networks = {"pod:9x8"};
  if (!test::under_asan)
    networks.insert(networks.end(), {"torus:8x8", "fat_tree:8x8,oversubscription=2"});  // it takes minutes
  const Folding folding = compare_all(networks, true, false);
  EXPECT_GT(folding.folded, folding.compared / 4);
}

TEST(Folding, FindsNothingToFoldWhereAllLinksDiffer) {
  const Folding folding = compare_all({"switch:8", "torus:4x4", "pod:2x4"}, false, true);
  EXPECT_GT(folding.compared, 150);
  EXPECT_EQ(folding.wholly, 0);
}

TEST(Folding, LetsOneRankStandForAllWhereAllDoTheSame) {
  const auto run = [](const Algorithm& algorithm, const std::string& spec) {
    const auto net = network(spec);
    const View view = generated_view(spec, *net, net->endpoints());
    Problem problem;
    problem.ranks = view.ranks();
    problem.count = std::uint64_t{32} * 12 * 4096;
    const Plan plan = make_plan(algorithm, problem, view, {}, 1 << 18);
    const ProgramClasses program_classes = classify_programs(
        plan, [&](int r) { return make_program(algorithm, plan, view, r); }, algorithm.symmetry(problem, view));
    return simulate(plan, program_classes, config_of(*net, view.ranks())).rank_classes.size();
  };
  EXPECT_EQ(run(ring_all_reduce, "switch:64"), 1u);
  EXPECT_EQ(run(halving_doubling_all_reduce, "switch:64"), 1u);
  EXPECT_EQ(run(torus_all_reduce, "torus:8x8"), 1u);
  EXPECT_EQ(run(torus_all_reduce, "torus:4x4x4"), 1u);
  EXPECT_EQ(run(halving_doubling_all_reduce, "fat_tree:8x8"), 1u);
  EXPECT_LE(run(ring_all_reduce, "fat_tree:8x8"), 8u);  // places in a leaf
}

// ---- The formulas of the literature, on networks without congestion.

constexpr double alpha = 1e-6;  // two links of .5 us
constexpr double beta = 1 / 50e9;
constexpr double gamma_ = 1e-11;

/// Of an all-reduce of `bytes` by all endpoints.
double seconds(const Algorithm& algorithm, const std::string& spec, double bytes, double gamma = gamma_,
               std::uint64_t slot_bytes = huge_slots) {
  const auto net = network(spec);
  const View view = generated_view(spec, *net, net->endpoints());
  Problem problem;
  problem.ranks = view.ranks();
  problem.count = static_cast<std::uint64_t>(bytes) / 4;
  const Plan plan = make_plan(algorithm, problem, view, {}, slot_bytes);
  SimulatorConfig config = config_of(*net, view.ranks());
  config.view.gamma = gamma;
  config.view.link(LinkClass::self).beta = 0;
  std::vector<int> symmetry;
  if (algorithm.symmetry != nullptr) symmetry = algorithm.symmetry(problem, view);
  const ProgramClasses program_classes =
      classify_programs(plan, [&](int r) { return make_program(algorithm, plan, view, r); }, symmetry);
  const SimulatorReport report = simulate(plan, program_classes, config);
  EXPECT_EQ(report.verdict, Verdict::completed) << report.why;
  return report.seconds;
}

/// Runs `check(p, m, switch of p)` for several numbers of ranks and sizes.
void each_size(const std::vector<int>& ranks, const std::function<void(double, double, const std::string&)>& check) {
  for (const int p : ranks) {
    for (const std::uint64_t chunk : {128u, 4096u, 1u << 20}) {
      check(p, static_cast<double>(chunk) * p, "switch:" + std::to_string(p));
    }
  }
}

TEST(Formula, Ring) {
  each_size({2, 3, 8, 13, 64}, [](double p, double m, const std::string& spec) {
    const double expected = 2 * (p - 1) * alpha + 2 * (p - 1) / p * m * beta + (p - 1) / p * m * gamma_;
    EXPECT_NEAR(seconds(ring_all_reduce, spec, m), expected, 0.01 * expected) << spec << " " << m;
  });
}

TEST(Formula, RecursiveDoubling) {
  each_size({2, 4, 8, 64}, [](double p, double m, const std::string& spec) {
    const double expected = std::log2(p) * (alpha + m * beta + m * gamma_);
    EXPECT_NEAR(seconds(recursive_doubling_all_reduce, spec, m), expected, 0.01 * expected) << spec;
  });
}

TEST(Formula, HalvingDoubling) {
  each_size({2, 4, 8, 64, 256}, [](double p, double m, const std::string& spec) {
    const double expected = 2 * std::log2(p) * alpha + 2 * (p - 1) / p * m * beta + (p - 1) / p * m * gamma_;
    EXPECT_NEAR(seconds(halving_doubling_all_reduce, spec, m), expected, 0.01 * expected) << spec;
  });
}

TEST(Formula, TransposeAndColocatedServersHaveTheRingsBytes) {
  each_size({2, 3, 8, 16}, [](double p, double m, const std::string& spec) {
    const double bytes = 2 * (p - 1) / p * m * beta + (p - 1) / p * m * gamma_;
    const double rounds = 2 * (p - 1) * alpha + bytes;
    EXPECT_NEAR(seconds(transpose_all_reduce, spec, m), rounds, 0.01 * rounds) << spec << " " << m;
    const double phases = 2 * alpha + bytes;
    EXPECT_NEAR(seconds(direct_all_reduce, spec, m), phases, 0.01 * phases) << spec << " " << m;
  });
}

// p workers and a server, which has a share, too.
TEST(Formula, OneParameterServer) {
  each_size({2, 3, 8, 16}, [](double p, double m, const std::string&) {
    const double expected = 2 * alpha + 2 * p * m * beta;
    const std::string spec = "switch:" + std::to_string(static_cast<int>(p) + 1);
    EXPECT_NEAR(seconds(central_all_reduce, spec, m, 0), expected, 0.01 * expected) << spec << " " << m;
  });
}

TEST(Formula, Hierarchical) {
  constexpr double inside = 1 / 450e9;
  for (const auto& [n, g] : std::vector<std::pair<int, int>>{{2, 8}, {4, 4}, {16, 8}, {3, 2}}) {
    for (const double chunk : {128.0, 65536.0, 1048576.0}) {
      const double m = chunk * n * g;
      const double expected =
          2 * (g - 1) * alpha + 2.0 * (g - 1) / g * m * inside + 2 * (n - 1) * alpha + 2.0 * (n - 1) / n * m / g * beta;
      const std::string spec = "pod:" + std::to_string(n) + "x" + std::to_string(g);
      EXPECT_NEAR(seconds(hierarchical_all_reduce, spec, m, 0), expected, 0.01 * expected) << spec << " " << m;
    }
  }
}

TEST(Formula, RotatedBucketOnATorus) {
  for (const auto& [spec, d, dimensions] : std::vector<std::tuple<std::string, int, int>>{
           {"torus:4x4", 4, 2}, {"torus:16x16", 16, 2}, {"torus:5x5", 5, 2}, {"torus:4x4x4", 4, 3}, {"torus:8", 8, 1}}) {
    const double p = std::pow(d, dimensions);
    for (const double chunk : {128.0, 8192.0, 262144.0}) {
      const double m = chunk * p * 2 * dimensions;
      const double expected = 2 * dimensions * (d - 1) * (alpha / 2) + m / dimensions * (1 - 1 / p) * beta;
      EXPECT_NEAR(seconds(torus_all_reduce, spec, m, 0), expected, 0.01 * expected) << spec << " " << m;
    }
  }
  // 60 waits instead of the flat ring's 510.
  EXPECT_NEAR(seconds(torus_all_reduce, "torus:16x16,GBps=1000000", 128 * 256 * 4, 0), 60 * alpha / 2,
              0.01 * 60 * alpha / 2);
}

// What congestion makes of the bytes where latency is nothing: Xi of the table, 1.29 at 8 ranks in a row and 2.14 at 64; on
// squares what the algorithm counts, which tends to 1.20.
TEST(Formula, SwingsCongestion) {
  const auto xi = [](const std::string& spec, double p, int dimensions) {
    const double m = 4096 * p * 2 * dimensions;
    return seconds(swing_all_reduce, spec + ",latency_us=0", m, 0) / (m / dimensions * (1 - 1 / p) * beta);
  };
  EXPECT_NEAR(xi("torus:8", 8, 1), 1.29, 0.0129);
  EXPECT_NEAR(xi("torus:64", 64, 1), 2.14, 0.0214);
  for (const int side : {4, 8, 16, 32}) {
    View view = uniform_view(side * side, 1);
    view.torus = {side, side};
    Problem problem;
    problem.ranks = side * side;
    const double p = side * side;
    const double counted = swing_all_reduce.cost(problem, view).betas * 2 / (1 - 1 / p);
    const double measured = xi("torus:" + std::to_string(side) + "x" + std::to_string(side), p, 2);
    EXPECT_NEAR(measured, counted, 0.01 * counted) << side;
    EXPECT_LT(measured, 1.20 * 1.01) << side;
  }
}

// The table's formula charges every piece its latency, where the next piece is on its way here: for long messages they
// meet, for shorter ones the tree is the quicker of the two, and never quicker than its bytes.
TEST(Formula, DoubleTree) {
  for (const int p : {8, 16}) {
    const double h = std::log2(p);
    const std::string spec = "switch:" + std::to_string(p);
    const auto formula = [&](double m) { return std::pow(std::sqrt(2 * m * beta) + std::sqrt(4 * h * alpha), 2); };
    const double long_one = std::exp2(34), short_one = std::exp2(30);
    const double expected = formula(long_one);
    EXPECT_NEAR(seconds(double_tree_all_reduce, spec, long_one, 0, 1 << 22), expected, 0.01 * expected) << p;
    double best = std::numeric_limits<double>::infinity();
    for (const std::uint64_t slot : {1u << 20, 1u << 21, 1u << 22}) {
      best = std::min(best, seconds(double_tree_all_reduce, spec, short_one, 0, slot));
    }
    EXPECT_LT(best, formula(short_one)) << p;
    EXPECT_GT(best, 2 * short_one * beta * (p - 2) / p) << p;
  }
}

}  // namespace
}  // namespace tutti::testing
