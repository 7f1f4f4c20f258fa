// tutti-perf's command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "perf/buffers.h"
#include "perf/collectives.h"
#include "src/program/options.h"
#include "src/program/ranks.h"
#include "tutti/tutti.h"

namespace tutti::perf {

/// What was asked for.
struct Request {
  const Collective* collective = nullptr;  ///< nullptr where links are measured
  uint64_t min_bytes = 8;
  uint64_t max_bytes = uint64_t{128} << 20;
  int64_t step_factor = 2;
  std::vector<uint64_t> elements;  ///< replaces the three above where it is not empty
  int64_t iterations = 0;          ///< 0: as many as take about 0.3 s
  int64_t warmup = 5;
  int64_t checks = 1;
  std::vector<tutti_type> types;
  std::vector<tutti_op> ops;
  std::optional<int> root = 0;  ///< nothing: all
  bool in_place = false;
  bool fresh = false;
  MemoryKind memory = MemoryKind::host;
  std::string algorithm;   ///< empty: the library chooses
  std::string transports;  ///< empty: the library chooses
  std::string plot;        ///< empty: none
  std::string links;       ///< where measured links go, instead of all else; empty: a collective is measured
  int64_t timeout_s = 0;   ///< 0: the library's
  program::RankOptions ranks;
};

/// Reads the command line into `request`. Returns nothing where the program should go on, else the exit code; errors have
/// been told through `output`. `options` is kept by the caller, since run_ranks asks it what was given.
std::optional<int> read_request(program::Options& options, int argc, const char* const* argv, program::Output& output,
                                Request& request);

/// The API's counts that a collective is measured with, in order.
std::vector<uint64_t> counts_of(const Request& request, tutti_type type, int ranks);

}  // namespace tutti::perf
