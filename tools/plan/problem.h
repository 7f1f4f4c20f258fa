// The problem that a command line names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/schedule/problem.h"
#include "src/tables/block_division.h"
#include "tools/plan/divided_blocks.h"

namespace tutti::plan_tool {

/// A problem in words and numbers, as they were given.
struct ProblemWords {
  std::string collective = "all_reduce";  ///< or a v-variant
  std::string type = "float32";
  std::string op = "sum";  ///< or user_defined, or pre_mul_sum
  std::string accumulate;  ///< a type, or empty
  std::int64_t ranks = 4;
  std::int64_t root = 0;
  std::int64_t local_operands = 1;
  bool one_fold = false;
  std::uint64_t bytes = std::uint64_t{1} << 20;  ///< of a block; of a v-variant, on average
};

/// The names that ProblemWords::collective and ::op may have.
std::vector<std::string> all_collective_names();
std::vector<std::string> all_op_names();

/// The problem as the library's calls have it. Of a v-variant `count` is what its ranks choose an algorithm by. Errors:
/// TUTTI_INVALID_ARGUMENT with the sentence for the user.
Result<Problem> problem_of(const ProblemWords& words);

/// The blocks of a call of an irregular problem, of words.bytes on average; none of another. Errors: as problem_of.
Result<DividedBlocks> blocks_of_call(const ProblemWords& words, const Problem& problem, BlockDivision division);

}  // namespace tutti::plan_tool
