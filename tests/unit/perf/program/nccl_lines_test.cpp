// The command lines of nccl-tests and rccl-tests as people type them: each runs, or is refused in a sentence with its
// reason. By itself ranks are threads or processes of ours; with NCCL_LINES_LAUNCHER ("mpirun -np 2") that starts the
// processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <regex>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"
#include "tests/unit/perf/program/commands.h"

namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using tutti::test::Finished;
using tutti::test::run;
using tutti::test::TemporaryFolder;

std::string launcher() {
  const char* given = std::getenv("NCCL_LINES_LAUNCHER");
  return given != nullptr ? std::string(given) + " " : "";
}

bool by_launcher() { return !launcher().empty(); }

// The line with a launcher in front, where there is one.
Finished perf(const std::string& line, const std::string& program = TUTTI_PERF) {
  return run("timeout 100 " + launcher() + program + " " + line);
}

Finished runs(const std::string& line) {
  Finished finished = perf(line);
  EXPECT_EQ(finished.code, 0) << line << "\n" << finished.text;
  EXPECT_THAT(finished.text, AllOf(HasSubstr("# Out of bounds values : 0 OK"), HasSubstr("# Avg bus bandwidth    : ")))
      << line;
  return finished;
}

long count_of(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  return std::distance(std::sregex_iterator(text.begin(), text.end(), regex), std::sregex_iterator());
}

// Rows of the table: lines that begin with a size.
long rows_of(const std::string& text) { return count_of(text, "(^|\n) +[0-9]+  "); }

// The lines met in public issues, their sizes divided by 1024 or more: how they are read whole is NcclLines'.
TEST(NcclPrograms, RunTheLinesInCirculation) {
  EXPECT_EQ(rows_of(runs("all_reduce -b 8 -e 128K -f 2 -g 8 -n 2").text), 15);
  EXPECT_EQ(rows_of(runs("all_reduce -b 0.5K -e 2K -f 2 -g 1 -c 1 -n 10").text), 3);
  EXPECT_EQ(rows_of(runs("all_reduce -b 192K -e 200K -i 1K -o all -n 2 -w 1").text), 9 * 8);
  EXPECT_EQ(rows_of(runs("all_reduce -b 8 -e 196K -g 2 -d uint8 -i 64K -n 2").text), 4);
  EXPECT_EQ(rows_of(runs("all_reduce -b 8 -e 8K -f 2 -g 1 -z 1 -n 10").text), 11);
  EXPECT_EQ(rows_of(runs("all_reduce -b 1K -e 1K -f 1 -g 8 -N 10 -T 30 -n 5").text), 10);
  EXPECT_EQ(rows_of(runs("all_reduce -w 10 -n 100 -c 0 -a 3 -e 128").text), 5);
}

TEST(NcclPrograms, RunEveryOptionByBothItsNames) {
  const std::vector<std::pair<const char*, const char*>> options = {{"-t 2", "--nthreads 2"},
                                                                    {"-g 2", "--ngpus 2"},
                                                                    {"-b 8", "--minbytes 8"},
                                                                    {"-e 64", "--maxbytes 64"},
                                                                    {"-i 8", "--stepbytes 8"},
                                                                    {"-f 2", "--stepfactor 2"},
                                                                    {"-n 3", "--iters 3"},
                                                                    {"-w 1", "--warmup_iters 1"},
                                                                    {"-m 3", "--agg_iters 3"},
                                                                    {"-N 2", "--run_cycles 2"},
                                                                    {"-p 1", "--parallel_init 1"},
                                                                    {"-c 2", "--check 2"},
                                                                    {"-o max", "--op max"},
                                                                    {"-d half", "--datatype half"},
                                                                    {"-r 0", "--root 0"},
                                                                    {"-z 1", "--blocking 1"},
                                                                    {"-y 1", "--stream_null 1"},
                                                                    {"-T 60", "--timeout 60"},
                                                                    {"-G 0", "--cudagraph 0"},
                                                                    {"-C 1", "--report_cputime 1"},
                                                                    {"-S 1", "--report_timestamps 1"},
                                                                    {"-a 0", "--average 0"},
                                                                    {"-a 1", "--average 1"},
                                                                    {"-a 2", "--average 2"},
                                                                    {"-R 1", "--local_register 1"},
                                                                    {"-x 1", "--cta_policy 1"},
                                                                    {"-D 0", "--device_implementation 0"},
                                                                    {"-V 16", "--device_cta_count 16"},
                                                                    {"-M 1", "--memory_report 1"},
                                                                    {"-o mulsum", "--op mulsum"},
                                                                    {"-O 1", "--out_of_place 1"},
                                                                    {"-O 0", "--out_of_place 0"},
                                                                    {"-F 1", "--cache_flush 1"},
                                                                    {"-E 0", "--rotating_tensor 0"}};
  const std::string small = "all_reduce -b 8 -e 64 -f 2 -n 3 -w 1 -t 2 ";
  for (const auto& [with_short, with_long] : options) {
    runs(small + with_short);
    if (!by_launcher()) runs(small + with_long);
  }
}

TEST(NcclPrograms, RefuseInASentenceWhatMeansNothingHere) {
  const std::vector<std::pair<const char*, const char*>> options = {
      {"-G 5", "-G (--cudagraph) was given '5', but host memory has no CUDA graph"},
      {"-D 1", "-D (--device_implementation)"},
      {"-V 32", "-V (--device_cta_count)"},
      {"-R 2", "-R (--local_register)"},
      {"-Y coarse", "-Y (--memory_type)"},
      {"-u ff", "-u (--cumask)"},
      {"-q 5", "-q (--delay_inout_place)"},
      {"-E 1", "-E (--rotating_tensor)"},
      {"-Z json", "-Z (--rccl_output_format)"},
      {"-X x.json", "-X (--rccl_output_file)"},
      {"-A 1", "-A (--output_algo_proto_channels)"}};
  for (const auto& [option, part] : options) {
    const Finished finished = perf(std::string("all_reduce -b 8 -e 64 -n 3 -g 2 ") + option);
    EXPECT_EQ(finished.code, 2) << option << finished.text;
    EXPECT_THAT(finished.text, AllOf(HasSubstr("tutti-perf: "), HasSubstr(part), HasSubstr("; "))) << option;
    if (by_launcher()) break;  // refused before the launcher matters
    EXPECT_EQ(std::count(finished.text.begin(), finished.text.end(), '\n'), 1) << finished.text;
  }
}

TEST(NcclPrograms, RunByTheirNames) {
  const TemporaryFolder folder;
  for (const std::string name :
       {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "gather", "scatter", "sendrecv"}) {
    const std::string program = folder.file(name + "_perf");
    ASSERT_EQ(::symlink(TUTTI_PERF, program.c_str()), 0);
    const Finished finished = perf("-b 8 -e 64 -f 8 -n 3 -g 2", program);
    EXPECT_EQ(finished.code, 0) << finished.text;
    EXPECT_EQ(rows_of(finished.text), 2) << finished.text;
    if (by_launcher()) continue;
    EXPECT_EQ(perf(name + "_perf -b 8 -e 64 -f 8 -n 3 -g 2").code, 0) << name;
    const Finished processes = perf("-b 8 -e 64 -f 8 -n 3 --ranks 2", program);
    EXPECT_EQ(processes.code, 0) << "started again by the same name: " << processes.text;
  }
  const std::string hypercube = folder.file("hypercube_perf");
  ASSERT_EQ(::symlink(TUTTI_PERF, hypercube.c_str()), 0);
  const Finished refused = perf("-b 8 -e 64", hypercube);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.text, HasSubstr("use all_gather"));
}

TEST(NcclPrograms, AreRanksOfProcessesTimesThreadsTimesDevices) {
  const int processes = by_launcher() ? 2 : 1;
  const Finished finished = runs("all_gather -b 64 -e 1K -f 4 -n 3 -t 2 -g 2");
  EXPECT_THAT(finished.text, HasSubstr(": all_gather, " + std::to_string(4 * processes) + " ranks"));
  EXPECT_EQ(count_of(finished.text, "#  Rank +[0-9]+ Group  0 Pid +[0-9]+ on +"), 4 * processes) << finished.text;
  if (by_launcher()) return;
  const Finished both = runs("all_gather -b 64 -e 1K -f 4 -n 3 -g 2 --ranks 2 --bind core");
  EXPECT_THAT(both.text, HasSubstr(": all_gather, 4 ranks"));
}

TEST(NcclPrograms, RefuseProcessesOfDifferentNumbersOfRanks) {
  if (!by_launcher()) GTEST_SKIP() << "local processes all have one command line";
  const std::string one = launcher().substr(0, launcher().find(' ')) + " -np 1 " TUTTI_PERF " all_reduce -e 64 -n 3 -g 2";
  const Finished finished = run("timeout 100 " + one + " : -np 1 " TUTTI_PERF " all_reduce -e 64 -n 3 -g 1");
  EXPECT_EQ(finished.code, 2) << finished.text;
  EXPECT_THAT(finished.text, HasSubstr("give every rank the same number of ranks"));
}

TEST(NcclPrograms, PrintBothHalvesAndWhatCarriedThem) {
  const std::string line = "-b 64 -e 64 -n 3 -g 2";
  const std::string half = R"( +[0-9.]+ +[0-9.]+ +[0-9.]+ +0)";
  const std::string none = R"( +N/A +N/A +N/A +N/A)";
  const std::string begin = R"(\n +64 +16 +float32 +[a-z]+ +-1)";
  const std::string end = R"(  [a-z_]+ +shm +[0-9-]+%?\n)";
  EXPECT_EQ(count_of(runs("all_reduce " + line).text, begin + half + half + end), 1);
  EXPECT_EQ(count_of(runs("all_reduce --out-of-place " + line).text, begin + half + none + end), 1);
  EXPECT_EQ(count_of(runs("all_reduce -O 0 " + line).text, begin + none + half + end), 1);
  EXPECT_EQ(count_of(runs("send_recv " + line).text, begin + half + none + end), 1);
  const Finished json = perf("all_reduce --json " + line);
  EXPECT_EQ(count_of(json.text, R"("in_place":false,.*"disturbed":)"), 1) << json.text;
  EXPECT_EQ(count_of(json.text, R"("in_place":true,.*"disturbed":)"), 1) << json.text;
}

TEST(NcclPrograms, SayWhyOneRankHasNoBusBandwidth) {
  if (by_launcher()) GTEST_SKIP() << "it starts two";
  EXPECT_THAT(runs("all_reduce -b 8 -e 64 -n 3 -g 1").text, HasSubstr("so its bus bandwidth is 0; start more, as by -g 2"));
  EXPECT_THAT(runs("all_reduce -b 8 -e 64 -n 3 -g 2").text, Not(HasSubstr("one rank")));
}

TEST(NcclPrograms, WriteTheFilesOfNcclTests) {
  const TemporaryFolder folder;
  runs("all_reduce -b 8 -e 64 -f 8 -n 3 -g 2 -J " + folder.file("x.json"));
  EXPECT_EQ(count_of(run("cat " + folder.file("x.json")).text, R"("out_of_place":\{"time":)"), 2);
  runs("all_reduce -b 8 -e 64 -f 8 -n 3 -g 2 -F " + folder.file("x.csv"));
  EXPECT_EQ(run("wc -l < " + folder.file("x.csv")).text, "5\n");
  EXPECT_EQ(folder.names().size(), 2u) << "a draft was left";
  if (by_launcher()) return;
  const Finished same = perf("all_reduce -J " + folder.file("y.json") + " --json=" + folder.file("y.json"));
  EXPECT_EQ(same.code, 2);
  EXPECT_THAT(same.text, HasSubstr("the same file"));
}

TEST(NcclPrograms, TakeTheEnvironmentOfNcclTests) {
  const std::string line = " " TUTTI_PERF " all_reduce -b 8 -e 64 -f 8 -n 3 ";
  const std::string ranks = by_launcher() ? "-g 2" : "--ranks 2 -g 2";
  const auto with = [&](const std::string& variable) {
    return run("export " + variable + "; timeout 100 " + launcher() + line + ranks);
  };
  const Finished split = with("NCCL_TESTS_SPLIT='MOD 2'");
  EXPECT_EQ(split.code, 0) << split.text;
  EXPECT_THAT(split.text,
              AllOf(HasSubstr(": all_reduce, 2 ranks"), HasSubstr("Rank  2 Group  1"), HasSubstr("side by side")));
  EXPECT_THAT(with("NCCL_TESTS_SPLIT_MASK=0x0").text, HasSubstr(": all_reduce, 4 ranks"));
  EXPECT_THAT(with("NCCL_TESTS_DEVICE=1").text, HasSubstr("NCCL_TESTS_DEVICE has no effect"));
  const Finished slow = with("NCCL_TESTS_MIN_BW=1e9");
  EXPECT_EQ(slow.code, 1) << slow.text;
  EXPECT_THAT(slow.text, AllOf(HasSubstr("FAILED"), HasSubstr("less than nine tenths of NCCL_TESTS_MIN_BW=1e+09")));
  EXPECT_EQ(count_of(slow.text, "tutti-perf: "), 1) << slow.text;
  const Finished quick = with("NCCL_TESTS_MIN_BW=0");
  EXPECT_EQ(quick.code, 0) << quick.text;
  EXPECT_EQ(with("NCCL_TESTS_SPLIT='MOD 0'").code, 2);
}

// Groups of 3 and of 1: what is wrong in one of them must not leave the other in the midst of its operations.
TEST(NcclPrograms, RefuseARootThatTheSmallestGroupLacks) {
  if (by_launcher()) GTEST_SKIP() << "it has groups of whole processes";
  const Finished refused =
      run("export NCCL_TESTS_SPLIT='DIV 3'; timeout 100 " TUTTI_PERF " broadcast -b 8 -e 64 -n 3 -r 2 --ranks 4");
  EXPECT_EQ(refused.code, 2) << refused.text;
  EXPECT_THAT(refused.text, HasSubstr("--root was given 2, but there is one rank in the smallest group; give 0"));
  EXPECT_EQ(count_of(refused.text, "tutti-perf: "), 1) << refused.text;
}

TEST(NcclPrograms, SweepUntilTheyAreInterrupted) {
  if (by_launcher()) GTEST_SKIP() << "what a launcher makes of SIGINT is its own";
  for (const std::string ranks : {"-g 2", "--ranks 2"}) {
    const Finished finished =
        run("timeout --preserve-status -s INT 3 " TUTTI_PERF " all_reduce -b 8 -e 64 -f 8 -n 3 -N 0 " + ranks);
    EXPECT_EQ(finished.code, 130) << finished.text;
    EXPECT_GT(rows_of(finished.text), 2) << ranks;
  }
}

// An operation that outlasts -T is exit code 4, whatever the environment allows: rank 1 is stopped in the middle of a
// sweep.
TEST(NcclPrograms, EndWhereAnOperationOutlastsTheTimeout) {
  if (by_launcher()) GTEST_SKIP() << "ranks are started by hand";
  const TemporaryFolder folder;
  const std::string zero = folder.file("zero");
  const std::string job = " TUTTI_OPERATION_TIMEOUT=1h TUTTI_RANKS=2 TUTTI_COMM_ID=file://" + folder.file("id") + " ";
  const std::string line = TUTTI_PERF " all_reduce -b 8 -e 64 -f 8 -n 3 -N 0 -T 1 >";
  const Finished finished =
      run("TUTTI_RANK=1" + job + line + folder.file("one") + " 2>&1 & watched=$!; { TUTTI_RANK=0" + job + "timeout 60 " +
          line + zero + "; echo code $?; } & teller=$!; for i in $(seq 300); do grep -q shm " + zero +
          " && break; sleep .1; done; kill -STOP $watched; wait $teller; kill -KILL $watched");
  EXPECT_THAT(finished.text, AllOf(HasSubstr("code 4"), HasSubstr("after 1 s"), HasSubstr("raise --timeout")))
      << finished.text;
}

}  // namespace
