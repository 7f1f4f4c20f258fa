// The command lines of nccl-tests and rccl-tests, as tutti-perf reads them: whatever memory they would need.
#include "perf/nccl_options.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "perf/environment.h"
#include "perf/nccl_file.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/perf/line.h"

namespace tutti::perf {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr uint64_t kK = 1024;
constexpr uint64_t kM = 1024 * kK;
constexpr uint64_t kG = 1024 * kM;

struct Public {
  std::vector<const char*> line;
  uint64_t first;
  uint64_t last;
  size_t sizes;
  int64_t threads;
};

// The lines met in public issues, whole.
TEST(NcclLines, AreReadAsNcclTestsReadsThem) {
  const std::vector<Public> lines = {
      {{"-b", "8", "-e", "128M", "-f", "2", "-g", "8"}, 8, 128 * kM, 25, 8},
      {{"-b", "8", "-e", "128M", "-f2", "-g8"}, 8, 128 * kM, 25, 8},
      {{"-b", "0.5G", "-e", "2G", "-f", "2", "-g", "1", "-c", "1", "-n", "10"}, kG / 2, 2 * kG, 3, 1},
      {{"-b", "192K", "-e", "200K", "-i", "1K", "-o", "all"}, 192 * kK, 200 * kK, 9, 1},
      {{"-b", "8", "-e", "196M", "-g", "2", "-d", "uint8", "-i", "1M"}, 8, 195 * kM + 8, 196, 2},
      {{"-b", "8", "-e", "8G", "-f", "2", "-g", "1", "-z", "1"}, 8, 8 * kG, 31, 1},
      {{"-b", "1G", "-e", "1G", "-f", "1", "-g", "8", "-N", "100", "-T", "30"}, kG, kG, 1, 8},
      {{"-w", "10", "-n", "100", "-c", "0", "-a", "3"}, 8, 128 * kM, 25, 1}};
  for (const Public& known : lines) {
    std::vector<const char*> words = {"all_reduce"};
    words.insert(words.end(), known.line.begin(), known.line.end());
    const std::string what = testing::PrintToString(known.line);
    const Line line(words);
    ASSERT_FALSE(line.code) << what << line.err;
    const std::vector<uint64_t> sizes = sizes_of(line.request);
    ASSERT_EQ(sizes.size(), known.sizes) << what;
    EXPECT_EQ(sizes.front(), known.first) << what;
    EXPECT_EQ(sizes.back(), known.last) << what;
    EXPECT_EQ(line.request.ranks.each, known.threads) << what;
  }
}

TEST(NcclLines, ThreadsTimesDevicesAreRanksOfOneProcessUnlessProcessesAreAskedFor) {
  const auto ranks = [](const std::vector<const char*>& words) {
    const Line line(words);
    return std::pair(line.request.ranks.ranks, line.request.ranks.each);
  };
  EXPECT_EQ(ranks({"all_reduce"}), std::pair(int64_t{2}, int64_t{1}));
  EXPECT_EQ(ranks({"all_reduce", "-g", "1"}), std::pair(int64_t{1}, int64_t{1}));
  EXPECT_EQ(ranks({"all_reduce", "-t", "2", "-g", "3"}), std::pair(int64_t{1}, int64_t{6}));
  EXPECT_EQ(ranks({"all_reduce", "--nthreads", "2", "--ranks", "4"}), std::pair(int64_t{4}, int64_t{2}));
}

TEST(NcclLines, StepsAreTakenWhereThereIsNoFactorAboveOne) {
  const auto sizes = [](const std::vector<const char*>& words) { return sizes_of(Line(words).request); };
  EXPECT_THAT(sizes({"all_reduce", "-b", "8", "-e", "20", "-i", "4"}), ElementsAre(8, 12, 16, 20));
  EXPECT_THAT(sizes({"all_reduce", "-b", "8", "-e", "20", "-i", "5"}), ElementsAre(8, 13, 18));
  EXPECT_THAT(sizes({"all_reduce", "-b", "0", "-e", "4", "-f", "1", "--stepbytes", "2"}), ElementsAre(0, 2, 4));
  EXPECT_THAT(sizes({"all_reduce", "-b", "1M", "-e", "3M", "-f", "1"}), ElementsAre(kM, 2 * kM, 3 * kM));
  EXPECT_THAT(sizes({"all_reduce", "-b", "8", "-e", "32", "-f", "2", "-i", "4"}), ElementsAre(8, 16, 32));
  EXPECT_THAT(Line({"all_reduce", "-e", "32", "-f", "2", "-i", "4"}).request.notes,
              ElementsAre(HasSubstr("-i (--stepbytes) 4 has no effect")));
  EXPECT_THAT(sizes({"all_reduce", "-b", "17179869183G", "-e", "17179869183.5G", "-i", "0.5G"}).size(), 2u);
}

TEST(NcclLines, EveryOptionHasItsLongName) {
  const Line line({"all_reduce", "--nthreads",
                   "2",          "--ngpus",
                   "2",          "--minbytes",
                   "1K",         "--maxbytes",
                   "2K",         "--stepbytes",
                   "1K",         "--iters",
                   "3",          "--warmup_iters",
                   "2",          "--agg_iters",
                   "4",          "--run_cycles",
                   "5",          "--parallel_init",
                   "1",          "--check",
                   "2",          "--op",
                   "max",        "--datatype",
                   "half",       "--root",
                   "1",          "--blocking",
                   "1",          "--stream_null",
                   "1",          "--timeout",
                   "9",          "--cudagraph",
                   "0",          "--report_cputime",
                   "0",          "--report_timestamps",
                   "1",          "--average",
                   "2",          "--local_register",
                   "1",          "--cta_policy",
                   "1",          "--device_implementation",
                   "0",          "--device_cta_count",
                   "16",         "--memory_report",
                   "1"});
  ASSERT_FALSE(line.code) << line.err;
  const Request& request = line.request;
  EXPECT_EQ(request.ranks.each, 4);
  EXPECT_THAT(sizes_of(request), ElementsAre(kK, 2 * kK));
  EXPECT_EQ(request.aggregated, 4);
  EXPECT_EQ(request.cycles, 5);
  EXPECT_TRUE(request.barriers);
  EXPECT_EQ(request.timeout_s, 9);
  EXPECT_TRUE(request.timestamps);
  EXPECT_TRUE(request.memory_use);
  EXPECT_EQ(request.average, Average::kLeast);
  EXPECT_EQ(request.memory, MemoryKind::registered);
  EXPECT_THAT(request.notes,
              ElementsAre(HasSubstr("-y (--stream_null) 1 has no effect"), HasSubstr("-x (--cta_policy) 1 has no effect")));
}

TEST(NcclLines, EveryOptionThatMeansSomethingElseIsRefusedWithItsReason) {
  const std::vector<std::pair<std::vector<const char*>, std::vector<const char*>>> cases = {
      {{"-G", "5"}, {"-G (--cudagraph) was given '5'", "no CUDA graph"}},
      {{"--cudagraph", "1"}, {"-G (--cudagraph)", "leave it out"}},
      {{"-D", "1"}, {"-D (--device_implementation)", "needs a GPU"}},
      {{"-V", "32"}, {"-V (--device_cta_count)", "needs a GPU"}},
      {{"-R", "2"}, {"-R (--local_register) was given '2'", "symmetric windows are not there yet"}},
      {{"-Y", "fine"}, {"-Y (--memory_type)", "GPU's memory"}},
      {{"-u", "ff,ff"}, {"-u (--cumask)", "compute units of a GPU"}},
      {{"-q", "10"}, {"-q (--delay_inout_place)", "there is no pause"}},
      {{"-E", "1"}, {"-E (--rotating_tensor)", "the same buffers"}},
      {{"-Z", "csv"}, {"-Z (--rccl_output_format)", "-J FILE.json"}},
      {{"-X", "x.csv"}, {"-X (--rccl_output_file)", "-J FILE.json"}},
      {{"-A", "1"}, {"-A (--output_algo_proto_channels)", "in every row"}},
      {{"-F", "x.txt"}, {"-F (--cache_flush) was given 'x.txt'", ".csv"}},
      {{"-J", "x.txt"}, {"--output_file was given 'x.txt'", ".json or .csv"}},
      {{"-J", "/nowhere/x.json"}, {"--output_file was given", "/nowhere"}},
      {{"-F", "a.csv", "-J", "a.json"}, {"-F a.csv and --output_file a.json were both given"}},
      {{"-N", "0", "-J", "/tmp/x.json"}, {"-N 0 (--run_cycles)", "--output_file"}},
      {{"-x", "many"}, {"--cta_policy was given 'many'", "whole number"}},
      {{"-p", "yes"}, {"--parallel_init was given 'yes'", "whole number"}},
      {{"-a", "4"}, {"--average was given '4'", "from 0 to 3"}},
      {{"-z", "2"}, {"--blocking was given '2'", "from 0 to 1"}},
      {{"-g", "0"}, {"--ngpus was given '0'", "from 1 to 4096"}},
      {{"-m", "0"}, {"--agg_iters was given '0'", "from 1"}},
      {{"-i", "0"}, {"--stepbytes was given '0'", "must grow"}},
      {{"-i", "1", "-e", "128M"}, {"--stepbytes 1 makes more than", "longer step"}},
      {{"-C", "1", "-z", "1"}, {"-C 1 (--report_cputime)", "-z 1 (--blocking)"}},
      {{"-R", "0", "--memory", "registered"}, {"--memory registered and -R 0 (--local_register) contradict"}},
      {{"-O", "0", "--out-of-place"}, {"--out-of-place and -O 0 (--out_of_place) contradict"}}};
  for (const auto& [words, parts] : cases) {
    std::vector<const char*> given = {"all_reduce"};
    given.insert(given.end(), words.begin(), words.end());
    const Line line(given);
    EXPECT_EQ(line.code, 2) << parts.front();
    EXPECT_EQ(std::count(line.err.begin(), line.err.end(), '\n'), 1) << line.err;
    for (const char* part : parts) EXPECT_THAT(line.err, AllOf(StartsWith("tutti-perf: "), HasSubstr(part)));
  }
}

TEST(NcclLines, ValuesThatAskForWhatIsDoneAnywayAreTakenWithoutAWord) {
  for (const NcclOption& option : nccl_options()) {
    const std::string name = std::string(option.names).substr(0, 2);
    std::istringstream values(option.always);
    for (std::string value; std::getline(values, value, '|');) {
      const Line line({"all_reduce", name.c_str(), value.c_str()});
      EXPECT_FALSE(line.code) << name << " " << value << ": " << line.err;
      EXPECT_TRUE(line.request.notes.empty()) << name;
    }
  }
  EXPECT_TRUE(Line({"all_reduce", "-p", "1"}).request.notes.empty());
}

TEST(NcclLines, OfRcclChooseAHalfAndFreshInputs) {
  EXPECT_FALSE(Line({"all_reduce", "-O", "1"}).request.in_place);
  EXPECT_TRUE(Line({"all_reduce", "-O", "1"}).request.out_of_place);
  EXPECT_FALSE(Line({"all_reduce", "-O", "0"}).request.out_of_place);
  EXPECT_TRUE(Line({"all_reduce", "-O", "0"}).request.in_place);
  EXPECT_TRUE(Line({"all_reduce", "-F", "1"}).request.fresh);
  EXPECT_FALSE(Line({"all_reduce", "-F", "0"}).request.fresh);
  EXPECT_EQ(Line({"send_recv", "-O", "0"}).code, 2);
}

TEST(NcclLines, MeasureInPlaceTooByDefault) {
  EXPECT_TRUE(Line({"all_reduce"}).request.in_place);
  EXPECT_FALSE(Line({"all_reduce", "--out-of-place"}).request.in_place);
  EXPECT_FALSE(Line({"send_recv"}).request.in_place) << "it has no such form";
  EXPECT_FALSE(Line({"send_recv", "--out-of-place"}).code);
}

TEST(NcclNames, AreTakenAsArgumentAndAsTheProgramsName) {
  const std::vector<std::pair<const char*, const char*>> names = {
      {"all_reduce_perf", "all_reduce"}, {"all_gather_perf", "all_gather"}, {"reduce_scatter_perf", "reduce_scatter"},
      {"broadcast_perf", "broadcast"},   {"reduce_perf", "reduce"},         {"alltoall_perf", "all_to_all"},
      {"gather_perf", "gather"},         {"scatter_perf", "scatter"},       {"sendrecv_perf", "send_recv"}};
  for (const auto& [theirs, ours] : names) {
    const Line argument({theirs});
    ASSERT_FALSE(argument.code) << argument.err;
    EXPECT_STREQ(argument.request.collective->name, ours);
    const std::string path = std::string("./build/") + theirs;
    const Line started({"-b", "8", "-e", "16"}, path.c_str());
    ASSERT_FALSE(started.code) << started.err;
    EXPECT_STREQ(started.request.collective->name, ours);
  }
  EXPECT_STREQ(Line({"alltoall"}).request.collective->name, "all_to_all");
  EXPECT_THAT(Line({"hypercube_perf"}).err, HasSubstr("use all_gather, whose result is the same"));
  EXPECT_THAT(Line({}, "hypercube_perf").err, HasSubstr("use all_gather, whose result is the same"));
  EXPECT_THAT(Line({"all_gather"}, "all_reduce_perf").err, HasSubstr("leave COLLECTIVE out"));
  EXPECT_FALSE(Line({"all_gather"}, "my_perf").code) << "a name that says nothing";
}

int group(const char* split, int process) {
  PerfEnvironment environment;
  const std::string why = read_environment(
      [split](const char* name) { return std::string(name) == "NCCL_TESTS_SPLIT" ? split : nullptr; }, environment);
  return why.empty() ? environment.split->group_of(process) : -1;
}

TEST(NcclEnvironment, SplitsProcessesAsNcclTestsDoes) {
  EXPECT_EQ(group("AND 0x1", 5), 1);
  EXPECT_EQ(group("&0b110", 5), 4);
  EXPECT_EQ(group("OR 0x7", 3), 7);
  EXPECT_EQ(group("|7", 8), 15);
  EXPECT_EQ(group("MOD 8", 11), 3);
  EXPECT_EQ(group("mod8", 11), 3);
  EXPECT_EQ(group("%2", 5), 1);
  EXPECT_EQ(group("DIV 8", 17), 2);
  EXPECT_EQ(group("/4", 17), 4);
  for (const char* wrong : {"2", "MOD", "MOD 0", "/0", "MOD x", "XOR 1", "AND -1", "MOD 2 3"})
    EXPECT_EQ(group(wrong, 0), -1);
}

TEST(NcclEnvironment, ReadsTheMaskInBase16AndTheLeastBandwidth) {
  const auto read = [](const char* which, const char* value) {
    PerfEnvironment environment;
    const std::string why =
        read_environment([=](const char* name) { return std::string(name) == which ? value : nullptr; }, environment);
    return std::pair(why, environment);
  };
  EXPECT_EQ(read("NCCL_TESTS_SPLIT_MASK", "10").second.split->group_of(0x1f), 0x10);
  EXPECT_EQ(read("NCCL_TESTS_SPLIT_MASK", "0x7").second.split->group_of(9), 1);
  EXPECT_THAT(read("NCCL_TESTS_SPLIT_MASK", "g").first, HasSubstr("NCCL_TESTS_SPLIT_MASK is 'g'"));
  EXPECT_EQ(read("NCCL_TESTS_MIN_BW", "1.5").second.least_bandwidth, 1.5);
  EXPECT_EQ(read("NCCL_TESTS_MIN_BW", "-1").second.least_bandwidth, std::nullopt);
  EXPECT_THAT(read("NCCL_TESTS_MIN_BW", "fast").first, HasSubstr("NCCL_TESTS_MIN_BW is 'fast'"));
  EXPECT_TRUE(read("NCCL_TESTS_DEVICE", "0").second.device);
  EXPECT_EQ(too_slow(9, 10), "");
  EXPECT_THAT(too_slow(8.9, 10), HasSubstr("NCCL_TESTS_MIN_BW=10"));
}

Measured measured(bool in_place) {
  Measured sample;
  sample.collective = find_collective("all_reduce");
  sample.count = 262144;
  sample.ranks = 2;
  sample.in_place = in_place;
  sample.iterations = 20;
  sample.time = {90, 100, 150, 200};
  sample.algorithm = "ring";
  sample.transport = "shm";
  sample.wrong = 0;
  return sample;
}

TEST(NcclFile, HasTheKeysAndTheThreeHeadLinesOfNcclTests) {
  Line line({"all_reduce", "-g", "2"});
  RankLocation location = {};
  location.host = {'h'};
  location.pid = 7;
  const std::vector<RankLocation> locations = {location};
  const std::vector<Row> rows = {{measured(false), std::nullopt, ""}, {measured(false), measured(true), ""}};
  const NcclRun run = {&line.request, &locations, "then", "now", 10.5, 0};
  line.request.output_file = "x.json";
  const std::string json = nccl_file(run, rows);
  EXPECT_THAT(json, HasSubstr(R"("args":["tutti-perf","all_reduce","-g","2"],"config":{"nthreads":1,"ngpus":2,)"));
  EXPECT_THAT(json, HasSubstr(R"("devices":[{"rank":0,"group":0,"pid":7,"hostname":"h",)"));
  EXPECT_THAT(json, HasSubstr(R"({"size":1048576,"count":262144,"type":"float32","redop":"sum","root":"-1",)"
                              R"("out_of_place":{"time":100.0,"alg_bw":10.4858,"bus_bw":10.4858,"nwrong":0,)"));
  EXPECT_THAT(json, HasSubstr(R"("in_place":null)"));
  EXPECT_THAT(json, HasSubstr(R"("out_of_bounds":{"count":0,"okay":true})"));
  EXPECT_THAT(json, HasSubstr(R"("average_bus_bandwidth":{"bandwidth":10.5,"okay":"unchecked"})"));
  line.request.output_file = "x.csv";
  EXPECT_EQ(nccl_file(run, rows),
            ",,,,,out-of-place,out-of-place,out-of-place,out-of-place,in-place,in-place,in-place,in-place\n"
            "size,count,type,redop,root,time,algbw,busbw,#wrong,time,algbw,busbw,#wrong\n"
            "(B),(elements),,,,(us),(GB/s),(GB/s),,(us),(GB/s),(GB/s),\n"
            "1048576,262144,float32,sum,-1,100.00,10.49,10.49,0,N/A,N/A,N/A,N/A\n"
            "1048576,262144,float32,sum,-1,100.00,10.49,10.49,0,100.00,10.49,10.49,0\n");
}

TEST(NcclFile, SaysTheDivisionOfAVVariant) {
  Line line({"all_gather_v", "--division", "zeros"});
  Measured measured;
  measured.collective = line.request.collective;
  measured.division = line.request.divisions[0];
  const std::vector<RankLocation> locations;
  const NcclRun run = {&line.request, &locations, "then", "now", 10.5, 0};
  line.request.output_file = "x.csv";
  EXPECT_THAT(nccl_file(run, {{measured, std::nullopt, ""}}), AllOf(HasSubstr("#wrong,division\n"), HasSubstr(",zeros\n")));
  line.request.output_file = "x.json";
  EXPECT_THAT(nccl_file(run, {{measured, std::nullopt, ""}}), HasSubstr(R"("root":"-1","division":"zeros",)"));
}

}  // namespace
}  // namespace tutti::perf
