// Synthesis: what it packs against exhaustive search, what it makes against the named algorithms.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <limits>
#include <random>

#include "src/schedule/verifier.h"
#include "tests/support/referee.h"
#include "tools/plan/networks.h"
#include "tools/plan/synthesis/linear_program.h"
#include "tools/plan/synthesis/schedule_of_trees.h"
#include "tools/plan/synthesis/synthesize.h"
#include "topology/search.h"

namespace tutti::synthesis {
namespace {

using ::testing::HasSubstr;

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kGamma = 1e-11;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

const std::array<std::string, 3> machines = {"dgx1-v100", "dgx1-v100-broken", "pcie-v100"};

plan_tool::NamedNetwork machine(const std::string& name) {
  auto network = plan_tool::open_network(TUTTI_TEST_DATA "/topologies/" + name + ".nccl.xml");
  EXPECT_TRUE(network.ok()) << network.status().text();
  return *std::move(network);
}

Problem all_reduce_of(int ranks, std::uint64_t count) {
  Problem problem;
  problem.ranks = ranks;
  problem.count = count;
  return problem;
}

/// Calls `look` with every tree over so many places that has this root.
void for_all_trees(int places, int root, const std::function<void(const RootedTree&)>& look) {
  RootedTree tree{root, std::vector<int>(at(places), 0)};
  tree.parent[at(root)] = -1;
  const auto is_tree = [&] {
    for (int place = 0; place < places; ++place) {
      int above = place;
      for (int hops = 0; hops < places && above != root; ++hops) above = tree.parent[at(above)];
      if (above != root) return false;
    }
    return true;
  };
  const std::function<void(int)> choose = [&](int place) {
    if (place == places) {
      if (is_tree()) look(tree);
      return;
    }
    if (place == root) return choose(place + 1);
    for (int parent = 0; parent < places; ++parent) {
      if (parent == place) continue;
      tree.parent[at(place)] = parent;
      choose(place + 1);
    }
  };
  choose(0);
}

double cost_of(const RootedTree& tree, const HopCosts& cost) {
  double sum = 0;
  for (std::size_t place = 0; place < tree.parent.size(); ++place) {
    if (tree.parent[place] >= 0) sum += cost[at(tree.parent[place])][place];
  }
  return sum;
}

TEST(Arborescence, CostsAsLittleAsTheCheapestOfAll) {
  std::mt19937 random(1);
  int without = 0;
  for (int round = 0; round < 600; ++round) {
    const int places = 2 + round % 5;
    HopCosts cost(at(places), std::vector<double>(at(places)));
    for (auto& row : cost) {
      for (double& one : row)
        one = random() % 4 == 0 ? kNever : static_cast<double>(random() % (round % 2 == 0 ? 3 : 1000));
    }
    const int root = static_cast<int>(random()) & 1;
    double least = kNever;
    for_all_trees(places, root, [&](const RootedTree& tree) { least = std::min(least, cost_of(tree, cost)); });
    const auto found = cheapest_arborescence(cost, root);
    ASSERT_EQ(found.has_value(), least < kNever) << "round " << round;
    if (!found) {
      ++without;
      continue;
    }
    EXPECT_EQ(cost_of(*found, cost), least) << "round " << round;
    EXPECT_EQ(found->parent[at(root)], -1);
    EXPECT_LT(height_of(*found), places);
  }
  EXPECT_GT(without, 10);
  EXPECT_LT(without, 300);
}

TEST(Arborescence, IsAsShallowAsCanBeWhereThatIsWanted) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    const int places = 2 + round % 4;
    HopCosts cost(at(places), std::vector<double>(at(places)));
    for (auto& row : cost) {
      for (double& one : row) one = random() % 3 == 0 ? kNever : static_cast<double>(random() % 9);
    }
    int least = places;
    for_all_trees(places, 0, [&](const RootedTree& tree) {
      if (cost_of(tree, cost) < kNever) least = std::min(least, height_of(tree));
    });
    const auto found = shallow_arborescence(cost, 0);
    ASSERT_EQ(found.has_value(), least < places) << "round " << round;
    if (!found) continue;
    EXPECT_EQ(height_of(*found), least) << "round " << round;
    EXPECT_LT(cost_of(*found, cost), kNever) << "round " << round;
  }
}

/// Endpoints whose hops pass one or two links of a few that they share.
ListedNetwork random_network(int endpoints, std::mt19937& random) {
  ListedNetwork network(endpoints);
  const std::uint32_t links = 4 + random() % 8;
  for (std::uint32_t link = 0; link < links; ++link) {
    network.add({"link" + std::to_string(link), 1e9 * (1 + random() % 9), 1e-7});
  }
  for (int a = 0; a < endpoints; ++a) {
    for (int b = 0; b < endpoints; ++b) {
      if (a == b || random() % 5 == 0) continue;
      std::vector<std::uint32_t> way = {static_cast<std::uint32_t>(random() % links)};
      if (const auto second = static_cast<std::uint32_t>(random() % links); random() % 2 == 0 && second != way[0]) {
        way.push_back(second);
      }
      network.set_route(a, b, way);
    }
  }
  return network;
}

/// The greatest sum of rates over all pairs of trees that there are; 0 where there is none.
double packed_of_all(const Resources& resources) {
  LinearProgram program(resources.capacity());
  bool any = false;
  const auto usable = [&](const RootedTree& tree, bool climbs) {
    for (int place = 0; place < resources.ranks(); ++place) {
      const int parent = tree.parent[at(place)];
      if (parent < 0) continue;
      if ((climbs ? resources.sending(place, parent) : resources.sending(parent, place)).empty()) return false;
    }
    return true;
  };
  for (int root = 0; root < resources.ranks(); ++root) {
    for_all_trees(resources.ranks(), root, [&](const RootedTree& in) {
      if (!usable(in, true)) return;
      for_all_trees(resources.ranks(), root, [&](const RootedTree& out) {
        if (!usable(out, false)) return;
        program.add(resources.loads({in, out}));
        any = true;
      });
    });
  }
  return any && program.solve() ? program.sum() : 0;
}

TEST(TreePacking, IsAsFastAsThatOfAllTreesThereAre) {
  std::mt19937 random(2);
  int packed = 0;
  for (int round = 0; round < 60; ++round) {
    const ListedNetwork network = random_network(2 + round % 3, random);
    const Resources resources(network, round % 2 == 0 ? 0 : 2e-10);
    const double best = packed_of_all(resources);
    const auto packing = pack_tree_pairs(resources);
    ASSERT_EQ(packing.has_value(), best > 0) << "round " << round;
    if (!packing) continue;
    ++packed;
    EXPECT_NEAR(packing->bytes_per_second, best, best * 2e-6) << "round " << round;
    EXPECT_GE(packing->bound, best * (1 - 1e-9)) << "round " << round;
    EXPECT_LE(packing->bytes_per_second, any_algorithm_bound(resources) * (1 + 1e-6)) << "round " << round;
  }
  EXPECT_GT(packed, 30);
}

TEST(TreePacking, KeepsToWhatLinksCarryAndIsNoSlowerThanTheSearchsRingsAndTrees) {
  for (const std::string& name : machines) {
    const auto network = machine(name);
    const Resources resources(*network.network, 0);
    const auto packing = pack_tree_pairs(resources);
    ASSERT_TRUE(packing) << name;
    std::vector<double> load(resources.capacity().size(), 0);
    double sum = 0;
    for (const PackedPair& packed : packing->pairs) {
      sum += packed.bytes_per_second;
      for (const auto& [row, times] : resources.loads(packed.pair)) load[row] += times * packed.bytes_per_second;
    }
    EXPECT_NEAR(sum, packing->bytes_per_second, 1e-6 * sum) << name;
    for (std::size_t row = 0; row < load.size(); ++row)
      EXPECT_LE(load[row], resources.capacity()[row] * (1 + 1e-6)) << name;
    const double ranks = resources.ranks();
    EXPECT_GE(sum, search_rings(*network.network).bytes_per_second * ranks / (2 * (ranks - 1)) * (1 - 1e-6)) << name;
    EXPECT_GE(sum, search_trees(*network.network).bytes_per_second * (1 - 1e-6)) << name;
    EXPECT_LE(sum, packing->bound * (1 + 1e-9)) << name;
  }
}

/// 24 NVLinks of 25 GB/s both ways are 48 directed ones; a byte that is all-reduced passes 14.
TEST(TreePacking, OfADgx1UsesEveryNvlinkToItsEnd) {
  const auto network = machine("dgx1-v100");
  const Resources nvlink(nearby(*network.network, 8, 1), 0);
  const auto packing = pack_tree_pairs(nvlink);
  ASSERT_TRUE(packing);
  EXPECT_NEAR(packing->bytes_per_second, 48 * 25e9 / 14, 1e5);
  EXPECT_NEAR(any_algorithm_bound(nvlink), 48 * 25e9 / 14, 1e5);
}

TEST(TreePacking, HasAChunkForEachRateThatNeedsOne) {
  for (const std::string& name : machines) {
    const auto network = machine(name);
    const Resources resources(*network.network, kGamma);
    const auto packing = pack_tree_pairs(resources);
    ASSERT_TRUE(packing) << name;
    for (const std::uint32_t chunks : {1u, 7u, 24u, 48u}) {
      const std::vector<TreeShare> shares = share_chunks(resources, *packing, chunks);
      std::uint32_t sum = 0;
      for (const TreeShare& share : shares) {
        EXPECT_GT(share.chunks, 0u);
        sum += share.chunks;
      }
      EXPECT_EQ(sum, chunks) << name;
      const double rate = rate_of(resources, shares);
      EXPECT_LE(rate, packing->bytes_per_second * (1 + 1e-6)) << name << ", " << chunks;
      if (chunks == 48) {
        EXPECT_GE(rate, packing->bytes_per_second * 0.95) << name;
      }
    }
  }
}

std::string unproved(const Schedule& schedule) {
  const Verdict verdict = verify(schedule.plan, schedule.programs);
  return verdict.proved() ? std::string() : verdict.fault.text();
}

TEST(SynthesizedSchedules, AreProvedAndRightWhateverTheNetwork) {
  std::mt19937 random(3);
  std::mt19937_64 pauses(4);
  int made = 0;
  for (int round = 0; round < 40; ++round) {
    const int ranks = 2 + round % 7;
    const ListedNetwork network = random_network(ranks, random);
    const auto packing = pack_tree_pairs(Resources(network, 0));
    if (!packing) continue;
    const auto shares = share_chunks(Resources(network, 0), *packing, 1 + round % 12);
    const Schedule schedule = schedule_of_trees(all_reduce_of(ranks, 3000), shares, 256);
    ASSERT_EQ(unproved(schedule), "") << "round " << round;
    for (const double in_place : {0.0, 0.5}) {
      const testing::Match match{.count = 3000, .credit = 4, .in_place = in_place, .pulled = 0.4, .put = 0.3};
      ASSERT_EQ(testing::referee(schedule, match, pauses), "") << "round " << round;
    }
    ++made;
  }
  EXPECT_GT(made, 20);
}

TEST(SynthesizedSchedules, OfShallowTreesHaveTwoHopsWhereAllAreLinked) {
  const auto network = plan_tool::open_network("switch:6");
  ASSERT_TRUE(network.ok());
  const std::vector<TreeShare> shares = shallow_shares(Resources(*network->network, kGamma), 2);
  ASSERT_EQ(shares.size(), 6u);
  for (std::size_t root = 0; root < shares.size(); ++root) {
    EXPECT_EQ(shares[root].pair.in.root, static_cast<int>(root));
    EXPECT_EQ(height_of(shares[root].pair.in), 1);
    EXPECT_EQ(height_of(shares[root].pair.out), 1);
  }
  EXPECT_EQ(unproved(schedule_of_trees(all_reduce_of(6, 1000), shares, 4096)), "");
}

TEST(SynthesizedSchedules, OfRingsOfAnyOrderAreProved) {
  const std::vector<RingShare> rings = {{{0, 1, 2, 3, 4}, 2}, {{3, 0, 4, 2, 1}, 1}};
  const Schedule schedule = schedule_of_rings(all_reduce_of(5, 1000), rings, 4096);
  EXPECT_EQ(schedule.plan.shape.chunks, 15u);
  EXPECT_EQ(unproved(schedule), "");
}

TEST(Synthesis, IsProvedAndNoSlowerThanAnyNamedAlgorithmOnMachinesOfOurs) {
  for (const std::string& name : machines) {
    const auto network = machine(name);
    for (const std::uint64_t bytes : {1 << 20, 8 << 20}) {
      const auto found = synthesize(*network.network, network.view(8), all_reduce_of(8, bytes / 4));
      ASSERT_TRUE(found.ok()) << found.status().text();
      EXPECT_EQ(unproved(found->schedule), "") << name;
      ASSERT_GE(found->named.size(), 6u) << name;
      EXPECT_LE(found->winner.seconds, found->named[0].seconds) << name << ", " << bytes << ", " << found->named[0].name;
      const double least = static_cast<double>(bytes) / found->limit;
      EXPECT_GE(found->winner.seconds, least) << name;
      for (const Contender& named : found->named) EXPECT_GE(named.seconds, least) << name << ", " << named.name;
      EXPECT_LE(found->bytes_per_second, found->limit * (1 + 1e-6)) << name;
    }
  }
}

TEST(Synthesis, ComesWithinATenthOfWhatNoAlgorithmExceedsWithManyBytes) {
  const auto network = machine("pcie-v100");
  const auto found = synthesize(*network.network, network.view(8), all_reduce_of(8, 4 << 20));
  ASSERT_TRUE(found.ok());
  EXPECT_LE(found->winner.seconds, 1.1 * (16 << 20) / found->limit);
}

TEST(Synthesis, IsTheSameEachTimeAndTakesSomeOfTheRanks) {
  const auto network = machine("dgx1-v100");
  const auto text = [&] {
    const auto found = synthesize(*network.network, network.view(5), all_reduce_of(5, 65536));
    EXPECT_TRUE(found.ok());
    EXPECT_EQ(unproved(found->schedule), "");
    return print_schedule(found->schedule.plan, found->schedule.programs);
  };
  EXPECT_EQ(text(), text());
}

TEST(Synthesis, RefusesWhatItCannotDo) {
  const auto network = plan_tool::open_network("switch:9");
  ASSERT_TRUE(network.ok());
  const auto words = [&](int ranks, std::uint64_t count) {
    return synthesize(*network->network, network->view(ranks), all_reduce_of(ranks, count)).status().text();
  };
  EXPECT_THAT(words(9, 100), HasSubstr("a synthesis takes 2 to 8 ranks, and not 9"));
  EXPECT_THAT(words(1, 100), HasSubstr("a synthesis takes 2 to 8 ranks, and not 1"));
  EXPECT_THAT(words(4, 0), HasSubstr("there is nothing to be reduced"));
  const ListedNetwork apart(3);
  EXPECT_THAT(synthesize(apart, flat_view(3), all_reduce_of(3, 100)).status().text(),
              HasSubstr("do not all reach each other"));
}

}  // namespace
}  // namespace tutti::synthesis
