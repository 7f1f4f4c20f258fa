// tutti-train as its users meet it: exit codes, lines, and what is the same between runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace tutti::trainer {
namespace {

using testing::HasSubstr;

struct Finished {
  int code = -1;
  std::string text;
  std::vector<nlohmann::json> lines;  // of those that are JSON objects
  const nlohmann::json& final_line() const { return lines.back(); }
};

// Runs tutti-train, `before` it whatever the shell is to do, stdout and stderr together; `timeout` ends it rather than
// letting the suite hang.
Finished run(const std::string& arguments, const std::string& before = "") {
  const std::string command = before + "timeout 120 " TUTTI_TRAIN_PROGRAM " " + arguments + " 2>&1";
  Finished finished;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return finished;
  char buffer[4096];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe)) finished.text.append(buffer, got);
  const int status = ::pclose(pipe);
  finished.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  std::istringstream lines(finished.text);
  for (std::string line; std::getline(lines, line);) {
    nlohmann::json object = nlohmann::json::parse(line, nullptr, false);
    if (object.is_object()) finished.lines.push_back(std::move(object));
  }
  return finished;
}

constexpr char kSmall[] = "--layers 784,16,10 --epochs 2 --json ";

TEST(TuttiTrain, GivesALineAnEpochAndAFinalOne) {
  const Finished finished = run(std::string(kSmall) + "--ranks 2");
  ASSERT_EQ(finished.code, 0) << finished.text;
  ASSERT_EQ(finished.lines.size(), 3U) << finished.text;
  for (int epoch = 1; epoch <= 2; ++epoch) {
    const auto& line = finished.lines[static_cast<std::size_t>(epoch - 1)];
    EXPECT_EQ(line.at("epoch"), epoch);
    EXPECT_GT(line.at("loss").get<double>(), 0);
    EXPECT_GT(line.at("accuracy").get<double>(), 0.1);
    EXPECT_GT(line.at("seconds").get<double>(), 0);
    EXPECT_GT(line.at("communication_seconds").get<double>(), 0);
  }
  const auto& last = finished.final_line();
  EXPECT_EQ(last.at("final"), true);
  EXPECT_EQ(last.at("ranks"), 2);
  EXPECT_EQ(last.at("parallelism"), "data");
  EXPECT_EQ(last.at("parameters"), 784 * 16 + 16 + 160 + 10);
  EXPECT_EQ(last.at("weights_hash").get<std::string>().size(), 16U);
}

TEST(TuttiTrain, GivesTheSameBitsFromRunToRunWithProcessesAndThreads) {
  const Finished first = run(std::string(kSmall) + "--ranks 3");
  const Finished again = run(std::string(kSmall) + "--ranks 3");
  const Finished threads = run(std::string(kSmall) + "--ranks 3 --threads");
  ASSERT_EQ(first.code, 0) << first.text;
  ASSERT_EQ(again.code, 0) << again.text;
  ASSERT_EQ(threads.code, 0) << threads.text;
  EXPECT_EQ(first.final_line().at("weights_hash"), again.final_line().at("weights_hash"));
  EXPECT_EQ(first.lines[0].at("loss"), again.lines[0].at("loss"));
  EXPECT_NEAR(first.lines[0].at("loss").get<double>(), threads.lines[0].at("loss").get<double>(), 1e-5);
}

TEST(TuttiTrain, LearnsTheSameOnOneTwoAndFourRanks) {
  const Finished one = run(kSmall);
  ASSERT_EQ(one.code, 0) << one.text;
  for (const char* ranks : {"2", "4"}) {
    const Finished several = run(std::string(kSmall) + "--ranks " + ranks);
    ASSERT_EQ(several.code, 0) << several.text;
    EXPECT_NEAR(several.lines[0].at("loss").get<double>(), one.lines[0].at("loss").get<double>(), 1e-5) << ranks;
    EXPECT_NEAR(several.final_line().at("test_accuracy").get<double>(), one.final_line().at("test_accuracy").get<double>(),
                .01);
  }
}

TEST(TuttiTrain, ResumesFromItsCheckpoint) {
  const test::TemporaryFolder folder;
  const std::string file = " --checkpoint " + folder.file("run");
  const Finished whole = run("--layers 784,16,10 --epochs 3 --json --ranks 2");
  const Finished begun = run(kSmall + std::string("--ranks 2") + file);
  ASSERT_EQ(begun.code, 0) << begun.text;
  const Finished resumed = run("--layers 784,16,10 --epochs 3 --json --ranks 2 --resume" + file);
  ASSERT_EQ(resumed.code, 0) << resumed.text;
  EXPECT_EQ(resumed.final_line().at("weights_hash"), whole.final_line().at("weights_hash"));
  const Finished other = run("--layers 784,17,10 --json --ranks 2 --resume" + file);
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.text, HasSubstr("784,16,10"));
}

// By micro-batches a run may go on on another number of ranks, with the same bits.
TEST(TuttiTrain, ResumesOnOtherNumbersOfRanksWithTheSameBits) {
  const test::TemporaryFolder folder;
  const std::string usual = "--layers 784,16,10 --micro-batches 12 --json ";
  const auto go_on = [&](const char* epochs, const char* ranks, const std::string& file) {
    return run(usual + "--epochs " + epochs + " --ranks " + ranks + " --resume --checkpoint " + folder.file(file));
  };
  const Finished whole = run(usual + "--epochs 3 --ranks 2");
  ASSERT_EQ(whole.code, 0) << whole.text;
  for (const char* ranks : {"4", "3", "1", "6"}) {
    const Finished begun = run(usual + "--epochs 1 --ranks 2 --checkpoint " + folder.file(ranks));
    ASSERT_EQ(begun.code, 0) << begun.text;
    const Finished resumed = go_on("3", ranks, ranks);
    ASSERT_EQ(resumed.code, 0) << resumed.text;
    EXPECT_EQ(resumed.final_line().at("weights_hash"), whole.final_line().at("weights_hash")) << ranks << " ranks";
  }
  const Finished uneven = go_on("3", "5", "4");
  EXPECT_EQ(uneven.code, 2);
  EXPECT_THAT(uneven.text, HasSubstr("cannot be shared evenly by 5 ranks"));
}

TEST(TuttiTrain, SaysWhyACheckpointMayNotBeSoLargeAndLeavesNothing) {
  const test::TemporaryFolder folder;
  const Finished finished =
      run("--layers 784,16,10 --epochs 1 --quiet --checkpoint " + folder.file("run"), "ulimit -f 1; ");
  EXPECT_EQ(finished.code, 1) << finished.text;
  EXPECT_THAT(finished.text, HasSubstr("cannot write the checkpoint"));
  EXPECT_EQ(std::count(finished.text.begin(), finished.text.end(), '\n'), 1) << finished.text;
  EXPECT_TRUE(folder.empty());
}

TEST(TuttiTrain, RefusesBadInputWithOneSentenceAndExitTwo) {
  const test::TemporaryFolder folder;
  test::write_bytes(folder.file("train-images-idx3-ubyte"), std::vector<std::uint8_t>{0, 0, 8, 3, 0});
  ASSERT_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--resume --checkpoint " + folder.file("pipe"), "is no regular file"},
      {"--data " + folder.file("missing"), "does not exist"},
      {"--data " + folder.path(), "truncated"},
      {"--ranks 2 --data " + folder.path(), "truncated"},
      {"--ranks 2 --layers 783,10", "784"},
      {"--layers 784,x", "\"x\""},
      {"--epochs 0", "--epochs"},
      {"--batch 0", "--batch"},
      {"--ranks 0", "--ranks"},
      {"--momentum 1", "--momentum"},
      {"--loss hinge", "hinge"},
      {"--parallelism pipeline", "not there yet"},
      {"--memory cuda", "not there yet"},
      {"--resume", "--checkpoint"},
      {"--ranks 2 --resume --checkpoint " + folder.file("none"), "No such file"},
      {"--checkpoint " + folder.file("no/run"), "No such file"},
      {"--plot plot.gif", "plot.gif"},
      {"--frobnicate", "--frobnicate"},
  };
  for (const auto& [arguments, expected] : cases) {
    const Finished finished = run(arguments);
    EXPECT_EQ(finished.code, 2) << arguments << "\n" << finished.text;
    EXPECT_THAT(finished.text, HasSubstr(expected)) << arguments;
    EXPECT_EQ(std::count(finished.text.begin(), finished.text.end(), '\n'), 1) << arguments << "\n" << finished.text;
  }
}

TEST(TuttiTrain, WritesAnErrorAsAJsonLineToo) {
  const Finished finished = run("--json --data /nonexistent-folder");
  EXPECT_EQ(finished.code, 2);
  ASSERT_EQ(finished.lines.size(), 1U) << finished.text;
  EXPECT_THAT(finished.lines[0].at("error").get<std::string>(), HasSubstr("/nonexistent-folder"));
}

}  // namespace
}  // namespace tutti::trainer
