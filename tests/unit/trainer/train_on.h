// A whole training run on ranks that are threads.
#pragma once

#include <mutex>
#include <vector>

#include "tests/unit/trainer/thread_peers.h"
#include "trainer/training.h"

namespace tutti::trainer {

/// What came out, of all ranks unless said otherwise.
struct Outcomes {
  std::vector<EpochReport> epochs;  // rank 0's
  std::vector<TrainingFailure> failures;
  std::vector<FinalReport> finals;
  std::size_t operations = 0;  // started by rank 0
  std::size_t elements = 0;
};

/// Trains on `ranks` threads, each with the whole data.
inline Outcomes train_on(int ranks, const TrainingSettings& settings, const Dataset& data) {
  Outcomes outcomes;
  std::mutex mutex;
  on_ranks(ranks, [&](ThreadPeers& peers) {
    TrainingWatcher watcher;
    if (peers.rank() == 0) watcher.epoch = [&](const EpochReport& report) { outcomes.epochs.push_back(report); };
    const auto result = train(settings, data, peers, watcher);
    const std::lock_guard lock(mutex);
    if (result.ok()) outcomes.finals.push_back(*result);
    if (!result.ok()) outcomes.failures.push_back(result.failure());
    if (peers.rank() == 0) outcomes.operations = peers.operations;
    if (peers.rank() == 0) outcomes.elements = peers.elements;
  });
  return outcomes;
}

}  // namespace tutti::trainer
