// The trainer's mathematics over real communicators: ranks as threads of this process.
#include "trainer/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <numeric>
#include <thread>

#include "trainer/digits.h"
#include "trainer/network.h"
#include "trainer/optimizer.h"
#include "trainer/training.h"

namespace tutti::trainer {
namespace {

// Runs `body` on every rank of a communicator; destroys it afterwards.
void on_communicator(int ranks, const std::function<void(CommunicatorPeers&, tutti_comm*)>& body) {
  std::vector<tutti_comm*> comms(static_cast<std::size_t>(ranks));
  ASSERT_EQ(tutti_comm_create_all(comms.data(), ranks, nullptr), TUTTI_SUCCESS);
  std::vector<std::thread> threads;
  for (tutti_comm* comm : comms) {
    threads.emplace_back([comm, &body] {
      {
        CommunicatorPeers peers(comm);
        const TrainingOutcome failure = peers.open();
        EXPECT_FALSE(failure) << failure->sentence;
        if (!failure) body(peers, comm);
      }
      tutti_comm_destroy(comm);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(CommunicatorPeers, SumsGathersAndBroadcasts) {
  for (const int ranks : {1, 2, 3}) {
    on_communicator(ranks, [ranks](CommunicatorPeers& peers, tutti_comm*) {
      ASSERT_EQ(peers.size(), ranks);
      const int total = ranks * (ranks + 1) / 2;
      std::vector<float> a(1000, static_cast<float>(peers.rank() + 1)), b(7, static_cast<float>(10 * (peers.rank() + 1)));
      ASSERT_FALSE(peers.start_sum(0, a, 0));
      ASSERT_FALSE(peers.start_sum(1, b, 0));
      ASSERT_FALSE(peers.wait(0));
      ASSERT_FALSE(peers.wait(1));
      for (const float x : a) ASSERT_EQ(x, static_cast<float>(total));
      for (const float x : b) ASSERT_EQ(x, static_cast<float>(10 * total));
      std::vector<double> sums = {1.0, static_cast<double>(peers.rank())};
      ASSERT_FALSE(peers.sum(sums));
      EXPECT_EQ(sums, (std::vector<double>{static_cast<double>(ranks), static_cast<double>(total - ranks)}));
      const int mine = 100 + peers.rank();
      std::vector<int> all(static_cast<std::size_t>(ranks)), expected(static_cast<std::size_t>(ranks));
      ASSERT_FALSE(peers.gather(&mine, sizeof mine, all.data()));
      std::iota(expected.begin(), expected.end(), 100);
      EXPECT_EQ(all, expected);
      int value = peers.rank() == 0 ? 42 : 0;
      ASSERT_FALSE(peers.broadcast(&value, sizeof value));
      EXPECT_EQ(value, 42);
    });
  }
}

// Example B of the worked examples, one sample on each of two ranks.
TEST(ExampleB, HoldsOnTwoRanksOfACommunicator) {
  on_communicator(2, [](CommunicatorPeers& peers, tutti_comm*) {
    const float x[2][2] = {{1, 2}, {3, 5}};
    const float y[2][2] = {{5, 7}, {9, 13}};
    const double losses[2] = {12.5, 0.82};
    FeedForwardNetwork<float> line({1, 1}, LossKind::squared, 1);
    Optimizer<float> optimizer(2);
    line.parameters()[0] = line.parameters()[1] = 1;
    for (int batch = 0; batch < 2; ++batch) {
      line.input()[0] = x[batch][peers.rank()];
      double loss = line.forward(1, std::span<const float>(&y[batch][peers.rank()], 1)).loss;
      line.backward(1.0F, {});
      ASSERT_FALSE(peers.start_sum(0, line.gradients(), 0));
      ASSERT_FALSE(peers.wait(0));
      ASSERT_FALSE(peers.sum({&loss, 1}));
      EXPECT_NEAR(loss, losses[batch], 1e-6);
      optimizer.step(line.parameters(), line.gradients(), 0, 2, {.learning_rate = .1});
      if (batch == 0) {
        EXPECT_EQ(line.parameters()[0], 2.1F);
        EXPECT_EQ(line.parameters()[1], 1.7F);
      }
    }
    EXPECT_NEAR(line.parameters()[0], 2.8, 1e-6);
    EXPECT_NEAR(line.parameters()[1], 1.88, 1e-6);
  });
}

TEST(Training, GivesTheSameOverCommunicatorsOfAnySize) {
  const Dataset data = {draw_digits(300, 1), draw_digits(60, 2)};
  TrainingSettings settings;
  settings.layers = {784, 20, 10};
  settings.epochs = 2;
  settings.bucket_bytes = 8192;
  double one = 0;
  for (const int ranks : {1, 2, 3}) {
    std::mutex mutex;
    std::vector<std::uint64_t> hashes;
    double loss = 0;
    on_communicator(ranks, [&](CommunicatorPeers& peers, tutti_comm*) {
      TrainingWatcher watcher;
      if (peers.rank() == 0)
        watcher.epoch = [&](const EpochReport& report) { loss = report.epoch == 1 ? report.loss : loss; };
      const auto result = train(settings, data, peers, watcher);
      ASSERT_TRUE(result.ok()) << result.failure().sentence;
      EXPECT_GT(peers.communication_seconds(), 0);
      const std::lock_guard lock(mutex);
      hashes.push_back(result->weights_hash);
    });
    ASSERT_EQ(hashes.size(), static_cast<std::size_t>(ranks));
    EXPECT_THAT(hashes, testing::Each(hashes[0]));
    if (ranks == 1) one = loss;
    EXPECT_NEAR(loss, one, 1e-5) << ranks;
  }
}

TEST(CommunicatorPeers, TellsWhatAnAbortedCommunicatorTells) {
  on_communicator(2, [](CommunicatorPeers& peers, tutti_comm* comm) {
    if (peers.rank() == 1) {
      tutti_comm_abort(comm);
      return;
    }
    std::vector<float> data(100000, 1.0F);
    TrainingOutcome failure = peers.start_sum(0, data, 0);
    if (!failure) failure = peers.wait(0);
    ASSERT_TRUE(failure);
    EXPECT_NE(peers.status(), TUTTI_SUCCESS);
    EXPECT_FALSE(failure->sentence.empty());
    double value = 1;
    EXPECT_TRUE(peers.sum({&value, 1})) << "every later call must fail too";
  });
}

}  // namespace
}  // namespace tutti::trainer
