// MSCCL algorithm files: schedules that others wrote, read, proved, and then like any other.
//
// docs/schedule.md says what of the format is read and how it maps. A file comes in through the verifier's door: what this
// gives is proved for every count, type and operator, in place and out of place, at the least credit that works.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/schedule/ir.h"
#include "src/schedule/text.h"
#include "src/schedule/verifier.h"

namespace tutti {

/// A file's schedule for every problem that it fits. Plain data.
struct MscclAlgorithm {
  std::string name;  ///< "msccl:" and the file's name for it, in characters that a line of text takes
  Collective collective = Collective::all_reduce;
  int ranks = 0;
  int root = 0;
  /// What the file is meant for, in bytes of all blocks of the larger buffer; ends included.
  std::uint64_t min_bytes = 0;
  std::uint64_t max_bytes = UINT64_MAX;
  Shape shape;
  std::vector<Program> programs;  ///< by rank
  Proof proof;
  std::uint64_t digest = 0;  ///< of all of this, for ranks to compare

  /// Whether it is for this problem, by collective, ranks and root; `fits`: by bytes, too.
  bool is_for(const Problem& problem) const;
  bool fits(const Problem& problem) const;
  /// The plan for a problem that it is for, on links of slot_bytes. Pure; the same on every rank.
  Plan plan(const Problem& problem, std::uint64_t slot_bytes) const;
  /// A problem that it is for: this count of float32, summed where it reduces.
  Problem problem(std::uint64_t count) const;
  /// The same with everybody's program, for whoever looks at all ranks.
  Schedule schedule(const Problem& problem, std::uint64_t slot_bytes) const {
    return {plan(problem, slot_bytes), programs};
  }
};

/// Reads and proves the text of a file. Errors: TUTTI_INVALID_ARGUMENT with one sentence that says what is wrong, and,
/// where it is some step's fault, its rank, thread block and step. Pure; whatever comes in, there is an answer. Time about
/// proportional to the steps and the chunks that they move, of which there are bounds (docs/schedule.md): a few seconds for
/// the largest file that is taken.
Result<MscclAlgorithm> parse_msccl(std::string_view text);

/// As parse_msccl, from a file, which errors name.
Result<MscclAlgorithm> read_msccl(const std::string& path);

}  // namespace tutti
