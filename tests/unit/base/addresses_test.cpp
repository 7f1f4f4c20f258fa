#include "src/base/addresses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <poll.h>

#include <array>

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
  for (const char* bad : {"", ":", "localhost", "localhost:", "localhost:0", "localhost:65536", "localhost:8x", "::1:80"}) {
    const auto result = parse_host_port(bad);
    ASSERT_FALSE(result.ok()) << bad;
    EXPECT_THAT(result.status().text(), HasSubstr(std::string("\"") + bad + "\""));
  }
}

TEST(NumericAddress, IsTheNumberAndNothingForAName) {
  EXPECT_EQ(numeric_address({"127.0.0.1", 80})->text(), "127.0.0.1:80");
  EXPECT_EQ(numeric_address({"::1", 81})->text(), "[::1]:81");
  const std::uint32_t loopback = ::if_nametoindex("lo");
  EXPECT_EQ(numeric_address({"fe80::1%lo", 82})->scope(), loopback);
  EXPECT_EQ(numeric_address({"fe80::1%" + std::to_string(loopback), 82})->scope(), loopback);
  for (const char* name : {"localhost", "fe80::1%nosuch7", "fe80::1%", "%lo", "1.2.3", ""}) {
    EXPECT_FALSE(numeric_address({name, 80})) << name;
  }
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

}  // namespace
}  // namespace tutti
