// Timing: batches back to back, the slowest rank's time of each.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::perf {

/// Operations that are over when their call returns.
inline constexpr tutti_stream kBlocking = {TUTTI_STREAM_BLOCKING, nullptr};

/// Times of one iteration, in microseconds.
struct Times {
  double min = 0;
  double median = 0;
  double p99 = 0;
  double max = 0;
};

/// Which of the ranks' times an iteration's is, by nccl-tests' numbers.
enum class Average : int { kRank0 = 0, kMean = 1, kLeast = 2, kMost = 3 };

/// Iterations that share a clock reading, and their time in nanoseconds.
struct Batch {
  uint64_t iterations;
  double nanoseconds;
};

/// Minimum, median, 99th percentile and maximum over iterations: an iteration's time is its batch's divided by the
/// number of iterations in it. `batches` may not be empty.
Times summarize(std::vector<Batch> batches);

/// Each two that follow one another as one; an odd one at the end stays as it is.
std::vector<Batch> in_pairs(const std::vector<Batch>& batches);

/// How many iterations there are and how many share a clock reading.
struct RunPlan {
  uint64_t iterations;
  uint64_t batch;
};

/// The plan for iterations of `nanoseconds` each: `asked` iterations, or, where that is 0, about 0.3 s of them (at least 3,
/// at most a million); batches of at least 2 us. Never 0.
RunPlan plan_for(double nanoseconds, uint64_t asked);

/// CLOCK_MONOTONIC in nanoseconds.
uint64_t now_ns();

/// Makes every rank know of the ranks' values, element by element, what `average` says. Collective over comm.
tutti_status take_over_ranks(tutti_comm* comm, Average average, std::vector<double>& values);

/// Nanoseconds that the calling thread has been ready to run without a core, ever; nothing where the system does not say.
/// `file` is replaced by tests.
std::optional<uint64_t> waited_for_core_ns(const char* file = "/proc/thread-self/schedstat");

/// Adds up a number over the ranks. Collective over comm.
tutti_status total_of(tutti_comm* comm, uint64_t& value);

/// The times of this rank's batches become those that `average` says.
///
/// Where batches follow each other back to back, ranks may be in different ones at a time, above all on shared cores. One
/// rank's long batch is then another's short one. The longest of each add up to more time than has passed, the shortest to
/// less. Such batches are put together in pairs, and again, until they add up to it, to a tenth, or fewer than 32 are left.
/// Collective over comm; every rank has as many of each length.
tutti_status combine(tutti_comm* comm, Average average, std::vector<Batch>& batches, bool back_to_back);

/// What is measured: operation `slot` of a batch, 0 for the first.
using Iteration = std::function<tutti_status(uint64_t slot)>;

/// Runs `iteration` by itself until the time of one is known on all ranks, in nanoseconds. Collective over comm.
tutti_status estimate(tutti_comm* comm, const Iteration& iteration, double& nanoseconds);

/// What run_plan runs.
struct Run {
  Iteration iteration;
  std::function<void()> before;         ///< before every batch, not timed; a barrier follows it. May be empty
  std::function<tutti_status()> after;  ///< after every batch, not timed. May be empty
  Average average = Average::kMost;
};

/// What came of it.
struct Timing {
  std::vector<Batch> batches;  ///< may be longer than planned where batches are back to back, see combine
  /// Part of the time in which the rank that waited most was ready to run, but had no core. Below 0 where it is unknown.
  double disturbed = -1;
};

/// Runs the plan. Collective over comm.
tutti_status run_plan(tutti_comm* comm, const RunPlan& plan, const Run& run, Timing& timing);

}  // namespace tutti::perf
