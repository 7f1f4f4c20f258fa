// One rank's run through everything that was asked for.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "perf/buffers.h"
#include "perf/check.h"
#include "perf/locations.h"
#include "perf/options.h"
#include "perf/report.h"
#include "src/program/output.h"
#include "src/program/run_ranks.h"

namespace tutti::perf {

/// Measures and checks everything that was asked for, and reports on rank 0. One call per rank; all ranks make it. Returns
/// the exit code; failures have been told.
int run_bench(const Request& request, const program::RankMember& member, program::Output& output);

/// Measures and checks; one per rank. All ranks make the same calls in the same order. Not thread safe.
class Bench {
 public:
  /// All arguments must outlive the bench. Times are compared over `world`, which is all ranks. Operations run among
  /// `group`: `world`, or a part of it, whose number is `color`.
  Bench(const Request& request, const program::RankMember& world, const program::RankMember& group, int color,
        program::Output& output);
  ~Bench();
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  /// Everything, and the report on rank 0. Returns the exit code; failures have been told.
  int run();

 private:
  int check_groups(const std::vector<RankLocation>& locations);
  int prepare();
  int run_cycle();
  int run_type(tutti_type type);
  int run_op(tutti_type type, tutti_op op, const std::vector<uint64_t>& counts);
  tutti_status make_custom(tutti_type type, tutti_op op);
  int run_counts(CheckedOperation operation, const std::vector<uint64_t>& counts);
  int make_sure_of_memory();
  uint32_t take_seeds();
  int operands() const;
  uint64_t buffer_bytes(tutti_type type) const;
  int reserve(tutti_type type);
  int run_half(const CheckedOperation& operation, Measured& measured);
  int warm_up(const CheckedOperation& operation, Measured& measured);
  int measure(const CheckedOperation& operation, Measured& measured);
  int check(CheckedOperation operation, Measured& measured);
  int open_device();
  int to_device();
  int from_device();
  std::byte* for_calls(std::byte* place) const;
  tutti_status synchronize(tutti_status status) const;
  int report_memory();
  int finish();
  tutti_status call(const CheckedOperation& operation, const Places& places, const tutti_stream& stream) const;
  tutti_status run_group(const CheckedOperation& operation, uint64_t first, const tutti_stream& stream) const;
  tutti_status run_once(const CheckedOperation& operation) const;
  tutti_status iterate(const CheckedOperation& operation, uint64_t slot) const;
  void note_choice(const BenchedCollective& collective, Measured& measured) const;
  CheckedOperation in_slot(CheckedOperation operation, uint64_t slot) const;
  uint64_t stride_of(const CheckedOperation& operation) const;
  void lay_out_slots(const CheckedOperation& operation, uint64_t slots);
  void fill_group(const CheckedOperation& operation) const;
  Run what_to_run(const CheckedOperation& operation, const RunPlan& plan) const;
  uint64_t slots_for(const CheckedOperation& operation, double nanoseconds) const;
  int fail(const tutti_comm* comm, tutti_status status);
  int fail(int code, const std::string& sentence);

  const Request& request_;
  const program::RankMember& world_;
  const program::RankMember& group_;
  const int color_;
  program::Output& output_;
  PerfReport report_;
  const std::vector<tutti_type> types_;  ///< a barrier has none of its own, and one counts
  const uint64_t own_places_;  ///< operations of a group that have buffers of their own: all where they are fused, else 1
  tutti_call call_ = TUTTI_CALL_INIT;
  tutti_call end_ = TUTTI_CALL_INIT;                        ///< of groups
  tutti_op custom_ = TUTTI_OP_LIMIT;                        ///< of calls whose operator is a custom one
  size_t element_bytes_ = 0;                                ///< that it folds
  tutti_stream stream_ = {TUTTI_STREAM_BLOCKING, nullptr};  ///< of the operations that are timed
  std::unique_ptr<program::RankDevice> device_;             ///< of CUDA memory
  GuardedBuffer send_;
  GuardedBuffer recv_;
  std::vector<Places> places_;    ///< by slot: of each operation that has buffers of its own
  std::deque<BlockLists> lists_;  ///< of a v-variant, by slot; in a deque they stay where they are
  uint32_t seed_ = 1;
  bool oversubscribed_ = false;  ///< ranks share CPUs
  bool wrong_ = false;           ///< on any rank
  bool told_ = false;            ///< by this one
};

}  // namespace tutti::perf
