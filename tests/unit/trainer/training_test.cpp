// Training by ranks that are threads: what must not depend on their number, and what a run does when things go wrong.
#include "trainer/training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "tests/support/temporary_folder.h"
#include "tests/unit/trainer/thread_peers.h"
#include "tests/unit/trainer/train_on.h"
#include "trainer/checkpoint.h"
#include "trainer/digits.h"
#include "trainer/exchange.h"

namespace tutti::trainer {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const Dataset& small_data() {
  static const Dataset data = {draw_digits(500, 1), draw_digits(100, 2)};
  return data;
}

TrainingSettings small_settings() {
  TrainingSettings settings;
  settings.layers = {784, 24, 10};
  settings.epochs = 3;
  settings.batch = 33;
  settings.step = {0.05, 0.9, 1e-4};
  settings.bucket_bytes = 8192;
  return settings;
}

TEST(Training, DependsOnTheNumberOfRanksByRoundingOnly) {
  for (const LossKind loss : {LossKind::cross_entropy, LossKind::squared}) {
    TrainingSettings settings = small_settings();
    settings.loss = loss;
    if (loss == LossKind::squared) settings.step.learning_rate = 0.005;
    const Outcomes one = train_on(1, settings, small_data());
    ASSERT_EQ(one.epochs.size(), 3U);
    EXPECT_LT(one.epochs[2].loss, 0.7 * one.epochs[0].loss) << "it must learn";
    for (const int ranks : {2, 3, 4, 7}) {
      const Outcomes several = train_on(ranks, settings, small_data());
      ASSERT_EQ(several.finals.size(), static_cast<std::size_t>(ranks));
      EXPECT_NEAR(several.epochs[0].loss, one.epochs[0].loss, 1e-5) << ranks;
      EXPECT_NEAR(several.finals[0].test_accuracy, one.finals[0].test_accuracy, 0.011) << ranks;
      for (const FinalReport& other : several.finals)
        EXPECT_EQ(other.weights_hash, several.finals[0].weights_hash) << ranks;
    }
  }
}

TEST(Training, GivesTheSameBitsOnAnyNumberOfRanksByMicroBatches) {
  TrainingSettings settings = small_settings();
  settings.micro_batches = 12;
  const Outcomes one = train_on(1, settings, small_data());
  ASSERT_EQ(one.epochs.size(), 3U);
  EXPECT_LT(one.epochs[2].loss, 0.7 * one.epochs[0].loss) << "it must learn";
  for (const int ranks : {2, 3, 4, 6, 12}) {
    const Outcomes several = train_on(ranks, settings, small_data());
    ASSERT_EQ(several.finals.size(), static_cast<std::size_t>(ranks));
    for (const FinalReport& other : several.finals) EXPECT_EQ(other.weights_hash, one.finals[0].weights_hash) << ranks;
  }
  settings.micro_batches = 0;
  EXPECT_NE(train_on(1, settings, small_data()).finals[0].weights_hash, one.finals[0].weights_hash);
}

TEST(Training, GivesTheSameBitsFromRunToRun) {
  const Outcomes first = train_on(3, small_settings(), small_data());
  const Outcomes again = train_on(3, small_settings(), small_data());
  EXPECT_EQ(first.finals[0].weights_hash, again.finals[0].weights_hash);
  EXPECT_EQ(first.epochs[2].loss, again.epochs[2].loss);
  TrainingSettings other = small_settings();
  other.seed = 2;
  EXPECT_NE(train_on(3, other, small_data()).finals[0].weights_hash, first.finals[0].weights_hash);
}

TEST(Training, WorksWithMoreRanksThanSamplesInABatch) {
  TrainingSettings settings = small_settings();
  settings.epochs = 1;
  settings.batch = 2;
  settings.step.learning_rate = 0.001;
  const Outcomes one = train_on(1, settings, small_data());
  const Outcomes five = train_on(5, settings, small_data());
  ASSERT_EQ(five.finals.size(), 5U);
  EXPECT_NEAR(five.epochs[0].loss, one.epochs[0].loss, 1e-5);
}

TEST(Training, TakesABatchLargerThanTheData) {
  TrainingSettings settings = small_settings();
  settings.epochs = 1;
  settings.batch = 1'000'000'000;
  EXPECT_EQ(train_on(2, settings, small_data()).finals.size(), 2U);
}

TEST(Training, ExchangesEachGradientOnceAStepInBuckets) {
  TrainingSettings settings = small_settings();
  settings.epochs = 1;
  const Outcomes outcomes = train_on(2, settings, small_data());
  const std::size_t steps = (450 + 32) / 33;
  const std::size_t parameters = 784 * 24 + 24 + 24 * 10 + 10;
  EXPECT_EQ(outcomes.finals[0].parameters, parameters);
  EXPECT_EQ(outcomes.elements, steps * parameters);
  EXPECT_GE(outcomes.operations, steps * 8) << "buckets of 8 KiB of 76 KiB";
}

TEST(Training, SaysThatItDivergedInsteadOfReportingNonsense) {
  TrainingSettings settings = small_settings();
  settings.loss = LossKind::squared;
  settings.step.learning_rate = 1e4;
  const Outcomes outcomes = train_on(2, settings, small_data());
  ASSERT_EQ(outcomes.failures.size(), 2U);
  EXPECT_EQ(outcomes.failures[0].code, TrainerExit::failed);
  EXPECT_THAT(outcomes.failures[0].sentence, AllOf(HasSubstr("diverged"), HasSubstr("--learning-rate")));
}

TEST(Training, SaysThatItDivergedWhereTheLossIsAbsurdThoughFinite) {
  TrainingSettings settings = small_settings();
  settings.loss = LossKind::squared;
  settings.epochs = 1;
  settings.layers = {784, 10};
  settings.step = {1, 0, 0};
  const Outcomes outcomes = train_on(2, settings, small_data());
  ASSERT_EQ(outcomes.failures.size(), 2U) << outcomes.finals[0].test_accuracy;
  EXPECT_EQ(outcomes.failures[0].code, TrainerExit::failed);
  EXPECT_THAT(outcomes.failures[0].sentence, AllOf(HasSubstr("diverged"), HasSubstr("e+")));
}

TEST(Training, RefusesLayersThatDoNotFitTheData) {
  TrainingSettings settings = small_settings();
  EXPECT_FALSE(check_settings(settings, small_data()));
  settings.layers = {783, 10};
  EXPECT_THAT(check_settings(settings, small_data())->sentence, AllOf(HasSubstr("783"), HasSubstr("784")));
  settings.layers = {784, 9};
  EXPECT_THAT(check_settings(settings, small_data())->sentence, AllOf(HasSubstr("9 outputs"), HasSubstr("10 classes")));
}

// Adds something to one rank's sums, as a broken reduction would.
class LyingPeers : public ThreadPeers {
 public:
  using ThreadPeers::ThreadPeers;
  TrainingOutcome start_sum(std::size_t slot, std::span<float> data, std::size_t operands) override {
    last_ = data;
    return ThreadPeers::start_sum(slot, data, operands);
  }
  TrainingOutcome wait(std::size_t slot) override {
    TrainingOutcome outcome = ThreadPeers::wait(slot);
    if (rank() == 1) last_[0] += 1e-3F;
    return outcome;
  }

 private:
  std::span<float> last_;
};

TEST(Training, ExitsWithThreeWhereReplicasCameToDiffer) {
  TrainingFailure failures[2];
  on_ranks<LyingPeers>(2, [&](LyingPeers& peers) {
    TrainingSettings settings = small_settings();
    settings.bucket_bytes = 1 << 20;
    const auto result = train(settings, small_data(), peers, {});
    if (!result.ok()) failures[peers.rank()] = result.failure();
  });
  for (const TrainingFailure& failure : failures) {
    EXPECT_EQ(failure.code, TrainerExit::wrong_data);
    EXPECT_THAT(failure.sentence, HasSubstr("rank 1"));
  }
}

TEST(Training, RanksThatWereToldDifferentThingsAreRefusedByTheOptionsName) {
  const Dataset other = {draw_digits(500, 3), draw_digits(100, 2)};
  const std::pair<const char*, std::function<void(TrainingSettings&)>> cases[] = {
      {"--seed is not the same for rank 1", [](TrainingSettings& s) { s.seed = 9; }},
      {"--layers is not", [](TrainingSettings& s) { s.layers = {784, 10}; }},
      {"--learning-rate is not", [](TrainingSettings& s) { s.step.learning_rate = 1; }},
      {"--data is not", {}},
  };
  for (const auto& told : cases) {
    TrainingFailure failures[2];
    on_ranks(2, [&](ThreadPeers& peers) {
      TrainingSettings settings = small_settings();
      if (peers.rank() == 1 && told.second) told.second(settings);
      const auto result = train(settings, peers.rank() == 1 && !told.second ? other : small_data(), peers, {});
      if (!result.ok()) failures[peers.rank()] = result.failure();
    });
    for (const TrainingFailure& failure : failures) {
      EXPECT_EQ(failure.code, TrainerExit::refused);
      EXPECT_THAT(failure.sentence, HasSubstr(told.first));
    }
  }
}

TEST(Training, ResumesToTheSameBitsAsAnUninterruptedRun) {
  const test::TemporaryFolder folder;
  TrainingSettings settings = small_settings();
  const Outcomes whole = train_on(2, settings, small_data());
  settings.checkpoint = folder.file("run");
  settings.epochs = 2;
  train_on(2, settings, small_data());
  EXPECT_EQ(folder.names(), std::vector<std::string>{"run"}) << "no draft may stay behind";
  settings.epochs = 3;
  settings.resume = true;
  const Outcomes resumed = train_on(2, settings, small_data());
  ASSERT_EQ(resumed.epochs.size(), 1U);
  EXPECT_EQ(resumed.epochs[0].epoch, 3);
  EXPECT_EQ(resumed.epochs[0].loss, whole.epochs[2].loss);
  EXPECT_EQ(resumed.finals[0].weights_hash, whole.finals[0].weights_hash);
  EXPECT_TRUE(train_on(2, settings, small_data()).epochs.empty()) << "nothing is left to train";
}

TEST(Training, RefusesToResumeOnEveryRankWhereTheFileIsMissing) {
  const test::TemporaryFolder folder;
  TrainingSettings settings = small_settings();
  settings.checkpoint = folder.file("missing");
  settings.resume = true;
  const Outcomes outcomes = train_on(3, settings, small_data());
  ASSERT_EQ(outcomes.failures.size(), 3U);
  for (const TrainingFailure& failure : outcomes.failures) EXPECT_EQ(failure.code, TrainerExit::refused);
}

class CheckpointFile : public testing::Test {
 protected:
  CheckpointFile() {
    saved_.layers = {3, 2};
    saved_.seed = 9;
    saved_.validation = 0.25;
    saved_.data_hash = 77;
    saved_.epoch = 4;
    saved_.parameters = {1, 2, 3, 4, 5, 6, 7, 8};
    saved_.velocity = {8, 7, 6, 5, 4, 3, 2, 1};
    EXPECT_FALSE(write_checkpoint(path(), saved_));
  }
  std::string path() const { return folder_.file("run"); }
  test::TemporaryFolder folder_;
  Checkpoint saved_;
};

TEST_F(CheckpointFile, ComesBackAsItWas) {
  const auto loaded = read_checkpoint(path());
  ASSERT_TRUE(loaded.ok()) << loaded.failure().sentence;
  EXPECT_EQ(loaded->parameters, saved_.parameters);
  EXPECT_EQ(loaded->velocity, saved_.velocity);
  EXPECT_EQ(loaded->epoch, 4U);
  EXPECT_FALSE(matches(*loaded, saved_, path()));
}

TEST_F(CheckpointFile, IsRefusedWhereverItIsCutOff) {
  const std::vector<std::uint8_t> bytes = test::read_bytes(path());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    test::write_bytes(path(), std::span(bytes).first(size));
    const auto loaded = read_checkpoint(path());
    ASSERT_FALSE(loaded.ok()) << size;
    EXPECT_EQ(loaded.failure().code, TrainerExit::refused);
    EXPECT_THAT(loaded.failure().sentence, AllOf(HasSubstr(path()), HasSubstr("truncated"))) << size;
  }
}

TEST_F(CheckpointFile, IsRefusedWhereverABitIsFlipped) {
  const std::vector<std::uint8_t> bytes = test::read_bytes(path());
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const int bit : {0, 3, 7}) {
      std::vector<std::uint8_t> damaged = bytes;
      damaged[at] ^= static_cast<std::uint8_t>(1 << bit);
      test::write_bytes(path(), damaged);
      EXPECT_FALSE(read_checkpoint(path()).ok()) << "byte " << at << " bit " << bit;
    }
  }
}

TEST_F(CheckpointFile, IsRefusedForAnotherRun) {
  const auto refusal = [this](const std::function<void(Checkpoint&)>& change) {
    Checkpoint wanted = saved_;
    change(wanted);
    const TrainingOutcome failure = matches(saved_, wanted, path());
    return failure ? failure->sentence : "it was taken";
  };
  EXPECT_THAT(refusal([](Checkpoint& c) { c.layers = {3, 4, 2}; }), AllOf(HasSubstr("--layers 3,2"), HasSubstr("3,4,2")));
  EXPECT_THAT(refusal([](Checkpoint& c) { c.loss = LossKind::squared; }), HasSubstr("--loss cross_entropy"));
  EXPECT_THAT(refusal([](Checkpoint& c) { c.seed = 10; }), HasSubstr("--seed 9"));
  EXPECT_THAT(refusal([](Checkpoint& c) { c.validation = 0; }), HasSubstr("--validation"));
  EXPECT_THAT(refusal([](Checkpoint& c) { c.data_hash = 78; }), HasSubstr("data"));
}

TEST_F(CheckpointFile, CannotBeWrittenWhereTheFolderIsMissing) {
  const TrainingOutcome failure = write_checkpoint(folder_.file("nowhere/run"), saved_);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code, TrainerExit::failed);
  EXPECT_THAT(failure->sentence, HasSubstr("No such file"));
}

// Fails the second sum it starts.
class FailingPeers : public ThreadPeers {
 public:
  using ThreadPeers::ThreadPeers;
  TrainingOutcome start_sum(std::size_t slot, std::span<float> data, std::size_t operands) override {
    if (slot == 1) return TrainingFailure{TrainerExit::peer_lost, "rank 1 is gone"};
    return ThreadPeers::start_sum(slot, data, operands);
  }
};

TEST(GradientExchange, WaitsForWhatIsUnderWayAfterAFailureAndUsesNothing) {
  ThreadWorld world(1);
  FailingPeers peers(world, 0);
  std::vector<float> gradients(30, 1.0F);
  GradientExchange exchange(peers, gradients, 10);
  exchange.ready(10);
  exchange.ready(20);
  exchange.ready(30);
  EXPECT_EQ(peers.operations, 1U);
  std::size_t used = 0;
  const TrainingOutcome failure = exchange.settle(30, [&](SampleRange) { ++used; });
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code, TrainerExit::peer_lost);
  EXPECT_EQ(used, 0U);
}

TEST(GradientExchange, CoversTheArrayOnceInBuckets) {
  ThreadWorld world(1);
  ThreadPeers peers(world, 0);
  std::vector<float> gradients(100);
  GradientExchange exchange(peers, gradients, 30);
  for (int step = 0; step < 2; ++step) {
    for (const std::size_t end : {10, 25, 40, 80, 90, 100}) exchange.ready(end);
    std::vector<std::pair<std::size_t, std::size_t>> ranges;
    EXPECT_FALSE(exchange.settle(100, [&](SampleRange range) { ranges.emplace_back(range.begin, range.end); }));
    EXPECT_EQ(ranges, (std::vector<std::pair<std::size_t, std::size_t>>{{0, 40}, {40, 80}, {80, 100}}));
  }
}

TEST(GradientExchange, WaitsForNoMoreThanIsAskedFor) {
  ThreadWorld world(1);
  ThreadPeers peers(world, 0);
  std::vector<float> gradients(100);
  GradientExchange exchange(peers, gradients, 30);
  std::vector<std::size_t> used;
  const auto use = [&](SampleRange range) { used.push_back(range.end); };
  EXPECT_FALSE(exchange.settle(100, use));  // before the first step nothing is under way
  for (const std::size_t end : {30, 60, 100}) exchange.ready(end);
  EXPECT_FALSE(exchange.settle(30, use));
  EXPECT_EQ(used, (std::vector<std::size_t>{30}));
  EXPECT_FALSE(exchange.settle(31, use));  // the bucket that begins at 30 holds it
  EXPECT_FALSE(exchange.settle(60, use));
  EXPECT_EQ(used, (std::vector<std::size_t>{30, 60}));
  EXPECT_FALSE(exchange.settle(100, use));
  EXPECT_EQ(used, (std::vector<std::size_t>{30, 60, 100}));
}

}  // namespace
}  // namespace tutti::trainer
