// One rank's run through everything that was asked for.
#pragma once

#include <string>
#include <vector>

#include "perf/buffers.h"
#include "perf/check.h"
#include "perf/options.h"
#include "perf/report.h"
#include "src/program/output.h"
#include "src/program/ranks.h"

namespace tutti::perf {

/// Measures and checks; one per rank. All ranks make the same calls in the same order. Not thread safe.
class Bench {
 public:
  /// All arguments must outlive the bench.
  Bench(const Request& request, const program::Member& member, program::Output& output);

  /// Everything, and the report on rank 0. Returns the exit code; failures have been told.
  int run();

 private:
  int run_type(tutti_type type);
  int run_counts(tutti_type type, tutti_op op, int root, const std::vector<uint64_t>& counts);
  int make_sure_of_memory();
  uint64_t buffer_bytes(tutti_type type) const;
  int reserve(tutti_type type);
  int measure(const Operation& operation, Measured& measured);
  int check(Operation operation, Measured& measured);
  tutti_status call(const Operation& operation, const Places& places) const;
  void note_choice(const Collective& collective, Measured& measured) const;
  Places places_of(const Operation& operation, uint64_t slot) const;
  uint64_t stride_of(const Operation& operation) const;
  uint64_t slots_for(const Operation& operation, double nanoseconds) const;
  int fail(tutti_status status);
  int fail(int code, const std::string& sentence);

  const Request& request_;
  const program::Member& member_;
  program::Output& output_;
  Report report_;
  const std::vector<tutti_type> types_;  ///< a barrier has none of its own, and one counts
  tutti_call call_ = TUTTI_CALL_INIT;
  Buffer send_;
  Buffer recv_;
  uint32_t seed_ = 1;
  bool wrong_ = false;  ///< on any rank
  bool told_ = false;   ///< by this one
};

}  // namespace tutti::perf
