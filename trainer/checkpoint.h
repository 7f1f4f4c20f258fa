// A training run on disk: written whole or not at all, and refused when it is damaged or of another run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/failure.h"
#include "trainer/network.h"

namespace tutti::trainer {

/// All that a run is continued from. The learning rate, batch size and number of ranks may change on the way; what is
/// here must be as it was.
struct Checkpoint {
  std::vector<int> layers;
  LossKind loss = LossKind::cross_entropy;
  std::uint64_t seed = 0;
  double validation = 0;        ///< fraction held out; another one would let validation samples train
  std::uint64_t data_hash = 0;  ///< of the training images and labels
  std::uint32_t epoch = 0;      ///< epochs completed
  std::vector<float> parameters;
  std::vector<float> velocity;
};

/// Writes beside `path`, then takes its place: a reader sees the old file or the new one. Fails (exit code 1) with the
/// system's reason; a half-written file is removed.
TrainingOutcome write_checkpoint(const std::string& path, const Checkpoint& checkpoint);

/// Reads it back. Refuses (exit code 2) a missing file, one of another kind or version, a truncated or altered one.
Fallible<Checkpoint> read_checkpoint(const std::string& path);

/// Whether `saved` continues the run that `wanted` (its epoch and arrays aside) describes; else (exit code 2) what
/// differs.
TrainingOutcome matches(const Checkpoint& saved, const Checkpoint& wanted, const std::string& path);

}  // namespace tutti::trainer
