#include "src/schedule/expressions.h"

#include <algorithm>
#include <limits>

namespace tutti {
namespace {

constexpr std::size_t text_limit = 160;

/// SplitMix64's finaliser: good enough that the table's probes stay short.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

std::uint64_t join(std::uint64_t hash, std::uint64_t value) { return mix(hash * 0x9e3779b97f4a7c15u + value + 1); }

}  // namespace

Expressions::Expressions(std::uint32_t ranks, std::uint32_t blocks)
    : ranks_(ranks), blocks_(blocks), leaves_(ranks * blocks), table_(1024), seen_(ranks) {}

bool Expressions::matches(const Node& node, std::span<const Value> operands, bool complete) const {
  return node.complete == complete && node.count == operands.size() &&
         std::equal(operands.begin(), operands.end(), operands_.begin() + node.first);
}

Value Expressions::fold(std::span<const Value> operands, bool complete) {
  if (operands.size() == 1 && !complete) return operands[0];
  std::uint64_t hash = complete ? 7 : 3;
  for (const Value operand : operands) hash = join(hash, operand);
  const std::size_t mask = table_.size() - 1;
  for (std::size_t at = hash & mask; table_[at] != 0; at = (at + 1) & mask) {
    const std::uint32_t node = table_[at] - 1;
    if (hashes_[node] == hash && matches(nodes_[node], operands, complete)) return leaves_ + 1 + node;
  }
  return add(operands, complete, hash);
}

Value Expressions::add(std::span<const Value> operands, bool complete, std::uint64_t hash) {
  Node node;
  node.first = static_cast<std::uint32_t>(operands_.size());
  node.count = static_cast<std::uint32_t>(operands.size());
  node.complete = complete;
  node.association = complete ? 11 : 5;
  const Span begin = order(operands[0]);
  node.low = begin.low;
  node.high = begin.low;
  node.block = block(operands[0]);
  bool ordered = true;
  for (const Value operand : operands) {
    const Span span = order(operand);
    ordered = ordered && span.low < span.high && span.low == node.high;
    node.high = span.high;
    node.shares = std::min<std::uint64_t>(node.shares + shares(operand), std::numeric_limits<std::uint32_t>::max());
    if (block(operand) != node.block) node.block = UINT32_MAX;
    node.association = join(node.association, association(operand));
  }
  if (!ordered) node.low = node.high = 0;
  operands_.insert(operands_.end(), operands.begin(), operands.end());
  nodes_.push_back(node);
  hashes_.push_back(hash);
  if (nodes_.size() * 2 > table_.size()) {
    grow();
  } else {
    const std::size_t mask = table_.size() - 1;
    std::size_t at = hash & mask;
    while (table_[at] != 0) at = (at + 1) & mask;
    table_[at] = static_cast<std::uint32_t>(nodes_.size());
  }
  return leaves_ + static_cast<Value>(nodes_.size());
}

void Expressions::grow() {
  table_.assign(table_.size() * 2, 0);
  const std::size_t mask = table_.size() - 1;
  for (std::uint32_t n = 0; n < nodes_.size(); ++n) {
    std::size_t at = hashes_[n] & mask;
    while (table_[at] != 0) at = (at + 1) & mask;
    table_[at] = n + 1;
  }
}

Expressions::Span Expressions::order(Value value) const {
  if (value <= leaves_) {
    const std::uint32_t rank = (value - 1) / blocks_;
    return {rank, rank + 1};
  }
  const Node& node = nodes_[value - leaves_ - 1];
  return {node.low, node.high};
}

bool Expressions::in_rank_order(Value value) const {
  const Span span = order(value);
  return span.low < span.high;
}

bool Expressions::is_one_fold(Value value) const {
  if (value <= leaves_) return false;
  const Node& node = nodes_[value - leaves_ - 1];
  if (node.count != ranks_) return false;
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    if (operands_[node.first + rank] != leaf(rank, node.block)) return false;
  }
  return true;
}

std::uint32_t Expressions::block(Value value) const {
  return value <= leaves_ ? (value - 1) % blocks_ : nodes_[value - leaves_ - 1].block;
}

std::uint64_t Expressions::association(Value value) const {
  return value <= leaves_ ? mix(1 + (value - 1) / blocks_) : nodes_[value - leaves_ - 1].association;
}

std::string Expressions::shares_fault(Value value) {
  if (shares(value) > ranks_)
    return "has " + std::to_string(shares(value)) + " shares of " + std::to_string(ranks_) + " ranks";
  ++walk_;
  std::vector<Value> left{value};
  while (!left.empty()) {
    const Value at = left.back();
    left.pop_back();
    if (at > leaves_) {
      const Node& node = nodes_[at - leaves_ - 1];
      left.insert(left.end(), operands_.begin() + node.first, operands_.begin() + node.first + node.count);
      continue;
    }
    const std::uint32_t rank = (at - 1) / blocks_;
    if (seen_[rank] == walk_) return "has the share of rank " + std::to_string(rank) + " twice";
    seen_[rank] = walk_;
  }
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    if (seen_[rank] != walk_) return "lacks the share of rank " + std::to_string(rank);
  }
  return {};
}

std::string Expressions::missing_fault(Value value) {
  if (value == unwritten) return "was never written";
  ++walk_;
  walked_.resize(nodes_.size());
  std::vector<Value> left{value};
  while (!left.empty()) {
    const Value at = left.back();
    left.pop_back();
    if (at <= leaves_) {
      seen_[(at - 1) / blocks_] = walk_;
      continue;
    }
    const std::uint32_t n = at - leaves_ - 1;
    if (walked_[n] == walk_) continue;
    walked_[n] = walk_;
    left.insert(left.end(), operands_.begin() + nodes_[n].first, operands_.begin() + nodes_[n].first + nodes_[n].count);
  }
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    if (seen_[rank] != walk_) return "lacks the token of rank " + std::to_string(rank);
  }
  return {};
}

void Expressions::write(Value value, std::string& out) const {
  if (out.size() > text_limit) return;
  if (value == unwritten) {
    out += "unwritten";
  } else if (value <= leaves_) {
    out += "x" + std::to_string((value - 1) / blocks_);
    if (blocks_ > 1) out += "[" + std::to_string((value - 1) % blocks_) + "]";
  } else {
    const Node& node = nodes_[value - leaves_ - 1];
    out += node.complete ? "complete(" : "(";
    for (std::uint32_t i = 0; i < node.count && out.size() <= text_limit; ++i) {
      if (i != 0) out += " + ";
      write(operands_[node.first + i], out);
    }
    out += ")";
  }
}

std::string Expressions::text(Value value) const {
  std::string out;
  write(value, out);
  if (out.size() > text_limit) out = out.substr(0, text_limit) + " …";
  return out;
}

}  // namespace tutti
