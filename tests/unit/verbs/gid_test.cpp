// Which addresses join two ports, and in which order they are tried.
#include "transports/verbs/gid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "tests/support/soft_nic/soft_nic.h"

namespace tutti::verbs {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Gid gid(std::uint32_t index, const char* address, GidType type = GidType::roce_v2, int prefix = 0,
        const char* interface = "eth0") {
  Gid made;
  const ibv_gid_entry entry = test::gid_entry(index, address, 0, 0);
  std::memcpy(made.bytes.data(), entry.gid.raw, made.bytes.size());
  made.index = index;
  made.type = type;
  made.prefix = static_cast<std::uint8_t>(prefix);
  made.interface = interface;
  return made;
}

/// "own>other" of every pair, the best first.
std::vector<std::string> texts(const std::vector<Gid>& own, const std::vector<Gid>& other) {
  std::vector<std::string> all;
  for (const GidPair& pair : pairs_of(own, other)) all.push_back(pair.own.text() + ">" + pair.other.text());
  return all;
}

TEST(Gid, KnowsItsScopeAndText) {
  EXPECT_EQ(gid(0, "10.1.2.3").scope(), GidScope::ipv4);
  EXPECT_EQ(gid(0, "10.1.2.3").text(), "10.1.2.3");
  EXPECT_EQ(gid(0, "fe80::1").scope(), GidScope::link_local);
  EXPECT_EQ(gid(0, "febf::1").scope(), GidScope::link_local);
  EXPECT_EQ(gid(0, "fec0::1").scope(), GidScope::global);
  EXPECT_EQ(gid(0, "2001:db8::1").scope(), GidScope::global);
  EXPECT_EQ(gid(0, "fd00::1").text(), "fd00::1");
}

TEST(Gid, CountsCommonBits) {
  EXPECT_EQ(common_prefix(gid(0, "10.0.0.1").bytes, gid(0, "10.0.0.1").bytes), 128);
  EXPECT_EQ(common_prefix(gid(0, "10.0.0.0").bytes, gid(0, "10.0.0.1").bytes), 127);
  EXPECT_EQ(common_prefix(gid(0, "10.0.0.1").bytes, gid(0, "138.0.0.1").bytes), 96);
  EXPECT_EQ(common_prefix(gid(0, "8000::").bytes, gid(0, "::").bytes), 0);
}

TEST(GidPairs, TakeRoceV2BeforeV1) {
  const std::vector<Gid> both = {gid(0, "10.0.0.1", GidType::roce_v1), gid(1, "10.0.0.1")};
  const std::vector<GidPair> pairs = pairs_of(both, both);
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_EQ(pairs[0].own.type, GidType::roce_v2);
  EXPECT_EQ(pairs[1].own.type, GidType::roce_v1);
}

TEST(GidPairs, TakeRoceV1WhereOneEndHasNothingElse) {
  const std::vector<Gid> both = {gid(0, "10.0.0.1", GidType::roce_v1), gid(1, "10.0.0.1")};
  const std::vector<Gid> old = {gid(4, "10.0.0.2", GidType::roce_v1)};
  EXPECT_THAT(texts(both, old), ElementsAre("10.0.0.1>10.0.0.2"));
}

TEST(GidPairs, TakeIpv4BeforeOtherGlobalAddressesAndTheseBeforeLinkLocalOnes) {
  const std::vector<Gid> own = {gid(0, "fe80::1"), gid(1, "2001:db8::1"), gid(2, "10.0.0.1")};
  const std::vector<Gid> other = {gid(0, "10.9.0.2"), gid(1, "fe80::2"), gid(2, "fd00::2")};
  EXPECT_THAT(texts(own, other), ElementsAre("10.0.0.1>10.9.0.2", "2001:db8::1>fd00::2", "fe80::1>fe80::2"));
}

TEST(GidPairs, TakeOneSubnetBeforeALongerCommonPrefix) {
  // 10.0.0.0/8 says that 10.200.0.1 is near; 11.0.0.1 has more bits in common with 11.0.0.2, which /32 keeps out.
  const std::vector<Gid> own = {gid(0, "11.0.0.1", GidType::roce_v2, 128), gid(1, "10.0.0.1", GidType::roce_v2, 96 + 8)};
  const std::vector<Gid> other = {gid(0, "11.0.0.2", GidType::roce_v2, 128),
                                  gid(1, "10.200.0.1", GidType::roce_v2, 96 + 8)};
  EXPECT_EQ(texts(own, other).front(), "10.0.0.1>10.200.0.1");
  EXPECT_EQ(pairs_of(own, other).front().why(), "RoCE v2, IPv4, one subnet");
}

TEST(GidPairs, AreOfOneSubnetWhereBothSidesSaySo) {
  const std::vector<Gid> own = {gid(0, "10.0.0.1", GidType::roce_v2, 96 + 8)};
  const std::vector<Gid> other = {gid(0, "10.200.0.1", GidType::roce_v2, 96 + 24)};
  EXPECT_FALSE(pairs_of(own, other).front().same_subnet);
  EXPECT_EQ(pairs_of(own, other).front().why(), "RoCE v2, IPv4, 8 bits in common");
}

TEST(GidPairs, TakeTheLongerCommonPrefixOfTwoSubnets) {
  const std::vector<Gid> own = {gid(0, "10.1.0.1", GidType::roce_v2, 120), gid(1, "10.2.0.1", GidType::roce_v2, 120)};
  const std::vector<Gid> other = {gid(7, "10.2.9.9", GidType::roce_v2, 120)};
  EXPECT_THAT(texts(own, other), ElementsAre("10.2.0.1>10.2.9.9", "10.1.0.1>10.2.9.9"));
}

TEST(GidPairs, LeaveOutWhatNoInterfaceHas) {
  const std::vector<Gid> own = {gid(0, "10.0.0.1", GidType::roce_v2, 0, "")};
  EXPECT_THAT(texts(own, {gid(0, "10.0.0.2")}), IsEmpty());
  const std::vector<Gid> infiniband = {gid(0, "fe80::1", GidType::infiniband, 64, "")};
  EXPECT_THAT(texts(infiniband, infiniband), ElementsAre("fe80::1>fe80::1"));
}

TEST(GidPairs, ComeInOneOrderWhateverTheTablesOrder) {
  std::vector<Gid> own = {gid(0, "fe80::1"), gid(1, "10.0.0.1"), gid(2, "10.0.1.1"), gid(3, "fd00::1"),
                          gid(4, "10.0.0.1", GidType::roce_v1)};
  std::vector<Gid> other = {gid(0, "fe80::2"), gid(1, "10.0.0.2"), gid(2, "fd00::2"), gid(3, "10.0.0.2", GidType::roce_v1)};
  const std::vector<std::string> first = texts(own, other);
  std::mt19937 random(7);
  for (int n = 0; n < 50; ++n) {
    std::shuffle(own.begin(), own.end(), random);
    std::shuffle(other.begin(), other.end(), random);
    EXPECT_EQ(texts(own, other), first);
  }
}

}  // namespace
}  // namespace tutti::verbs
