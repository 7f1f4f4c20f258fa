// A network as messages see it: endpoints, directed links that messages share, and the way that each pair's messages take.
//
// Search lays rings and trees over it, the simulator lets flows share its links. It comes from the graph of a machine
// (machine_network.h) or from a generator (generators.h).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tutti {

/// One direction of something that bytes pass, and queue for.
struct NetworkLink {
  std::string name;             ///< "gpu0 > gpu1", "rack 3 > spine", for people
  double bytes_per_second = 0;  ///< above 0
  double latency_s = 0;         ///< seconds that the first byte takes besides
  bool assumed = false;         ///< nobody knows its bandwidth, which is a guess
};

/// Immutable once built; all functions are const and thread safe.
class Network {
 public:
  virtual ~Network() = default;

  /// Devices or ranks that send and receive, numbered from 0.
  virtual int endpoints() const = 0;
  /// Directed links, numbered from 0.
  virtual std::uint32_t links() const = 0;
  /// The facts of link `index` < links().
  virtual NetworkLink link(std::uint32_t index) const = 0;
  /// Puts the links that bytes from endpoint a to endpoint b pass, in order, into `way` (cleared before); none for a == b.
  /// Deterministic. An empty way for a != b: b cannot be reached.
  virtual void route(int a, int b, std::vector<std::uint32_t>& way) const = 0;
};

/// A network that is written down link by link and way by way.
class ListedNetwork final : public Network {
 public:
  explicit ListedNetwork(int endpoints)
      : endpoints_(endpoints), ways_(static_cast<std::size_t>(endpoints) * static_cast<std::size_t>(endpoints)) {}

  std::uint32_t add(NetworkLink link) {
    links_.push_back(std::move(link));
    return static_cast<std::uint32_t>(links_.size()) - 1;
  }
  void set_route(int a, int b, std::vector<std::uint32_t> way) { ways_[place(a, b)] = std::move(way); }

  int endpoints() const override { return endpoints_; }
  std::uint32_t links() const override { return static_cast<std::uint32_t>(links_.size()); }
  NetworkLink link(std::uint32_t index) const override { return links_[index]; }
  void route(int a, int b, std::vector<std::uint32_t>& way) const override { way = ways_[place(a, b)]; }

 private:
  std::size_t place(int a, int b) const {
    return static_cast<std::size_t>(a) * static_cast<std::size_t>(endpoints_) + static_cast<std::size_t>(b);
  }

  int endpoints_;
  std::vector<NetworkLink> links_;
  std::vector<std::vector<std::uint32_t>> ways_;
};

}  // namespace tutti
