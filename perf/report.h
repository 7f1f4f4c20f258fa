// What tutti-perf prints: nccl-tests' table, or a JSON line for each measurement, and the plot.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "perf/measure.h"
#include "perf/options.h"
#include "src/program/output.h"
#include "src/program/plot.h"

namespace tutti::perf {

/// One measurement.
struct Measured {
  const Collective* collective = nullptr;
  uint64_t count = 0;
  tutti_type type = TUTTI_FLOAT32;
  tutti_op op = TUTTI_SUM;
  int root = 0;
  int ranks = 1;
  bool in_place = false;
  uint64_t iterations = 0;
  Times time;
  std::string algorithm;
  std::string transport;
  std::optional<uint64_t> wrong;  ///< nothing where nothing was checked

  uint64_t bytes() const { return bytes_for(*collective, count, type, ranks); }
  double algbw_GBps() const;
  double busbw_GBps() const;
};

/// The report of one run; of use on rank 0 alone. Not thread safe.
class Report {
 public:
  Report(const Request& request, program::Output& output) : request_(request), output_(output) {}

  /// A line of the table, the first below its heading: a run that is refused prints nothing but why. Or one or two JSON
  /// lines. `in_place` may be missing.
  void add(const Measured& out_of_place, const std::optional<Measured>& in_place);
  /// The lines below the table, and the plot. Returns an empty string or the sentence why there is no plot.
  std::string end(int ranks);

 private:
  void heading(int ranks);
  void count(const Measured& measured);
  void record(const Measured& measured);

  const Request& request_;
  program::Output& output_;
  bool begun_ = false;
  double bus_total_ = 0;
  uint64_t measurements_ = 0;
  uint64_t wrong_ = 0;
  std::map<std::string, program::Series> series_;
};

/// The JSON line of a measurement. Its "wrong" is null where nothing was checked.
program::JsonObject json_of(const Measured& measured, const Request& request);

}  // namespace tutti::perf
