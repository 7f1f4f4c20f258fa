// Where the bytes of a rank's operands are, which of them peers may still read, and copies in and out of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/executors/simulator/simulator.h"

namespace tutti::simulator {

/// Consecutive bytes of a rank: real addresses where it has memory, else addresses that nobody looks at.
struct Piece {
  std::uintptr_t begin = 0;
  std::uint64_t bytes = 0;
};

/// An operand in a pass: a piece for each of its blocks, in the order of the message. Empty ones are left out.
using Pieces = std::vector<Piece>;

/// Bytes of them all.
std::uint64_t bytes_of(const Pieces& pieces);
/// Copies the pieces' bytes behind one another to `to`.
void load(const Pieces& pieces, std::byte* to);
/// And back.
void store(const std::byte* from, const Pieces& pieces);

/// One rank's memory.
class Memory {
 public:
  /// real: nullptr where no data is moved. irregular: nullptr where all blocks have the problem's count. All outlive this.
  Memory(const Plan& plan, int rank, const RankMemory* real, const IrregularBuffers* irregular);

  /// Passes of the plan until all blocks are done.
  std::uint64_t passes() const { return passes_; }
  /// Why nothing can tell how long a step's messages are; nullptr where they have a length. operands: the step's, here and
  /// below.
  const char* length_fault(std::span<const Operand> operands) const;
  /// Bytes of a step's message in a pass, if it has no such fault.
  std::uint64_t bytes(std::span<const Operand> operands, std::uint64_t pass) const;
  /// Why an operand leaves its buffer; nullptr where it does not.
  const char* fault(const Operand& operand) const;
  /// Whether operand `o`, which has no fault, is as long in a pass as the step's message, block for block.
  bool fits(std::span<const Operand> operands, std::size_t o, std::uint64_t pass) const;
  /// Of operand `o`, which is in memory and has no fault.
  Pieces pieces(std::span<const Operand> operands, std::size_t o, std::uint64_t pass) const;

  /// Marks pieces as being read by a peer, until as many calls of release.
  void hold(const Pieces& pieces) { holds_.insert(holds_.end(), pieces.begin(), pieces.end()); }
  void release(const Pieces& pieces);
  bool anything_held() const { return !holds_.empty(); }
  bool held(const Pieces& pieces) const;

 private:
  /// The operand whose blocks say how long a step's message is; nullptr: none of the step's are.
  const Operand* sizing(std::span<const Operand> operands) const;
  /// Elements of block `i` of the range in a pass, of an operand that has no fault.
  Elements elements(const Operand& operand, std::uint32_t i, std::uint64_t pass) const;
  std::uint64_t count_of(Place place, std::uint64_t block) const {
    return irregular_ ? block_counts_[static_cast<std::size_t>(place)][block] : plan_.problem.count;
  }
  /// Where element `at` of a block is.
  std::uintptr_t address(Place place, std::uint64_t block, std::uint64_t at, std::uint64_t pass) const;

  const Plan& plan_;
  bool irregular_;
  std::uint64_t element_;
  std::uint64_t window_;
  std::array<std::uint32_t, 3> blocks_;                     ///< by Place
  std::array<std::uintptr_t, 3> base_;                      ///< by Place
  std::array<std::vector<std::uint64_t>, 2> block_counts_;  ///< of input and output, where blocks have their own
  std::array<std::vector<std::uintptr_t>, 2> block_begins_;
  std::uint64_t passes_;
  std::vector<Piece> holds_;
};

}  // namespace tutti::simulator
