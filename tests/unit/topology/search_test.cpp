#include "topology/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "tests/support/processor_time.h"
#include "tests/unit/topology/machines.h"
#include "topology/hwloc_xml.h"
#include "topology/nccl_xml.h"
#include "topology/ring_orders.h"

namespace tutti {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// ---- Exhaustive search, knowing nothing of ours ----------------------------------------------------------------------

/// How often each link is passed, by link.
using Column = std::vector<double>;

void pass(const Network& network, int a, int b, Column& column, bool& reachable) {
  std::vector<std::uint32_t> way;
  network.route(a, b, way);
  reachable = reachable && !way.empty();
  for (const std::uint32_t link : way) column[link] += 1;
}

/// Every ring: (n-1)! orders.
std::vector<Column> all_rings(const Network& network) {
  std::vector<int> order(at(network.endpoints()));
  std::iota(order.begin(), order.end(), 0);
  std::set<Column> found;
  do {
    Column column(network.links(), 0);
    bool reachable = true;
    for (std::size_t i = 0; i < order.size(); ++i)
      pass(network, order[i], order[(i + 1) % order.size()], column, reachable);
    if (reachable) found.insert(column);
  } while (std::next_permutation(order.begin() + 1, order.end()));
  return {found.begin(), found.end()};
}

/// Every spanning tree, both ways of each edge: n^(n-2) sequences of Pruefer's.
std::vector<Column> all_trees(const Network& network) {
  const int n = network.endpoints();
  std::set<Column> found;
  std::vector<int> sequence(at(std::max(0, n - 2)), 0);
  for (bool more = true; more;) {
    std::vector<int> degree(at(n), 1);
    for (const int place : sequence) ++degree[at(place)];
    Column column(network.links(), 0);
    bool reachable = true;
    const auto edge = [&](int a, int b) {
      pass(network, a, b, column, reachable);
      pass(network, b, a, column, reachable);
      --degree[at(a)];
      --degree[at(b)];
    };
    for (const int place : sequence) {
      const auto leaf = static_cast<int>(std::find(degree.begin(), degree.end(), 1) - degree.begin());
      edge(leaf, place);
    }
    std::vector<int> last;
    for (int place = 0; place < n; ++place) {
      if (degree[at(place)] == 1) last.push_back(place);
    }
    edge(last.at(0), last.at(1));
    if (reachable) found.insert(column);
    std::size_t digit = 0;
    while (digit < sequence.size() && ++sequence[digit] == n) sequence[digit++] = 0;
    more = digit < sequence.size();
  }
  return {found.begin(), found.end()};
}

double best_alone(const Network& network, const std::vector<Column>& columns) {
  double best = 0;
  for (const Column& column : columns) {
    double rate = 1e300;
    for (std::uint32_t link = 0; link < network.links(); ++link) {
      if (column[link] > 0) rate = std::min(rate, network.link(link).bytes_per_second / column[link]);
    }
    best = std::max(best, rate);
  }
  return best;
}

/// The greatest sum of all columns together: the whole table at once, by the simplex method with Bland's rule where
/// it stalls.
class WholeTable {
 public:
  WholeTable(const Network& network, const std::vector<Column>& columns) : width_(columns.size() + network.links() + 1) {
    for (std::uint32_t link = 0; link < network.links(); ++link) {
      std::vector<double> row(width_, 0);
      for (std::size_t c = 0; c < columns.size(); ++c) row[c] = columns[c][link];
      row[columns.size() + link] = 1;
      row.back() = network.link(link).bytes_per_second / 1e9;
      rows_.push_back(std::move(row));
    }
    objective_.assign(width_, 0);
    for (std::size_t c = 0; c < columns.size(); ++c) objective_[c] = 1;
  }

  double run() {
    int stalled = 0;
    for (;;) {
      const std::size_t column = entering(stalled > 50);
      if (column == width_) return -objective_.back() * 1e9;
      const double before = objective_.back();
      pivot(leaving(column), column);
      stalled = objective_.back() < before - 1e-12 ? 0 : stalled + 1;
    }
  }

 private:
  std::size_t entering(bool first) const {
    std::size_t best = width_;
    for (std::size_t c = 0; c + 1 < width_; ++c) {
      if (objective_[c] <= 1e-10) continue;
      if (first) return c;
      if (best == width_ || objective_[c] > objective_[best]) best = c;
    }
    return best;
  }

  std::size_t leaving(std::size_t column) const {
    std::size_t best = rows_.size();
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      if (rows_[r][column] <= 1e-9) continue;
      if (best == rows_.size() || rows_[r].back() / rows_[r][column] < rows_[best].back() / rows_[best][column] - 1e-13) {
        best = r;
      }
    }
    EXPECT_LT(best, rows_.size()) << "a ring without links";
    return best;
  }

  void pivot(std::size_t row, std::size_t column) {
    const double by = rows_[row][column];
    for (double& value : rows_[row]) value /= by;
    const auto clear = [&](std::vector<double>& other) {
      const double times = other[column];
      if (times == 0) return;
      for (std::size_t c = 0; c < width_; ++c) other[c] -= times * rows_[row][c];
    };
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      if (r != row) clear(rows_[r]);
    }
    clear(objective_);
  }

  std::size_t width_;
  std::vector<std::vector<double>> rows_;
  std::vector<double> objective_;
};

// ---- What any set must be --------------------------------------------------------------------------------------------

template <typename AnyNetwork, typename Routes>
void expect_no_link_too_full(const AnyNetwork& network, const Routes& routes, double sum) {
  std::vector<double> load(network.links(), 0);
  double total = 0;
  for (const auto& route : routes) {
    EXPECT_GT(route.bytes_per_second, 0);
    total += route.bytes_per_second;
    for (const std::uint32_t link : links_of(network, route)) load[link] += route.bytes_per_second;
  }
  EXPECT_NEAR(total, sum, 1e-6 * sum);
  for (std::uint32_t link = 0; link < network.links(); ++link) {
    EXPECT_LE(load[link], network.link(link).bytes_per_second * (1 + 1e-6)) << network.link(link).name;
  }
  for (const auto& route : routes) {
    EXPECT_NEAR(load[route.bottleneck], network.link(route.bottleneck).bytes_per_second,
                1e-5 * network.link(route.bottleneck).bytes_per_second)
        << "the narrowest link, " << network.link(route.bottleneck).name << ", is full";
  }
}

void expect_all_once(std::vector<int> places, int count) {
  std::sort(places.begin(), places.end());
  std::vector<int> all(at(count));
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(places, all);
}

template <typename AnyNetwork>
void expect_good(const AnyNetwork& network, const RingSet& set) {
  for (const FoundRing& ring : set.rings) expect_all_once(ring.order, network.endpoints());
  expect_no_link_too_full(network, set.rings, set.bytes_per_second);
}

template <typename AnyNetwork>
void expect_good(const AnyNetwork& network, const TreeSet& set) {
  for (const Tree& tree : set.trees) {
    std::vector<int> reached = {tree.root};
    std::map<int, int> parent;
    for (const auto& [from, to] : tree.edges) {
      EXPECT_TRUE(parent.emplace(to, from).second) << to << " has two parents";
      reached.push_back(to);
    }
    expect_all_once(reached, network.endpoints());
    for (const int place : reached) {
      int steps = 0;
      for (int p = place; p != tree.root && ++steps <= network.endpoints();) p = parent.at(p);
      EXPECT_LE(steps, network.endpoints()) << "a cycle";
    }
  }
  expect_no_link_too_full(network, set.trees, set.bytes_per_second);
}

// ---- Random networks -------------------------------------------------------------------------------------------------

/// A link of its own for each hop, some missing; of two widths or of many.
ListedNetwork random_mesh(int places, std::mt19937& random) {
  ListedNetwork network(places);
  const bool equal = random() % 2 == 0;
  const unsigned missing = random() % 4;
  for (int a = 0; a < places; ++a) {
    for (int b = 0; b < places; ++b) {
      const double width = equal ? 1 + random() % 2 : 1 + random() % 97 / 7.;
      if (a != b && random() % 8 >= missing) network.set_route(a, b, {network.add({"", 1e9 * width, 0})});
    }
  }
  return network;
}

/// Some links, and ways over any of them: nothing is as a machine would have it.
ListedNetwork random_ways(int places, std::mt19937& random) {
  ListedNetwork network(places);
  const auto links = static_cast<std::uint32_t>(4 + random() % 12);
  for (std::uint32_t i = 0; i < links; ++i) network.add({"", 1e9 * (1 + random() % 40 / 4.), 0});
  for (int a = 0; a < places; ++a) {
    for (int b = 0; b < places; ++b) {
      std::vector<std::uint32_t> way(1 + random() % 3);
      for (std::uint32_t& link : way) link = static_cast<std::uint32_t>(random() % links);
      std::sort(way.begin(), way.end());
      way.erase(std::unique(way.begin(), way.end()), way.end());
      if (a != b) network.set_route(a, b, way);
    }
  }
  return network;
}

/// GPUs behind PCIe switches of two packages, some of them with NVLinks.
MachineNetwork random_machine(int places, std::mt19937& random) {
  test::Machines machines;
  const int machine = machines.machine();
  std::vector<int> parents;
  for (int i = 0; i < 2; ++i) {
    const int host = machines.host_bridge(machines.package(machine));
    parents.push_back(host);
    for (unsigned switches = random() % 3; switches > 0; --switches)
      parents.push_back(machines.bridge(host, 8 << random() % 3));
  }
  std::vector<int> gpus;
  for (int i = 0; i < places; ++i) gpus.push_back(machines.gpu(parents[random() % parents.size()], 8 << random() % 3));
  const unsigned linked = random() % 4;
  for (std::size_t a = 0; a < gpus.size(); ++a) {
    for (std::size_t b = a + 1; b < gpus.size(); ++b) {
      if (random() % 4 < linked) machines.nvlink(gpus[a], gpus[b], 1 + static_cast<int>(random() % 3));
    }
  }
  return *network_of(machines.graph, gpus);
}

/// Returns how many rings the set has.
std::size_t compare_with_exhaustive(const Network& network) {
  const std::vector<Column> rings = all_rings(network);
  const auto best = best_ring(network);
  EXPECT_EQ(best.has_value(), !rings.empty());
  EXPECT_NEAR(best ? best->bytes_per_second : 0, best_alone(network, rings), 1);
  const RingSet set = search_rings(network);
  const double sum = rings.empty() ? 0 : WholeTable(network, rings).run();
  EXPECT_NEAR(set.bytes_per_second, sum, 1e-6 * sum);
  EXPECT_TRUE(set.optimal);
  expect_good(network, set);
  return set.rings.size();
}

TEST(Search, RingsOf200RandomNetworksAreThoseOfAnExhaustiveSearch) {
  std::mt19937 random(2026);
  int several = 0;  // networks with sets of several rings
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    // Every tenth has 8 places, all kinds in turn.
    const int places = round % 10 == 9 ? 8 : 2 + round % 6;
    std::size_t rings = 0;
    if (const int kind = round / 10 % 3; kind == 0) {
      rings = compare_with_exhaustive(random_mesh(places, random));
    } else if (kind == 1) {
      rings = compare_with_exhaustive(random_ways(places, random));
    } else {
      rings = compare_with_exhaustive(random_machine(places, random));
    }
    several += rings > 1 ? 1 : 0;
  }
  EXPECT_GE(several, 100) << "networks where one ring is not the answer";
}

TEST(Search, TreesOf200RandomNetworksAreThoseOfAnExhaustiveSearch) {
  std::mt19937 random(1957);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const int places = 2 + round % 5;
    const auto compare = [](const Network& network) {
      const std::vector<Column> trees = all_trees(network);
      const double sum = trees.empty() ? 0 : WholeTable(network, trees).run();
      const TreeSet set = search_trees(network);
      EXPECT_NEAR(set.bytes_per_second, sum, 1e-6 * sum);
      EXPECT_TRUE(set.optimal);
      expect_good(network, set);
    };
    if (const int kind = round / 5 % 3; kind == 0) {
      compare(random_mesh(places, random));
    } else if (kind == 1) {
      compare(random_ways(places, random));
    } else {
      compare(random_machine(places, random));
    }
  }
}

// ---- Machines that there are -----------------------------------------------------------------------------------------

/// The links between places that rings use, each way for itself.
std::map<std::pair<int, int>, int> hops_in(const RingSet& set) {
  std::map<std::pair<int, int>, int> hops;
  for (const FoundRing& ring : set.rings) {
    for (std::size_t i = 0; i < ring.order.size(); ++i) ++hops[{ring.order[i], ring.order[(i + 1) % ring.order.size()]}];
  }
  return hops;
}

TEST(Search, ADgx1HasThreeCyclesEachUsedBothWays) {
  const test::Machines machines = test::dgx1(true);
  const MachineNetwork network = *network_of(machines.graph, machines.graph.of(NodeKind::gpu));
  const RingSet set = search_machine_rings(network);
  ASSERT_EQ(set.rings.size(), 6u);
  EXPECT_NEAR(set.bytes_per_second, 150e9, 1e3);
  EXPECT_TRUE(set.optimal);
  expect_good(network, set);
  for (const FoundRing& ring : set.rings) EXPECT_NEAR(ring.bytes_per_second, 25e9, 1e3);
  for (std::size_t i = 0; i < 6; i += 2) {
    std::vector<int> back = set.rings[i + 1].order;
    std::reverse(back.begin() + 1, back.end());
    EXPECT_EQ(set.rings[i].order, back) << "each cycle both ways";
  }
  for (const auto& [pair, count] : hops_in(set)) {
    EXPECT_EQ(count, test::dgx1_links(pair.first, pair.second, true)) << pair.first << " to " << pair.second;
  }
}

TEST(Search, ADgx1OfPascalHasTwo) {
  const test::Machines machines = test::dgx1(false);
  const MachineNetwork network = *network_of(machines.graph, machines.graph.of(NodeKind::gpu));
  const RingSet set = search_machine_rings(network);
  EXPECT_EQ(set.rings.size(), 4u);
  EXPECT_NEAR(set.bytes_per_second, 80e9, 1e3);
  expect_good(network, set);
}

/// The ways that are NVLinks or xGMI.
ListedNetwork peers_of(const MachineNetwork& network) {
  ListedNetwork peers(network.endpoints());
  for (std::uint32_t link = 0; link < network.links(); ++link) peers.add(network.link(link));
  std::vector<std::uint32_t> way;
  for (int a = 0; a < network.endpoints(); ++a) {
    for (int b = 0; b < network.endpoints(); ++b) {
      if (a == b || !network.peers(a, b)) continue;
      network.route(a, b, way);
      peers.set_route(a, b, way);
    }
  }
  return peers;
}

TEST(Search, ADgx1WithTwoLinksMissingHasWhatItsNvlinksAllow) {
  test::Machines machines = test::dgx1(true);
  std::erase_if(machines.graph.links, [&](const GraphLink& link) {
    const int a = machines.graph.nodes[at(link.a)].id;
    const int b = machines.graph.nodes[at(link.b)].id;
    return (a == 0 && b == 1) || (a == 2 && b == 6);
  });
  const MachineNetwork network = *network_of(machines.graph, machines.graph.of(NodeKind::gpu));
  const RingSet set = search_machine_rings(network);
  EXPECT_TRUE(set.optimal);
  expect_good(network, set);
  const ListedNetwork peers = peers_of(network);
  EXPECT_NEAR(set.bytes_per_second, WholeTable(peers, all_rings(peers)).run(), 1e3);
  EXPECT_GT(set.bytes_per_second, 100e9) << "more than two cycles";
}

TEST(Search, BehindSwitchesOneRingFillsThePorts) {
  const test::Machines machines = test::switched(16, 6);
  const MachineNetwork network = *network_of(machines.graph, machines.graph.of(NodeKind::gpu));
  const RingSet set = search_machine_rings(network);
  ASSERT_EQ(set.rings.size(), 1u);
  EXPECT_NEAR(set.bytes_per_second, 150e9, 1e3);
  EXPECT_TRUE(set.optimal);
  EXPECT_THAT(network.link(set.rings[0].bottleneck).name, testing::HasSubstr("NVSwitch"));
  const TreeSet trees = search_machine_trees(network);
  EXPECT_NEAR(trees.bytes_per_second, 150e9 * 16 / 30, 1e3) << "n/(2(n-1)) of the ports: what the ring all-reduces too";
  EXPECT_TRUE(trees.optimal);
  expect_good(network, trees);
}

TEST(Search, WithPcieAloneTheRingCrossesBetweenPackagesOnceEachWay) {
  test::Machines machines;
  const int machine = machines.machine();
  std::vector<int> gpus(8);
  for (int package = 0; package < 2; ++package) {
    const int host = machines.host_bridge(machines.package(machine));
    const std::array<int, 2> switches = {machines.bridge(host, 16), machines.bridge(host, 16)};
    // In turn, so that the order of numbers is a bad one.
    for (int i = package; i < 8; i += 2) gpus[at(i)] = machines.gpu(switches[at(i / 4)], 16, i);
  }
  const MachineNetwork network = *network_of(machines.graph, gpus);
  const RingSet set = search_machine_rings(network);
  ASSERT_EQ(set.rings.size(), 1u);
  EXPECT_TRUE(set.optimal);
  int crossings = 0;
  for (const std::uint32_t link : links_of(network, set.rings[0])) {
    crossings += network.link(link).name.find("package0 > package1") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(crossings, 1);
  EXPECT_THAT(network.link(set.rings[0].bottleneck).name, testing::HasSubstr("package"));
  EXPECT_NEAR(set.bytes_per_second, network.link(set.rings[0].bottleneck).bytes_per_second, 1);
}

TEST(Search, APartOfTheGpusIsAnInstanceOfItsOwn) {
  const test::Machines machines = test::dgx1(true);
  const std::vector<int> gpus = machines.graph.of(NodeKind::gpu);
  // 0 3 4 7: 0-3 two links, 0-4 two, 3-7 one, 4-7 two. One cycle both ways, and PCIe beside it.
  const MachineNetwork network = *network_of(machines.graph, {gpus[0], gpus[3], gpus[4], gpus[7]});
  const RingSet set = search_machine_rings(network);
  EXPECT_TRUE(set.optimal);
  EXPECT_GE(set.bytes_per_second, 50e9);
  expect_good(network, set);
  compare_with_exhaustive(network);
  for (const std::vector<int>& chosen :
       {std::vector{gpus[6], gpus[1]}, {gpus[5], gpus[2], gpus[1]}, {gpus[7], gpus[6], gpus[0]}}) {
    compare_with_exhaustive(*network_of(machines.graph, chosen));
  }
}

TEST(Search, OneEndpointHasNoRing) {
  EXPECT_TRUE(search_rings(ListedNetwork(1)).rings.empty());
  EXPECT_TRUE(search_trees(ListedNetwork(1)).trees.empty());
  EXPECT_FALSE(best_ring(ListedNetwork(1)));
  EXPECT_TRUE(search_rings(ListedNetwork(0)).rings.empty());
}

/// All ways lead through place 0, which a ring passes once.
ListedNetwork star_of(int places) {
  ListedNetwork star(places);
  for (int i = 1; i < places; ++i) {
    star.set_route(0, i, {star.add({"", 1e9, 0})});
    star.set_route(i, 0, {star.add({"", 1e9, 0})});
  }
  return star;
}

TEST(Search, WhereNoRingIsNoneIsFoundAndThatIsCertain) {
  const ListedNetwork star = star_of(4);
  const RingSet set = search_rings(star);
  EXPECT_TRUE(set.rings.empty());
  EXPECT_TRUE(set.optimal);
  EXPECT_EQ(search_trees(star).trees.size(), 1u) << "but a tree there is";
}

TEST(Search, IsTheSameEveryTimeAndWithFewStepsStillAllowed) {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    const ListedNetwork network = random_mesh(4 + round % 5, random);
    for (const std::uint64_t steps : {1'000ull, 20'000ull, 100'000'000ull}) {
      const RingSet one = search_rings(network, {.steps = steps});
      const RingSet two = search_rings(network, {.steps = steps});
      ASSERT_EQ(one.rings.size(), two.rings.size());
      EXPECT_EQ(one.bytes_per_second, two.bytes_per_second);
      for (std::size_t i = 0; i < one.rings.size(); ++i) EXPECT_EQ(one.rings[i].order, two.rings[i].order);
      expect_good(network, one);
      EXPECT_LE(one.bytes_per_second, one.bound * (1 + 1e-6));
    }
  }
}

TEST(Search, WhereStepsRunOutTheBoundStaysOneAndNothingIsCalledTheGreatest) {
  std::mt19937 random(64);
  int cut_short = 0;
  for (int round = 0; round < 20; ++round) {
    const ListedNetwork network = random_mesh(5 + round % 3, random);
    const double most = search_trees(network).bytes_per_second;
    for (const std::uint64_t steps : {1ull, 30ull, 1'000ull, 10'000ull}) {
      SCOPED_TRACE("round " + std::to_string(round) + ", " + std::to_string(steps) + " steps");
      const TreeSet set = search_trees(network, {.steps = steps});
      EXPECT_GE(set.bound, most * (1 - 1e-6));
      EXPECT_LE(set.bound, 1e9 * 14 * 7) << "what the links of a place carry";
      EXPECT_TRUE(!set.optimal || set.bytes_per_second >= most * (1 - 1e-6)) << set.bytes_per_second << " of " << most;
      cut_short += set.optimal ? 0 : 1;
      expect_good(network, set);
      const RingSet rings = search_rings(network, {.steps = steps});
      EXPECT_GE(rings.bound, rings.bytes_per_second * (1 - 1e-6));
    }
  }
  EXPECT_GE(cut_short, 20);
}

TEST(Search, FewerRingsAndTreesAreHadForAPartOfTheSum) {
  std::mt19937 random(11);
  std::size_t rings = 0;
  std::size_t fewer_rings = 0;
  std::size_t trees = 0;
  std::size_t fewer_trees = 0;
  for (int round = 0; round < 10; ++round) {
    const ListedNetwork network = random_mesh(6, random);
    const RingSet all = search_rings(network);
    const RingSet most = search_rings(network, {.give_up = .1});
    EXPECT_GE(most.bytes_per_second, .9 * all.bytes_per_second);
    EXPECT_LE(most.rings.size(), all.rings.size());
    expect_good(network, most);
    const TreeSet all_trees = search_trees(network);
    const TreeSet most_trees = search_trees(network, {.give_up = .1});
    EXPECT_GE(most_trees.bytes_per_second, .9 * all_trees.bytes_per_second);
    EXPECT_GE(most_trees.bound, all_trees.bytes_per_second * (1 - 1e-6)) << "what was given up is still told";
    expect_good(network, most_trees);
    rings += all.rings.size();
    fewer_rings += most.rings.size();
    trees += all_trees.trees.size();
    fewer_trees += most_trees.trees.size();
  }
  EXPECT_LT(fewer_rings * 5, rings * 4);
  EXPECT_LT(fewer_trees * 4, trees * 3);
}

TEST(Search, ALargeNetworkWithoutMachinesIsSearchedGreedily) {
  ListedNetwork network(60);  // a line of links both ways, closed
  for (int a = 0; a < 60; ++a) {
    const std::uint32_t up = network.add({"", 1e9, 0});
    const std::uint32_t down = network.add({"", 1e9, 0});
    network.set_route(a, (a + 1) % 60, {up});
    network.set_route((a + 1) % 60, a, {down});
  }
  const RingSet set = search_rings(network);
  EXPECT_NEAR(set.bytes_per_second, 2e9, 1) << "around both ways";
  expect_good(network, set);
  const TreeSet trees = search_trees(network);
  EXPECT_NEAR(trees.bytes_per_second, 1e9, 1);
  expect_good(network, trees);
}

/// GPUs of one machine, each behind PCIe and joined to every other by 1 to 7 NVLinks.
test::Machines mesh(int gpus) {
  test::Machines machines;
  const int host = machines.host_bridge(machines.package(machines.machine()));
  std::vector<int> all;
  for (int i = 0; i < gpus; ++i) all.push_back(machines.gpu(host, 16));
  for (int a = 0; a < gpus; ++a) {
    for (int b = a + 1; b < gpus; ++b) machines.nvlink(all[at(a)], all[at(b)], 1 + (a + b) % 7);
  }
  return machines;
}

TEST(Search, AMachineOfMoreGpusThanTablesHoldIsSearchedGreedilyToo) {
  const test::ProcessorTime taken;
  for (const int gpus : {20, 64, 160}) {
    SCOPED_TRACE(gpus);
    const test::Machines machines = mesh(gpus);
    const MachineNetwork network = *network_of(machines.graph, machines.graph.of(NodeKind::gpu));
    const RingSet set = search_machine_rings(network);
    EXPECT_GE(set.bytes_per_second, 1e12) << "16 rings of several links";
    EXPECT_LE(set.bytes_per_second, set.bound);
    EXPECT_FALSE(set.optimal);
    expect_good(network, set);
    const TreeSet trees = search_machine_trees(network);
    EXPECT_GE(trees.bytes_per_second, .5e12);
    EXPECT_LE(trees.bytes_per_second, trees.bound);
    expect_good(network, trees);
  }
  EXPECT_TRUE(taken.within(10)) << "about .5 s in Release";
}

TEST(Search, AMachineOf1024GpusAtSwitchesIsDoneAtOnce) {
  const test::Machines machines = test::switched(1024, 18);
  const test::ProcessorTime taken;
  const MachineNetwork network = *network_of(machines.graph, machines.graph.of(NodeKind::gpu));
  const RingSet set = search_machine_rings(network);
  EXPECT_NEAR(set.bytes_per_second, 450e9, 1e3);
  EXPECT_TRUE(set.optimal) << "a ring fills the ports";
  expect_good(network, set);
  const TreeSet trees = search_machine_trees(network);
  EXPECT_NEAR(trees.bytes_per_second, 225e9, 1e3) << "a chain, at twice a port's load";
  expect_good(network, trees);
  EXPECT_TRUE(taken.within(20)) << "about 1 s in Release";
}

TEST(Search, LargeMachinesJoinByTheirNics) {
  const test::Machines machines = test::pod(3, 40);
  const MachineNetwork network = *network_of(machines.graph, machines.graph.of(NodeKind::gpu));
  const RingSet set = search_machine_rings(network);
  EXPECT_NEAR(set.bytes_per_second, 9 * 50e9, 1e4) << "nine NICs are as wide as a GPU's links";
  expect_good(network, set);
  const TreeSet trees = search_machine_trees(network);
  EXPECT_GE(trees.bytes_per_second, 100e9);
  expect_good(network, trees);
}

TEST(Search, ALargeNetworkWithoutARingMayHaveATree) {
  const ListedNetwork star = star_of(40);
  const RingSet set = search_rings(star);
  EXPECT_TRUE(set.rings.empty());
  EXPECT_FALSE(set.optimal) << "nobody has shown that there is none";
  const TreeSet trees = search_trees(star);
  EXPECT_NEAR(trees.bytes_per_second, 1e9, 1);
  expect_good(star, trees);
}

// ---- The sample files ------------------------------------------------------------------------------------------------

std::string samples() {
  const char* shared = getenv("TUTTI_SHARED");
  return (shared != nullptr ? std::string(shared) : TUTTI_DEFAULT_SHARED) + "/data/topologies";
}

/// Bytes per second, 0 where there is no ring.
double widest_single_ring(const MachineNetwork& network) {
  if (network.endpoints() < 2) return 0;
  Steps steps(1'000'000);
  const auto ring = widest_ring(transit_graph_of(network), std::numeric_limits<double>::infinity(), steps);
  return ring && ring->exact ? ring->rate : 0;
}

TEST(Search, AllSampleMachinesHaveTheRingsThatTheTableSays) {
  if (!std::filesystem::exists(samples())) GTEST_SKIP() << "no sample files at " << samples();
  struct Case {
    const char* file;
    std::size_t rings;
    double gbytes;
    double single;  ///< of the widest single ring: docs/topology.md, by hand
  };
  // The table of docs/rings.md, which reasons each. The two whose sums come from no single cut, 4p3l_n2 and ts1_n4, are
  // compared with all rings besides.
  constexpr std::array<Case, 24> table = {{{"hwloc/16intel64-manyVFs.xml", 0, 0, 0},
                                           {"hwloc/192em64t-12gr2n8c2t.xml", 0, 0, 0},
                                           {"hwloc/24em64t-2n6c2t-pci.xml", 1, 4, 4},
                                           {"hwloc/96em64t-4n4d3ca2co-pci.xml", 0, 0, 0},
                                           {"hwloc/nvidiaDGX2.xml", 1, 150, 150},
                                           {"nccl/aws-g5.48xl.xml", 0, 0, 0},
                                           {"nccl/aws-p4d-24xl.xml", 1, 10, 10},
                                           {"nccl/azure-ncv4.xml", 1, 12, 12},
                                           {"nccl/azure-ndv4.xml", 2, 31.5, 16},
                                           {"nccl/azure-ndv5.xml", 1, 22, 22},
                                           {"nccl/h100-oci.xml", 1, 450, 450},
                                           {"nccl/rccl-16p1h.xml", 6, 300, 50},
                                           {"nccl/rccl-3p_pcie.xml", 1, 24, 24},
                                           {"nccl/rccl-4p2h_2nic.xml", 1, 15.75, 15.75},
                                           {"nccl/rccl-4p3l_n2.xml", 16, 111, 31.5},
                                           {"nccl/rccl-4p4h.xml", 2, 31.5, 15.75},
                                           {"nccl/rccl-8p1h_2.xml", 4, 200, 50},
                                           {"nccl/rccl-8p6l.xml", 6, 276, 46},
                                           {"nccl/rccl-8p6l_4nic.xml", 6, 276, 46},
                                           {"nccl/rccl-8p_940.xml", 7, 448, 64},
                                           {"nccl/rccl-8p_pcie_2nic.xml", 1, 15.75, 15.75},
                                           {"nccl/rccl-8p_rome_4nics.xml", 4, 63, 16},
                                           {"nccl/rccl-8p_ts1_n4.xml", 19, 111, 16},
                                           {"nccl/rccl-collnet_n4.xml", 4, 63, 16}}};
  for (const Case& c : table) {
    SCOPED_TRACE(c.file);
    const bool nccl = std::string(c.file).starts_with("nccl");
    const std::string path = samples() + "/" + c.file;
    const Result<Graph> graph = nccl ? read_nccl_xml(path) : read_hwloc_xml(path);
    ASSERT_TRUE(graph.ok()) << graph.status().text();
    const MachineNetwork network = *network_of(*graph, graph->of(NodeKind::gpu));
    const RingSet set = search_machine_rings(network);
    EXPECT_EQ(set.rings.size(), c.rings);
    EXPECT_NEAR(set.bytes_per_second / 1e9, c.gbytes, .05);
    EXPECT_NEAR(widest_single_ring(network) / 1e9, c.single, .05);
    EXPECT_TRUE(set.optimal);
    expect_good(network, set);
    if (set.rings.size() > 8) compare_with_exhaustive(network);
    const TreeSet trees = search_machine_trees(network);
    EXPECT_TRUE(trees.optimal);
    expect_good(network, trees);
  }
}

// ---- Several machines ------------------------------------------------------------------------------------------------

/// Each ring visits every machine once, and comes and goes by NICs that are near.
void expect_near_nics(const MachineNetwork& network, const RingSet& set) {
  for (const FoundRing& ring : set.rings) {
    ASSERT_EQ(static_cast<int>(ring.passages.size()), network.machines());
    int changes = 0;
    for (std::size_t i = 0; i < ring.order.size(); ++i) {
      const int a = ring.order[i];
      const int b = ring.order[(i + 1) % ring.order.size()];
      if (network.machine(a) == network.machine(b)) continue;
      ++changes;
      EXPECT_EQ(ring.passages[at(network.machine(a))].exit, a);
      EXPECT_EQ(ring.passages[at(network.machine(b))].entry, b);
    }
    EXPECT_EQ(changes, network.machines());
  }
}

TEST(Search, ARailOptimisedPodOf1024GpusIsDoneAtOnceAndKeepsToItsRails) {
  const test::Machines machines = test::pod(128, 8);
  const test::ProcessorTime taken;
  const MachineNetwork network = *network_of(machines.graph, machines.graph.of(NodeKind::gpu));
  ASSERT_EQ(network.endpoints(), 1024);
  const RingSet set = search_machine_rings(network);
  EXPECT_EQ(set.rings.size(), 8u) << "one for each NIC";
  EXPECT_NEAR(set.bytes_per_second, 8 * 50e9, 1e4);
  EXPECT_TRUE(set.optimal);
  EXPECT_EQ(set.rail_changes, 0);
  expect_good(network, set);
  expect_near_nics(network, set);
  for (const FoundRing& ring : set.rings) {
    for (const Passage& passage : ring.passages) {
      EXPECT_EQ(network.nics(passage.entry)[at(passage.entry_nic)].type, PathType::pix);
      EXPECT_TRUE(network.nics(passage.entry)[at(passage.entry_nic)].gdr);
    }
  }
  const TreeSet trees = search_machine_trees(network);
  EXPECT_NEAR(trees.bytes_per_second, 8 * 50e9 / 2, 1e4) << "up and down by the same ports";
  EXPECT_EQ(trees.trees.size() % 2, 0u);
  EXPECT_TRUE(taken.within(10)) << "about .1 s in Release";
  expect_good(network, trees);
}

TEST(Search, MachinesThatDifferJoinAtTheLeastOfThem) {
  test::Machines machines = test::pod(2, 8);
  const int third = machines.add_switched_machine(4, 450, 4, 25);  // 4 GPUs, 4 NICs of 200 Gbit/s
  (void)third;
  const MachineNetwork network = *network_of(machines.graph, machines.graph.of(NodeKind::gpu));
  const RingSet set = search_machine_rings(network);
  EXPECT_NEAR(set.bytes_per_second, 4 * 25e9, 1e4);
  EXPECT_TRUE(set.optimal);
  expect_good(network, set);
  expect_near_nics(network, set);
  const TreeSet trees = search_machine_trees(network);
  expect_good(network, trees);
  EXPECT_GT(trees.bytes_per_second, 4 * 25e9 / 2 - 1e4);
}

TEST(Search, AMachineWithOneGpuHasARingThroughIt) {
  const test::Machines machines = test::pod(3, 8);
  const std::vector<int> gpus = machines.graph.of(NodeKind::gpu);
  std::vector<int> chosen(gpus.begin(), gpus.begin() + 8);
  chosen.push_back(gpus[8 + 3]);
  chosen.push_back(gpus[16 + 5]);
  const MachineNetwork network = *network_of(machines.graph, chosen);
  const RingSet set = search_machine_rings(network);
  EXPECT_NEAR(set.bytes_per_second, 50e9, 1e3) << "by its one near NIC";
  expect_good(network, set);
  expect_good(network, search_machine_trees(network));
}

TEST(Search, AGpuWithSeveralNearNicsUsesAllOfThem) {
  test::Machines machines;
  for (int m = 0; m < 2; ++m) {
    const int host = machines.host_bridge(machines.package(machines.machine()));
    const int bridge = machines.bridge(host, 64);
    machines.gpu(bridge, 64);
    for (int i = 0; i < 4; ++i) machines.nic(bridge, 100, true, 16);
  }
  const MachineNetwork network = *network_of(machines.graph, machines.graph.of(NodeKind::gpu));
  const RingSet set = search_machine_rings(network);
  EXPECT_NEAR(set.bytes_per_second, 4 * 12.5e9, 1e3);
  EXPECT_EQ(set.rings.size(), 4u);
  EXPECT_EQ(set.rail_changes, 0);
  expect_good(network, set);
  const TreeSet trees = search_machine_trees(network);
  EXPECT_NEAR(trees.bytes_per_second, 4 * 12.5e9, 1e3) << "of two machines each is a leaf in both trees, or the root";
  expect_good(network, trees);
}

}  // namespace
}  // namespace tutti
