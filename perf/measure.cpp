#include "perf/measure.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>
#include <numeric>

namespace tutti::perf {
namespace {

constexpr double kSizeBudget = 0.3e9;  // ns that one size takes
constexpr double kReading = 2000;      // ns that share a clock reading, so that reading it does not show
constexpr uint64_t kMostBatches = 1'000'000;

double percentile(const std::vector<Batch>& sorted, uint64_t iterations, double fraction) {
  const uint64_t wanted =
      std::max<uint64_t>(1, static_cast<uint64_t>(std::ceil(fraction * static_cast<double>(iterations))));
  uint64_t seen = 0;
  for (const Batch& batch : sorted) {
    seen += batch.iterations;
    if (seen >= wanted) return batch.nanoseconds / static_cast<double>(batch.iterations);
  }
  return sorted.back().nanoseconds / static_cast<double>(sorted.back().iterations);
}

constexpr double kCoincides = 1.1;  // what was taken of each batch, in all, over what was taken of the ranks' totals
constexpr size_t kFewestBatches = 16;

double total(const std::vector<double>& times) { return std::accumulate(times.begin(), times.end(), 0.0); }

tutti_status run_batch(tutti_comm* comm, const Run& run, Batch& batch, uint64_t& start) {
  if (run.before) {
    run.before();
    const tutti_status status = tutti_barrier(comm, kBlocking, nullptr);
    if (status != TUTTI_SUCCESS) return status;
    start = now_ns();
  }
  for (uint64_t i = 0; i < batch.iterations; ++i) {
    const tutti_status status = run.iteration(i);
    if (status != TUTTI_SUCCESS) return status;
  }
  const uint64_t end = now_ns();
  batch.nanoseconds = static_cast<double>(end - start);
  start = end;
  if (!run.after) return TUTTI_SUCCESS;
  const tutti_status status = run.after();
  start = now_ns();
  return status;
}

}  // namespace

std::vector<Batch> in_pairs(const std::vector<Batch>& batches) {
  std::vector<Batch> pairs;
  for (size_t b = 0; b < batches.size(); ++b) {
    if (b % 2 == 0) pairs.push_back({0, 0});
    pairs.back().iterations += batches[b].iterations;
    pairs.back().nanoseconds += batches[b].nanoseconds;
  }
  return pairs;
}

Times summarize(std::vector<Batch> batches) {
  uint64_t iterations = 0;
  for (const Batch& batch : batches) iterations += batch.iterations;
  std::sort(batches.begin(), batches.end(), [](const Batch& a, const Batch& b) {
    return a.nanoseconds * static_cast<double>(b.iterations) < b.nanoseconds * static_cast<double>(a.iterations);
  });
  const auto at = [&](double fraction) { return percentile(batches, iterations, fraction) / 1e3; };
  return {at(0), at(0.5), at(0.99), at(1)};
}

RunPlan plan_for(double nanoseconds, uint64_t asked) {
  const double each = std::max(nanoseconds, 1.0);
  const double wanted = std::clamp(kSizeBudget / each, 3.0, 1e6);
  const uint64_t iterations = asked != 0 ? asked : static_cast<uint64_t>(wanted);
  // Every batch's time is kept: more iterations than a million share readings, so that asking for many costs no memory.
  const uint64_t batch = std::max(static_cast<uint64_t>(std::ceil(kReading / each)), iterations / kMostBatches);
  return {iterations, std::clamp<uint64_t>(batch, 1, iterations)};
}

uint64_t now_ns() {
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(time.tv_nsec);
}

tutti_status take_over_ranks(tutti_comm* comm, Average average, std::vector<double>& values) {
  const std::vector<double> own = values;
  if (average == Average::kRank0) {
    return tutti_broadcast(own.data(), values.data(), values.size(), TUTTI_FLOAT64, 0, comm, kBlocking, nullptr);
  }
  const tutti_op op = average == Average::kMean ? TUTTI_AVG : average == Average::kLeast ? TUTTI_MIN : TUTTI_MAX;
  return tutti_all_reduce(own.data(), values.data(), values.size(), TUTTI_FLOAT64, op, comm, kBlocking, nullptr);
}

// On CPU, waited, slices; the first two in nanoseconds.
std::optional<uint64_t> waited_for_core_ns(const char* file) {
  std::ifstream numbers(file);
  uint64_t on_core = 0;
  uint64_t waited = 0;
  return numbers >> on_core >> waited ? std::optional(waited) : std::nullopt;
}

tutti_status total_of(tutti_comm* comm, uint64_t& value) {
  const uint64_t own = value;
  return tutti_all_reduce(&own, &value, 1, TUTTI_UINT64, TUTTI_SUM, comm, kBlocking, nullptr);
}

tutti_status estimate(tutti_comm* comm, const Iteration& iteration, double& nanoseconds) {
  constexpr double kEnough = 100e3;  // ns: long beside a clock reading and a barrier's skew
  constexpr uint64_t kMost = 4096;
  for (uint64_t n = 1;; n *= 4) {
    const uint64_t start = now_ns();
    for (uint64_t i = 0; i < n; ++i) {
      const tutti_status status = iteration(0);
      if (status != TUTTI_SUCCESS) return status;
    }
    std::vector<double> total = {static_cast<double>(now_ns() - start)};
    const tutti_status status = take_over_ranks(comm, Average::kMost, total);
    if (status != TUTTI_SUCCESS) return status;
    nanoseconds = total[0] / static_cast<double>(n);
    if (total[0] >= kEnough || n >= kMost) return TUTTI_SUCCESS;
  }
}

tutti_status combine(tutti_comm* comm, Average average, std::vector<Batch>& batches, bool back_to_back) {
  while (true) {
    std::vector<double> times;
    for (const Batch& batch : batches) times.push_back(batch.nanoseconds);
    times.push_back(total(times));
    if (const tutti_status status = take_over_ranks(comm, average, times); status != TUTTI_SUCCESS) return status;
    const double all = times.back();
    times.pop_back();
    const double sum = total(times);
    const bool coincide = sum <= kCoincides * all && all <= kCoincides * sum;
    // All ranks have the same numbers, so all go on or none does.
    if (!back_to_back || coincide || batches.size() < 2 * kFewestBatches) {
      for (size_t b = 0; b < batches.size(); ++b) batches[b].nanoseconds = times[b];
      return TUTTI_SUCCESS;
    }
    batches = in_pairs(batches);
  }
}

tutti_status run_plan(tutti_comm* comm, const RunPlan& plan, const Run& run, Timing& timing) {
  timing = {};
  std::vector<Batch>& batches = timing.batches;
  for (uint64_t left = plan.iterations; left > 0; left -= batches.back().iterations) {
    batches.push_back({std::min(left, plan.batch), 0});
  }
  const auto waited = waited_for_core_ns();
  const uint64_t begin = now_ns();
  uint64_t start = begin;
  for (Batch& batch : batches) {
    if (const tutti_status status = run_batch(comm, run, batch, start); status != TUTTI_SUCCESS) return status;
  }
  const double passed = static_cast<double>(std::max<uint64_t>(1, now_ns() - begin));
  const auto waited_since = waited_for_core_ns();
  const bool known = waited && waited_since;
  std::vector<double> part = {known ? std::min(1.0, static_cast<double>(*waited_since - *waited) / passed) : -1};
  if (const tutti_status status = take_over_ranks(comm, Average::kMost, part); status != TUTTI_SUCCESS) return status;
  timing.disturbed = part[0];
  return combine(comm, run.average, batches, !run.before && !run.after);
}

}  // namespace tutti::perf
