// tutti-plan simulate, as scripts and people use it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/support/temporary_folder.h"

namespace tutti {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::StartsWith;
using Json = nlohmann::json;

class PlanTool : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.file(name); }
  std::string content(const std::string& name) const {
    std::ostringstream all;
    all << std::ifstream(path(name)).rdbuf();
    return all.str();
  }
  /// Runs tutti-plan; what it wrote is in the files `out` and `err`.
  int run(const std::string& arguments) const {
    const std::string command = std::string(TUTTI_PLAN) + " " + arguments + " >" + path("out") + " 2>" + path("err");
    const int status = ::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  const test::TemporaryFolder folder_;
};

TEST_F(PlanTool, SimulatesAnAlgorithmAndTellsSecondsAndBytesByLink) {
  ASSERT_EQ(run("simulate --algorithm ring --ranks 4 --bytes 64K --json"), 0) << content("err");
  const Json line = Json::parse(content("out"));
  EXPECT_EQ(line["verdict"], "completed");
  EXPECT_EQ(line["collective"], "all_reduce");
  EXPECT_EQ(line["ranks"], 4);
  EXPECT_EQ(line["messages"], 24);
  EXPECT_EQ(line["bytes_per_rank"], 6 * 16384);
  EXPECT_GT(line["seconds"], 0.0);
  ASSERT_EQ(line["links"].size(), 4u);
  for (const Json& link : line["links"]) {
    EXPECT_EQ(link["bytes"], 6 * 16384);
    EXPECT_EQ((link["from"].get<int>() + 1) % 4, link["to"]);
  }
  ASSERT_EQ(run("simulate --algorithm ring --ranks 4 --bytes 64K"), 0);
  EXPECT_THAT(content("out"), HasSubstr("all_reduce by ring on 4 ranks, 65536 bytes a block: "));
}

TEST_F(PlanTool, TakesMachinesAndTori) {
  ASSERT_EQ(run("verify --algorithm hierarchical --ranks 8 --machines 2"), 0) << content("err");
  ASSERT_EQ(run("cost --ranks 64 --machines 8 --bytes 64M"), 0) << content("err");
  EXPECT_THAT(content("out"), HasSubstr("hierarchical is chosen"));
  ASSERT_EQ(run("simulate --algorithm torus --ranks 16 --torus 4x4 --bytes 1M --json"), 0) << content("err");
  EXPECT_EQ(Json::parse(content("out"))["links"].size(), 128u);  // 16 ranks, 4 parts, 2 neighbors each
  EXPECT_EQ(run("verify --algorithm hierarchical --ranks 8"), 2);
  EXPECT_EQ(run("cost --ranks 8 --machines 3"), 2);
  EXPECT_THAT(content("err"), HasSubstr("8 ranks are not the same number on each of 3 machines"));
  for (const char* sizes : {"4x5", "4x", "x4", "16y1", "0x16", "-4x-4", "99999999999x1"}) {
    EXPECT_EQ(run(std::string("show --ranks 16 --torus ") + sizes), 2) << sizes;
    EXPECT_THAT(content("err"), HasSubstr("is no torus of 16 ranks")) << sizes;
  }
}

TEST_F(PlanTool, CostsOnANetworkWhatSimulationSays) {
  const std::string on = " --bytes 1M --json --topology fat_tree:2x4,oversubscription=4,GBps=0.0125,latency_us=20";
  ASSERT_EQ(run("cost" + on), 0) << content("err");
  std::map<std::string, double> seconds;
  double last = 0;
  std::istringstream lines(content("out"));
  for (std::string line; std::getline(lines, line);) {
    const Json row = Json::parse(line);
    EXPECT_TRUE(row["simulated"]) << line;
    EXPECT_GE(row["seconds"], last) << line;
    last = row["seconds"];
    seconds[row["algorithm"]] = row["seconds"];
  }
  ASSERT_TRUE(seconds.contains("ring") && seconds.contains("direct") && seconds.contains("hierarchical"));
  for (const auto& [algorithm, expected] : seconds) {
    ASSERT_EQ(run("simulate --algorithm " + algorithm + on), 0) << content("err");
    EXPECT_EQ(Json::parse(content("out"))["seconds"], expected) << algorithm;
  }
  // The model counts what each rank sends; that all of a rack's ranks share its trunk only the simulation sees.
  EXPECT_GT(seconds["direct"], 1.5 * seconds["ring"]);
  ASSERT_EQ(run("cost --topology torus:256x256 --bytes 8M --quiet"), 0) << content("err");
}

TEST_F(PlanTool, RefusesBytesThatAreNoWholeNumberOfElements) {
  for (const char* command : {"simulate", "cost", "verify", "show"}) {
    EXPECT_EQ(run(std::string(command) + " --bytes 7"), 2) << command;
    EXPECT_THAT(content("err"),
                HasSubstr("--bytes 7 is no whole number of elements of float32, 4 bytes each; give 4 or 8"));
  }
  EXPECT_EQ(run("simulate --ranks 2 --bytes 1"), 2);
  EXPECT_THAT(content("err"), HasSubstr("4 bytes each; give 4, or another --type"));
  EXPECT_EQ(run("cost --bytes 7 --type uint8"), 0) << content("err");
  EXPECT_EQ(run("verify --collective barrier --bytes 7"), 0) << content("err");
}

TEST_F(PlanTool, RefusesAFolderAsAScheduleByItsName) {
  EXPECT_EQ(run("verify --schedule /tmp"), 2);
  EXPECT_THAT(content("err"), HasSubstr("/tmp cannot be read: it is a folder"));
}

TEST_F(PlanTool, RefusesSchedulesWhoseNumbersNoPlanCanHave) {
  ASSERT_EQ(run("show --algorithm ring --ranks 2"), 0);
  const std::string good = content("out");
  const std::pair<const char*, const char*> changes[] = {{"window ", "0"},
                                                         {"window ", "18446744073709551615"},
                                                         {"grain ", "0"},
                                                         {"grain ", "4294967295"},
                                                         {"count ", "18446744073709551615"},
                                                         {"lanes ", "0"},
                                                         {"lanes ", "99999"},
                                                         {"chunks ", "0"},
                                                         {"depth ", "0"}};
  for (const auto& [name, value] : changes) {
    std::string changed = good;
    const std::size_t at = changed.find(name);
    ASSERT_NE(at, std::string::npos) << name;
    const std::size_t begin = at + std::string_view(name).size();
    changed.replace(begin, changed.find_first_not_of("0123456789", begin) - begin, value);
    std::ofstream(path("changed")) << changed;
    for (const std::string command : {"verify", "simulate"}) {
      EXPECT_EQ(run(command + " --schedule " + path("changed")), 3) << command << ", " << name << value << content("out");
    }
  }
}

TEST_F(PlanTool, RefusesOptionsThatWouldCountForNothing) {
  ASSERT_EQ(run("show --algorithm ring --ranks 2"), 0);
  std::filesystem::rename(path("out"), path("ring"));
  EXPECT_EQ(run("verify --schedule " + path("ring")), 0);
  EXPECT_EQ(run("verify --ranks 9 --schedule " + path("ring")), 2);
  EXPECT_THAT(content("err"), HasSubstr("--ranks"));
  EXPECT_EQ(run("cost --schedule " + path("ring")), 2);
  EXPECT_EQ(run("verify --rank 1"), 2);
  EXPECT_EQ(run("cost --algorithm telepathy"), 2);
  EXPECT_THAT(content("err"), HasSubstr("telepathy"));
  EXPECT_EQ(run("cost --algorithm tree"), 0);
  EXPECT_THAT(content("out"), HasSubstr("tree is chosen"));
  EXPECT_EQ(run("cost --algorithm ''"), 2);
  EXPECT_THAT(content("err"), HasSubstr("--algorithm was given ''"));
}

TEST_F(PlanTool, ProvesThatAllOperandsAreFoldedAtOnce) {
  EXPECT_EQ(run("verify --ranks 4 --local-operands 3 --algorithm direct"), 0) << content("err");
  EXPECT_THAT(content("out"), HasSubstr("folded in rank order"));
  EXPECT_EQ(run("cost --ranks 5 --one-fold --collective reduce"), 0) << content("err");
  EXPECT_THAT(content("out"), testing::AllOf(HasSubstr("central"), testing::Not(HasSubstr("binomial"))));
  EXPECT_EQ(run("verify --ranks 5 --one-fold --algorithm ring"), 2);
  EXPECT_THAT(content("err"), HasSubstr("folds in an order of its own"));
  EXPECT_EQ(run("cost --one-fold --collective broadcast"), 2);
  EXPECT_THAT(content("err"), HasSubstr("broadcast folds nothing"));
  EXPECT_EQ(run("cost --local-operands 2 --collective reduce_scatter"), 2);
  EXPECT_THAT(content("err"), HasSubstr("no more than one operand a rank"));
  EXPECT_EQ(run("cost --ranks 8 --local-operands 4000"), 2);
  EXPECT_THAT(content("err"), HasSubstr("more than 4096 operands"));
}

/// Bytes that a rank sends, by a simulation's JSON line.
std::uint64_t sent_by(const Json& line, int rank) {
  std::uint64_t bytes = 0;
  for (const Json& link : line["links"]) bytes += link["from"] == rank ? link["bytes"].get<std::uint64_t>() : 0;
  return bytes;
}

TEST_F(PlanTool, SimulatesVVariantsWithBlocksOfTheirDivision) {
  // Blocks of 1, 2, 3 and 4 parts of 4 KiB; a ring's rank sends all but its successor's.
  const std::string ring = "simulate --collective all_gather_v --algorithm ring --ranks 4 --bytes 10K --json --division ";
  ASSERT_EQ(run(ring + "skewed"), 0) << content("err");
  const Json skewed = Json::parse(content("out"));
  EXPECT_EQ(skewed["collective"], "all_gather_v");
  EXPECT_EQ(skewed["division"], "skewed");
  for (int r = 0; r < 4; ++r) EXPECT_EQ(sent_by(skewed, r), 4096u * static_cast<unsigned>(10 - (r + 1) % 4 - 1)) << r;
  ASSERT_EQ(run(ring + "one"), 0) << content("err");
  const Json one = Json::parse(content("out"));
  EXPECT_EQ(sent_by(one, 2), 0u);
  EXPECT_EQ(sent_by(one, 3), 40960u);
  ASSERT_EQ(run("simulate --collective scatter_v --root 1 --ranks 3 --type opaque12 --bytes 1200 --division zeros --json"),
            0)
      << content("err");
  EXPECT_EQ(sent_by(Json::parse(content("out")), 1), 3600u) << "two blocks of half of all, neither of them the root's";
  ASSERT_EQ(run("simulate --collective all_to_all_v --ranks 4 --bytes 0"), 0) << content("err");
  EXPECT_THAT(content("out"), HasSubstr("0 messages of 0 bytes in all, 0 passes"));
  // On a network what is skewed takes longer, and `cost` says how long.
  const std::string on = " --collective all_to_all_v --bytes 1M --json --topology switch:4,GBps=1 --division ";
  std::map<std::string, double> seconds;
  for (const std::string division : {"even", "skewed", "one"}) {
    ASSERT_EQ(run("simulate" + on + division), 0) << content("err");
    seconds[division] = Json::parse(content("out"))["seconds"];
    ASSERT_EQ(run("cost" + on + division), 0) << content("err");
    EXPECT_EQ(Json::parse(content("out").substr(0, content("out").find('\n')))["seconds"], seconds[division]) << division;
  }
  EXPECT_GT(seconds["skewed"], 1.05 * seconds["even"]);
}

TEST_F(PlanTool, ProvesVVariantsForEveryDivision) {
  for (const std::string v : {"all_gather_v", "reduce_scatter_v", "all_to_all_v", "gather_v", "scatter_v"}) {
    ASSERT_EQ(run("verify --ranks 5 --root 3 --collective " + v), 0) << content("err");
    EXPECT_THAT(content("out"), HasSubstr("proved: " + v + " by "));
    EXPECT_THAT(content("out"), HasSubstr("for every division into blocks"));
    ASSERT_EQ(run("show --ranks 5 --root 3 --collective " + v), 0) << content("err");
    EXPECT_THAT(content("out"), HasSubstr("schedule " + v + " "));
    std::filesystem::rename(path("out"), path("plan"));
    ASSERT_EQ(run("verify --json --schedule " + path("plan")), 0) << content("err");
    EXPECT_EQ(Json::parse(content("out"))["collective"], v);
    EXPECT_TRUE(Json::parse(content("out"))["bytes_per_rank"].is_null()) << "sizes are the call's";
    ASSERT_EQ(run("simulate --bytes 4K --division skewed --json --schedule " + path("plan")), 0) << content("err");
    EXPECT_GT(Json::parse(content("out"))["messages"], 0);
    ASSERT_EQ(run("show --bytes 4K --division zeros --ranks 4 --svg " + path("plan.svg") + " --collective " + v), 0)
        << content("err");
    EXPECT_THAT(content("plan.svg"), HasSubstr("4096 bytes a block on average, division zeros"));
  }
  // What is right for equal blocks alone: the other's block lies for a while where one's own data were.
  std::string text =
      "schedule all_gather_v mine\nranks 2 root 0 count 100 type float32 op sum\nlanes 1 depth 1 credit 2 "
      "chunks 1 scratch 0 message 1\nwindow 128 grain 32 hash 0\n";
  for (const auto& [own, peer] : {std::pair("0", "1"), {"1", "0"}}) {
    const std::string o = own, p = peer;
    text += "rank " + o + "\nlinks to:" + p + ".0 from:" + p + ".0\nlane 0\n0 send input[0;0] -> to:" + p +
            ".0[0;0] output[" + o + ";0] output[" + p + ";0]\n1 recv from:" + p + ".0[0;0] -> output[" + p + ";0]\n";
  }
  std::ofstream(path("early")) << text;
  EXPECT_EQ(run("verify --schedule " + path("early")), 3);
  EXPECT_THAT(content("err"), HasSubstr("step 0 has operands in blocks whose lengths a call may make different"));
}

TEST_F(PlanTool, TakesEveryTypeAndOperator) {
  for (const char* words : {"--type float8_e4m3", "--type bool --op logical_xor", "--type complex128 --op prod",
                            "--type int16 --op bitwise_and", "--type opaque24 --bytes 24K --op user_defined --one-fold",
                            "--type bfloat16 --op pre_mul_sum", "--type float16 --accumulate float32",
                            "--collective reduce_scatter_v --op avg --accumulate float32 --type bfloat16",
                            "--collective all_gather --type opaque7 --bytes 7000"}) {
    for (const char* command : {"show", "verify", "cost", "simulate"}) {
      EXPECT_EQ(run(std::string(command) + " --ranks 5 " + words), 0) << command << " " << words << ": " << content("err");
    }
  }
  ASSERT_EQ(run("show --ranks 5 --type float16 --accumulate float32"), 0);
  EXPECT_THAT(content("out"), HasSubstr("type float16 op sum folds once"));
  ASSERT_EQ(run("show --ranks 5 --type float32 --accumulate float32"), 0);
  EXPECT_THAT(content("out"), testing::Not(HasSubstr("folds once"))) << "it is as wide already";
  ASSERT_EQ(run("show --ranks 3 --op user_defined --one-fold --type opaque8"), 0);
  EXPECT_THAT(content("out"), HasSubstr("type opaque8 op user_defined folds once"));
  std::filesystem::rename(path("out"), path("plan"));
  EXPECT_EQ(run("verify --schedule " + path("plan")), 0) << content("err");
}

TEST_F(PlanTool, RefusesCombinationsThatMeanNothingInOneSentence) {
  const std::pair<const char*, const char*> wrongs[] = {
      {"simulate --division skewed", "--division is of v-variants, and blocks of all_reduce have one length; leave it out"},
      {"simulate --collective gather_v --division odd",
       "there is no division \"odd\"; choose from even, skewed, zeros and one"},
      {"verify --collective gather_v --division one", "--division belongs to `simulate`, `cost` and `show`; leave it out"},
      {"show --collective gather_v --division one", "leave out --division, or draw one by --svg"},
      {"cost --collective all_gather_v --division one", "without a --topology `cost` knows blocks of one length alone"},
      {"cost --collective all_gather_v --csv choices.csv",
       "--csv writes choices by collective, which v-variants go by, too"},
      {"verify --collective all_reduce_v", "there is no collective \"all_reduce_v\"; choose from all_reduce, "},
      {"verify --collective all_to_all_v --algorithm bruck",
       "all_to_all_v cannot be done by \"bruck\", which joins blocks"},
      {"verify --collective reduce_scatter_v --local-operands 2", "reduce_scatter_v has no more than one operand a rank"},
      {"simulate --collective all_to_all_v --ranks 9000", "more blocks than are simulated; take up to 4096 ranks"},
      {"simulate --collective all_gather_v --bytes 3", "--bytes 3 is no whole number of elements of float32"},
      {"verify --type bool --op avg", "there is no avg of bool; bool has sum, prod, "},
      {"verify --type opaque8 --op sum", "there is no sum of opaque8; sum has int8, "},
      {"verify --type opaque2000 --bytes 2000 --op user_defined",
       "combines elements of up to 1024 bytes, and opaque2000 has 2000"},
      {"verify --type bool --op pre_mul_sum", "bool cannot be multiplied before it is summed"},
      {"verify --op max --accumulate float32", "max rounds nothing; leave --accumulate out"},
      {"verify --type int32 --accumulate float32", "int32 cannot be accumulated in float32"},
      {"verify --type float16 --accumulate float64", "float16 cannot be accumulated in float64"},
      {"verify --collective all_gather --accumulate float32", "all_gather folds nothing; leave --accumulate out"},
      {"verify --collective all_gather_v --op nand", "there is no operator \"nand\"; choose from sum, "},
      {"verify --type float7", "there is no element type \"float7\"; choose from int8, "},
  };
  for (const auto& [arguments, sentence] : wrongs) {
    EXPECT_EQ(run(arguments), 2) << arguments << content("out");
    EXPECT_THAT(content("err"), HasSubstr(sentence)) << arguments;
  }
  EXPECT_FALSE(std::filesystem::exists("choices.csv"));
  ASSERT_EQ(run("show --algorithm ring --ranks 2"), 0);
  std::filesystem::rename(path("out"), path("ring"));
  for (const char* option : {"--bytes 4K", "--division one"}) {
    EXPECT_EQ(run(std::string("simulate ") + option + " --schedule " + path("ring")), 2) << option;
    EXPECT_THAT(content("err"), HasSubstr("is what --schedule says already; leave it out")) << option;
  }
}

TEST_F(PlanTool, WritesEveryChoiceAsCsvAndChoosesByItAgain) {
  const auto chosen = [&](const std::string& arguments) {
    EXPECT_EQ(run("cost " + arguments), 0) << content("err");
    const std::string out = content("out");
    const std::size_t at = out.find(" is chosen");
    return at == std::string::npos ? out : out.substr(out.rfind('\n', at) + 1, at - out.rfind('\n', at) - 1);
  };
  for (const std::string places : {"--ranks 8", "--ranks 12 --machines 3 --cores 4", "--ranks 16 --torus 4x4"}) {
    const std::string file = path("choices.csv");
    ASSERT_EQ(run("cost " + places + " --csv " + file), 0) << content("err");
    EXPECT_THAT(content("out"), HasSubstr("ranks are in " + file));
    EXPECT_THAT(content("choices.csv"), testing::StartsWith("tutti tuning 1\nlink,"));
    for (const char* collective : {"all_reduce", "broadcast", "all_to_all", "reduce"}) {
      for (const char* bytes : {"4", "1000", "32K", "500K", "64M", "4G"}) {
        const std::string problem = places + " --collective " + collective + " --bytes " + bytes;
        EXPECT_EQ(chosen(problem + " --tuning " + file), chosen(problem)) << problem;
      }
    }
    ASSERT_EQ(run("cost " + places + " --tuning " + file + " --csv " + path("again.csv")), 0);
    EXPECT_EQ(content("again.csv"), content("choices.csv"));
  }
  ASSERT_EQ(run("cost --collective broadcast --ranks 4 --csv " + path("one.csv")), 0) << content("err");
  EXPECT_THAT(content("one.csv"), HasSubstr("use,broadcast,4,0,"));
  EXPECT_THAT(content("one.csv"), testing::Not(HasSubstr("all_reduce")));
}

TEST_F(PlanTool, RefusesCsvThatCannotBeWrittenOrRead) {
  EXPECT_EQ(run("cost --csv " + path("none/choices.csv")), 2);
  EXPECT_THAT(content("err"), HasSubstr("none/choices.csv', which cannot be written"));
  EXPECT_EQ(content("out"), "");
  EXPECT_EQ(run("cost --csv /dev/full"), 1);
  EXPECT_THAT(content("err"), HasSubstr("/dev/full cannot be written: No space left on device"));
  EXPECT_EQ(run("simulate --csv " + path("choices.csv")), 2);
  EXPECT_THAT(content("err"), HasSubstr("--csv belongs to `cost`"));
  EXPECT_EQ(run("cost --algorithm tree --csv " + path("choices.csv")), 2);
  EXPECT_THAT(content("err"), HasSubstr("leave out --algorithm"));
  std::ofstream(path("bad.csv")) << "tutti tuning 1,,,\r\nuse,all_reduce,4,0,ring,\r\n";
  EXPECT_EQ(run("cost --tuning " + path("bad.csv")), 2);
  EXPECT_THAT(content("err"), HasSubstr("bad.csv\" says \"use,all_reduce,4,0,ring,\""));
  EXPECT_THAT(content("err"), HasSubstr("`use COLLECTIVE RANKS BYTES BYTES ALGORITHM`"));
}

TEST_F(PlanTool, WritesATimelineWhereAsked) {
  ASSERT_EQ(run("simulate --algorithm ring --ranks 3 --trace " + path("trace.json")), 0) << content("err");
  const Json trace = Json::parse(content("trace.json"));
  EXPECT_GT(trace["traceEvents"].size(), 20u);
  EXPECT_EQ(run("simulate --trace " + path("none/trace.json")), 2);
  EXPECT_THAT(content("err"), HasSubstr("none/trace.json', which cannot be written"));
  EXPECT_EQ(run("verify --trace " + path("trace.json")), 2);
  EXPECT_THAT(content("err"), HasSubstr("--trace belongs to `simulate`"));
}

TEST_F(PlanTool, DrawsASchedule) {
  const std::string to = " --svg " + path("drawing.svg");
  ASSERT_EQ(run("show --algorithm halving_doubling --ranks 8 --bytes 64K --json" + to), 0) << content("err");
  const Json line = Json::parse(content("out"));
  EXPECT_EQ(line["moves"], 88);
  EXPECT_EQ(line["messages"], 48);
  EXPECT_THAT(content("drawing.svg"), HasSubstr(">all_reduce by halving_doubling on 8 ranks<"));
  ASSERT_EQ(run("show --bytes 64K --msccl " + std::string(TUTTI_TEST_DATA) + "/msccl/allreduce_ring_4x2.xml" + to), 0)
      << content("err");
  EXPECT_THAT(content("drawing.svg"), HasSubstr(">all_reduce by msccl:ring_4x2 on 4 ranks<"));
  ASSERT_EQ(run("show --collective broadcast --algorithm chain --ranks 3 --root 1 --bytes 64K"), 0);
  std::filesystem::rename(path("out"), path("chain"));
  ASSERT_EQ(run("show --schedule " + path("chain") + to), 0) << content("err");
  EXPECT_THAT(content("drawing.svg"), HasSubstr(">broadcast by chain on 3 ranks, root 1<"));
  ASSERT_EQ(run("show --schedule " + path("chain")), 0) << content("err");
  EXPECT_EQ(content("out"), content("chain"));
}

TEST_F(PlanTool, RefusesDrawingsThatNobodyCouldRead) {
  const std::string to = " --svg " + path("drawing.svg");
  EXPECT_EQ(run("show --ranks 65" + to), 2);
  EXPECT_EQ(
      content("err"),
      "tutti-plan: --svg draws up to 64 ranks and 4096 moves, and these are 65 ranks; take fewer --ranks or --bytes\n");
  EXPECT_EQ(run("show --ranks 1048576" + to), 2);
  EXPECT_EQ(run("show --algorithm ring --ranks 8 --bytes 1G" + to), 2);
  EXPECT_THAT(content("err"), HasSubstr("64 ranks and 4096 moves, and these are "));
  EXPECT_EQ(run("show --svg " + path("none/drawing.svg")), 2);
  EXPECT_THAT(content("err"), HasSubstr("none/drawing.svg', which cannot be written"));
  EXPECT_EQ(run("verify" + to), 2);
  EXPECT_THAT(content("err"), HasSubstr("--svg belongs to `show`"));
  EXPECT_EQ(run("show --rank 0" + to), 2);
  EXPECT_THAT(content("err"), HasSubstr("leave out --rank"));
  // A schedule that never ends has no drawing.
  ASSERT_EQ(run("show --collective broadcast --algorithm binomial --ranks 2"), 0);
  std::string text = content("out");
  const std::size_t step = text.find("  0 ");
  text.erase(step, text.find('\n', step) - step);
  std::ofstream(path("bad")) << text;
  EXPECT_EQ(run("show --schedule " + path("bad") + to), 3);
  EXPECT_THAT(content("err"), HasSubstr("waits for a message from rank 0"));
  EXPECT_FALSE(std::filesystem::exists(path("drawing.svg")));
}

TEST_F(PlanTool, SaysWhoWaitsForEverInAScheduleFromAFile) {
  ASSERT_EQ(run("show --collective broadcast --algorithm binomial --ranks 2"), 0);
  std::string text = content("out");
  std::ofstream(path("good")) << text;
  EXPECT_EQ(run("simulate --schedule " + path("good")), 0) << content("err");
  // Without its one step, the root sends nothing.
  const std::size_t step = text.find("  0 ");
  ASSERT_NE(step, std::string::npos);
  text.erase(step, text.find('\n', step) - step);
  std::ofstream(path("bad")) << text;
  EXPECT_EQ(run("simulate --schedule " + path("bad")), 3);
  EXPECT_THAT(content("err"), HasSubstr("rank 1, lane 0, step 0, pass 0 waits for a message from rank 0"));
  // What comes to an end need not be right.
  ASSERT_EQ(run("show --collective all_reduce --algorithm ring --ranks 3"), 0);
  text = content("out");
  const std::size_t place = text.find("output[0;1");
  ASSERT_NE(place, std::string::npos) << text;
  text.replace(place, 10, "output[0;0");
  std::ofstream(path("wrong")) << text;
  EXPECT_EQ(run("simulate --schedule " + path("wrong")), 3);
  EXPECT_THAT(content("err"), HasSubstr("simulated, but not proved: "));
}

TEST_F(PlanTool, QuotesNothingOfAFileThatCommandsATerminal) {
  std::ofstream(path("bad")) << "tutti tuning 1\nlink \xc2\x9b\x33\x31m\x1b[31m\xff 1 2\n";
  EXPECT_EQ(run("cost --ranks 2 --json --tuning " + path("bad")), 2);
  for (const char* stream : {"out", "err"}) {
    EXPECT_THAT(content(stream), HasSubstr("31m?[31m?")) << stream;
    for (const char* control : {"\xc2\x9b", "\x1b", "\xff"})
      EXPECT_THAT(content(stream), Not(HasSubstr(control))) << stream;
  }
}

TEST_F(PlanTool, SimulatesSlicesOfAnyLength) {
  const std::string chain = "simulate --collective broadcast --algorithm chain --ranks 8 --bytes 1M --json";
  std::map<std::string, double> seconds;
  for (const std::string slice : {"4K", "64K", "1M"}) {
    ASSERT_EQ(run(chain + " --slice " + slice), 0) << content("err");
    seconds[slice] = Json::parse(content("out"))["seconds"];
  }
  // α is 300 ns and β 120 ps: 64 KiB overlap more than 1 MiB on their way through the chain, 4 KiB pay more α.
  EXPECT_LT(seconds["64K"], .7 * seconds["1M"]);
  EXPECT_NE(seconds["4K"], seconds["64K"]);
  EXPECT_EQ(run(chain + " --slice 127"), 2);
  EXPECT_THAT(content("err"), HasSubstr("--slice 127 is no length of a message; give 128 to"));
  EXPECT_EQ(run("verify --algorithm ring --ranks 3 --bytes 100K --slice 128"), 0) << content("err");
}

TEST_F(PlanTool, DrawsWhatNetworkItSimulated) {
  ASSERT_EQ(run("show --algorithm hierarchical --ranks 8 --machines 2 --bytes 64K --svg " + path("two.svg")), 0);
  EXPECT_THAT(content("two.svg"), HasSubstr("simulated on links: same_"));
  EXPECT_THAT(content("two.svg"), HasSubstr("; other_machine 20 us a message, 0.8 ns a byte"));
  ASSERT_EQ(run("show --algorithm ring --ranks 8 --bytes 64K --svg " + path("one.svg")), 0);
  EXPECT_THAT(content("one.svg"), HasSubstr("simulated on a uniform network: "));
}

TEST_F(PlanTool, SimulatesOnTheLibrarysLinksWhateverMakesTheSchedule) {
  // A chain of 4 messages over 2 links: one after the other with as much room as the library's links have.
  ASSERT_EQ(run("simulate --collective broadcast --algorithm chain --topology switch:3,GBps=1,latency_us=10 --bytes 128K"),
            0);
  EXPECT_THAT(content("out"), HasSubstr("203.840 us in virtual time"));
  EXPECT_THAT(content("out"), HasSubstr("credit 4"));
  ASSERT_EQ(run("simulate --algorithm direct --lanes 3 --slice 128K --topology switch:4 --bytes 1M"), 0);
  EXPECT_THAT(content("out"), HasSubstr("32.457 us in virtual time"));
}

TEST_F(PlanTool, SaysInJsonWhichAlgorithmIsChosen) {
  std::ofstream(path("t.tuning")) << "tutti tuning 1\nuse all_reduce 8 0 9999999 tree\nuse all_gather 8 0 99 torus\n";
  ASSERT_EQ(run("cost --ranks 8 --bytes 1M --json --tuning " + path("t.tuning")), 0) << content("err");
  std::istringstream lines(content("out"));
  int chosen = 0;
  for (std::string line; std::getline(lines, line);) {
    const bool is = line.find("\"chosen\":true") != std::string::npos;
    EXPECT_EQ(is, line.find("\"algorithm\":\"tree\"") != std::string::npos) << line;
    chosen += is ? 1 : 0;
  }
  EXPECT_EQ(chosen, 1);
  // A row that cannot be followed is not passed over in silence.
  ASSERT_EQ(run("cost --collective all_gather --ranks 8 --bytes 32 --tuning " + path("t.tuning")), 0) << content("err");
  EXPECT_THAT(content("out"), HasSubstr("; the tuning table names torus, which is not for such ranks"));
}

TEST_F(PlanTool, RefusesOptionsThatWouldChangeNothing) {
  EXPECT_EQ(run("simulate --algorithm ring --ranks 4 --cores 2"), 2);
  EXPECT_THAT(content("err"), HasSubstr("name by --algorithm what `cost --cores` chooses"));
  EXPECT_EQ(run("cost --ranks 4 --slice 4K"), 2);
  EXPECT_THAT(content("err"), HasSubstr("leave out --slice, or `simulate`"));
  EXPECT_EQ(run("cost --topology switch:4 --slice 4K"), 0) << content("err");
  EXPECT_EQ(run("verify --op bitwise_and --type float32"), 2);
  EXPECT_THAT(content("err"), HasSubstr("there is no bitwise_and of float32; float32 has sum, prod, max, min and avg"));
  EXPECT_EQ(run("verify --collective barrier --op min --type bool --ranks 4"), 0) << content("err");
}

TEST_F(PlanTool, SaysOfAWrongScheduleThatItIsNotProved) {
  ASSERT_EQ(run("show --algorithm ring --ranks 2"), 0);
  std::string text = content("out");
  const std::size_t at = text.find(" complete");
  ASSERT_NE(at, std::string::npos);
  std::ofstream(path("wrong.schedule")) << text.erase(at, 9);
  EXPECT_EQ(run("simulate --json --schedule " + path("wrong.schedule")), 3);
  EXPECT_THAT(content("out"), StartsWith("{\"verdict\":\"not proved\""));
}

TEST_F(PlanTool, HasWrittenItsTableBeforeAnybodyStopsReading) {
  const std::string command = TUTTI_PLAN " cost --ranks 8 --csv " + path("piped.csv") + " | head -1 > /dev/null";
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_THAT(content("piped.csv"), HasSubstr("use,all_reduce,8,"));
}

TEST_F(PlanTool, TablesOfANetworkSayWhatTheComparisonSaysAtEverySize) {
  const std::pair<std::string, std::string> networks[] = {{"switch:4", "4"},
                                                          {"torus:4x4", "16 --torus 4x4"},
                                                          {"switch:6,slow_endpoint=2,slow_GBps=5", "6"},
                                                          {"fat_tree:2x3,oversubscription=4,latency_us=20", "6"}};
  for (const auto& [network, ranks] : networks) {
    const std::string on = " --collective all_reduce --topology " + network;
    ASSERT_EQ(run("cost" + on + " --csv " + path("table")), 0) << content("err");
    for (int bytes = 64; bytes <= (64 << 20); bytes *= 2) {
      const std::string size = " --bytes " + std::to_string(bytes);
      ASSERT_EQ(run("cost" + on + size), 0) << content("err");
      const std::string compared = content("out");
      const std::string chosen = compared.substr(0, compared.find(" is chosen: on these links"));
      const std::string name = chosen.substr(chosen.rfind('\n') + 1);
      ASSERT_FALSE(name.empty());
      ASSERT_EQ(run("cost --ranks " + ranks + size + " --tuning " + path("table")), 0) << content("err");
      EXPECT_THAT(content("out"), HasSubstr(name + " is chosen: the tuning table says")) << network << size;
    }
  }
}

TEST_F(PlanTool, ComparesWhatHasTooManyStepsByTheirPace) {
  // Some 2,500 passes of 125 ranks, more than are simulated for a comparison.
  const std::string on = " --collective reduce_scatter --topology torus:5x5x5 --bytes 16M --json";
  ASSERT_EQ(run("cost" + on), 0) << content("err");
  const Json first = Json::parse(content("out").substr(0, content("out").find('\n')));
  EXPECT_EQ(first["algorithm"], "torus");
  EXPECT_EQ(first["simulated"], true);
  ASSERT_EQ(run("simulate --algorithm torus" + on), 0) << content("err");
  const double whole = Json::parse(content("out"))["seconds"];
  EXPECT_NEAR(first["seconds"].get<double>(), whole, .02 * whole);
}

TEST_F(PlanTool, TellsRanksByATableWhatANetworksSimulationSays) {
  const std::string on = " --topology fat_tree:2x4,oversubscription=4,GBps=0.0125,latency_us=50";
  ASSERT_EQ(run("cost --collective all_reduce --bytes 64K --csv " + path("table") + on), 0) << content("err");
  EXPECT_THAT(content("out"), HasSubstr("ring is chosen"));
  EXPECT_THAT(content("out"), HasSubstr("ranks choose by the model, which takes hierarchical"));
  // Without the network, but with its table.
  ASSERT_EQ(run("cost --ranks 8 --bytes 64K --tuning " + path("table")), 0) << content("err");
  EXPECT_THAT(content("out"), HasSubstr("ring is chosen: the tuning table says"));
  ASSERT_EQ(run("cost --collective all_reduce --bytes 1M --csv " + path("table") + on), 0) << content("err");
  EXPECT_THAT(content("out"), HasSubstr("halving_doubling is chosen"));
  EXPECT_THAT(content("out"), HasSubstr("ranks choose by the model, which takes hierarchical"));
  ASSERT_EQ(run("cost --ranks 8 --bytes 1M --tuning " + path("table")), 0) << content("err");
  EXPECT_THAT(content("out"), HasSubstr("halving_doubling is chosen: the tuning table says"));
}

TEST_F(PlanTool, OverwritesNothingThatItReadsOrHasWritten) {
  ASSERT_EQ(run("cost --ranks 4 --bytes 64K --csv " + path("table")), 0) << content("err");
  const std::string table = content("table");
  for (const std::string& output :
       {"--json=" + path("table"), "--json=" + path("") + "./table", "--csv " + path("table")}) {
    EXPECT_EQ(run("cost --ranks 4 --bytes 64K --tuning " + path("table") + " " + output), 2) << output;
    EXPECT_THAT(content("err"), HasSubstr("would overwrite the file that --tuning reads; name another"));
    EXPECT_EQ(content("table"), table) << output;
  }
  EXPECT_EQ(run("simulate --ranks 4 --bytes 64K --trace " + path("one") + " --json=" + path("one")), 2);
  EXPECT_THAT(content("err"), HasSubstr("--trace and --json name the same file; give each its own"));
  EXPECT_FALSE(std::filesystem::exists(path("one")));
  EXPECT_EQ(run("simulate --ranks 4 --bytes 64K --trace /dev/null --json=/dev/null"), 0) << content("err");
}

TEST_F(PlanTool, RefusesWhatWouldFillTheMemoryAndShowsOneRankOfIt) {
  EXPECT_EQ(run("simulate --algorithm flat --topology switch:65536"), 2);
  EXPECT_THAT(content("err"), HasSubstr("flat on 65536 ranks sends over 4.3e+09 links, more than the 2.5e+07"));
  EXPECT_EQ(run("verify --algorithm ring --ranks 65536"), 2);
  EXPECT_THAT(content("err"), HasSubstr("the programs of 65536 ranks of ring have about"));
  EXPECT_EQ(run("verify --ranks 65537"), 2);
  EXPECT_THAT(content("err"), HasSubstr("`verify` takes up to 65536 ranks, and not 65537"));
  EXPECT_EQ(run("show --algorithm ring --ranks 4096 --rank 17"), 0) << content("err");
  EXPECT_THAT(content("out"), HasSubstr("rank 17"));
  EXPECT_EQ(run("verify --bytes 8000000000G"), 2);
  EXPECT_THAT(content("err"), HasSubstr("a schedule takes up to 2^42"));
  EXPECT_EQ(run("synthesize --topology switch:4 --bytes 2G"), 2);
  EXPECT_THAT(content("err"), HasSubstr("up to that"));
  EXPECT_EQ(run("simulate --topology switch:4 --trace same --link-load-svg same"), 2);
  EXPECT_THAT(content("err"), HasSubstr("name the same file"));
}

const std::string ring_file = std::string(TUTTI_TEST_DATA) + "/msccl/allreduce_ring_4x2.xml";

TEST_F(PlanTool, ProvesShowsAndSimulatesAnMscclFile) {
  ASSERT_EQ(run("verify --json --msccl " + ring_file), 0) << content("err");
  const Json proof = Json::parse(content("out"));
  EXPECT_EQ(proof["verdict"], "proved");
  EXPECT_EQ(proof["collective"], "all_reduce");
  EXPECT_EQ(proof["algorithm"], "msccl:ring_4x2");
  EXPECT_EQ(proof["ranks"], 4);
  EXPECT_EQ(proof["lanes"], 2);
  EXPECT_EQ(proof["messages"], 48);
  ASSERT_EQ(run("simulate --json --bytes 64K --type int32 --msccl " + ring_file), 0) << content("err");
  EXPECT_EQ(Json::parse(content("out"))["bytes_per_rank"], 6 * 16384);
  // What is shown is a schedule like any other.
  ASSERT_EQ(run("show --op max --msccl " + ring_file), 0) << content("err");
  EXPECT_THAT(content("out"), HasSubstr("schedule all_reduce msccl:ring_4x2"));
  EXPECT_THAT(content("out"), HasSubstr("op max"));
  std::filesystem::rename(path("out"), path("ring"));
  EXPECT_EQ(run("verify --schedule " + path("ring")), 0) << content("err");
}

TEST_F(PlanTool, SaysWhichStepOfAnMscclFileIsAtFault) {
  std::ifstream file(ring_file);
  std::stringstream all;
  all << file.rdbuf();
  const std::string good = all.str();
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    std::ofstream(path("changed.xml")) << text;
    return " --msccl " + path("changed.xml");
  };
  const std::string unproved = with(R"(type="rrcs" srcbuf="i" srcoff="1")", R"(type="rrcs" srcbuf="i" srcoff="2")");
  EXPECT_EQ(run("verify" + unproved), 3);
  EXPECT_THAT(content("err"), HasSubstr("not proved: rank 0, thread block 0, step 3 folds chunk 1"));
  EXPECT_EQ(run("simulate" + unproved), 2);
  const std::string malformed = with("rrcs", "rrx");
  for (const std::string command : {"verify", "show", "simulate"}) {
    EXPECT_EQ(run(command + malformed), 2);
    EXPECT_THAT(content("err"), HasSubstr("is refused: rank 0, thread block 0, step 3 is of the type \"rrx\""));
  }
  EXPECT_EQ(run("verify --msccl /nowhere.xml"), 2);
  EXPECT_THAT(content("err"), HasSubstr("/nowhere.xml cannot be read"));
}

TEST_F(PlanTool, RefusesWhatIsNoFile) {
  for (const std::string option : {"--msccl ", "--schedule ", "--tuning "}) {
    EXPECT_EQ(run("verify " + option + "/dev/zero"), 2) << option;
    EXPECT_THAT(content("err"), HasSubstr("cannot be read: it is a device"));
    EXPECT_EQ(run("verify " + option + "/"), 2) << option;
    EXPECT_THAT(content("err"), HasSubstr("cannot be read: it is a folder"));
  }
}

TEST_F(PlanTool, RefusesOptionsThatAnMscclFileSaysAlready) {
  EXPECT_EQ(run("verify --ranks 4 --msccl " + ring_file), 2);
  EXPECT_THAT(content("err"), HasSubstr("--ranks is what --msccl says already"));
  EXPECT_EQ(run("cost --msccl " + ring_file), 2);
  EXPECT_EQ(run("verify --schedule x --msccl " + ring_file), 2);
  EXPECT_EQ(run("show --bytes 7 --msccl " + ring_file), 2);
  EXPECT_THAT(content("err"), HasSubstr("no whole number of elements"));
}

TEST_F(PlanTool, SimulatesOnANetworkAndTellsWhatItsLinksCarried) {
  ASSERT_EQ(run("simulate --algorithm ring --topology fat_tree:2x4,oversubscription=4 --bytes 64K --json"), 0)
      << content("err");
  const Json line = Json::parse(content("out"));
  EXPECT_EQ(line["ranks"], 8);
  EXPECT_EQ(line["messages"], 14 * 8);
  std::map<std::string, std::uint64_t> carried;
  for (const Json& link : line["network_links"]) carried[link["link"]] = link["bytes"];
  EXPECT_EQ(carried.size(), 20u);
  EXPECT_EQ(carried["endpoint 1 > leaf 0"], 14 * 8192u);
  EXPECT_EQ(carried["leaf 0 > spine"], 14 * 8192u);
  EXPECT_EQ(line["simulated_ranks"], 4);  // places in a leaf
  ASSERT_EQ(run("simulate --algorithm ring --topology fat_tree:2x2 --ranks 3 --bytes 64K"), 0) << content("err");
  EXPECT_THAT(content("out"), HasSubstr("all_reduce by ring on 3 ranks of fat_tree:2x2, 65536 bytes a block: "));
  EXPECT_THAT(content("out"), HasSubstr("endpoint 0 > leaf 0"));
}

TEST_F(PlanTool, LetsOneRankStandForFourThousand) {
  ASSERT_EQ(run("simulate --algorithm ring --topology switch:65536 --ranks 4096 --bytes 8M --json"), 0) << content("err");
  const Json line = Json::parse(content("out"));
  EXPECT_EQ(line["simulated_ranks"], 1);
  EXPECT_EQ(line["messages"], 2ull * 4095 * 4096);
}

TEST_F(PlanTool, RefusesNetworksThatItCannotMakeAndStepsThatNobodyWaitsFor) {
  EXPECT_EQ(run("simulate --topology ring:8"), 2);
  EXPECT_THAT(content("err"), HasSubstr("is of no known kind; write switch:ENDPOINTS"));
  std::ofstream(path("machine.xml")) << "<topology/>";
  EXPECT_EQ(run("simulate --topology " + path("machine.xml")), 2);
  EXPECT_EQ(run("simulate --topology switch:4 --ranks 5"), 2);
  EXPECT_THAT(content("err"), HasSubstr("more than the 4 endpoints"));
  EXPECT_EQ(run("verify --topology switch:4"), 2);
  EXPECT_EQ(run("simulate --topology switch:4 --torus 2x2"), 2);
  EXPECT_EQ(run("simulate --link-load-svg " + path("load.svg")), 2);
  EXPECT_THAT(content("err"), HasSubstr("--link-load-svg draws the links of a network"));
  EXPECT_EQ(run("simulate --algorithm ring --topology switch:65536 --bytes 8000000"), 2);
  EXPECT_THAT(content("err"), HasSubstr("give --bytes a multiple of 8388608"));
}

TEST_F(PlanTool, DrawsTheLoadOfEveryLinkOnce) {
  ASSERT_EQ(run("simulate --algorithm ring --topology torus:4x4 --link-load-svg " + path("load.svg")), 0) << content("err");
  const std::string svg = content("load.svg");
  EXPECT_THAT(svg, HasSubstr("all_reduce by ring on 16 ranks of torus:4x4"));
  EXPECT_THAT(svg, HasSubstr("All 64 links in the network's order, a square each"));
  EXPECT_THAT(svg, HasSubstr("(0,0) &gt; (0,1)"));
  EXPECT_EQ(svg.find(" > "), std::string::npos);
  std::size_t squares = 0;
  for (std::size_t at = 0; (at = svg.find("height=\"13.0\"", at)) != std::string::npos; ++at) ++squares;
  EXPECT_EQ(squares, 64u);
}

const std::string topologies = std::string(TUTTI_TEST_DATA) + "/topologies/";

TEST_F(PlanTool, SimulatesOnTheMachineOfAFile) {
  for (const std::string file : {"dgx1-v100.nccl.xml", "dgx1-v100.hwloc2.xml"}) {
    ASSERT_EQ(run("simulate --algorithm halving_doubling --bytes 1M --json --topology " + topologies + file), 0)
        << content("err");
    const Json line = Json::parse(content("out"));
    EXPECT_EQ(line["ranks"], 8) << file;
    EXPECT_THAT(line["network_links"].dump(), HasSubstr("gpu0 > gpu1 (NVLink)")) << file;
  }
  ASSERT_EQ(run("cost --bytes 1M --ranks 4 --topology " + topologies + "pcie-v100.nccl.xml"), 0) << content("err");
  std::ofstream(path("machine.xml")) << R"(<system version="1"><cpu numaid="0" arch="x86_64"/></system>)";
  EXPECT_EQ(run("simulate --topology " + path("machine.xml")), 2);
  EXPECT_THAT(content("err"), HasSubstr("has no GPUs, and ranks are GPUs"));
  EXPECT_EQ(run("simulate --topology /nowhere/machine.xml"), 2);
  EXPECT_THAT(content("err"), HasSubstr("/nowhere/machine.xml"));
}

#ifdef TUTTI_HAS_CLP

TEST_F(PlanTool, ComparesWithNamedAlgorithmsAsTheyAreSimulated) {
  ASSERT_EQ(run("synthesize --topology switch:4 --bytes 1M"), 0) << content("err");
  EXPECT_THAT(content("out"), ContainsRegex("direct +32.46 .*3 lanes.*128 KiB"));
}

TEST_F(PlanTool, SynthesizesAScheduleThatItThenProvesAndSimulates) {
  const std::string on = " --json --topology " + topologies + "dgx1-v100-broken.nccl.xml";
  ASSERT_EQ(run("synthesize --bytes 4M --output " + path("made") + on), 0) << content("err");
  const Json line = Json::parse(content("out"));
  EXPECT_EQ(line["verdict"], "proved");
  EXPECT_EQ(line["ranks"], 8);
  EXPECT_LE(line["seconds"], line["named"][0]["seconds"]);
  EXPECT_GE(line["seconds"], line["bound_seconds"]);
  EXPECT_EQ(line["seconds"], line["made"][0]["seconds"]);
  ASSERT_EQ(run("verify --json --schedule " + path("made")), 0) << content("err");
  EXPECT_EQ(Json::parse(content("out"))["lanes"], line["lanes"]);
  ASSERT_EQ(run("simulate --schedule " + path("made") + on), 0) << content("err");
  EXPECT_EQ(Json::parse(content("out"))["seconds"], line["seconds"]);
  ASSERT_EQ(run("synthesize --bytes 64K --ranks 3 --topology switch:5"), 0) << content("err");
  EXPECT_THAT(content("out"), HasSubstr("all_reduce of 65536 bytes on 3 ranks of switch:5"));
}

TEST_F(PlanTool, RefusesToSynthesizeForTooManyRanks) {
  EXPECT_EQ(run("synthesize --topology switch:9"), 2);
  EXPECT_THAT(content("err"), HasSubstr("a synthesis takes 2 to 8 ranks, and not 9"));
}

#else

TEST_F(PlanTool, SaysThatItCannotSynthesizeWithoutASolver) {
  EXPECT_EQ(run("synthesize --topology switch:4"), 2);
  EXPECT_THAT(content("err"), HasSubstr("no solver of linear programs"));
}

#endif

TEST_F(PlanTool, RefusesWhatIsNoMatterToASynthesis) {
  EXPECT_EQ(run("synthesize"), 2);
  EXPECT_THAT(content("err"), HasSubstr("give its file by --topology"));
  EXPECT_EQ(run("synthesize --topology switch:4 --collective broadcast"), 2);
  EXPECT_THAT(content("err"), HasSubstr("`synthesize` makes all-reduces"));
  EXPECT_EQ(run("synthesize --topology switch:4 --algorithm ring"), 2);
  EXPECT_THAT(content("err"), HasSubstr("--algorithm is no matter to `synthesize`"));
  EXPECT_EQ(run("synthesize --topology switch:4 --output /nowhere/made"), 2);
  EXPECT_THAT(content("err"), HasSubstr("/nowhere/made"));
  EXPECT_EQ(run("show --output " + path("made")), 2);
  EXPECT_THAT(content("err"), HasSubstr("--output belongs to `synthesize`"));
}

}  // namespace
}  // namespace tutti
