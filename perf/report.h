// What tutti-perf prints: nccl-tests' table, or a JSON line for each measurement, the plot, and nccl-tests' files.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "perf/locations.h"
#include "perf/measure.h"
#include "perf/options.h"
#include "src/program/output.h"
#include "src/program/plot.h"

namespace tutti::perf {

/// One measurement.
struct Measured {
  const BenchedCollective* collective = nullptr;
  uint64_t count = 0;
  tutti_type type = TUTTI_FLOAT32;
  tutti_op op = TUTTI_SUM;
  int root = 0;
  int ranks = 1;
  bool in_place = false;
  BlockDivision division = BlockDivision::even;
  uint64_t iterations = 0;
  Times time;
  std::string algorithm;
  std::string transport;
  std::optional<uint64_t> wrong;  ///< nothing where nothing was checked
  double disturbed = -1;          ///< Timing's; below 0 too where ranks share CPUs, and so wait for each other

  uint64_t bytes() const { return bytes_for(*collective, count, type, ranks); }
  /// "skewed", …; "none" of a collective whose blocks have one count.
  const char* division_text() const { return collective->takes_lists ? name_of(division) : "none"; }
  double algbw_GBps() const;
  double busbw_GBps() const;
};

/// A row of the table. One of the two may be missing.
struct Row {
  std::optional<Measured> out_of_place;
  std::optional<Measured> in_place;
  std::string timestamp;  ///< when it was done

  const Measured& any() const { return out_of_place ? *out_of_place : *in_place; }
  /// The larger of the two, or below 0.
  double disturbed() const;
};

/// From here on a row counts as disturbed: part of the time in which a rank had no core.
inline constexpr double kDisturbed = 0.02;

/// The sentence that fails a run by NCCL_TESTS_MIN_BW, which nccl-tests takes nine tenths of; empty where it is reached.
std::string too_slow(double average_GBps, double least_GBps);

/// The report of one run; of use on rank 0 alone. Not thread safe.
class PerfReport {
 public:
  PerfReport(const Request& request, program::Output& output);

  /// Who takes part, and the lines on those who share CPUs; `ranks` are those of rank 0's group. Before the first row.
  void introduce(std::vector<RankLocation> locations, std::vector<std::string> oversubscribed, int ranks);
  /// Rank 0's device, and what it reads and writes a second where it copies, in GB/s; 0: unknown. Before the first row.
  void introduce_device(const std::string& name, double copy_GBps);
  /// The next sweep begins, 0 for the first.
  void begin_cycle(int64_t cycle);
  /// A line of the table, the first below its heading: a run that is refused prints nothing but why. Or one or two JSON
  /// lines.
  void add(const std::optional<Measured>& out_of_place, const std::optional<Measured>& in_place);
  /// What each rank's communicator takes, by rank of rank 0's group. Behind the last row.
  void add_memory(const std::vector<tutti_memory_use>& uses);
  /// The lines below the table, the plot and the file. Returns an empty string or the sentence why one of them is not
  /// there.
  std::string end();
  /// Of the bus bandwidths so far, in GB/s.
  double average() const;

 private:
  void heading();
  void column_heads();
  void footing();
  void count(const Measured& measured);
  void record(const Measured& measured, const std::string& timestamp);
  std::string draw() const;

  const Request& request_;
  program::Output& output_;
  const std::string begun_at_;
  std::vector<RankLocation> locations_;
  std::vector<std::string> oversubscribed_;
  std::string device_;  ///< empty: of no matter
  double copy_GBps_ = 0;
  int ranks_ = 1;
  int64_t cycle_ = 0;
  bool begun_ = false;
  double bus_total_ = 0;
  uint64_t measurements_ = 0;
  uint64_t wrong_ = 0;
  uint64_t row_count_ = 0;
  uint64_t disturbed_rows_ = 0;
  std::vector<Row> rows_;  ///< kept where a file is to be written
  std::map<std::string, program::Series> series_;
};

/// Bytes that a device's memory is read and written at least, in all, where all ranks' buffers lie on it. A copy of half as
/// many takes as long, and bounds the time. 0 where nothing is known of the collective. (CUDA.md 3.10.)
double least_traffic(const Measured& measured);

/// The JSON line of a measurement. copy_GBps: of the device, 0 where there is none or it is unknown. Its "wrong" is null
/// where nothing was checked, its "disturbed" where nothing is known.
program::JsonObject json_of(const Measured& measured, const Request& request, double copy_GBps = 0);

}  // namespace tutti::perf
