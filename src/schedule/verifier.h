// The verifier: proves a schedule before it is trusted. docs/schedule.md has the semantics and the argument.
//
// It takes the programs as they will run, after fusion, and all ranks' together. Nothing of them is believed: foreign
// schedules and fuzzers come through the same door, so any arrays of numbers give a verdict, never a crash.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "src/base/status.h"
#include "src/schedule/ir.h"

namespace tutti {

/// Why a schedule is wrong, and where; -1 where it is not a matter of one rank, lane, step or pass.
struct Fault {
  int rank = -1;
  std::int64_t lane = -1;
  std::int64_t step = -1;
  std::int64_t pass = -1;
  std::string what;         ///< continues "rank 1, lane 0, step 3, pass 0 "
  std::int64_t block = -1;  ///< of the output, where a chunk of it ends wrong
  std::int64_t chunk = -1;

  bool any() const { return !what.empty(); }
  /// One sentence without its full stop.
  std::string text() const;
};

/// What was proved.
struct Proof {
  std::uint64_t steps = 0;        ///< of all ranks, in one pass
  std::uint64_t messages = 0;     ///< of all links, in one pass
  std::uint64_t passes = 0;       ///< that were run symbolically
  std::uint64_t association = 0;  ///< of reducing collectives: equal hash, equal bits; else 0
  bool rank_order = false;        ///< every fold is in rank order: right for operators that do not commute, too
};

struct Verdict {
  Fault fault;
  Proof proof;  ///< where proved()

  bool proved() const { return !fault.any(); }
  /// Success, or TUTTI_INVALID_ARGUMENT with the fault's sentence.
  Status status() const;
};

/// How large a schedule the verifier takes on; beyond, the verdict is a fault that says so.
struct VerifyLimits {
  std::uint64_t cells = std::uint64_t{1} << 28;  ///< (block, chunk, copy) of all ranks; 12 bytes each
  std::uint64_t passes = 1024;
  std::uint64_t clocks = std::uint64_t{1} << 26;  ///< steps times lanes of one rank; 4 bytes each
};

/// Proves that `programs` (one per rank, in order) do what plan.problem promises: out of place, in place and mixed, at
/// the plan's credit and any greater, for every count, and of an irregular problem for every division. Pure; time about
/// proportional to the chunks moved.
Verdict verify(const Plan& plan, std::span<const Program> programs, const VerifyLimits& limits = {});

/// The least credit up to `limit` at which the programs are proved; 0 where there is none. For readers of foreign
/// schedules.
std::uint32_t least_credit(Plan plan, std::span<const Program> programs, std::uint32_t limit);

}  // namespace tutti
