// Trees over positions 0 … p−1, root 0, that several algorithms share. Pure.
#pragma once

#include <algorithm>
#include <vector>

#include "algorithms/arithmetic.h"
#include "topology/binary_tree.h"  // binary_node

namespace tutti {

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
