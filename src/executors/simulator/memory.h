// Where the bytes of a rank's operands are, which of them peers may still read, and copies in and out of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
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
  /// real: nullptr where no data is moved. plan: outlives this.
  Memory(const Plan& plan, int rank, const RankMemory* real);

  /// Bytes that `range` means in a pass, in any buffer.
  std::uint64_t bytes(const Range& range, std::uint64_t pass) const;
  /// Why an operand leaves its buffer; nullptr where it does not.
  const char* fault(const Operand& operand) const;
  /// Of an operand in memory that has no fault.
  Pieces pieces(const Operand& operand, std::uint64_t pass) const;

  /// Marks pieces as being read by a peer, until as many calls of release.
  void hold(const Pieces& pieces) { holds_.insert(holds_.end(), pieces.begin(), pieces.end()); }
  void release(const Pieces& pieces);
  bool anything_held() const { return !holds_.empty(); }
  bool held(const Pieces& pieces) const;

 private:
  const Plan& plan_;
  std::uint64_t element_;
  std::uint64_t window_;
  std::array<std::uint32_t, 3> blocks_;  ///< by Place
  std::array<std::uintptr_t, 3> base_;   ///< by Place
  std::vector<Piece> holds_;
};

}  // namespace tutti::simulator
