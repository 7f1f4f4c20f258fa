// How sizes, bandwidths and times are counted, and what the command line of tutti-perf takes and prints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <thread>
#include <vector>

#include "perf/data.h"
#include "perf/measure.h"
#include "perf/names.h"
#include "perf/options.h"
#include "perf/report.h"
#include "src/tables/element_types.h"
#include "src/tables/operators.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/perf/line.h"

namespace tutti::perf {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Counting, BytesAreTheLargerBufferAsInNcclTests) {
  // 4 ranks, float32, 1 MiB: the count of each verb.
  const auto count = [](const char* name) { return count_for(*find_collective(name), 1 << 20, TUTTI_FLOAT32, 4); };
  EXPECT_EQ(count("all_reduce"), 262144u);
  EXPECT_EQ(count("broadcast"), 262144u);
  EXPECT_EQ(count("reduce"), 262144u);
  EXPECT_EQ(count("send_recv"), 262144u);
  for (const char* name : {"all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"})
    EXPECT_EQ(count(name), 65536u);
  EXPECT_EQ(count("barrier"), 0u);
  EXPECT_EQ(bytes_for(*find_collective("gather"), 65536, TUTTI_FLOAT32, 4), 1u << 20);
  EXPECT_EQ(bytes_for(*find_collective("broadcast"), 10, TUTTI_FLOAT16, 4), 20u);
}

TEST(Counting, RoundsDownWithoutAFloorOf16Bytes) {
  EXPECT_EQ(count_for(*find_collective("all_reduce"), 7, TUTTI_FLOAT32, 3), 1u);
  EXPECT_EQ(count_for(*find_collective("all_gather"), 16, TUTTI_INT8, 3), 5u);
}

TEST(Counting, BusFactorsAreThoseOfNcclTests) {
  const auto factor = [](const char* name) { return find_collective(name)->bus_factor(4); };
  EXPECT_DOUBLE_EQ(factor("all_reduce"), 1.5);
  for (const char* name : {"all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"})
    EXPECT_DOUBLE_EQ(factor(name), 0.75);
  for (const char* name : {"broadcast", "reduce", "send_recv"}) EXPECT_DOUBLE_EQ(factor(name), 1);
}

TEST(Counting, EveryCollectiveOfTheContractIsThere) {
  for (const char* name :
       {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "gather", "scatter", "send_recv",
        "barrier", "all_gather_v", "reduce_scatter_v", "all_to_all_v", "gather_v", "scatter_v", "all_reduce_v"}) {
    EXPECT_NE(find_collective(name), nullptr) << name;
  }
  EXPECT_EQ(find_collective("allreduce"), nullptr);
}

TEST(Measure, PercentilesCountIterationsNotBatches) {
  // 90 iterations of 1 us in one batch, 9 of 2 us, and one of 50 us.
  const Times times = summarize({{90, 90e3}, {1, 50e3}, {9, 18e3}});
  EXPECT_DOUBLE_EQ(times.min, 1);
  EXPECT_DOUBLE_EQ(times.median, 1);
  EXPECT_DOUBLE_EQ(times.p99, 2);
  EXPECT_DOUBLE_EQ(times.max, 50);
}

TEST(Measure, PutsBatchesTogetherInPairs) {
  const std::vector<Batch> pairs = in_pairs({{1, 10}, {2, 20}, {3, 30}, {4, 40}, {5, 50}});
  ASSERT_EQ(pairs.size(), 3u);
  EXPECT_EQ(pairs[0].iterations, 3u);
  EXPECT_DOUBLE_EQ(pairs[0].nanoseconds, 30);
  EXPECT_EQ(pairs[1].iterations, 7u);
  EXPECT_DOUBLE_EQ(pairs[1].nanoseconds, 70);
  EXPECT_EQ(pairs[2].iterations, 5u);
  EXPECT_DOUBLE_EQ(pairs[2].nanoseconds, 50);
  EXPECT_TRUE(in_pairs({}).empty());
}

/// What two ranks that measured these batches make of them.
std::array<std::vector<Batch>, 2> slowest_of_two(std::array<std::vector<Batch>, 2> measured, bool back_to_back,
                                                 Average average = Average::kMost) {
  std::array<tutti_comm*, 2> comms = {};
  EXPECT_EQ(tutti_comm_create_all(comms.data(), 2, nullptr), TUTTI_SUCCESS);
  std::array<std::thread, 2> ranks;
  for (size_t r = 0; r < 2; ++r) {
    ranks[r] = std::thread([&, r] { EXPECT_EQ(combine(comms[r], average, measured[r], back_to_back), TUTTI_SUCCESS); });
  }
  for (std::thread& rank : ranks) rank.join();
  for (tutti_comm* comm : comms) tutti_comm_destroy(comm);
  return measured;
}

// 256 operations that take both ranks 1 us on average, in turns .1 and 1.9, one rank's long ones beside the other's short.
TEST(Measure, CountsTheTimeThatPassedWhereRanksAreLongInTurns) {
  std::array<std::vector<Batch>, 2> measured;
  for (size_t i = 0; i < 256; ++i) {
    for (size_t r = 0; r < 2; ++r) measured[r].push_back({1, (i + r) % 2 == 0 ? 100.0 : 1900.0});
  }
  for (const std::vector<Batch>& batches : slowest_of_two(measured, true)) {
    EXPECT_EQ(batches.size(), 128u) << "in pairs they take both ranks as long";
    for (const Batch& batch : batches) {
      EXPECT_EQ(batch.iterations, 2u);
      EXPECT_DOUBLE_EQ(batch.nanoseconds, 2000);
    }
  }
  for (const std::vector<Batch>& batches : slowest_of_two(measured, false)) {
    EXPECT_EQ(batches.size(), 256u) << "nothing passed while they waited for each other";
    for (const Batch& batch : batches) EXPECT_DOUBLE_EQ(batch.nanoseconds, 1900);
  }
}

TEST(Measure, KeepsBatchesThatRanksWereInTogetherAndAFewOfAll) {
  std::array<std::vector<Batch>, 2> measured;
  for (size_t i = 0; i < 64; ++i) {
    measured[0].push_back({3, i == 7 ? 5000.0 : 100.0});
    measured[1].push_back({3, i == 7 ? 5010.0 : 95.0});
  }
  for (const std::vector<Batch>& batches : slowest_of_two(measured, true)) {
    ASSERT_EQ(batches.size(), 64u);
    EXPECT_DOUBLE_EQ(batches[0].nanoseconds, 100);
    EXPECT_DOUBLE_EQ(batches[7].nanoseconds, 5010);
  }
  // One rank did all its work in the first half, the other in the second: no pairs help.
  for (size_t i = 0; i < 64; ++i) {
    measured[0][i].nanoseconds = i < 32 ? 200 : 0;
    measured[1][i].nanoseconds = i < 32 ? 0 : 200;
  }
  for (const std::vector<Batch>& batches : slowest_of_two(measured, true)) EXPECT_EQ(batches.size(), 16u);
}

TEST(Measure, TakesTheRankThatWasAskedFor) {
  const std::array<std::vector<Batch>, 2> measured = {{{{1, 100}, {1, 300}}, {{1, 200}, {1, 100}}}};
  const auto taken = [&](Average average) {
    const std::array<std::vector<Batch>, 2> ranks = slowest_of_two(measured, true, average);
    EXPECT_DOUBLE_EQ(ranks[0][0].nanoseconds, ranks[1][0].nanoseconds) << "all ranks know it";
    return std::array<double, 2>{ranks[1][0].nanoseconds, ranks[1][1].nanoseconds};
  };
  EXPECT_THAT(taken(Average::kRank0), ElementsAre(100, 300));
  EXPECT_THAT(taken(Average::kMean), ElementsAre(150, 200));
  EXPECT_THAT(taken(Average::kLeast), ElementsAre(100, 100));
  EXPECT_THAT(taken(Average::kMost), ElementsAre(200, 300));
}

TEST(Measure, ReadsWhatTheSystemSaysOfWaitsForACore) {
  const test::TemporaryFolder folder;
  std::ofstream(folder.file("schedstat")) << "123 4567 8\n";
  EXPECT_EQ(waited_for_core_ns(folder.file("schedstat").c_str()), 4567u);
  std::ofstream(folder.file("empty")) << "\n";
  EXPECT_EQ(waited_for_core_ns(folder.file("empty").c_str()), std::nullopt);
  EXPECT_EQ(waited_for_core_ns(folder.file("none").c_str()), std::nullopt);
}

RankLocation location(const std::string& host, int64_t pid, const std::vector<size_t>& cpus) {
  RankLocation made = {};
  std::copy(host.begin(), host.end(), made.host.begin());
  made.pid = pid;
  for (const size_t cpu : cpus) CPU_SET(cpu, &made.cpus);
  return made;
}

TEST(Locations, NamesEveryRankItsHostItsPidAndItsCpus) {
  EXPECT_THAT(location_lines({location("one", 7, {0, 1, 2, 5}), location("two", 123456, {3})}),
              ElementsAre("#  Rank  0 Group  0 Pid      7 on        one CPUs 0-2,5",
                          "#  Rank  1 Group  0 Pid 123456 on        two CPU 3"));
  const std::vector<std::string> lines = location_lines(std::vector<RankLocation>(100, location("one", 7, {0})));
  EXPECT_THAT(lines, ElementsAre("#  100 ranks from 0 to 99 Group  0 Pids 7 to 7 on        one"));
}

TEST(Locations, SaysWhichRanksShareCpus) {
  EXPECT_THAT(oversubscribed_lines({location("one", 1, {0, 1}), location("one", 2, {0, 1}), location("two", 3, {0})}),
              ElementsAre());
  EXPECT_THAT(oversubscribed_lines({location("one", 1, {0, 1}), location("one", 2, {0, 1}), location("one", 3, {0, 1})}),
              ElementsAre(HasSubstr("3 ranks share CPUs 0-1 of one")));
  EXPECT_THAT(oversubscribed_lines({location("one", 1, {0}), location("one", 1, {0}), location("one", 2, {0, 1, 2, 3})}),
              ElementsAre(HasSubstr("2 ranks share CPU 0 of one")));
}

TEST(Measure, PlansBatchesOfTwoMicrosecondsAndAThirdOfASecond) {
  const RunPlan small = plan_for(300, 0);
  EXPECT_GE(static_cast<double>(small.batch) * 300, 2000);
  EXPECT_NEAR(static_cast<double>(small.iterations) * 300, 0.3e9, 0.01e9);
  EXPECT_EQ(plan_for(5e6, 0).batch, 1u);
  EXPECT_EQ(plan_for(5e6, 0).iterations, 60u);
  EXPECT_EQ(plan_for(1e12, 0).iterations, 3u);
  EXPECT_EQ(plan_for(0, 0).iterations, 1'000'000u);
  EXPECT_EQ(plan_for(300, 3).iterations, 3u);
  EXPECT_EQ(plan_for(300, 3).batch, 3u);
  EXPECT_EQ(plan_for(5e6, 1'000'000'000).batch, 1000u) << "a billion iterations keep a million times";
}

TEST(Request, HasTheDefaultsOfTheContract) {
  const Line line({"all_reduce"});
  ASSERT_FALSE(line.code) << line.err;
  EXPECT_EQ(line.request.min_bytes, 8u);
  EXPECT_EQ(line.request.max_bytes, 128u << 20);
  EXPECT_EQ(line.request.checks, 1);
  EXPECT_THAT(line.request.types, ElementsAre(TUTTI_FLOAT32));
  EXPECT_THAT(line.request.ops, ElementsAre(TUTTI_SUM));
  const auto counts = counts_of(line.request, TUTTI_FLOAT32, 2);
  EXPECT_EQ(counts.size(), 25u);
  EXPECT_EQ(counts.front(), 2u);
  EXPECT_EQ(counts.back(), 32u << 20);
}

TEST(Request, TakesTheNamesOfNcclTests) {
  const Line line({"reduce", "--minbytes", "1K", "--maxbytes", "64K", "--stepfactor", "4", "--iters", "7", "--warmup_iters",
                   "0", "--datatype", "half", "--op", "all", "--root", "all", "--check", "0"});
  ASSERT_FALSE(line.code) << line.err;
  EXPECT_EQ(line.request.iterations, 7);
  EXPECT_EQ(line.request.warmup, 0);
  EXPECT_EQ(line.request.checks, 0);
  EXPECT_THAT(line.request.types, ElementsAre(TUTTI_FLOAT16));
  EXPECT_EQ(line.request.ops.size(), operators.size() + 3) << "mulsum, user and user_ordered";
  EXPECT_FALSE(line.request.root);
  EXPECT_THAT(counts_of(line.request, TUTTI_FLOAT16, 2), ElementsAre(512u, 2048u, 8192u, 32768u));
  EXPECT_EQ(Line({"all_reduce", "-d", "all"}).request.types.size(), element_types.size());
  EXPECT_THAT(Line({"all_reduce", "-d", "double"}).request.types, ElementsAre(TUTTI_FLOAT64));
  EXPECT_THAT(Line({"all_gather", "-d", "opaque5"}).request.types, ElementsAre(TUTTI_OPAQUE + 5));
}

TEST(Request, TakesTheUsersOwnOperatorsWhereMemoryIsTheHosts) {
  EXPECT_THAT(Line({"all_reduce", "-o", "user", "-d", "opaque1024"}).request.ops, ElementsAre(kUser));
  EXPECT_THAT(Line({"reduce", "-o", "user_ordered", "--memory", "registered"}).request.ops, ElementsAre(kUserOrdered));
  EXPECT_EQ(Line({"all_reduce", "-o", "all", "-d", "opaque5"}).code, std::nullopt);
  EXPECT_THAT(Line({"all_reduce", "-o", "all"}).request.ops, Contains(kUserOrdered));
  EXPECT_THAT(Line({"all_reduce", "-o", "all", "--memory", "cuda"}).request.ops, Not(Contains(kUser)));
  EXPECT_THAT(Line({"all_reduce", "-o", "all", "--algorithm", "ring"}).request.ops,
              AllOf(Contains(kUser), Not(Contains(kUserOrdered))));
}

TEST(Request, ElementsReplaceSizes) {
  const Line line({"all_gather", "--elements", "0,3,1K"});
  ASSERT_FALSE(line.code) << line.err;
  EXPECT_THAT(counts_of(line.request, TUTTI_INT8, 5), ElementsAre(0u, 3u, 1024u));
}

TEST(Request, DividesTheElementsOfVVariants) {
  EXPECT_THAT(Line({"all_gather_v"}).request.divisions, ElementsAre(BlockDivision::even));
  EXPECT_THAT(Line({"scatter_v", "--division", "skewed"}).request.divisions, ElementsAre(BlockDivision::skewed));
  EXPECT_THAT(Line({"all_to_all_v", "--division", "all"}).request.divisions, ElementsAreArray(block_divisions));
}

TEST(Request, SizesEndWhereTheyMust) {
  EXPECT_THAT(counts_of(Line({"all_reduce", "-b", "0", "-e", "4", "-d", "int8"}).request, TUTTI_INT8, 2),
              ElementsAre(0u, 1u, 2u, 4u));
  const Line line({"all_reduce", "-b", "9223372036854775808", "-e", "18446744073709551615"});
  EXPECT_EQ(counts_of(line.request, TUTTI_INT8, 2).size(), 1u);
}

TEST(Request, RefusesInOneSentence) {
  const std::vector<std::pair<std::vector<const char*>, const char*>> cases = {
      {{}, "COLLECTIVE is missing"},
      {{"all_reduse"}, "did you mean all_reduce?"},
      {{"all_reduce", "-d", "float33"}, "'float33', which is no type"},
      {{"all_reduce", "-d", "f"}, "'f', which is no type"},
      {{"all_reduce", "-d", "int"}, "'int', which is no type"},
      {{"all_reduce", "-d", "fp8"}, "'fp8', which is no type"},
      {{"all_gather", "-d", "opaque0"}, "'opaque0', which is no type; use one of int8"},
      {{"all_gather", "-d", "opaqueN"}, "'opaqueN', which is no type"},
      {{"all_reduce", "-d", "opaque5"},
       "'opaque5', but the user's own operators alone fold opaque elements; use --op user"},
      {{"reduce", "-d", "opaque1025", "-o", "user"}, "nothing folds elements of more than 1024 bytes"},
      {{"all_reduce", "-o", "user_ordered", "--memory", "cuda"}, "--op user_ordered was given with --memory cuda"},
      {{"all_reduce", "-o", "all", "-d", "opaque5", "--memory", "cuda"}, "the user's own operators alone fold"},
      {{"all_gather", "-o", "user"}, "--op user was given, but all_gather folds nothing"},
      {{"all_reduce", "-o", "users"}, "'users', which this version does not have; use one of sum"},
      {{"reduce", "-r", "-1"}, "'-1'"},
      {{"reduce", "-r", "x"}, "'x'"},
      {{"all_reduce", "--device", "0"}, "--device was given without --memory cuda"},
      {{"all_reduce", "--stream", "cuda"}, "--stream was given without --memory cuda"},
      {{"all_reduce", "--memory", "cuda", "--stream", "tape"}, "'tape'"},
      {{"all_reduce", "--memory", "disk"}, "'disk'"},
      {{"all_reduce", "-b", "1.5"}, "a fraction needs one of K, M and G"},
      {{"all_reduce", "-b", "2M", "-e", "1M"}, "--minbytes 2M is more than --maxbytes 1M"},
      {{"all_reduce", "-f", "0"}, "'0'"},
      {{"all_reduce", "-n", "0"}, "'0'"},
      {{"all_reduce", "--elements", "1,,2"}, "''"},
      {{"all_reduce", "--elements", "1", "-b", "8"}, "both given"},
      {{"barrier", "--in-place"}, "barrier has no in-place form"},
      {{"all_gather", "--reproducible"}, "--reproducible was given, but all_gather folds nothing"},
      {{"scatter_v", "--accumulate"}, "--accumulate was given, but scatter_v folds nothing"},
      {{"all_gather", "--canonical", "4"}, "--canonical was given, but all_gather folds nothing"},
      {{"reduce_scatter", "--canonical", "4"}, "--canonical was given, but a rank has one operand of reduce_scatter"},
      {{"reduce_scatter_v", "--canonical", "4"}, "a rank has one operand of reduce_scatter_v"},
      {{"all_reduce", "--canonical", "0"}, "'0'"},
      {{"all_reduce", "--canonical", "4097"}, "'4097'"},
      {{"all_reduce_v", "--canonical", "4", "--in-place"},
       "--in-place was given, but all_reduce_v with --canonical has no in-place form"},
      {{"all_reduce", "--fuse"}, "--fuse was given, but a group of one call has nothing to fuse; add -m 2 or more"},
      {{"reduce", "-m", "2", "--fuse"}, "--fuse was given, but calls of reduce stay apart"},
      {{"all_reduce_v", "-m", "2", "--fuse"}, "--fuse was given, but calls of all_reduce_v stay apart"},
      {{"all_reduce", "-m", "2", "--fuse", "--canonical", "4"}, "--fuse and --canonical were both given"},
      {{"--measure-links", "/dev/null", "--fuse"}, "--fuse is no matter to --measure-links"},
      {{"all_gather_v", "--division", "odd"},
       "--division was given 'odd', but it takes one of even, skewed, zeros, one and all"},
      {{"all_gather", "--division", "even"}, "blocks of all_gather have one count"},
      {{"all_reduce", "--plot", "x.pdf"}, "'x.pdf'"},
      {{"all_reduce", "--ranks", "0"}, "'0'"}};
  for (const auto& [arguments, part] : cases) {
    const Line line(arguments);
    EXPECT_EQ(line.code, 2) << part;
    EXPECT_THAT(line.err, AllOf(StartsWith("tutti-perf: "), HasSubstr(part)));
    EXPECT_EQ(std::count(line.err.begin(), line.err.end(), '\n'), 1) << line.err;
  }
}

Measured sample() {
  Measured measured;
  measured.collective = find_collective("all_reduce");
  measured.count = 262144;
  measured.ranks = 4;
  measured.iterations = 200;
  measured.time = {90, 100, 150, 200};
  measured.algorithm = "ring";
  measured.transport = "shm";
  measured.wrong = 0;
  return measured;
}

TEST(PerfReport, WritesTheJsonLineOfTheContract) {
  Request request;
  EXPECT_THAT(
      json_of(sample(), request).text(),
      StartsWith(R"({"collective":"all_reduce","bytes":1048576,"count":262144,"type":"float32","op":"sum","ranks":4,)"
                 R"("in_place":false,"memory":"host","algorithm":"ring","transport":"shm","iterations":200,)"
                 R"("time_us":{"min":90.0,"median":100.0,"p99":150.0,"max":200.0},)"
                 R"("algbw_GBps":10.4858,"busbw_GBps":15.7286,"wrong":0)"));
  Measured unchecked = sample();
  unchecked.wrong.reset();
  EXPECT_THAT(json_of(unchecked, request).text(), HasSubstr(R"("busbw_GBps":15.7286,"wrong":null,)"));
}

// What a report of rows prints, for a command line.
std::string printed(const std::vector<const char*>& words, const std::vector<Row>& rows, int ranks = 4,
                    const std::vector<std::string>& oversubscribed = {}) {
  const Line line(words);
  EXPECT_FALSE(line.code) << line.err;
  program::Output output("tutti-perf");
  PerfReport report(line.request, output);
  testing::internal::CaptureStdout();
  report.introduce({location("one", 7, {0, 1})}, oversubscribed, ranks);
  report.begin_cycle(0);
  for (const Row& row : rows) report.add(row.out_of_place, row.in_place);
  EXPECT_EQ(report.end(), "");
  return testing::internal::GetCapturedStdout();
}

TEST(PerfReport, PrintsTheTableOfNcclTests) {
  Measured in_place = sample();
  in_place.in_place = true;
  in_place.wrong.reset();
  in_place.algorithm = "direct";
  const std::string out = printed({"all_reduce", "-g", "4"}, {{sample(), std::nullopt, ""}, {sample(), in_place, ""}});
  EXPECT_THAT(out,
              HasSubstr("# nThread 1 nGpus 4 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: auto "));
  EXPECT_THAT(out, HasSubstr("#  Rank  0 Group  0 Pid      7 on        one CPUs 0-1\n"));
  EXPECT_THAT(out,
              HasSubstr("#       size         count      type   redop    root     time   algbw   busbw #wrong     time"));
  EXPECT_THAT(out,
              HasSubstr("     1048576        262144   float32     sum      -1      100   10.49   15.73      0      N/A"));
  EXPECT_THAT(out, HasSubstr("15.73      0      N/A     N/A     N/A    N/A  ring              shm"));
  EXPECT_THAT(out, HasSubstr("15.73      0      100   10.49   15.73    N/A  ring/direct       shm"));
  EXPECT_THAT(out, HasSubstr("# Avg bus bandwidth    : 15.7286"));
  EXPECT_THAT(out, Not(HasSubstr("one rank")));
  EXPECT_THAT(out, Not(HasSubstr("disturbed:")));
}

TEST(PerfReport, SaysTheDivisionOfVVariantsAlone) {
  Measured skewed = sample();
  skewed.collective = find_collective("all_gather_v");
  skewed.division = BlockDivision::skewed;
  const std::string out = printed({"all_gather_v", "--division", "skewed"}, {{skewed, std::nullopt, ""}});
  EXPECT_THAT(out, AllOf(HasSubstr("disturbed  division\n"), HasSubstr("    skewed\n")));
  EXPECT_THAT(printed({"all_reduce"}, {{sample(), std::nullopt, ""}}), Not(HasSubstr("division")));
  EXPECT_THAT(json_of(skewed, Request()).text(), HasSubstr(R"("division":"skewed")"));
  EXPECT_THAT(json_of(sample(), Request()).text(), HasSubstr(R"("division":"none")"));
}

TEST(Request, TakesSeveralOperandsOfARank) {
  EXPECT_EQ(Line({"all_reduce"}).request.canonical, 0);
  EXPECT_EQ(Line({"reduce", "--canonical", "4096"}).request.canonical, 4096);
  EXPECT_TRUE(Line({"all_reduce", "--canonical", "4"}).request.in_place);
  EXPECT_FALSE(Line({"all_reduce_v", "--canonical", "4"}).request.in_place);
  const Line line({"all_reduce", "--canonical", "12"});
  EXPECT_THAT(json_of(sample(), line.request).text(), HasSubstr(R"("canonical":12)"));
  EXPECT_THAT(printed({"all_reduce", "--canonical", "12"}, {{sample(), sample(), ""}}),
              HasSubstr("host memory, 12 operands in all\n"));
}

TEST(PerfReport, SaysWhetherGroupsAreFused) {
  const Line line({"all_reduce", "-m", "2", "--fuse"});
  EXPECT_THAT(json_of(sample(), line.request).text(), HasSubstr(R"("agg_iters":2,"fuse":true)"));
  EXPECT_THAT(json_of(sample(), Request()).text(), HasSubstr(R"("agg_iters":1,"fuse":false)"));
  EXPECT_THAT(printed({"broadcast", "-m", "2", "--fuse"}, {{sample(), sample(), ""}}), HasSubstr(" memory, fused\n"));
}

TEST(PerfReport, SaysWhichRowsWereDisturbed) {
  Measured quiet = sample();
  quiet.disturbed = 0.001;
  Measured disturbed = sample();
  disturbed.disturbed = 0.25;
  const std::string out = printed({"all_reduce"}, {{quiet, quiet, ""}, {quiet, disturbed, ""}});
  EXPECT_THAT(out, HasSubstr("         0%\n"));
  EXPECT_THAT(out, HasSubstr("        25%\n"));
  EXPECT_THAT(out, HasSubstr("# 1 of 2 rows were disturbed: for 2% of the time or more a rank had no CPU; "));
  EXPECT_THAT(json_of(disturbed, Request()).text(), HasSubstr(R"("disturbed":0.25)"));
  EXPECT_THAT(json_of(sample(), Request()).text(), HasSubstr(R"("disturbed":null)"));
}

TEST(PerfReport, SaysOnceThatRanksShareCpusInstead) {
  const std::string out = printed({"all_reduce"}, {{sample(), sample(), ""}}, 4, {"# 4 ranks share CPUs 0-1"});
  EXPECT_THAT(out, HasSubstr("# 4 ranks share CPUs 0-1\n"));
  EXPECT_THAT(out, HasSubstr("          -\n"));
  EXPECT_THAT(out, Not(HasSubstr("disturbed:")));
}

TEST(PerfReport, SaysWhyOneRankHasNoBusBandwidth) {
  Measured alone = sample();
  alone.ranks = 1;
  EXPECT_THAT(
      printed({"all_reduce", "-g", "1"}, {{alone, alone, ""}}, 1),
      HasSubstr("# one rank: all_reduce moves nothing between ranks, so its bus bandwidth is 0; start more, as by -g 2\n"));
  alone.collective = find_collective("broadcast");
  EXPECT_THAT(printed({"broadcast", "-g", "1"}, {{alone, alone, ""}}, 1), Not(HasSubstr("one rank")));
}

TEST(PerfReport, SaysWhatWasTakenWithoutEffectAndHowTimesAreTaken) {
  EXPECT_THAT(
      printed({"all_reduce", "-x", "1", "-a", "1", "-z", "1", "-S", "1"}, {{sample(), sample(), ""}}),
      AllOf(HasSubstr("# -x (--cta_policy) 1 has no effect: "), HasSubstr("# time: median over iterations of the mean"),
            HasSubstr("# -z 1 (--blocking): a barrier follows"), HasSubstr("disturbed  timestamp")));
  EXPECT_THAT(printed({"all_reduce", "-C", "1"}, {{sample(), sample(), ""}}), HasSubstr(" cputime   algbw"));
}

}  // namespace
}  // namespace tutti::perf
