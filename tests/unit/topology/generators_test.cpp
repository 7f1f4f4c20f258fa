// Networks by description: their links, and that every way leads along them to where it should.
#include "topology/generators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace tutti {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const Network> network(const std::string& spec) {
  const auto made = generate_network(spec);
  EXPECT_TRUE(made.ok()) << made.status().text();
  return made.ok() ? *made : nullptr;
}

std::vector<NetworkLink> way(const Network& network, int a, int b) {
  std::vector<std::uint32_t> indices;
  network.route(a, b, indices);
  std::vector<NetworkLink> links;
  for (const std::uint32_t index : indices) links.push_back(network.link(index));
  return links;
}

std::string left(const std::string& name) { return name.substr(0, name.find(" > ")); }
std::string right(const std::string& name) { return name.substr(name.find(" > ") + 3); }

const std::vector<std::string> specs = {
    "switch:7",        "fat_tree:4x3",    "fat_tree:3x4,spines=2", "fat_tree:2x3x4", "fat_tree:2x3x4,spines=3",
    "torus:5",         "torus:4x4",       "torus:2x3x4",           "torus:1x6",      "dragonfly:9x4x2",
    "dragonfly:4x2x3", "dragonfly:1x3x2", "dragonfly:5x1x2",       "pod:4x8",        "pod:1x8",
    "switch:1",        "torus:1",         "fat_tree:1x1x1",        "pod:3x1",        "torus:3x3x3x3"};

// Links are named by what they join, so a way's names have to hang together, and end at one place for each endpoint.
TEST(Generators, LayEveryWayFromItsSenderToItsReceiver) {
  for (const std::string& spec : specs) {
    const auto made = network(spec);
    std::vector<std::string> places(static_cast<std::size_t>(made->endpoints()));
    for (int a = 0; a < made->endpoints(); ++a) {
      EXPECT_TRUE(way(*made, a, a).empty()) << spec;
      for (int b = 0; b < made->endpoints(); ++b) {
        if (a == b) continue;
        const auto links = way(*made, a, b);
        ASSERT_FALSE(links.empty()) << spec << " " << a << " " << b;
        for (std::size_t l = 1; l < links.size(); ++l) EXPECT_EQ(right(links[l - 1].name), left(links[l].name)) << spec;
        for (const auto& [endpoint, place] :
             {std::pair(a, left(links.front().name)), std::pair(b, right(links.back().name))}) {
          std::string& known = places[static_cast<std::size_t>(endpoint)];
          if (known.empty()) known = place;
          EXPECT_EQ(known, place) << spec << " " << a << " " << b;
        }
      }
    }
    const std::set<std::string> different(places.begin(), places.end());
    EXPECT_EQ(different.size(), places.size()) << spec;
  }
}

TEST(Generators, NameEveryLinkOnceAndGiveItABandwidth) {
  for (const std::string& spec : specs) {
    const auto made = network(spec);
    std::set<std::string> names;
    for (std::uint32_t l = 0; l < made->links(); ++l) {
      const NetworkLink link = made->link(l);
      EXPECT_GT(link.bytes_per_second, 0) << spec;
      EXPECT_DOUBLE_EQ(link.latency_s, 0.5e-6) << spec;
      names.insert(link.name);
    }
    // A dimension of one or two has its ways around side by side.
    if (spec.find("torus:1") == std::string::npos && spec.find("torus:2") == std::string::npos) {
      EXPECT_EQ(names.size(), made->links()) << spec;
    }
  }
}

TEST(Generators, CutWhatALeafSendsUpwardsByTheOversubscription) {
  const auto plain = network("fat_tree:64x32,GBps=25");
  const auto over = network("fat_tree:64x32,GBps=25,oversubscription=4,latency_us=2");
  EXPECT_EQ(plain->endpoints(), 2048);
  EXPECT_DOUBLE_EQ(way(*plain, 0, 40)[1].bytes_per_second, 32 * 25e9);
  EXPECT_DOUBLE_EQ(way(*over, 0, 40)[1].bytes_per_second, 8 * 25e9);
  EXPECT_DOUBLE_EQ(way(*over, 0, 40)[0].bytes_per_second, 25e9);
  EXPECT_DOUBLE_EQ(way(*over, 0, 40)[0].latency_s, 2e-6);
  EXPECT_EQ(way(*over, 0, 31).size(), 2u);
  EXPECT_EQ(way(*over, 0, 32).size(), 4u);
  const auto three = network("fat_tree:4x8x16,GBps=10,oversubscription=2,core_oversubscription=4");
  const auto across = way(*three, 0, 500);
  ASSERT_EQ(across.size(), 6u);
  EXPECT_DOUBLE_EQ(across[1].bytes_per_second, 80e9);
  EXPECT_DOUBLE_EQ(across[2].bytes_per_second, 8 * 80e9 / 4);
  EXPECT_EQ(across[2].name, "pod 0 > spine");
}

TEST(Generators, SlowOneEndpointsLinkAndNoOther) {
  for (const std::string kind : {"switch:6", "fat_tree:2x3"}) {
    const auto made = network(kind + ",GBps=10,slow_endpoint=4,slow_GBps=2.5");
    for (int b = 0; b < 6; ++b) {
      if (b == 4) continue;
      for (const NetworkLink& link : way(*made, 4, b)) {
        const bool slow = link.name.starts_with("endpoint 4 ");
        if (!link.name.starts_with("leaf") && !link.name.starts_with("spine")) {
          EXPECT_DOUBLE_EQ(link.bytes_per_second, slow ? 2.5e9 : 10e9) << kind << " " << link.name;
        }
      }
      EXPECT_DOUBLE_EQ(way(*made, b, 4).back().bytes_per_second, 2.5e9);
    }
    EXPECT_DOUBLE_EQ(way(*made, 0, 1)[0].bytes_per_second, 10e9);
  }
}

TEST(Generators, TakeLongerBetweenSwitchesWhereThatIsSaid) {
  const auto made = network("fat_tree:2x3,latency_us=2,trunk_latency_us=0");
  EXPECT_DOUBLE_EQ(way(*made, 0, 5)[0].latency_s, 2e-6);
  EXPECT_DOUBLE_EQ(way(*made, 0, 5)[1].latency_s, 0);
  EXPECT_DOUBLE_EQ(way(*made, 0, 5)[2].latency_s, 0);
  EXPECT_DOUBLE_EQ(way(*network("fat_tree:2x3,latency_us=2"), 0, 5)[1].latency_s, 2e-6);
}

TEST(Generators, SendMessagesOverTheSpineOfTheirDestination) {
  const auto made = network("fat_tree:4x6,spines=3,GBps=10");
  for (int b = 6; b < 24; ++b) {
    const auto links = way(*made, 0, b);
    EXPECT_EQ(links[1].name, "leaf 0 > spine " + std::to_string(b % 3));
    EXPECT_DOUBLE_EQ(links[1].bytes_per_second, 6 * 10e9 / 3);
  }
}

TEST(Generators, GoTheShorterWayAroundATorusDimensionByDimension) {
  const auto made = network("torus:8x6");
  const auto around = [](int a, int b, int size) { return std::min((b - a + size) % size, (a - b + size) % size); };
  for (int a = 0; a < 48; ++a) {
    for (int b = 0; b < 48; ++b) {
      const int distance = around(a / 6, b / 6, 8) + around(a % 6, b % 6, 6);
      EXPECT_EQ(way(*made, a, b).size(), static_cast<std::size_t>(distance));
    }
  }
  EXPECT_EQ(way(*made, 0, 47)[0].name, "(0,0) > (0,5)");
  EXPECT_EQ(way(*made, 0, 47)[1].name, "(0,5) > (7,5)");
}

TEST(Generators, TakeAtMostFiveLinksInADragonflyAndOneOfThemBetweenGroups) {
  const auto made = network("dragonfly:9x4x2,global_GBps=12.5,local_GBps=25");
  for (int b = 8; b < 72; ++b) {
    const auto links = way(*made, 0, b);
    EXPECT_LE(links.size(), 5u);
    EXPECT_EQ(std::count_if(links.begin(), links.end(), [](const auto& l) { return l.bytes_per_second == 12.5e9; }), 1);
  }
  EXPECT_EQ(made->links(), 2u * 72 + 9 * 4 * 3 + 9 * 8);
}

TEST(Generators, KeepRailsApartBelowTheSpine) {
  const auto made = network("pod:128x8");
  EXPECT_EQ(made->endpoints(), 1024);
  EXPECT_EQ(way(*made, 3, 5)[0].name, "gpu 0.3 > nvswitch 0");
  EXPECT_DOUBLE_EQ(way(*made, 3, 5)[0].bytes_per_second, 450e9);
  ASSERT_EQ(way(*made, 3, 11).size(), 2u);
  EXPECT_EQ(way(*made, 3, 11)[0].name, "gpu 0.3 > rail 3");
  ASSERT_EQ(way(*made, 3, 12).size(), 4u);
  EXPECT_EQ(way(*made, 3, 12)[1].name, "rail 3 > spine");
  EXPECT_DOUBLE_EQ(way(*made, 3, 12)[1].bytes_per_second, 128 * 50e9);
}

TEST(Generators, PlaceRanksForAlgorithms) {
  const View pod = generated_view("pod:4x8", *network("pod:4x8"), 20);
  EXPECT_EQ(pod.machine[7], 0);
  EXPECT_EQ(pod.machine[19], 2);
  EXPECT_DOUBLE_EQ(pod.estimate(0, 1).beta, 1 / 450e9);
  EXPECT_DOUBLE_EQ(pod.estimate(0, 8).beta, 1 / 50e9);
  EXPECT_DOUBLE_EQ(pod.estimate(0, 8).alpha, 1e-6);
  const View tree = generated_view("fat_tree:4x3", *network("fat_tree:4x3"), 12);
  EXPECT_EQ(tree.link_class(0, 2), LinkClass::other_machine);
  EXPECT_EQ(tree.link_class(0, 3), LinkClass::other_rack);
  EXPECT_DOUBLE_EQ(tree.estimate(0, 3).alpha, 2e-6);
  EXPECT_THAT(generated_view("torus:2x3", *network("torus:2x3"), 6).torus, ::testing::ElementsAre(2, 3));
  EXPECT_TRUE(generated_view("torus:2x3", *network("torus:2x3"), 5).torus.empty());
}

TEST(Generators, RefuseWhatIsWrongInOneSentence) {
  for (const auto& [spec, why] : std::vector<std::pair<std::string, std::string>>{
           {"ring:4", "is of no known kind"},
           {"torus", "is of no known kind"},
           {"", "is of no known kind"},
           {"torus:", "has the size \"\""},
           {"torus:4x", "has the size \"\""},
           {"torus:4x0", "has the size \"0\""},
           {"torus:-4", "has the size \"-4\""},
           {"torus:4.5", "has the size \"4.5\""},
           {"torus:99999999999", "has over 1048576 endpoints"},
           {"torus:2000x2000", "has over 1048576 endpoints"},
           {"torus:1x1x1x1x1x1x1x1x1", "has 9 sizes; write torus:SIZE"},
           {"torus:1x1x1x1x1x1x1x1x1", "of up to 8"},
           {"switch:99999999999999", "has over 1048576 endpoints, more than can be simulated"},
           {"switch:00", "has the size \"00\", which is no whole number from 1"},
           {"switch:4x4", "has 2 sizes; write switch:ENDPOINTS"},
           {"fat_tree:4", "has 1 sizes"},
           {"fat_tree:4x4,oversubscription", "gives oversubscription no number from 1e-9 to 1e9"},
           {"fat_tree:4x4,oversubscription=0", "gives oversubscription no number from 1e-9 to 1e9"},
           {"fat_tree:4x4,oversubscription=nan", "gives oversubscription no number from 1e-9 to 1e9"},
           {"fat_tree:4x4,spines=1.5", "gives spines no whole number"},
           {"fat_tree:4x4,spines=100000", "gives spines no whole number"},
           {"fat_tree:4x4,core_oversubscription=2", "has a core_oversubscription but no core"},
           {"torus:4x4,spines=2", "has the option \"spines\", which torus does not know; it knows GBps, latency_us"},
           {"torus:4x4,GBps=-1", "gives GBps no number from 1e-9 to 1e9"},
           {"torus:4x4,latency_us=-1", "gives latency_us no number from 0 to 1e9"},
           {"switch:4,slow_endpoint=4", "gives slow_endpoint no endpoint's number; write 0 to 3"},
           {"fat_tree:2x2,slow_endpoint=1.5", "gives slow_endpoint no endpoint's number; write 0 to 3"},
           {"fat_tree:2x4,slow_GBps=1", "has a slow_GBps but no slow_endpoint; give both"},
           {"switch:6,GBps=10,slow_endpoint=0", "has a slow_endpoint but no slow_GBps; give both"},
           {"switch:4,GBps=1,GBps=2", "has the option GBps twice; give it once"},
           {"switch:4,GBps=1e300", "gives GBps no number from 1e-9 to 1e9"},
           {"switch:4,slow_endpoint=-1", "gives slow_endpoint no number from 0 to 1e9"},
           {"switch:4,slow_endpoint=1,slow_GBps=0", "gives slow_GBps no number from 1e-9 to 1e9"},
           {"switch:4,trunk_latency_us=1", "has the option \"trunk_latency_us\", which switch does not know"},
           {"torus:4x4,", "has the option \"\""}}) {
    const auto made = generate_network(spec);
    ASSERT_FALSE(made.ok()) << spec;
    EXPECT_THAT(made.status().text(), HasSubstr(why)) << spec;
  }
}

}  // namespace
}  // namespace tutti
