// The in-order binary tree over positions 0 … p−1, and the second one that makes it a double tree. Pure.
#pragma once

#include <bit>

namespace tutti {

/// A position's place in the in-order binary tree, -1 for none. Every subtree is an interval: left below the position,
/// right above it. Odd positions are leaves. Source: Sanders, Speck & Träff 2009, as in NCCL's trees.cc.
struct BinaryNode {
  int parent = -1;
  int left = -1;
  int right = -1;
};
inline BinaryNode binary_node(int position, int p) {
  if (position == 0) return {-1, -1, p > 1 ? static_cast<int>(std::bit_floor(static_cast<unsigned>(p - 1))) : -1};
  const int bit = position & -position;
  BinaryNode node;
  node.parent = (position ^ bit) | (bit << 1);
  if (node.parent >= p) node.parent = position ^ bit;
  int half = bit >> 1;
  node.left = half == 0 ? -1 : position - half;
  while (half != 0 && position + half >= p) half >>= 1;
  node.right = half == 0 ? -1 : position + half;
  return node;
}

/// Where a rank stands in the first tree of a double tree, or in the second: the mirror image for even p, shifted by one
/// for odd p.
inline int double_tree_position(int rank, int p, bool second) {
  if (!second) return rank;
  return p % 2 == 0 ? p - 1 - rank : (rank + p - 1) % p;
}
/// The other way round.
inline int double_tree_rank(int position, int p, bool second) {
  if (!second) return position;
  return p % 2 == 0 ? p - 1 - position : (position + 1) % p;
}

}  // namespace tutti
