// What the user asked tutti-train for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/program/options.h"
#include "src/program/run_ranks.h"
#include "trainer/failure.h"
#include "trainer/training.h"

namespace tutti::trainer {

/// The command line, as declared to Options and then checked.
struct TrainCommand {
  program::RankOptions ranks;
  std::string data;  ///< empty: the embedded digits
  std::string layers = "784,128,10";
  std::int64_t epochs = 10;
  std::int64_t batch = 64;
  std::int64_t micro_batches = 0;
  double learning_rate = 0;  ///< 0: the loss' default
  double decay = 0.8;
  std::int64_t seed = 1;
  std::string parallelism = "data";
  std::string loss = "cross_entropy";
  double momentum = 0.9;
  double weight_decay = 0.002;
  double validation = 0.1;
  std::string memory = "host";
  std::uint64_t bucket = 1 << 20;
  std::string checkpoint;
  bool resume = false;
  std::string plot;
};

/// Declares every option, with its default, help and examples. `command` must outlive the parsing.
void declare(program::Options& options, TrainCommand& command);

/// "784,128,10" as widths. Refuses (exit code 2) what is no list of at least two whole numbers from 1 to 1000000, or would
/// take more than 2^32 parameters.
Fallible<std::vector<int>> parse_layers(const std::string& text);

/// What training is to do. Refuses (exit code 2) what is not there yet and what contradicts itself.
Fallible<TrainingSettings> settings_of(const TrainCommand& command);

/// How `ranks` ranks on a machine of `cpus` CPUs should wait, as tutti_config.spin has it. A rank that exchanges several
/// buckets computes meanwhile: where CPUs are too few for both its threads, one that spins takes them from one that
/// computes.
int spin_of(const TrainingSettings& settings, int ranks, int cpus);

}  // namespace tutti::trainer
