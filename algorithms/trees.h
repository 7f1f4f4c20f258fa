// Trees over positions 0 … p−1, root 0, that several algorithms share. Pure.
#pragma once

#include <algorithm>
#include <vector>

#include "algorithms/arithmetic.h"

namespace tutti {

/// A position's place in the in-order binary tree, -1 for none. Every subtree is an interval: left below the position,
/// right above it. Odd positions are leaves. Source: Sanders, Speck & Träff 2009, as in NCCL's trees.cc.
struct BinaryNode {
  int parent = -1;
  int left = -1;
  int right = -1;
};
inline BinaryNode binary_node(int position, int p) {
  if (position == 0) return {-1, -1, p > 1 ? power_floor(p - 1) : -1};
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

/// Positions in the subtree of a binomial tree: the interval [position, position + size).
inline int binomial_size(int position, int p) { return position == 0 ? p : std::min(position & -position, p - position); }
inline int binomial_parent(int position) { return position & (position - 1); }

/// Children, smallest subtree first: position + 1, + 2, + 4, …
inline std::vector<int> binomial_children(int position, int p) {
  std::vector<int> children;
  for (int step = 1; step < binomial_size(position, p); step *= 2) children.push_back(position + step);
  return children;
}

/// Largest subtree below the root's.
inline int binomial_widest(int p) {
  int widest = 1;
  for (const int child : binomial_children(0, p)) widest = std::max(widest, binomial_size(child, p));
  return widest;
}

/// Ranks as seen from the root: position 0 is the root, then upwards.
struct Rooted {
  int root;
  int p;
  int position(int rank) const { return wrap_rank(rank - root, p); }
  int rank(int position) const { return wrap_rank(position + root, p); }
};

}  // namespace tutti
