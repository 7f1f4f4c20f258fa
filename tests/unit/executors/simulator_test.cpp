// The simulator's times against cases worked out by hand, and its words for schedules that cannot end well.
#include "src/executors/simulator/simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "algorithms/algorithms.h"
#include "src/executors/simulator/trace.h"
#include "tests/support/block_counts.h"
#include "tests/support/schedules.h"

namespace tutti::testing {
namespace {

using ::testing::HasSubstr;
using Verdict = SimulatorReport::Verdict;

constexpr double alpha = 2e-6;
constexpr double beta = 1e-9;
constexpr double gamma_ = 5e-10;
constexpr std::uint64_t huge_slots = std::uint64_t{1} << 40;  // one pass, whatever the count

SimulatorConfig config_of(int ranks) {
  SimulatorConfig config;
  config.view = flat_view(ranks);
  for (const LinkClass c : {LinkClass::same_numa, LinkClass::same_machine}) config.view.link(c) = {alpha, beta};
  config.view.link(LinkClass::self) = {0, 1e-10};
  config.view.gamma = gamma_;
  return config;
}

Schedule parse(const std::string& text) {
  auto schedule = parse_schedule(text);
  EXPECT_TRUE(schedule.ok()) << schedule.status().text();
  return schedule.ok() ? std::move(*schedule) : Schedule{};
}

/// A broadcast from rank 0 to rank 1, of 1,000 floats a pass and `count` in all.
std::string header(const char* shape, int count = 1000, int ranks = 2) {
  return "schedule broadcast by_hand\nranks " + std::to_string(ranks) + " root 0 count " + std::to_string(count) +
         " type float32 op sum\n" + shape + "\nwindow 1000 grain 1 hash 0\n";
}

TEST(Simulator, GivesOneMessageAlphaAndBetaForEachByte) {
  const Schedule schedule = parse(header("lanes 1 depth 1 credit 1 chunks 1 scratch 0 message 1") +
                                  "rank 0\nlinks to:1.0\nlane 0\n0 move input[0;0] -> to:1.0[0;0]@output\n"
                                  "rank 1\nlinks from:0.0\nlane 0\n0 move from:0.0[0;0]@output -> output[0;0]\n");
  const SimulatorReport report = simulate(schedule.plan, schedule.programs, config_of(2));
  ASSERT_EQ(report.verdict, Verdict::completed) << report.why;
  EXPECT_DOUBLE_EQ(report.seconds, alpha + 4000 * beta);
  EXPECT_EQ(report.messages, 1u);
  EXPECT_EQ(report.bytes, 4000u);
  ASSERT_EQ(report.links.size(), 1u);
  EXPECT_EQ(report.links[0].from, 0);
  EXPECT_EQ(report.links[0].to, 1);
  EXPECT_EQ(report.links[0].bytes, 4000u);
  EXPECT_DOUBLE_EQ(report.ranks[0].egress, 4000 * beta);
  EXPECT_DOUBLE_EQ(report.ranks[1].ingress, 4000 * beta);
}

// 2(p−1) messages of a p-th each, one after the other, and p−1 folds of one.
TEST(Simulator, GivesARingItsClosedForm) {
  for (const int ranks : {2, 4, 7}) {
    const std::uint64_t part = 32000;
    Schedule schedule =
        make_schedule(ring_all_reduce, ranks, 0, part * static_cast<std::uint64_t>(ranks), huge_slots, {1, 1});
    const SimulatorReport report = simulate(schedule.plan, schedule.programs, config_of(ranks));
    ASSERT_EQ(report.verdict, Verdict::completed) << report.why;
    const double bytes = 4 * part;
    EXPECT_NEAR(report.seconds, 2 * (ranks - 1) * (alpha + bytes * beta) + (ranks - 1) * bytes * gamma_, 1e-12) << ranks;
    EXPECT_EQ(report.messages, static_cast<std::uint64_t>(2 * (ranks - 1) * ranks));
    for (const LinkTraffic& link : report.links) EXPECT_EQ(link.bytes, 8 * part * static_cast<std::uint64_t>(ranks - 1));
    for (const RankUse& use : report.ranks) EXPECT_NEAR(use.processor, (ranks - 1) * bytes * gamma_, 1e-12);
  }
}

// The root sends to two at once: through one port one after the other, through ports of their own side by side.
TEST(Simulator, LetsLinksShareTheirRanksPort) {
  const Schedule schedule =
      parse(header("lanes 1 depth 1 credit 1 chunks 1 scratch 0 message 1", 1000, 3) +
            "rank 0\nlinks to:1.0 to:2.0\nlane 0\n0 move input[0;0] -> to:1.0[0;0]@output to:2.0[0;0]@output\n"
            "rank 1\nlinks from:0.0\nlane 0\n0 move from:0.0[0;0]@output -> output[0;0]\n"
            "rank 2\nlinks from:0.0\nlane 0\n0 move from:0.0[0;0]@output -> output[0;0]\n");
  SimulatorConfig config = config_of(3);
  EXPECT_DOUBLE_EQ(simulate(schedule.plan, schedule.programs, config).seconds, 2 * 4000 * beta + alpha);
  config.shared_ports = false;
  EXPECT_DOUBLE_EQ(simulate(schedule.plan, schedule.programs, config).seconds, 4000 * beta + alpha);
}

// Four passes of a message. With room for one, each waits for the word that the one before it was taken; with room for
// all, they follow each other through the port.
TEST(Simulator, HoldsSendersToTheirCredit) {
  const Schedule schedule = parse(header("lanes 1 depth 1 credit 1 chunks 1 scratch 0 message 1", 4000) +
                                  "rank 0\nlinks to:1.0\nlane 0\n0 move input[0;0] -> to:1.0[0;0]@output\n"
                                  "rank 1\nlinks from:0.0\nlane 0\n0 move from:0.0[0;0]@output -> output[0;0]\n");
  SimulatorConfig config = config_of(2);
  EXPECT_NEAR(simulate(schedule.plan, schedule.programs, config).seconds, 4 * (alpha + 4000 * beta) + 3 * alpha, 1e-12);
  config.credit = 4;
  EXPECT_NEAR(simulate(schedule.plan, schedule.programs, config).seconds, alpha + 4 * 4000 * beta, 1e-12);
}

TEST(Simulator, NamesThoseWhoWaitForEver) {
  const Schedule schedule = parse(header("lanes 1 depth 1 credit 1 chunks 2 scratch 1 message 1") +
                                  "rank 0\nlinks to:1.0 from:1.0\nlane 0\n"
                                  "0 move from:1.0[0;0]@output -> scratch[0;0]\n1 move input[0;0] -> to:1.0[0;0]@output\n"
                                  "rank 1\nlinks from:0.0 to:0.0\nlane 0\n"
                                  "0 move from:0.0[0;0]@output -> output[0;0]\n1 move output[0;0] -> to:0.0[0;0]@output\n");
  const SimulatorReport report = simulate(schedule.plan, schedule.programs, config_of(2));
  EXPECT_EQ(report.verdict, Verdict::deadlock);
  EXPECT_THAT(report.why, HasSubstr("rank 0, lane 0, step 0, pass 0 waits for a message from rank 1"));
  EXPECT_THAT(report.why, HasSubstr("rank 1, lane 0, step 0, pass 0 waits for a message from rank 0"));
  ASSERT_EQ(report.stuck.size(), 2u);
  EXPECT_EQ(report.stuck[1].rank, 1);
}

TEST(Simulator, NamesASenderWithoutRoom) {
  const Schedule schedule = parse(header("lanes 1 depth 1 credit 1 chunks 1 scratch 0 message 1", 3000) +
                                  "rank 0\nlinks to:1.0\nlane 0\n0 move input[0;0] -> to:1.0[0;0]@output\n"
                                  "rank 1\nlinks\nlane 0\n");
  const SimulatorReport report = simulate(schedule.plan, schedule.programs, config_of(2));
  EXPECT_EQ(report.verdict, Verdict::deadlock);
  EXPECT_EQ(report.why, "deadlock: rank 0, lane 0, step 0, pass 1 waits for room on the link to rank 1");
}

TEST(Simulator, NamesWhatIsLeftInALinkAndWhatLeavesItsMemory) {
  const std::string shape = header("lanes 1 depth 1 credit 1 chunks 2 scratch 0 message 1");
  const Schedule left = parse(shape +
                              "rank 0\nlinks to:1.0\nlane 0\n0 move input[0;0] -> to:1.0[0;0]@output\n"
                              "rank 1\nlinks\nlane 0\n");
  EXPECT_THAT(simulate(left.plan, left.programs, config_of(2)).why,
              HasSubstr("rank 0 sent 1 message too many to rank 1 on channel 0"));
  Schedule beyond = left;
  beyond.programs[0].operands[0].range.block = 1;
  SimulatorReport report = simulate(beyond.plan, beyond.programs, config_of(2));
  EXPECT_EQ(report.verdict, Verdict::overrun);
  EXPECT_EQ(report.why, "rank 0, lane 0, step 0, pass 0 leaves its memory: there is no such block");
  beyond.programs[0].operands[0].link = beyond.programs[0].operands[1].link = 9;
  EXPECT_THAT(simulate(beyond.plan, beyond.programs, config_of(2)).why, HasSubstr("uses a link beyond the program's"));
  const Schedule differs = parse(shape +
                                 "rank 0\nlinks to:1.0\nlane 0\n0 move input[0;0] -> to:1.0[0;0]@output\n"
                                 "rank 1\nlinks from:0.0\nlane 0\n0 move from:0.0[0;0+2]@output -> output[0;0+2]\n");
  report = simulate(differs.plan, differs.programs, config_of(2));
  EXPECT_EQ(report.verdict, Verdict::overrun);
  EXPECT_THAT(report.why, HasSubstr("rank 1, lane 0, step 0, pass 0 takes 4000 bytes where rank 0 sent 2000"));
}

// Two lanes of a rank that touch the same chunk in no order: some disturbance shows it as wrong data.
TEST(Simulator, ShowsARaceAsWrongDataUnderSomeSeed) {
  const Schedule schedule = parse(header("lanes 2 depth 1 credit 1 chunks 1 scratch 1 message 1") +
                                  "rank 0\nlinks to:1.0\nlane 0\n0 move input[0;0] -> scratch[0;0]\n"
                                  "lane 1\n0 move scratch[0;0] -> output[0;0]\n1 move input[0;0] -> to:1.0[0;0]@output\n"
                                  "rank 1\nlinks from:0.0\nlane 0\n0 move from:0.0[0;0]@output -> output[0;0]\nlane 1\n");
  int right = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    std::vector<float> input(1000, 7), output(1000, -1), scratch(1000, -2), other(1000, -1), none(1000);
    const auto bytes = [](std::vector<float>& v) { return reinterpret_cast<std::byte*>(v.data()); };
    const std::vector<RankMemory> memory = {{bytes(input), bytes(output), bytes(scratch)},
                                            {nullptr, bytes(other), bytes(none)}};
    SimulatorConfig config = config_of(2);
    config.shared_processor = false;
    config.memory = memory;
    config.disturbance = {seed, 1e-3, 0, 0};
    ASSERT_EQ(simulate(schedule.plan, schedule.programs, config).verdict, Verdict::completed);
    ASSERT_EQ(other, input);
    right += output == input ? 1 : 0;
  }
  EXPECT_GT(right, 0);
  EXPECT_LT(right, 50);
}

TEST(Simulator, IsDeterministic) {
  const Schedule schedule = make_schedule(double_tree_all_reduce, 9, 0, 100000);
  SimulatorConfig config = config_of(9);
  EXPECT_EQ(simulate(schedule.plan, schedule.programs, config).seconds,
            simulate(schedule.plan, schedule.programs, config).seconds);
  config.disturbance = {3, 1e-5, 0.5, 0.5};
  const double disturbed = simulate(schedule.plan, schedule.programs, config).seconds;
  EXPECT_EQ(simulate(schedule.plan, schedule.programs, config).seconds, disturbed);
  config.disturbance.seed = 4;
  EXPECT_NE(simulate(schedule.plan, schedule.programs, config).seconds, disturbed);
}

TEST(Simulator, FinishesEveryAlgorithmAtThePlansCredit) {
  for (const Algorithm* algorithm : all_algorithms()) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      for (const View& view : views_of(*algorithm, ranks)) {
        const Schedule schedule =
            make_schedule(*algorithm, view, 0, algorithm->collective == Collective::barrier ? 1 : 3000, 1024);
        const SimulatorReport report = simulate(schedule.plan, schedule.programs, config_of(ranks));
        ASSERT_EQ(report.verdict, Verdict::completed) << describe(*algorithm, ranks, 0) << ": " << report.why;
      }
    }
  }
}

/// An irregular plan and its programs, and the blocks of a call of it, without memory.
struct IrregularCall {
  Schedule schedule;
  std::vector<std::vector<tutti_block>> lists;
  std::vector<IrregularBuffers> blocks;

  IrregularCall(const Algorithm& algorithm, int ranks, const BlockCounts& counts) {
    schedule = make_irregular_schedule(algorithm, usual_view(algorithm, ranks).value(), 0, 4096);
    for (int r = 0; r < ranks; ++r) {
      for (const Buffer buffer : {Buffer::input, Buffer::output}) {
        std::vector<tutti_block>& list = lists.emplace_back();
        for (const std::uint64_t count : counts.of(schedule.plan.problem, buffer, r)) list.push_back({nullptr, count});
      }
    }
    for (std::size_t l = 0; l < lists.size(); l += 2) blocks.push_back({lists[l], lists[l + 1]});
  }
  SimulatorReport run() const {
    SimulatorConfig config = config_of(schedule.plan.problem.ranks);
    config.irregular = blocks;
    return simulate(schedule.plan, schedule.programs, config);
  }
};

std::uint64_t bytes_from(const SimulatorReport& report, int from) {
  std::uint64_t bytes = 0;
  for (const LinkTraffic& link : report.links) bytes += link.from == from ? link.bytes : 0;
  return bytes;
}

// The ring's blocks travel from their owner to the one before it: that rank sends every block but its successor's.
TEST(Simulator, CountsTheBytesOfBlocksThatAreAsLongAsTheCallSays) {
  for (const BlockDivision division : block_divisions) {
    constexpr std::uint64_t mean = 30000;
    const BlockCounts counts = divided_counts(division, 4, mean);
    const IrregularCall call(ring_all_gather, 4, counts);
    const SimulatorReport report = call.run();
    ASSERT_EQ(report.verdict, Verdict::completed) << name_of(division) << ": " << report.why;
    for (std::size_t r = 0; r < 4; ++r) {
      const std::uint64_t sent = 4 * mean - counts.share[(r + 1) % 4];
      EXPECT_EQ(bytes_from(report, static_cast<int>(r)), 4 * sent) << name_of(division) << ", rank " << r;
    }
    EXPECT_EQ(report.bytes, 3 * 4 * 4 * mean) << name_of(division);
  }
  // Rank 3 has all: nobody waits for others' blocks, and nothing is sent back to it.
  const IrregularCall one(ring_all_gather, 4, divided_counts(BlockDivision::one, 4, 30000));
  EXPECT_EQ(bytes_from(one.run(), 2), 0u);
}

TEST(Simulator, TakesNoTimeForBlocksOfNothing) {
  const IrregularCall call(pairwise_all_to_all, 5, divided_counts(BlockDivision::even, 5, 0));
  const SimulatorReport report = call.run();
  ASSERT_EQ(report.verdict, Verdict::completed) << report.why;
  EXPECT_EQ(report.messages, 0u);
  EXPECT_EQ(report.seconds, 0);
}

TEST(Simulator, RefusesBlocksThatAreNotTheProblems) {
  IrregularCall call(ring_all_gather, 3, divided_counts(BlockDivision::even, 3, 1000));
  SimulatorConfig config = config_of(3);
  EXPECT_THAT(simulate(call.schedule.plan, call.schedule.programs, config).why,
              HasSubstr("each rank of an irregular problem needs its blocks, but there are those of 0 ranks"));
  call.blocks[1].output = call.blocks[1].output.first(2);
  EXPECT_THAT(call.run().why, HasSubstr("rank 1 has other blocks than its problem"));
  call.blocks[1] = {call.lists[2], call.lists[3]};
  // What rank 1 sends to rank 2 is longer than that has room for.
  call.lists[2][0].count = call.lists[3][1].count = 1001;
  EXPECT_THAT(call.run().why, HasSubstr("takes 4000 bytes where rank 1 sent 4004"));
  const Schedule regular = make_schedule(ring_all_gather, 3, 0);
  config.irregular = call.blocks;
  EXPECT_THAT(simulate(regular.plan, regular.programs, config).why, HasSubstr("but the problem is not irregular"));
  // What is copied into another rank's block is not as long as that.
  IrregularCall longer(ring_all_gather, 3, divided_counts(BlockDivision::skewed, 3, 1000));
  for (Operand& operand : longer.schedule.programs[0].operands) {
    if (operand.place == Place::output) operand.range.block = 2;
  }
  EXPECT_THAT(longer.run().why, HasSubstr("rank 0, lane 0, step 0, pass 0 has operands of different lengths"));
  // A step within the scratch says nothing of how long it is.
  IrregularCall astray(ring_all_gather, 3, divided_counts(BlockDivision::even, 3, 1000));
  for (Operand& operand : astray.schedule.programs[0].operands) operand.place = Place::scratch;
  EXPECT_THAT(astray.run().why, HasSubstr("moves no block of the input or output, and only those have lengths"));
}

TEST(Trace, HasAProcessPerRankAndASliceForEachStepAndMessage) {
  const Schedule schedule = make_schedule(ring_all_reduce, 3, 0, 3000, huge_slots, {1, 1});
  SimulatorConfig config = config_of(3);
  config.timeline = true;
  const SimulatorReport report = simulate(schedule.plan, schedule.programs, config);
  const auto trace = nlohmann::json::parse(chrome_trace(schedule.programs, report));
  std::size_t steps = 0, messages = 0, processes = 0;
  double last = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "M") {
      processes += event["name"] == "process_name" ? 1 : 0;
      continue;
    }
    ++(event["tid"] == 0 ? steps : messages);
    if (event["tid"] == 0) last = std::max(last, event["ts"].get<double>() + event["dur"].get<double>());
  }
  EXPECT_EQ(processes, 3u);
  EXPECT_EQ(steps, schedule.programs[0].steps.size() * 3);
  EXPECT_EQ(messages, report.messages);
  EXPECT_NEAR(last, report.seconds * 1e6, 1e-5);
}

}  // namespace
}  // namespace tutti::testing
