// tutti-perf as scripts meet it where something is wrong: exit codes, one sentence, nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>

#include "src/selection/tuning.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/perf/program/commands.h"

namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

using tutti::test::Finished;
using tutti::test::run;

const std::string kPerf = "timeout 60 " TUTTI_PERF " ";
constexpr char kSmall[] = "all_reduce --elements 100 -n 3 ";

void expect_one_sentence(const std::string& command, int code, const std::string& part) {
  const Finished finished = run(command);
  EXPECT_EQ(finished.code, code) << command << "\n" << finished.text;
  EXPECT_THAT(finished.text, HasSubstr(part)) << command;
  EXPECT_EQ(std::count(finished.text.begin(), finished.text.end(), '\n'), 1) << command << "\n" << finished.text;
}

TEST(TuttiPerf, RefusesARankThatNoJobHasInsteadOfRunningAJobOfItsOwn) {
  expect_one_sentence("TUTTI_RANK=abc TUTTI_RANKS=2 " + kPerf + kSmall, 2, "TUTTI_RANK is 'abc'");
  expect_one_sentence("TUTTI_RANK=2 TUTTI_RANKS=2 " + kPerf + kSmall, 2, "ranks are 0 to 1");
  expect_one_sentence("OMPI_COMM_WORLD_RANK=0 " + kPerf + kSmall, 2, "OMPI_COMM_WORLD_SIZE is not");
  expect_one_sentence("PMI_RANK=0 PMI_SIZE=two " + kPerf + kSmall + "--ranks 2", 2, "PMI_SIZE is 'two'");
}

TEST(TuttiPerf, SaysWhyOnEveryRankThatALauncherStarted) {
  expect_one_sentence("TUTTI_RANK=1 TUTTI_RANKS=2 TUTTI_COMM_ID=garbage " + kPerf + kSmall, 2, "garbage");
  const std::string job = "RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=none ";
  expect_one_sentence(job + kPerf + kSmall, 2, "MASTER_PORT");
}

TEST(TuttiPerf, NamesTheOptionOrTheVariableThatWasGiven) {
  for (const char* ranks : {"--ranks 2", "--ranks 2 --threads"}) {
    expect_one_sentence(kPerf + kSmall + "--transport foo " + ranks, 2, "--transport names a transport \"foo\"");
    expect_one_sentence("TUTTI_TRANSPORTS=foo " + kPerf + kSmall + ranks, 2, "TUTTI_TRANSPORTS names a transport \"foo\"");
  }
  expect_one_sentence("TUTTI_RANK=1 TUTTI_RANKS=2 TUTTI_COMM_ID=127.0.0.1:29511 " + kPerf + kSmall, 2, "TUTTI_COMM_ID: ");
}

// The library tells of collectives alone: what it says after messages is of one of our own between them.
TEST(TuttiPerf, MessagesHaveNoAlgorithm) {
  for (const char* transport : {"shm", "tcp"}) {
    for (const char* count : {"0", "2", "100"}) {
      const Finished finished =
          run(kPerf + "send_recv --ranks 2 -n 3 --json --transport " + transport + " --elements " + count);
      EXPECT_EQ(finished.code, 0) << finished.text;
      EXPECT_THAT(finished.text, HasSubstr("\"algorithm\":\"none\"")) << transport << " " << count;
    }
  }
}

// Every row of a sweep that is right, of 1, 2 and 3 ranks, no elements among the counts.
void expect_right(const std::string& line, const std::string& part = "") {
  for (const char* ranks : {"1", "2", "3"}) {
    const Finished finished = run(kPerf + line + " --elements 0,1,17,1000 -n 2 -w 1 -c 2 --threads --ranks " + ranks);
    EXPECT_EQ(finished.code, 0) << line << " on " << ranks << "\n" << finished.text;
    EXPECT_THAT(finished.text, AllOf(HasSubstr("# Out of bounds values : 0 OK"), HasSubstr(part))) << line;
  }
}

TEST(TuttiPerf, MovesOpaqueElements) {
  for (const char* collective : {"broadcast", "all_gather", "all_to_all", "gather", "scatter", "send_recv"})
    expect_right(std::string(collective) + " -d opaque5", " opaque5 ");
  for (const char* collective : {"all_gather_v", "all_to_all_v", "gather_v", "scatter_v"})
    expect_right(std::string(collective) + " -d opaque100 --division skewed", " opaque100 ");
  expect_one_sentence(kPerf + "reduce_scatter -d opaque5", 2, "the user's own operators alone fold opaque elements");
}

TEST(TuttiPerf, FoldsByOperatorsOfTheUsersOwn) {
  for (const char* collective : {"all_reduce", "reduce -r all", "reduce_scatter", "reduce_scatter_v --division zeros"}) {
    expect_right(std::string(collective) + " -o user -d opaque7", " user ");
    expect_right(std::string(collective) + " -o user_ordered -d opaque7", " user_ordered ");
    expect_right(std::string(collective) + " -o all -d uint8", " user_ordered ");
  }
  expect_right("all_reduce_v -o user_ordered -d opaque100 --memory registered", " user_ordered ");
  expect_right("all_reduce -o user --transport tcp -d float64", " user ");
  expect_right("all_reduce -o all -d uint8 --algorithm ring", " user ");
  expect_one_sentence(kPerf + "all_reduce -o user_ordered -e 8 --threads --algorithm ring", 2, "keeps the order of ranks");
  expect_one_sentence(kPerf + "all_reduce -o user --memory cuda --threads", 2, "fold host memory alone");
}

TEST(TuttiPerf, FoldsSeveralOperandsOfARank) {
  for (const char* collective : {"all_reduce", "all_reduce_v --division skewed", "reduce -r all"}) {
    expect_right(std::string(collective) + " --canonical 12", ", 12 operands in all");
    expect_right(std::string(collective) + " --canonical 6 -d opaque3 -o user_ordered", ", 6 operands in all");
  }
  expect_right("all_reduce --canonical 6 -d bfloat16 -o all --fresh");
  expect_one_sentence(kPerf + "all_reduce --canonical 8 -n 1 -e 8 --threads --ranks 3", 2,
                      "--canonical was given 8, but 3 ranks cannot share 8 operands evenly; give a multiple of 3");
  expect_one_sentence(kPerf + "all_to_all --canonical 8", 2, "folds nothing");
}

TEST(TuttiPerf, FusesTheOperationsOfAGroup) {
  expect_right("all_reduce -m 3 --fuse", ", fused");
  expect_right("all_reduce -m 40 --fuse -d opaque3 -o user_ordered --fresh", ", fused");
  expect_right("broadcast -m 5 --fuse -r all", ", fused");
  expect_right("all_reduce -m 3 --fuse -C 1");
  // Broadcasts that are one operation run by an all_gather's algorithm.
  const std::string line = kPerf + "broadcast -m 2 --elements 100 -n 3 --json --threads --ranks 2";
  const char* const gathers = "\"algorithm\":\"(bruck|direct|ring)\"";
  EXPECT_THAT(run(line + " --fuse").text, ContainsRegex(gathers));
  EXPECT_THAT(run(line).text, Not(ContainsRegex(gathers)));
  expect_one_sentence(kPerf + kSmall + "--fuse", 2, "add -m 2 or more");
  expect_one_sentence(kPerf + "gather -m 2 --fuse", 2, "calls of gather stay apart");
}

TEST(TuttiPerf, SaysOnceThatStdoutTakesNoMore) {
  for (const char* ranks : {"--ranks 1", "--ranks 2", "--ranks 2 --threads", "--ranks 2 --json", "--help"}) {
    expect_one_sentence(kPerf + kSmall + ranks + " 2>&1 >/dev/full", 1, "stdout");
    expect_one_sentence(kPerf + kSmall + ranks + " 2>&1 >&-", 1, "stdout");
  }
}

TEST(TuttiPerf, EndsQuietlyWhereTheReaderHasSeenEnough) {
  const Finished finished = run("bash -c 'set -o pipefail; " + kPerf + "all_reduce -n 20 | head -1'");
  EXPECT_EQ(finished.code, 128 + SIGPIPE);
  EXPECT_EQ(finished.text.rfind("# tutti-perf", 0), 0u) << finished.text;
  EXPECT_EQ(std::count(finished.text.begin(), finished.text.end(), '\n'), 1) << finished.text;
}

TEST(TuttiPerf, RefusesBeforeItPrintsOrMeasures) {
  expect_one_sentence(kPerf + kSmall + "--algorithm nope", 2, "nope");
  expect_one_sentence(kPerf + kSmall + "--plot /nowhere/x.svg", 2, "/nowhere");
  expect_one_sentence(kPerf + kSmall + "--ranks 2 --plot /tmp/tutti-one.svg --json=/tmp/./tutti-one.svg", 2,
                      "the same file");
  expect_one_sentence(kPerf + kSmall + "--memory cuda", 2, "cuda");
  // 2 x 256 GiB x 64 ranks: where that fits, there is nothing to refuse.
  expect_one_sentence(kPerf + "all_reduce -b 256G -e 256G --ranks 64 --threads", 2, "64 ranks");
}

// As a wait for rank 0 may be long on a busy machine, numbers are held to what no machine is beyond.
void expect_a_link(const tutti::Tuning& table, const std::string& transport, const std::string& what) {
  int links = 0;
  for (const tutti::LinkClass near : {tutti::LinkClass::same_numa, tutti::LinkClass::same_machine}) {
    const auto link = table.link(transport, near);
    if (!link) continue;
    ++links;
    EXPECT_GT(link->alpha, 1e-8) << what;
    EXPECT_LT(link->alpha, 1e-1) << what;
    EXPECT_GT(link->beta, 1e-12) << what;
    EXPECT_LT(link->beta, 1e-6) << what;
  }
  EXPECT_EQ(links, 1) << what << ": ranks of one machine, all on one node or all not known to be";
}

TEST(TuttiPerf, MeasuresLinksIntoATableThatTheLibraryTakes) {
  const tutti::test::TemporaryFolder folder;
  const std::string file = folder.file("links");
  for (const std::string transport : {"shm", "tcp"}) {
    for (const std::string ranks : {"2", "3", "5", "3 --threads"}) {
      const std::string what = transport + ", --ranks " + ranks;
      const Finished finished = run(kPerf + "--measure-links " + file + " --transport " + transport + " --ranks " + ranks);
      ASSERT_EQ(finished.code, 0) << what << finished.text;
      EXPECT_THAT(finished.text, HasSubstr("the tuning table is in " + file)) << what;
      const auto table = tutti::Tuning::read(file);
      ASSERT_TRUE(table.ok()) << table.status().text();
      expect_a_link(*table, transport, what);
      EXPECT_EQ(table->link(transport == "shm" ? "tcp" : "shm", tutti::LinkClass::same_numa), std::nullopt) << what;
      EXPECT_EQ(folder.names().size(), 1u) << what << ": a draft was left";
    }
  }
  const Finished finished = run("TUTTI_TUNING=" + file + " " + kPerf + kSmall + "--ranks 2");
  EXPECT_EQ(finished.code, 0) << finished.text;
}

TEST(TuttiPerf, MeasuresLinksWhereOnlyRank0CanWrite) {
  const tutti::test::TemporaryFolder folder;
  const std::string rank =
      " TUTTI_RANKS=2 TUTTI_COMM_ID=file://" + folder.file("id") + " " + kPerf + "--measure-links here/links";
  const std::string both = "cd " + folder.file("") + " && mkdir here && { TUTTI_RANK=0" + rank +
                           " & cd here && TUTTI_RANK=1" + rank + "; code=$?; wait $! && exit $code; }";
  const Finished finished = run(both);
  EXPECT_EQ(finished.code, 0) << finished.text;
  EXPECT_TRUE(tutti::Tuning::read(folder.file("here/links")).ok()) << finished.text;
}

TEST(TuttiPerf, TellsMeasuredLinksAsJsonLines) {
  const Finished finished = run(kPerf + "--measure-links /dev/null --ranks 3 --transport shm --json");
  EXPECT_EQ(finished.code, 0) << finished.text;
  EXPECT_THAT(finished.text, HasSubstr(R"({"transport":"shm","links":"same_)"));
  EXPECT_THAT(finished.text, HasSubstr(R"("pairs":3,"alpha_us":{"min":)"));
}

TEST(TuttiPerf, RefusesToMeasureLinksWhereThatMakesNoSense) {
  expect_one_sentence(kPerf, 2, "COLLECTIVE is missing");
  expect_one_sentence(kPerf + "all_reduce --measure-links /dev/null", 2, "COLLECTIVE and --measure-links");
  expect_one_sentence(kPerf + "--measure-links /dev/null -b 8", 2, "--minbytes is no matter to --measure-links");
  expect_one_sentence(kPerf + "--measure-links /dev/null --in-place", 2, "--in-place is no matter");
  expect_one_sentence(kPerf + "--measure-links /dev/null --ranks 1", 2, "start 2 or more");
  expect_one_sentence(kPerf + "--measure-links /nowhere/x", 2, "/nowhere");
  expect_one_sentence(kPerf + "--measure-links /dev/full --ranks 2", 1, "/dev/full cannot be written");
  expect_one_sentence(kPerf + "--measure-links ''", 2, "--measure-links");
}

}  // namespace
