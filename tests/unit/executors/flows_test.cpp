// Max-min rates, found bit by bit, against water-filling from scratch.
#include "src/executors/simulator/flows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

namespace tutti::simulator {
namespace {

/// The textbook's way: all active flows grow alike until a link is full; its flows stop; and so on.
std::vector<double> from_scratch(const FlowRoutes& routes, const std::vector<bool>& active) {
  std::vector<double> rates(active.size(), 0);
  std::vector<bool> growing = active;
  std::vector<double> free = routes.capacity;
  while (std::find(growing.begin(), growing.end(), true) != growing.end()) {
    std::vector<double> weight(free.size(), 0);
    const auto each_hop = [&](std::size_t f, const auto& what) {
      for (std::uint64_t h = routes.first[f]; h < routes.first[f + 1]; ++h) {
        what(routes.link[h], routes.weight.empty() ? 1 : routes.weight[h]);
      }
    };
    for (std::size_t f = 0; f < active.size(); ++f) {
      if (growing[f]) each_hop(f, [&](std::uint32_t link, std::uint32_t by) { weight[link] += by; });
    }
    double step = std::numeric_limits<double>::infinity();
    for (std::size_t l = 0; l < free.size(); ++l) {
      if (weight[l] > 0) step = std::min(step, free[l] / weight[l]);
    }
    std::vector<bool> full(free.size());
    for (std::size_t l = 0; l < free.size(); ++l) {
      free[l] -= step * weight[l];
      full[l] = weight[l] > 0 && free[l] <= 1e-9 * routes.capacity[l];
    }
    for (std::size_t f = 0; f < active.size(); ++f) {
      if (!growing[f]) continue;
      rates[f] += step;
      each_hop(f, [&](std::uint32_t link, std::uint32_t) { growing[f] = growing[f] && !full[link]; });
    }
  }
  return rates;
}

FlowRoutes random_routes(std::mt19937_64& random, std::size_t flows, std::size_t links, bool weighted) {
  FlowRoutes routes;
  for (std::size_t l = 0; l < links; ++l) routes.capacity.push_back(1 + static_cast<double>(random() % 8));
  for (std::size_t f = 0; f < flows; ++f) {
    routes.first.push_back(routes.link.size());
    std::vector<std::uint32_t> way(links);
    for (std::uint32_t l = 0; l < links; ++l) way[l] = l;
    std::shuffle(way.begin(), way.end(), random);
    way.resize(1 + random() % std::min<std::size_t>(4, links));
    routes.link.insert(routes.link.end(), way.begin(), way.end());
    for (std::size_t h = 0; weighted && h < way.size(); ++h) {
      routes.weight.push_back(1 + static_cast<std::uint32_t>(random() % 3));
    }
  }
  routes.first.push_back(routes.link.size());
  return routes;
}

TEST(Flows, HaveTheTextbooksRatesWhoeverComesAndGoes) {
  std::mt19937_64 random(7);
  int settled = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const std::size_t flows = 1 + random() % 40;
    const FlowRoutes routes = random_routes(random, flows, 1 + random() % 20, trial % 2 == 1);
    Flows sharing(routes);
    std::vector<bool> active(flows, false);
    std::vector<double> last(flows, 0);
    for (int step = 0; step < 30; ++step) {
      for (std::size_t changes = 1 + random() % 3; changes > 0; --changes) {
        const auto flow = static_cast<std::uint32_t>(random() % flows);
        active[flow] = !active[flow];
        active[flow] ? sharing.start(flow) : sharing.stop(flow);
      }
      std::vector<bool> told(flows, false);
      for (const std::uint32_t flow : sharing.settle()) told[flow] = true;
      const std::vector<double> expected = from_scratch(routes, active);
      for (std::uint32_t f = 0; f < flows; ++f) {
        if (active[f]) {
          ASSERT_NEAR(sharing.rate(f), expected[f], 1e-7) << "trial " << trial << ", step " << step << ", flow " << f;
        }
        if (active[f] && sharing.rate(f) != last[f]) {
          ASSERT_TRUE(told[f]) << "a changed rate was not told";
        }
        last[f] = active[f] ? sharing.rate(f) : 0;
      }
      ++settled;
    }
  }
  EXPECT_EQ(settled, 9000);
}

TEST(Flows, TellWhoWasStoppedAndStartedAtOnce) {
  Flows sharing({{10}, {0, 1, 2}, {0, 0}, {}});
  sharing.start(0);
  sharing.start(1);
  EXPECT_EQ(sharing.settle().size(), 2u);
  EXPECT_DOUBLE_EQ(sharing.rate(0), 5);
  sharing.stop(0);
  sharing.start(0);
  EXPECT_EQ(sharing.settle(), std::vector<std::uint32_t>{0});
  EXPECT_DOUBLE_EQ(sharing.rate(0), 5);
  sharing.stop(0);
  EXPECT_EQ(sharing.settle(), std::vector<std::uint32_t>{1});
  EXPECT_DOUBLE_EQ(sharing.rate(1), 10);
  EXPECT_FALSE(sharing.unsettled());
}

}  // namespace
}  // namespace tutti::simulator
