// What tutti-train's command line becomes, and what it refuses.
#include "trainer/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/tables/units.h"
#include "tests/support/temporary_folder.h"
#include "trainer/report.h"

namespace tutti::trainer {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string refusal(const TrainCommand& command) {
  const auto settings = settings_of(command);
  if (settings.ok()) return "it was taken";
  EXPECT_EQ(settings.failure().code, TrainerExit::refused);
  return settings.failure().sentence;
}

TEST(Layers, AreReadAsAList) {
  EXPECT_EQ(*parse_layers("784,128,10"), (std::vector<int>{784, 128, 10}));
  EXPECT_EQ(*parse_layers("1,1"), (std::vector<int>{1, 1}));
}

TEST(Layers, AreRefusedWithTheItemAtFault) {
  for (const char* text : {"", "784", "784,", ",10", "784,,10", "784,x,10", "784,-1,10", "784,0,10", "784,1e3", "784 10",
                           "99999999999,10", "1000001,10", "784,128,10x"}) {
    const auto layers = parse_layers(text);
    ASSERT_FALSE(layers.ok()) << text;
    EXPECT_EQ(layers.failure().code, TrainerExit::refused);
    EXPECT_THAT(layers.failure().sentence, AllOf(HasSubstr("--layers"), HasSubstr("784,128,10"))) << text;
  }
  EXPECT_THAT(parse_layers("784,x7,10").failure().sentence, HasSubstr("\"x7\""));
  EXPECT_THAT(parse_layers("1000000,1000000").failure().sentence, HasSubstr("2^32"));
}

TEST(TrainingReport, GivesTimesInTheUnitThatTheyFill) {
  EXPECT_EQ(time_text(12.341), "12.34 s");
  EXPECT_EQ(time_text(0.9999), "1.00 s");
  EXPECT_EQ(time_text(0.00123), "1.23 ms");
  EXPECT_EQ(time_text(0.345), "345 ms");
  EXPECT_EQ(time_text(4.56e-5), "45.60 us");
  EXPECT_EQ(time_text(0), "0 s");
}

TEST(TrainCommand, BecomesSettings) {
  TrainCommand command;
  command.loss = "squared";
  const auto settings = settings_of(command);
  ASSERT_TRUE(settings.ok()) << settings.failure().sentence;
  EXPECT_EQ(settings->layers, (std::vector<int>{784, 128, 10}));
  EXPECT_EQ(settings->loss, LossKind::squared);
  EXPECT_EQ(settings->step.learning_rate, 0.01);
  command.learning_rate = 0.5;
  EXPECT_EQ(settings_of(command)->step.learning_rate, 0.5);
}

TEST(TrainCommand, RefusesBucketsThatEndWithinAGradient) {
  for (const std::uint64_t bytes : {0, 1, 3, 6, 4097}) {
    TrainCommand command;
    command.bucket = bytes;
    const auto settings = settings_of(command);
    ASSERT_FALSE(settings.ok()) << bytes;
    EXPECT_THAT(settings.failure().sentence, testing::HasSubstr("multiple of 4"));
  }
}

TEST(TrainCommand, HasTheSameDefaultsAsTheSettings) {
  const auto settings = settings_of({});
  const TrainingSettings defaults;
  EXPECT_EQ(settings->layers, defaults.layers);
  EXPECT_EQ(settings->epochs, defaults.epochs);
  EXPECT_EQ(settings->batch, defaults.batch);
  EXPECT_EQ(settings->step.learning_rate, defaults.step.learning_rate);
  EXPECT_EQ(settings->step.momentum, defaults.step.momentum);
  EXPECT_EQ(settings->step.weight_decay, defaults.step.weight_decay);
  EXPECT_EQ(settings->decay, defaults.decay);
  EXPECT_EQ(settings->validation, defaults.validation);
  EXPECT_EQ(settings->bucket_bytes, defaults.bucket_bytes);
}

TEST(TrainCommand, LetsRanksThatComputeMeanwhileSleepWhereCpusAreFew) {
  TrainingSettings settings;
  settings.layers = {784, 1024, 1024, 10};
  EXPECT_EQ(spin_of(settings, 2, 2), -1);
  EXPECT_EQ(spin_of(settings, 2, 4), 0);
  settings.layers = {784, 128, 10};  // one bucket: nothing to compute meanwhile
  EXPECT_EQ(spin_of(settings, 2, 2), 0);
}

TEST(TrainCommand, RefusesWhatIsNotThereYet) {
  for (const char* parallelism : {"model", "pipeline", "server"}) {
    TrainCommand command;
    command.parallelism = parallelism;
    EXPECT_THAT(refusal(command), AllOf(HasSubstr(parallelism), HasSubstr("not there yet")));
  }
  TrainCommand command;
  command.memory = "cuda";
  EXPECT_THAT(refusal(command), AllOf(HasSubstr("cuda"), HasSubstr("not there yet")));
}

TEST(TrainCommand, RefusesFilesThatCannotBeWritten) {
  const test::TemporaryFolder folder;
  TrainCommand command;
  command.resume = true;
  EXPECT_THAT(refusal(command), HasSubstr("--checkpoint"));
  command.checkpoint = folder.file("nowhere/run");
  EXPECT_THAT(refusal(command), AllOf(HasSubstr("nowhere"), HasSubstr("No such file")));
  command.checkpoint = folder.path();
  EXPECT_THAT(refusal(command), HasSubstr("is a folder"));
  command.checkpoint = folder.file("run");
  EXPECT_TRUE(settings_of(command).ok());
  command.plot = folder.file("plot.jpeg");
  EXPECT_THAT(refusal(command), HasSubstr("plot.jpeg"));
  command.plot = folder.file("plot.svg");
  EXPECT_TRUE(settings_of(command).ok());
}

}  // namespace
}  // namespace tutti::trainer
