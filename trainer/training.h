// Data-parallel training: every rank holds the whole model and computes on its share of each batch.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "trainer/dataset.h"
#include "trainer/failure.h"
#include "trainer/network.h"
#include "trainer/optimizer.h"
#include "trainer/peers.h"

namespace tutti::trainer {

/// What a run is told; equal on every rank.
struct TrainingSettings {
  std::vector<int> layers = {784, 128, 10};
  LossKind loss = LossKind::cross_entropy;
  int epochs = 10;
  std::size_t batch = 64;  ///< global; shared among the ranks
  /// 0: each rank computes on its share of a batch at once. Else a batch is cut into so many parts, whatever the ranks,
  /// which compute on as many each. Weights then have the same bits for any number of ranks.
  std::size_t micro_batches = 0;
  StepSettings step = {0.1, 0.9, 0.002};  ///< its learning rate is the first epoch's
  double decay = 0.8;                     ///< factor of the learning rate from epoch to epoch
  std::uint64_t seed = 1;
  double validation = 0.1;             ///< fraction of the training images that is held out
  std::size_t bucket_bytes = 1 << 20;  ///< gradients that are worth an operation of their own
  std::string checkpoint;              ///< written after each epoch; empty: none
  bool resume = false;                 ///< begin with the checkpoint
};

/// One epoch, the same on every rank.
struct EpochReport {
  int epoch = 0;                     ///< from 1
  double loss = 0;                   ///< mean over the training samples, each as it was met
  double accuracy = 0;               ///< on the validation split; without one, on the training samples as they were met
  double seconds = 0;                ///< wall time of the slowest rank
  double communication_seconds = 0;  ///< inside collective operations, the rank with the most
  double waiting_seconds = 0;        ///< of the gradients' exchange, what computation waited for; the rank with the most
};

/// What came out, the same on every rank.
struct FinalReport {
  double test_accuracy = 0;
  std::size_t parameters = 0;
  std::uint64_t weights_hash = 0;
};

/// Told as training goes on, on every rank. Either may be empty.
struct TrainingWatcher {
  std::function<void(int epoch, std::size_t step, std::size_t steps)> step;
  std::function<void(const EpochReport&)> epoch;
};

/// Refuses (exit code 2) what cannot be trained: a first layer that is not the image's size, fewer outputs than classes.
TrainingOutcome check_settings(const TrainingSettings& settings, const Dataset& data);

/// Trains and tests. Collective over `peers`. The data's order follows from the seed, and batches are divided by the global
/// size, so that the number of ranks changes results by rounding only, and with micro-batches not at all. Fails with what
/// the peers' operations fail with; exit code 1 where training diverges (the loss is no longer finite, or 10^6 times the
/// first step's) or the checkpoint cannot be written, 2 where it is refused or ranks were told different settings or data,
/// 3 where replicas came to differ.
Fallible<FinalReport> train(const TrainingSettings& settings, const Dataset& data, Peers& peers,
                            const TrainingWatcher& watcher);

}  // namespace tutti::trainer
