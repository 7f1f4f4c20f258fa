// What the command line takes, and the one sentence by which it refuses.
#include "src/program/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace tutti::program {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A program with an option of each kind, and what a command line made of it.
struct Sample {
  std::string verb;
  std::string name = "anon";
  std::string color = "red";
  int64_t count = 3;
  double rate = 0.5;
  uint64_t size = 4096;
  bool loud = false;
  bool given_count = false;
  Output output{"sample"};
  std::optional<int> code;
  std::string out;
  std::string err;

  explicit Sample(const std::vector<const char*>& given) {
    std::vector<const char*> arguments = {"sample"};
    for (const char* argument : given) arguments.push_back(argument);
    Options options("sample", "Does nothing");
    options.positional("VERB", &verb, "What to do", true, {"go", "stay"});
    options.text("-n,--name", &name, "NAME", "A name");
    options.choice("--color", &color, {"red", "green"}, "A color");
    options.integer("-c,--count", &count, 1, 9, "How often");
    options.real("--rate", &rate, 0, 1, "How fast");
    options.size("-s,--size", &size, "How much");
    options.flag("--loud", &loud, "Shouts");
    options.example("sample go", "goes");
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    code = options.parse(static_cast<int>(arguments.size()), arguments.data(), output);
    out = testing::internal::GetCapturedStdout();
    err = testing::internal::GetCapturedStderr();
    given_count = options.given("--count");
  }
};

TEST(Options, TakeEveryKindByShortAndLongName) {
  const Sample sample({"-n", "a b", "go", "--color=green", "-c", "9", "--rate", "1", "-s", "64K", "--loud"});
  EXPECT_FALSE(sample.code) << sample.err;
  EXPECT_EQ(sample.verb, "go");
  EXPECT_EQ(sample.name, "a b");
  EXPECT_EQ(sample.color, "green");
  EXPECT_EQ(sample.count, 9);
  EXPECT_EQ(sample.rate, 1);
  EXPECT_EQ(sample.size, 65536u);
  EXPECT_TRUE(sample.loud);
  EXPECT_TRUE(sample.given_count);
}

TEST(Options, KeepDefaultsAndKnowWhatWasNotGiven) {
  const Sample sample({"stay"});
  EXPECT_FALSE(sample.code);
  EXPECT_EQ(sample.count, 3);
  EXPECT_EQ(sample.size, 4096u);
  EXPECT_FALSE(sample.given_count);
}

TEST(Options, TakeTheLastOfTwo) { EXPECT_EQ(Sample({"go", "-c", "2", "-c", "5"}).count, 5); }

TEST(Options, BareJsonDoesNotSwallowTheNextArgument) {
  const Sample sample({"--json", "go"});
  EXPECT_FALSE(sample.code) << sample.err;
  EXPECT_EQ(sample.verb, "go");
  EXPECT_TRUE(sample.output.json());
  EXPECT_TRUE(Sample({"go", "--quiet"}).output.quiet());
}

void expect_refusal(const std::vector<const char*>& arguments, const std::string& part) {
  const Sample sample(arguments);
  EXPECT_EQ(sample.code, kWrongUse) << part;
  EXPECT_THAT(sample.err, AllOf(StartsWith("sample: "), HasSubstr(part)));
  EXPECT_EQ(std::count(sample.err.begin(), sample.err.end(), '\n'), 1) << "one sentence: " << sample.err;
  EXPECT_EQ(sample.out, "");
}

TEST(Options, RefuseWithOneSentenceThatNamesWhatWasGiven) {
  expect_refusal({}, "VERB is missing");
  expect_refusal({"gp"}, "'gp'");
  expect_refusal({"gp"}, "did you mean go?");
  expect_refusal({"go", "--colr", "red"}, "did you mean --color?");
  expect_refusal({"go", "--color", "blue"}, "'blue', but it takes one of red and green");
  expect_refusal({"go", "-c", "10"}, "--count was given '10', but it takes a whole number from 1 to 9");
  expect_refusal({"go", "-c", "2x"}, "'2x'");
  expect_refusal({"go", "-c", "99999999999999999999"}, "'99999999999999999999'");
  expect_refusal({"go", "-c", "-1"}, "'-1'");
  expect_refusal({"go", "--rate", "nan"}, "'nan'");
  expect_refusal({"go", "--rate", "2"}, "from 0 to 1");
  expect_refusal({"go", "-s", "1.5"}, "a fraction needs one of K, M and G");
  expect_refusal({"go", "more"}, "'more'");
  expect_refusal({"go", "--count"}, "--count was given without a value");
  expect_refusal({"go", "--json="}, "--json was given without a value");
}

TEST(Options, AnErrorWithJsonIsAJsonLineToo) {
  const Sample sample({"go", "--json", "-c", "0"});
  EXPECT_EQ(sample.code, kWrongUse);
  EXPECT_THAT(sample.out, AllOf(StartsWith(R"({"error":"--count was given '0')"), HasSubstr(R"("exit":2})")));
  EXPECT_THAT(sample.err, HasSubstr("--count was given '0'"));
}

TEST(Options, HelpHasExamplesAndDefaults) {
  const Sample sample({"--help"});
  EXPECT_EQ(sample.code, kGood);
  EXPECT_THAT(sample.out, AllOf(HasSubstr("sample go"), HasSubstr("4K"), HasSubstr("--json"), HasSubstr("red|green")));
  EXPECT_EQ(sample.err, "");
}

TEST(Options, VersionNamesTheProgram) {
  const Sample sample({"--version"});
  EXPECT_EQ(sample.code, kGood);
  EXPECT_THAT(sample.out, StartsWith("sample "));
}

TEST(NearestName, IsEmptyWhereNothingIsNear) {
  EXPECT_EQ(nearest_name("allreduce", {"all_reduce", "reduce"}), "all_reduce");
  EXPECT_EQ(nearest_name("zebra", {"all_reduce", "reduce"}), "");
}

}  // namespace
}  // namespace tutti::program
