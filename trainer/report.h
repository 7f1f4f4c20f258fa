// How a run is shown: the table or JSON lines, a bar on a terminal, a plot.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "src/program/output.h"
#include "trainer/training.h"

namespace tutti::trainer {

/// A bar on stderr, redrawn at most ten times a second and wiped when its epoch ends. Silent where stderr is no terminal.
/// Used by one thread.
class ProgressBar {
 public:
  /// epochs   of the whole run. Not `wanted`: never draws.
  ProgressBar(bool wanted, int epochs);
  ~ProgressBar() { wipe(); }
  void show(int epoch, std::size_t step, std::size_t steps);
  void wipe();

 private:
  const bool wanted_;
  const int epochs_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_ = {};
};

/// Rank 0's account of a run; the other ranks make none.
class TrainingReport {
 public:
  TrainingReport(program::Output& output, const TrainingSettings& settings, int ranks, std::string parallelism);
  void epoch(const EpochReport& epoch);
  void final(const FinalReport& result);
  /// Draws loss and accuracy over the epochs; an empty string, or why it could not.
  std::string plot(const std::string& file) const;

 private:
  void heading();

  program::Output& output_;
  const int ranks_;
  const std::string parallelism_;
  std::string heading_;  ///< empty once told
  std::vector<EpochReport> epochs_;
};

}  // namespace tutti::trainer
