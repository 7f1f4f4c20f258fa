#include "src/base/addresses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <random>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "src/base/socket.h"

namespace tutti {
namespace {

using testing::HasSubstr;

constexpr std::array<unsigned char, 4> kV4 = {10, 1, 2, 3};
constexpr std::array<unsigned char, 16> kLinkLocal = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

TEST(SocketAddress, PrintsAsPeopleWriteIt) {
  EXPECT_EQ(SocketAddress::v4(kV4, 42).text(), "10.1.2.3:42");
  EXPECT_EQ(SocketAddress::any(AF_INET6, 7).text(), "[::]:7");
}

TEST(SocketAddress, SurvivesPackingExceptItsScope) {
  ByteWriter out;
  SocketAddress::v4(kV4, 42).pack(out);
  SocketAddress::v6(kLinkLocal, 65535, 3).pack(out);
  EXPECT_EQ(out.size(), 7u + 19u);
  ByteReader in(out.bytes());
  EXPECT_EQ(SocketAddress::unpack(in), SocketAddress::v4(kV4, 42));
  EXPECT_EQ(SocketAddress::unpack(in), SocketAddress::v6(kLinkLocal, 65535, 0));
  EXPECT_TRUE(in.complete());
}

TEST(SocketAddress, UnpackingGarbageFails) {
  const std::array<std::byte, 9> nine{std::byte{9}};
  ByteReader in(nine);
  EXPECT_FALSE(SocketAddress::unpack(in).valid());
  EXPECT_FALSE(in.ok());
}

TEST(LocalAddresses, AreThereAndNamed) {
  const auto all = local_addresses("");
  ASSERT_TRUE(all.ok()) << all.status().text();
  EXPECT_FALSE(all->empty());
  const auto loopback = local_addresses("lo");
  ASSERT_TRUE(loopback.ok()) << loopback.status().text();
  for (const auto& one : *loopback) EXPECT_EQ(one.interface, "lo");
}

TEST(LocalAddresses, AnUnknownInterfaceIsRefusedWithThoseThatExist) {
  const auto none = local_addresses("lo,nosuch7");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), TUTTI_INVALID_ARGUMENT);
  EXPECT_THAT(none.status().text(), HasSubstr("nosuch7"));
  EXPECT_THAT(none.status().error().remedy, HasSubstr("lo"));
}

TEST(HostPort, IsTakenApartAndNonsenseRefused) {
  const auto name = parse_host_port("node7.example:4242");
  ASSERT_TRUE(name.ok()) << name.status().text();
  EXPECT_EQ(name->host, "node7.example");
  EXPECT_EQ(name->port, 4242);
  const std::pair<const char*, const char*> cases[] = {{"", "needs a host, a colon and a port"},
                                                       {":", "needs a host, a colon and a port"},
                                                       {":80", "needs a host, a colon and a port"},
                                                       {"localhost", "needs a host, a colon and a port"},
                                                       {"[::1]", "needs a host, a colon and a port"},
                                                       {"[::1]80", "needs a host, a colon and a port"},
                                                       {"[]:80", "needs a host, a colon and a port"},
                                                       {"[::1:80", "bracket is not closed"},
                                                       {"localhost:", "ports are 1 to 65535"},
                                                       {"localhost:0", "ports are 1 to 65535"},
                                                       {"localhost:65536", "ports are 1 to 65535"},
                                                       {"localhost:+8", "ports are 1 to 65535"},
                                                       {"[::1]:", "ports are 1 to 65535"},
                                                       {"localhost:8x", "nothing may follow the port"},
                                                       {"localhost:80/", "nothing may follow the port"},
                                                       {"[::1]:80/path", "nothing may follow the port"},
                                                       {"::1:80", "an IPv6 address stands in brackets"},
                                                       {"fe80::abcd", "an IPv6 address stands in brackets"},
                                                       {"fe80::1%lo:80", "an IPv6 address stands in brackets"}};
  for (const auto& [bad, why] : cases) {
    const auto result = parse_host_port(bad);
    ASSERT_FALSE(result.ok()) << bad;
    EXPECT_THAT(result.status().text(), HasSubstr(std::string("\"") + bad + "\""));
    EXPECT_THAT(result.status().text(), HasSubstr(why));
  }
}

std::string number(const HostPort& place) {
  const auto address = numeric_address(place);
  if (!address) return address.status().text();
  return *address ? (*address)->text() : "a name";
}

TEST(NumericAddress, IsTheNumberAndNothingForAName) {
  EXPECT_EQ(number({"127.0.0.1", 80}), "127.0.0.1:80");
  EXPECT_EQ(number({"::1", 81}), "[::1]:81");
  EXPECT_EQ(number({"::1%lo", 81}), "[::1]:81");
  EXPECT_EQ(number({"*", 82}), "[::]:82");
  for (const char* name : {"localhost", "1.2.3", "127.1", "0x7f.1", ""}) EXPECT_EQ(number({name, 80}), "a name") << name;
}

TEST(NumericAddress, HasAZoneByNameOrNumberAndAsUrlsWriteIt) {
  const std::string loopback = std::to_string(::if_nametoindex("lo"));
  for (const std::string& zone : {std::string("lo"), loopback, std::string("25lo"), "25" + loopback}) {
    EXPECT_EQ(number({"fe80::1%" + zone, 82}), "[fe80::1%lo]:82") << zone;
    EXPECT_EQ(number({"FE80::0:1%" + zone, 82}), "[fe80::1%lo]:82") << zone;
  }
}

TEST(NumericAddress, IsTheIpv4AddressThatItMaps) {
  EXPECT_EQ(number({"::ffff:10.1.2.3", 80}), "10.1.2.3:80");
  EXPECT_EQ(number({"::FFFF:7f00:1", 80}), "127.0.0.1:80");
  EXPECT_EQ(number({"::ffff:0.0.0.0", 80}), "0.0.0.0:80");
}

TEST(NumericAddress, ThatCannotBeUsedIsASentenceWithItsRemedy) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"fe80::1", "\"[fe80::1]:80\" is a link-local address, which means nothing without its interface",
       "interfaces of this machine that have such addresses: "},
      {"fe80::1%nosuch7", "has the zone \"nosuch7\", which is no interface of this machine",
       "Write [fe80::1%ZONE]:80 with one of: "},
      {"fe80::1%", "has the zone \"\", which is no interface", "Write [fe80::1%ZONE]:80"},
      {"fe80::1%25nosuch7", "has the zone \"25nosuch7\", which is no interface", "Write [fe80::1%ZONE]:80"},
      {"fe80::1%4000000", "has the zone \"4000000\", which is no interface", "Write [fe80::1%ZONE]:80"},
      {"127.0.0.1%lo", "has a zone behind what is no IPv6 address", "Leave %lo out"},
      {"localhost%lo", "has a zone behind what is no IPv6 address", "Leave %lo out"},
      {"224.0.0.1", "multicast or broadcast address", "Write an address of rank 0's own"},
      {"255.255.255.255", "multicast or broadcast address", "Write an address of rank 0's own"},
      {"ff02::1%lo", "multicast or broadcast address", "Write an address of rank 0's own"}};
  for (const auto& [host, why, remedy] : cases) {
    const auto result = numeric_address({host, 80});
    ASSERT_FALSE(result.ok()) << host;
    EXPECT_EQ(result.status().code(), TUTTI_INVALID_ARGUMENT);
    EXPECT_THAT(result.status().error().message, HasSubstr(why)) << host;
    EXPECT_THAT(result.status().error().remedy, HasSubstr(remedy)) << host;
  }
}

TEST(SocketAddress, ReadsBackWhatItPrints) {
  std::vector<SocketAddress> all = {SocketAddress::any(AF_INET, 9), SocketAddress::any(AF_INET6, 9)};
  std::minstd_rand random;
  for (int i = 0; i < 1000; ++i) {
    std::array<unsigned char, 16> bytes;
    // Zeros and ones often: what is printed shortened, and what is mapped.
    for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random() % 3 == 0 ? random() : random() % 2 * 255);
    if (i % 4 == 0) std::fill_n(bytes.begin(), 10, static_cast<unsigned char>(0));
    if (i % 4 == 1) std::copy_n(kLinkLocal.begin(), 8, bytes.begin());
    const auto port = static_cast<std::uint16_t>(1 + random() % 65535);
    all.push_back(SocketAddress::v6(bytes, port, ::if_nametoindex("lo")));
    all.push_back(SocketAddress::v4(std::span(bytes).first<4>(), port));
  }
  for (const SocketAddress& address : all) {
    if (address.of_several()) continue;
    const auto place = parse_host_port(address.text());
    ASSERT_TRUE(place.ok()) << place.status().text();
    const auto back = numeric_address(*place);
    ASSERT_TRUE(back.ok()) << back.status().text();
    EXPECT_EQ(**back, address) << address.text();
  }
}

TEST(UsableAddresses, AreThoseOfANameThatLeadSomewhere) {
  const SocketAddress here = SocketAddress::v4(kV4, 80);
  const SocketAddress everybody = SocketAddress::v4(std::array<unsigned char, 4>{224, 0, 0, 1}, 80);
  const auto some = usable_addresses({"name", 80}, {everybody, here, here});
  ASSERT_TRUE(some.ok()) << some.status().text();
  EXPECT_THAT(*some, testing::ElementsAre(here));
  const auto none = usable_addresses({"name", 80}, {everybody});
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.status().text(), HasSubstr("Host \"name\" has no address that can be used here: 224.0.0.1 (multicast"));
}

TEST(LookUp, KnowsThisMachineByName) {
  const Lookup answer = look_up({"localhost", 80});
  ASSERT_EQ(answer.error, 0);
  EXPECT_TRUE(answer.addresses.front().loopback()) << answer.addresses.front().text();
}

TEST(Listen, ATakenPortIsOneSentenceWithTheAddress) {
  const SocketAddress address = SocketAddress::v4(std::array<unsigned char, 4>{127, 0, 0, 1}, 0);
  const auto first = listen_at(address);
  ASSERT_TRUE(first.ok()) << first.status().text();
  const SocketAddress taken = bound_address(first->get());
  const auto second = listen_at(taken);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.status().text(), HasSubstr(taken.text()));
  EXPECT_EQ(second.status().error().system_error, EADDRINUSE);
  const auto range = listen_on("lo", taken.port(), taken.port());
  ASSERT_FALSE(range.ok());
  EXPECT_THAT(range.status().text(), HasSubstr("TUTTI_PORT_RANGE"));
}

TEST(Listen, EveryAddressThatItNamesCanBeConnectedTo) {
  for (const char* interfaces : {"", "lo"}) {
    const auto listener = listen_on(interfaces, 0, 0);
    ASSERT_TRUE(listener.ok()) << listener.status().text();
    ASSERT_FALSE(listener->addresses.empty());
    for (const SocketAddress& address : listener->addresses) {
      const auto socket = connect_to(address);
      ASSERT_TRUE(socket.ok()) << socket.status().text();
      pollfd wait{socket->get(), POLLOUT, 0};
      ASSERT_EQ(::poll(&wait, 1, 5000), 1);
      EXPECT_EQ(connect_result(socket->get()), 0) << address.text();
    }
  }
}

TEST(ByteReader, ReadingBeyondTheEndGivesZerosForGood) {
  ByteWriter out;
  out.u16(513);
  out.text("ab");
  ByteReader in(out.bytes());
  EXPECT_EQ(in.u16(), 513);
  EXPECT_EQ(in.text(), "ab");
  EXPECT_TRUE(in.complete());
  EXPECT_EQ(in.u64(), 0u);
  EXPECT_FALSE(in.ok());
  ByteReader lying(std::as_bytes(std::span("\xff\xff\xff\x7f")));
  EXPECT_TRUE(lying.blob().empty());
  EXPECT_FALSE(lying.ok());
}

TEST(Machine, HasANameAndAnIdentity) {
  EXPECT_FALSE(host_name().empty());
  EXPECT_EQ(machine_id(), machine_id());
  EXPECT_NE(machine_id(), 0u);
}

// Whoever connects may listen at the same port later: a connection that it ended itself rests there for a minute.
/// Listens at the port that a connection had, right behind its end.
Status listen_behind_a_connection() {
  auto listener = listen_at(SocketAddress::v4(std::array<unsigned char, 4>{127, 0, 0, 1}, 0), 4);
  if (!listener.ok()) return listener.status();
  auto client = connect_to(bound_address(listener->get()));
  if (!client.ok()) return client.status();
  UniqueFd server;
  for (int tries = 0; tries < 5000 && !server; ++tries) {
    server = accept_one(listener->get(), nullptr);
    if (!server) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(server);
  const SocketAddress there = bound_address(client->get());
  client->reset();
  server.reset();
  return listen_at(there, 4).status();
}

// Another program's connection may have the port of one of them at the same time.
TEST(Sockets, AConnectionLeavesItsPortToAListener) {
  Status status = listen_behind_a_connection();
  for (int tries = 1; tries < 10 && !status.ok(); ++tries) status = listen_behind_a_connection();
  EXPECT_TRUE(status.ok()) << status.text();
}

}  // namespace
}  // namespace tutti
