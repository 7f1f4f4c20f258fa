// Symbolic values for the verifier: what a cell holds, as an expression over the ranks' input blocks.
//
// Equal expressions have equal numbers (they are hash-consed), so "the same bits on all ranks" is a comparison of two
// integers. A fold keeps its operands in order and as they were folded, because 8- and 16-bit floats are rounded once a
// fold: fold(a, b, c) and fold(fold(a, b), c) are different values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tutti {

/// Number of an expression; 0 is memory that nobody has written.
using Value = std::uint32_t;
inline constexpr Value unwritten = 0;

/// The expressions of one proof. Grows only. Not thread safe.
class Expressions {
 public:
  /// Leaves are the input blocks [0, blocks) of the ranks [0, ranks). ranks * blocks < 2^30.
  Expressions(std::uint32_t ranks, std::uint32_t blocks);

  /// Block `block` of rank `rank`'s input, as it was called with.
  Value leaf(std::uint32_t rank, std::uint32_t block) const { return 1 + rank * blocks_ + block; }
  bool is_leaf(Value value) const { return value != unwritten && value <= leaves_; }

  /// The operands folded left to right; with `complete`, marked as passed through the last touch, operands may then be one.
  /// operands: written and not complete.
  Value fold(std::span<const Value> operands, bool complete);

  /// Whether the last touch was applied.
  bool complete(Value value) const { return value > leaves_ && nodes_[value - leaves_ - 1].complete; }
  /// Ranks' shares in the expression, with repetitions; saturates.
  std::uint64_t shares(Value value) const { return value <= leaves_ ? 1 : nodes_[value - leaves_ - 1].shares; }
  /// Whether its leaves, left to right, are consecutive ranks, each once: right for operators that do not commute.
  bool in_rank_order(Value value) const;
  /// Whether it is one fold of every rank's leaf, in rank order. All such values of a block have the same bits.
  bool is_one_fold(Value value) const;
  /// The input block that every leaf has, UINT32_MAX where they differ.
  std::uint32_t block(Value value) const;
  /// Hash of the shape and the ranks; equal for equal association whatever the block. For a leaf, of its rank.
  std::uint64_t association(Value value) const;

  /// Empty where every rank's share is in the value exactly once; else what is wrong. Exact, by walking the expression.
  std::string shares_fault(Value value);
  /// Empty where every rank's share is in the value at least once; else which is missing.
  std::string missing_fault(Value value);

  /// "x2", "(x0 + x1)", shortened.
  std::string text(Value value) const;

 private:
  struct Node {
    std::uint64_t association = 0;
    std::uint64_t shares = 0;
    std::uint32_t first = 0;  ///< of operands_
    std::uint32_t count = 0;
    std::uint32_t low = 0;  ///< ranks [low, high) in order; low == high: not in order
    std::uint32_t high = 0;
    std::uint32_t block = 0;
    bool complete = false;
  };
  struct Span {
    std::uint32_t low, high;
  };
  Span order(Value value) const;
  bool matches(const Node& node, std::span<const Value> operands, bool complete) const;
  Value add(std::span<const Value> operands, bool complete, std::uint64_t hash);
  void grow();
  void write(Value value, std::string& out) const;

  std::uint32_t ranks_, blocks_, leaves_;
  std::vector<Node> nodes_;
  std::vector<std::uint64_t> hashes_;  ///< of the operand lists, per node
  std::vector<Value> operands_;
  std::vector<std::uint32_t> table_;   ///< open addressing: node + 1, 0 is free
  std::vector<std::uint32_t> seen_;    ///< per rank, by walk number
  std::vector<std::uint32_t> walked_;  ///< per node, by walk number
  std::uint32_t walk_ = 0;
};

}  // namespace tutti
