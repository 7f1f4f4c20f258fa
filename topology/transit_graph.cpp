#include "topology/transit_graph.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace tutti {

namespace {

constexpr std::uint32_t kNoNumber = std::numeric_limits<std::uint32_t>::max();

}  // namespace

void TransitGraph::add(const Network& network, int a, int b, const std::vector<std::uint32_t>& links) {
  if (numbers_.empty()) numbers_.resize(network.links(), kNoNumber);
  Way way;
  for (const std::uint32_t link : links) {
    std::uint32_t& number = numbers_[link];
    if (number == kNoNumber) {
      number = static_cast<std::uint32_t>(network_links_.size());
      network_links_.push_back(link);
      capacity_.push_back(network.link(link).bytes_per_second);
    }
    way.push_back(number);
  }
  ways_[place(a, b)].push_back(std::move(way));
}

/// What the least place has of links out of it together, or into it.
double TransitGraph::ports_bound() const {
  double least = std::numeric_limits<double>::infinity();
  std::vector<int> counted_out(capacity_.size(), -1);  // the place that counted a link last
  std::vector<int> counted_in(capacity_.size(), -1);
  for (int place = 0; place < places_; ++place) {
    double out = 0;
    double in = 0;
    for (int other = 0; other < places_; ++other) {
      for (const Way& way : ways(place, other)) {
        if (std::exchange(counted_out[way.front()], place) != place) out += capacity_[way.front()];
      }
      for (const Way& way : ways(other, place)) {
        if (std::exchange(counted_in[way.back()], place) != place) in += capacity_[way.back()];
      }
    }
    least = std::min({least, out, in});
  }
  return least;
}

/// Whether every place reaches every other over ways without this link: place 0 reaches all, and all reach it.
bool TransitGraph::strong_without(std::uint32_t link) const {
  const auto open = [&](int a, int b) {
    return std::any_of(ways(a, b).begin(), ways(a, b).end(),
                       [&](const Way& way) { return std::find(way.begin(), way.end(), link) == way.end(); });
  };
  for (const bool forwards : {true, false}) {
    std::vector<int> found = {0};
    std::vector<bool> seen(static_cast<std::size_t>(places_), false);
    seen[0] = true;
    for (std::size_t i = 0; i < found.size(); ++i) {
      for (int next = 0; next < places_; ++next) {
        if (seen[static_cast<std::size_t>(next)]) continue;
        if (!(forwards ? open(found[i], next) : open(next, found[i]))) continue;
        seen[static_cast<std::size_t>(next)] = true;
        found.push_back(next);
      }
    }
    if (static_cast<int>(found.size()) < places_) return false;
  }
  return true;
}

double TransitGraph::bound() const {
  if (places_ < 2) return 0;
  double least = ports_bound();
  for (std::uint32_t link = 0; few() && link < capacity_.size(); ++link) {
    if (capacity_[link] < least && !strong_without(link)) least = capacity_[link];
  }
  return least;
}

TransitGraph transit_graph_of(const Network& network) {
  TransitGraph hops(network.endpoints());
  std::vector<std::uint32_t> way;
  for (int a = 0; a < network.endpoints(); ++a) {
    for (int b = 0; b < network.endpoints(); ++b) {
      network.route(a, b, way);
      if (!way.empty()) hops.add(network, a, b, way);
    }
  }
  return hops;
}

}  // namespace tutti
