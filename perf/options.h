// tutti-perf's command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "perf/buffers.h"
#include "perf/collectives.h"
#include "perf/environment.h"
#include "perf/measure.h"
#include "src/program/options.h"
#include "src/program/run_ranks.h"
#include "src/tables/block_division.h"
#include "tutti/tutti.h"

namespace tutti::perf {

/// What was asked for.
struct Request {
  const BenchedCollective* collective = nullptr;  ///< nullptr where links are measured
  uint64_t min_bytes = 8;
  uint64_t max_bytes = uint64_t{128} << 20;
  int64_t step_factor = 2;  ///< 1: sizes grow by step_bytes
  uint64_t step_bytes = uint64_t{1} << 20;
  std::vector<uint64_t> elements;  ///< replaces the four above where it is not empty
  int64_t iterations = 0;          ///< 0: as many as take about 0.3 s
  int64_t warmup = 5;
  int64_t checks = 1;
  int64_t aggregated = 1;  ///< operations in one group each iteration
  bool fuse = false;       ///< these are one operation where they can be, each with buffers of its own
  int64_t cycles = 1;      ///< whole sweeps; 0: for ever
  std::vector<tutti_type> types;
  std::vector<tutti_op> ops;
  std::vector<BlockDivision> divisions = {BlockDivision::even};  ///< others for v-variants alone
  std::optional<int> root = 0;                                   ///< nothing: all
  bool out_of_place = true;                                      ///< at least one of the two
  bool in_place = true;                                          ///< where the collective has such a form
  bool reproducible = false;  ///< calls ask for sums whose bits depend on the operands alone
  bool accumulate = false;    ///< calls ask for short floats to be folded in float32, and rounded once
  int64_t canonical = 0;      ///< operands of the whole fold, which ranks share; 0: each has one
  bool fresh = false;
  bool barriers = false;    ///< one after each iteration, timed
  bool call_time = false;   ///< what is timed is the call that posts an operation to a queue
  bool timestamps = false;  ///< in every row
  bool memory_use = false;  ///< below the rows, for each rank
  Average average = Average::kMost;
  MemoryKind memory = MemoryKind::host;
  int64_t device = -1;       ///< of CUDA memory: all ranks' device; below 0: ranks take devices in turn
  bool cuda_stream = false;  ///< timed operations run on a CUDA stream, which is waited for once a batch
  std::string algorithm;     ///< empty: the library chooses
  std::string transports;    ///< empty: the library chooses
  std::string plot;          ///< empty: none
  std::string output_file;   ///< .json or .csv, as nccl-tests writes them; empty: none
  std::string links;         ///< where measured links go, instead of all else; empty: a collective is measured
  int64_t timeout_s = 0;     ///< 0: the library's
  int64_t threads = 1;       ///< nccl-tests' numbers whose product is ranks.each
  int64_t devices = 1;
  program::RankOptions ranks;
  PerfEnvironment environment;
  std::vector<std::string> notes;      ///< lines for the report's head: what was taken without effect
  std::vector<std::string> arguments;  ///< the command line
};

/// Reads the command line into `request`. Returns nothing where the program should go on, else the exit code; errors have
/// been told through `output`. `options` is kept by the caller, since run_ranks asks it what was given.
std::optional<int> read_request(program::Options& options, int argc, const char* const* argv, program::Output& output,
                                Request& request);

/// The sizes from min_bytes to max_bytes by the steps, at most `most` of them.
std::vector<uint64_t> sizes_of(const Request& request, size_t most = SIZE_MAX);

/// The API's counts that a collective is measured with, in order.
std::vector<uint64_t> counts_of(const Request& request, tutti_type type, int ranks);

}  // namespace tutti::perf
