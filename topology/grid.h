// Ranks laid on a grid: a torus, or groups within groups (NUMA nodes, machines, racks). Algorithms that work dimension by
// dimension take their neighbours from here, never from arithmetic on ranks.
#pragma once

#include <vector>

#include "topology/view.h"

namespace tutti {

/// One dimension of a grid: ranks that differ in its coordinate alone are `stride` places apart.
struct GridDimension {
  int size = 1;
  int stride = 1;
  LinkClass link = LinkClass::same_numa;  ///< the dearest between ranks that differ in this coordinate alone

  friend bool operator==(const GridDimension&, const GridDimension&) = default;
};

/// Where every rank is: its place has one coordinate for each dimension. A value; immutable, so thread safe.
class Grid {
 public:
  /// order: the rank at each place, every rank once; empty: place r is rank r's.
  Grid(std::vector<GridDimension> dimensions, std::vector<int> order);

  const std::vector<GridDimension>& dimensions() const { return dimensions_; }
  int size() const { return static_cast<int>(dimensions_.size()); }
  const GridDimension& operator[](int dimension) const { return dimensions_[static_cast<std::size_t>(dimension)]; }

  int place_of(int rank) const { return places_.empty() ? rank : places_[static_cast<std::size_t>(rank)]; }
  int rank_at(int place) const { return order_.empty() ? place : order_[static_cast<std::size_t>(place)]; }
  /// Of rank `rank` in a dimension, from 0.
  int coordinate(int rank, int dimension) const {
    const GridDimension& d = (*this)[dimension];
    return place_of(rank) / d.stride % d.size;
  }
  /// The rank that is where `rank` is but for one coordinate, which wraps around.
  int neighbor(int rank, int dimension, int coordinate) const;

 private:
  std::vector<GridDimension> dimensions_;
  std::vector<int> order_;
  std::vector<int> places_;
};

/// The view's torus without its dimensions of size 1. No dimensions where it has none, or one whose product is not the
/// number of ranks. O(dimensions).
Grid torus_of(const View& view);

/// The view's groups, innermost first: ranks of a NUMA node, nodes of a machine, machines of a rack, racks. Only levels
/// whose groups all have the same number of ranks are kept, so that each group has as many parts as the next; what is left
/// out shows in the link of the level around it. Places within a group are in the order of ranks, however the ranks are
/// spread over machines. Fewer than two dimensions where there is no hierarchy. O(ranks log ranks).
Grid hierarchy_of(const View& view);

}  // namespace tutti
