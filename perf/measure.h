// Timing: batches back to back, the slowest rank's time of each.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::perf {

/// Times of one iteration, in microseconds.
struct Times {
  double min = 0;
  double median = 0;
  double p99 = 0;
  double max = 0;
};

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
struct Plan {
  uint64_t iterations;
  uint64_t batch;
};

/// The plan for iterations of `nanoseconds` each: `asked` iterations, or, where that is 0, about 0.3 s of them (at least 3,
/// at most a million); batches of at least 2 us. Never 0.
Plan plan_for(double nanoseconds, uint64_t asked);

/// CLOCK_MONOTONIC in nanoseconds.
uint64_t now_ns();

/// Makes every rank know the largest of the ranks' values, element by element. Collective over comm.
tutti_status slowest_of(tutti_comm* comm, std::vector<double>& values);

/// Adds up a number over the ranks. Collective over comm.
tutti_status total_of(tutti_comm* comm, uint64_t& value);

/// The times of this rank's batches become those of the slowest rank. Where they follow each other back to back, ranks may
/// be in different ones at a time, above all where they share cores: one rank's long batch is another's short one, and the
/// longest of each add up to more time than has passed. Such batches are put together in pairs, and again, until they add
/// up to it, to a tenth, or fewer than 32 are left. Collective over comm; every rank has as many of each length.
tutti_status take_slowest(tutti_comm* comm, std::vector<Batch>& batches, bool back_to_back);

/// What is measured: operation `slot` of a batch, 0 for the first.
using Iteration = std::function<tutti_status(uint64_t slot)>;

/// Runs `iteration` by itself until the time of one is known on all ranks, in nanoseconds. Collective over comm.
tutti_status estimate(tutti_comm* comm, const Iteration& iteration, uint64_t slots, double& nanoseconds);

/// Runs the plan and returns the batches with the slowest rank's time of each. `before` is called before every batch, and
/// where it is not empty, a barrier follows it; else batches may become longer than planned, see take_slowest. Collective
/// over comm.
tutti_status run_plan(tutti_comm* comm, const Plan& plan, const Iteration& iteration, const std::function<void()>& before,
                      std::vector<Batch>& batches);

}  // namespace tutti::perf
