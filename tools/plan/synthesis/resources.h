// What the messages and folds of a schedule share: the network's links on the ways between ranks, and the ranks'
// processors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tools/plan/synthesis/arborescence.h"
#include "topology/network.h"
#include "topology/transit_graph.h"

namespace tutti::synthesis {

/// An all-reduce along trees with the same root: sums climb `in`, the result goes down `out`.
struct TreePair {
  RootedTree in;
  RootedTree out;

  bool operator==(const TreePair&) const = default;
};

/// Rows of a linear program: what each carries a second, and what hops take of it. Links that no hop passes have no row.
class Resources {
 public:
  /// Every endpoint of the network is a rank. gamma: seconds per byte that a rank folds; 0: folding takes no time.
  Resources(const Network& network, double gamma);

  int ranks() const { return ranks_; }
  /// Bytes per second, by row.
  const std::vector<double>& capacity() const { return capacity_; }
  /// Bytes per second that one rank folds; 0: folding takes no time.
  double folds_per_second() const { return folds_per_second_; }
  /// Rows of the links from a to b, and, for a sum that b folds into its own, of its processor. Empty: not used.
  const std::vector<std::uint32_t>& sending(int a, int b) const { return sending_[place(a, b)]; }
  const std::vector<std::uint32_t>& folding(int a, int b) const { return folding_[place(a, b)]; }
  /// What a byte that is all-reduced along a pair takes of each row.
  Loads loads(const TreePair& pair) const;

 private:
  std::size_t place(int a, int b) const {
    return static_cast<std::size_t>(a) * static_cast<std::size_t>(ranks_) + static_cast<std::size_t>(b);
  }

  int ranks_;
  double folds_per_second_;
  std::vector<double> capacity_;
  std::vector<std::vector<std::uint32_t>> sending_;
  std::vector<std::vector<std::uint32_t>> folding_;
};

/// The network between the first `ranks` endpoints where a hop whose way has more than `longest_way` links is none, so that
/// machines are used by NVLink alone, for one.
ListedNetwork nearby(const Network& network, int ranks, std::size_t longest_way);

/// Numbers of links that ways between the first `ranks` endpoints have, ascending, from the first on with which all ranks
/// reach each other by such ways and shorter ones. Empty where they do not reach each other.
std::vector<std::size_t> way_lengths(const Network& network, int ranks);

}  // namespace tutti::synthesis
