// What a search lays rings and trees over: places, the ways between each two of them, and the links that ways share.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "topology/network.h"

namespace tutti {

/// What is left of a search's bound on its work. Steps and not seconds, so that every rank comes to the same result.
class Steps {
 public:
  explicit Steps(std::uint64_t left) : left_(left) {}
  /// Takes `count` steps; false, taking all that is left, where there are fewer.
  bool take(std::uint64_t count = 1) {
    if (left_ < count) left_ = 0;
    return left_ != 0 && (left_ -= count, true);
  }
  std::uint64_t left() const { return left_; }

 private:
  std::uint64_t left_;
};

/// How often something passes each link that it passes, by the link's number, ascending.
using Loads = std::vector<std::pair<std::uint32_t, double>>;

/// Places and the ways between them, with the links that they pass numbered from 0 as they first come up: searches over
/// machines that are built alike are equal. A hop may have several ways (by several NICs).
class TransitGraph {
 public:
  using Way = std::vector<std::uint32_t>;

  explicit TransitGraph(int places)
      : places_(places), ways_(static_cast<std::size_t>(places) * static_cast<std::size_t>(places)) {}

  /// Adds a way from a to b over links of `network`, which must be the same one every time. Not for an empty way.
  void add(const Network& network, int a, int b, const std::vector<std::uint32_t>& links);

  int places() const { return places_; }
  const std::vector<Way>& ways(int a, int b) const { return ways_[place(a, b)]; }
  /// Bytes per second of each link.
  const std::vector<double>& capacity() const { return capacity_; }
  /// The network's number of each link.
  const std::vector<std::uint32_t>& network_links() const { return network_links_; }

  /// An upper bound on the bytes per second of all rings together, and of all trees (whose OutsideLoad, if any, is 1 or
  /// more): each leaves every place at least once, enters it, and, which is looked at where there are few, passes each link
  /// without which no place could reach all others. 0 where there is neither.
  double bound() const;

  /// Whether there are so few places (24) and links (2,048) that tables may grow with their squares. Beyond, searches are
  /// greedy, and take time about proportional to the ways.
  bool few() const { return places_ <= 24 && capacity_.size() <= 2048; }

  /// The same places, ways and capacities.
  bool same(const TransitGraph& other) const {
    return places_ == other.places_ && capacity_ == other.capacity_ && ways_ == other.ways_;
  }

 private:
  std::size_t place(int a, int b) const {
    return static_cast<std::size_t>(a) * static_cast<std::size_t>(places_) + static_cast<std::size_t>(b);
  }
  double ports_bound() const;
  bool strong_without(std::uint32_t link) const;

  int places_;
  std::vector<std::vector<Way>> ways_;
  std::vector<double> capacity_;
  std::vector<std::uint32_t> network_links_;
  std::vector<std::uint32_t> numbers_;  // ours by the network's
};

/// All endpoints of a network and its ways.
TransitGraph transit_graph_of(const Network& network);

}  // namespace tutti
