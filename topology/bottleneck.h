// Which link bounds each ring or tree of a set.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "topology/search.h"

namespace tutti {

/// Sets `narrowest` of each of a set's rings or trees: the link on its way that all of them together fill most; of links
/// filled alike the slowest, then the first.
template <typename AnyNetwork, typename Routes>
void mark_bottleneck(const AnyNetwork& network, Routes& routes) {
  std::vector<double> load(network.links(), 0);
  std::vector<double> capacity(network.links());
  for (std::uint32_t link = 0; link < network.links(); ++link) capacity[link] = network.link(link).bytes_per_second;
  for (const auto& route : routes) {
    for (const std::uint32_t link : links_of(network, route)) load[link] += route.bytes_per_second;
  }
  const auto filled = [&](std::uint32_t link) { return load[link] / capacity[link]; };
  for (auto& route : routes) {
    const std::vector<std::uint32_t> links = links_of(network, route);
    route.bottleneck = *std::max_element(links.begin(), links.end(), [&](std::uint32_t a, std::uint32_t b) {
      constexpr double alike = 1e-6;
      if (std::abs(filled(a) - filled(b)) > alike) return filled(a) < filled(b);
      return capacity[a] > capacity[b];
    });
  }
}

}  // namespace tutti
