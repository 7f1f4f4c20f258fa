// One collective call run twice: by the library's host executor, and by the simulator with the same memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/algorithm.h"
#include "include/tutti/tutti.h"
#include "src/tables/block_division.h"

namespace tutti::testing {

/// A call of a collective by one of its algorithms.
struct Case {
  const Algorithm* algorithm = nullptr;
  int ranks = 1;
  int root = 0;
  std::uint64_t count = 0;
  tutti_type type = TUTTI_INT32;
  tutti_op op = TUTTI_SUM;
  bool in_place = false;  ///< where the rank can be
  View view = {};         ///< places of the ranks; none: one machine
  /// Of a v-variant: how blocks of `count` elements on average are divided. They lie behind one another.
  std::optional<BlockDivision> division = {};

  /// The view, or that of one machine.
  View places() const { return view.ranks() == ranks ? view : flat_view(ranks); }
  Problem problem() const;
  /// "all_reduce ring, 5 ranks, root 0, 17 float32, avg, in place".
  std::string text() const;
};

/// The memory of one rank in a case: input and output with a guard around and between them, or overlapping as the
/// collective's in place says.
struct Layout {
  std::size_t bytes = 0;
  std::size_t input = 0;   ///< where it begins
  std::size_t output = 0;  ///< likewise
};
Layout layout_of(const Case& at, int rank);

/// Fills one rank's memory: a pattern, and in the input numbers that depend on rank and place. Integers take all values;
/// floats differ in magnitude, so that another order of adding gives other bits. memory: layout_of(at, rank).bytes bytes.
void fill(const Case& at, int rank, std::byte* memory);

/// One rank's call through the API. Returns its status, or TUTTI_INTERNAL_ERROR where another algorithm was taken.
tutti_status run_on_host(const Case& at, int rank, tutti_comm* comm, std::byte* memory);

/// All ranks' memory after the call by the simulator; empty, with `why`, where it did not complete.
std::vector<std::vector<std::byte>> run_in_simulator(const Case& at, std::string* why);

/// Elements of a block of this case that take three passes, the last one short.
std::uint64_t count_of_three_passes(const Case& at);

}  // namespace tutti::testing
