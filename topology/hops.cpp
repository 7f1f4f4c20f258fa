#include "topology/hops.h"

#include <algorithm>
#include <limits>
#include <set>

namespace tutti {

void Hops::add(const Network& network, int a, int b, const std::vector<std::uint32_t>& links) {
  Way way;
  for (const std::uint32_t link : links) {
    const auto [number, added] = numbers_.emplace(link, static_cast<std::uint32_t>(network_links_.size()));
    if (added) {
      network_links_.push_back(link);
      capacity_.push_back(network.link(link).bytes_per_second);
    }
    way.push_back(number->second);
  }
  ways_[place(a, b)].push_back(std::move(way));
}

double Hops::first_links(int from) const {
  std::set<std::uint32_t> links;
  for (int to = 0; to < places_; ++to) {
    for (const Way& way : ways(from, to)) links.insert(way.front());
  }
  double sum = 0;
  for (const std::uint32_t link : links) sum += capacity_[link];
  return sum;
}

double Hops::last_links(int to) const {
  std::set<std::uint32_t> links;
  for (int from = 0; from < places_; ++from) {
    for (const Way& way : ways(from, to)) links.insert(way.back());
  }
  double sum = 0;
  for (const std::uint32_t link : links) sum += capacity_[link];
  return sum;
}

/// Whether every place reaches every other over ways without this link: place 0 reaches all, and all reach it.
bool Hops::strong_without(std::uint32_t link) const {
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

double Hops::bound() const {
  if (places_ < 2) return 0;
  double least = std::numeric_limits<double>::infinity();
  for (int place = 0; place < places_; ++place) least = std::min({least, first_links(place), last_links(place)});
  for (std::uint32_t link = 0; link < capacity_.size(); ++link) {
    if (capacity_[link] < least && !strong_without(link)) least = capacity_[link];
  }
  return least;
}

Hops hops_of(const Network& network) {
  Hops hops(network.endpoints());
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
