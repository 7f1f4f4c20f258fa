// The blocks that a v-variant's call has, for simulations: counts without memory.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "src/schedule/layout.h"
#include "src/tables/block_division.h"

namespace tutti::plan_tool {

/// All ranks' blocks. Moves, and is not copied, as others look into it.
class DividedBlocks {
 public:
  /// None: of a problem whose blocks have one count.
  DividedBlocks() = default;
  /// mean: elements of a block on average, as calls count them. All blocks together have most_elements bytes at most.
  /// problem: an irregular one.
  DividedBlocks(const Problem& problem, BlockDivision division, std::uint64_t mean);
  DividedBlocks(DividedBlocks&&) = default;
  DividedBlocks& operator=(DividedBlocks&&) = default;
  DividedBlocks(const DividedBlocks&) = delete;
  DividedBlocks& operator=(const DividedBlocks&) = delete;

  /// By rank; empty: there are none.
  std::span<const IrregularBuffers> all() const { return all_; }
  BlockDivision division() const { return division_; }
  /// Elements of a block on average, as calls count them.
  std::uint64_t mean() const { return mean_; }
  /// Elements of the longest block, as plans count them.
  std::uint64_t longest() const { return longest_; }

 private:
  BlockDivision division_ = BlockDivision::even;
  std::uint64_t mean_ = 0;
  std::uint64_t longest_ = 0;
  std::deque<std::vector<tutti_block>> lists_;  ///< a deque, as `all_` looks into it while it grows
  std::vector<IrregularBuffers> all_;
};

}  // namespace tutti::plan_tool
