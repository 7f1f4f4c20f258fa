// How sizes, bandwidths and times are counted, and what the command line of tutti-perf takes and prints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <thread>
#include <vector>

#include "perf/measure.h"
#include "perf/names.h"
#include "perf/options.h"
#include "perf/report.h"

namespace tutti::perf {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
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
  for (const char* name : {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "gather",
                           "scatter", "send_recv", "barrier", "all_gather_v", "reduce_scatter_v", "all_to_all_v"}) {
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
std::array<std::vector<Batch>, 2> slowest_of_two(std::array<std::vector<Batch>, 2> measured, bool back_to_back) {
  std::array<tutti_comm*, 2> comms = {};
  EXPECT_EQ(tutti_comm_create_all(comms.data(), 2, nullptr), TUTTI_SUCCESS);
  std::array<std::thread, 2> ranks;
  for (size_t r = 0; r < 2; ++r) {
    ranks[r] = std::thread([&, r] { EXPECT_EQ(take_slowest(comms[r], measured[r], back_to_back), TUTTI_SUCCESS); });
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

TEST(Measure, PlansBatchesOfTwoMicrosecondsAndAThirdOfASecond) {
  const Plan small = plan_for(300, 0);
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

// What a command line came to.
struct Line {
  Request request;
  std::optional<int> code;
  std::string err;

  explicit Line(const std::vector<const char*>& given) {
    std::vector<const char*> arguments = {"tutti-perf"};
    for (const char* argument : given) arguments.push_back(argument);
    program::Output output("tutti-perf");
    program::Options options("tutti-perf", "");
    testing::internal::CaptureStderr();
    code = read_request(options, static_cast<int>(arguments.size()), arguments.data(), output, request);
    err = testing::internal::GetCapturedStderr();
  }
};

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
  EXPECT_EQ(line.request.ops.size(), 5u);
  EXPECT_FALSE(line.request.root);
  EXPECT_THAT(counts_of(line.request, TUTTI_FLOAT16, 2), ElementsAre(512u, 2048u, 8192u, 32768u));
  EXPECT_EQ(Line({"all_reduce", "-d", "all"}).request.types.size(), 10u);
  EXPECT_THAT(Line({"all_reduce", "-d", "double"}).request.types, ElementsAre(TUTTI_FLOAT64));
}

TEST(Request, ElementsReplaceSizes) {
  const Line line({"all_gather", "--elements", "0,3,1K"});
  ASSERT_FALSE(line.code) << line.err;
  EXPECT_THAT(counts_of(line.request, TUTTI_INT8, 5), ElementsAre(0u, 3u, 1024u));
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
      {{"all_reduce", "-d", "float8_e4m3"}, "does not have yet"},
      {{"all_reduce", "-o", "mulsum"}, "'mulsum'"},
      {{"reduce", "-r", "-1"}, "'-1'"},
      {{"reduce", "-r", "x"}, "'x'"},
      {{"all_reduce", "--memory", "cuda"}, "CUDA memory is not there yet"},
      {{"all_reduce", "--memory", "disk"}, "'disk'"},
      {{"all_reduce", "-b", "1.5M"}, "fractions"},
      {{"all_reduce", "-b", "2M", "-e", "1M"}, "--minbytes 2M is more than --maxbytes 1M"},
      {{"all_reduce", "-f", "1"}, "'1'"},
      {{"all_reduce", "-n", "0"}, "'0'"},
      {{"all_reduce", "--elements", "1,,2"}, "''"},
      {{"all_reduce", "--elements", "1", "-b", "8"}, "both given"},
      {{"barrier", "--in-place"}, "barrier has no in-place form"},
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

TEST(Report, WritesTheJsonLineOfTheContract) {
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

TEST(Report, PrintsTheTableOfNcclTests) {
  Request request;
  request.collective = find_collective("all_reduce");
  program::Output output("tutti-perf");
  Report report(request, output);
  testing::internal::CaptureStdout();
  Measured in_place = sample();
  in_place.in_place = true;
  in_place.wrong.reset();
  report.add(sample(), std::nullopt);
  report.add(sample(), in_place);
  EXPECT_EQ(report.end(2), "");
  const std::string out = testing::internal::GetCapturedStdout();
  EXPECT_THAT(out,
              HasSubstr("#       size         count      type   redop    root     time   algbw   busbw #wrong     time"));
  EXPECT_THAT(out,
              HasSubstr("     1048576        262144   float32     sum      -1      100   10.49   15.73      0      N/A"));
  EXPECT_THAT(out, HasSubstr("15.73      0      100   10.49   15.73    N/A\n"));
  EXPECT_THAT(out, HasSubstr("# Avg bus bandwidth    : 15.7286"));
}

}  // namespace
}  // namespace tutti::perf
