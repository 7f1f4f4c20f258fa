#include "tools/plan/synthesis/resources.h"

#include <map>
#include <set>

#include "topology/index.h"

namespace tutti::synthesis {
namespace {

/// Whether all endpoints reach each other, over others where need be.
bool connected(const Network& network) {
  std::vector<std::uint32_t> way;
  for (const bool forwards : {true, false}) {
    std::set<int> seen = {0};
    std::vector<int> found = {0};
    for (std::size_t i = 0; i < found.size(); ++i) {
      for (int next = 0; next < network.endpoints(); ++next) {
        network.route(forwards ? found[i] : next, forwards ? next : found[i], way);
        if (!way.empty() && seen.insert(next).second) found.push_back(next);
      }
    }
    if (found.size() < at(network.endpoints())) return false;
  }
  return true;
}

}  // namespace

Resources::Resources(const Network& network, double gamma)
    : ranks_(network.endpoints()),
      folds_per_second_(gamma > 0 ? 1 / gamma : 0),
      sending_(at(ranks_) * at(ranks_)),
      folding_(at(ranks_) * at(ranks_)) {
  std::map<std::uint32_t, std::uint32_t> rows;  // by link
  std::vector<std::uint32_t> way;
  for (int a = 0; a < ranks_; ++a) {
    for (int b = 0; b < ranks_; ++b) {
      if (a == b) continue;
      network.route(a, b, way);
      for (const std::uint32_t link : way) {
        const auto [row, added] = rows.emplace(link, static_cast<std::uint32_t>(capacity_.size()));
        if (added) capacity_.push_back(network.link(link).bytes_per_second);
        sending_[place(a, b)].push_back(row->second);
      }
    }
  }
  folding_ = sending_;
  if (folds_per_second_ == 0) return;
  const auto first_processor = static_cast<std::uint32_t>(capacity_.size());
  capacity_.resize(capacity_.size() + at(ranks_), folds_per_second_);
  for (int a = 0; a < ranks_; ++a) {
    for (int b = 0; b < ranks_; ++b) {
      if (!sending(a, b).empty()) folding_[place(a, b)].push_back(first_processor + static_cast<std::uint32_t>(b));
    }
  }
}

Loads Resources::loads(const TreePair& pair) const {
  std::map<std::uint32_t, double> times;
  for (int place = 0; place < ranks_; ++place) {
    if (pair.in.parent[at(place)] >= 0) {
      for (const std::uint32_t row : folding(place, pair.in.parent[at(place)])) times[row] += 1;
    }
    if (pair.out.parent[at(place)] >= 0) {
      for (const std::uint32_t row : sending(pair.out.parent[at(place)], place)) times[row] += 1;
    }
  }
  return {times.begin(), times.end()};
}

ListedNetwork nearby(const Network& network, int ranks, std::size_t longest_way) {
  ListedNetwork listed(ranks);
  for (std::uint32_t link = 0; link < network.links(); ++link) listed.add(network.link(link));
  std::vector<std::uint32_t> way;
  for (int a = 0; a < ranks; ++a) {
    for (int b = 0; b < ranks; ++b) {
      if (a == b) continue;
      network.route(a, b, way);
      if (way.size() <= longest_way) listed.set_route(a, b, way);
    }
  }
  return listed;
}

std::vector<std::size_t> way_lengths(const Network& network, int ranks) {
  std::set<std::size_t> lengths;
  std::vector<std::uint32_t> way;
  for (int a = 0; a < ranks; ++a) {
    for (int b = 0; b < ranks; ++b) {
      if (a == b) continue;
      network.route(a, b, way);
      if (!way.empty()) lengths.insert(way.size());
    }
  }
  std::vector<std::size_t> enough;
  for (const std::size_t length : lengths) {
    if (!enough.empty() || connected(nearby(network, ranks, length))) enough.push_back(length);
  }
  return enough;
}

}  // namespace tutti::synthesis
