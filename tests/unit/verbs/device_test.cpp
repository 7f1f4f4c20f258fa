// What is seen of devices and their ports.
#include "transports/verbs/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>

#include "tests/support/soft_nic/soft_nic.h"

namespace tutti::verbs {
namespace {

using test::gid_entry;
using test::SoftDevice;
using test::SoftNics;
using test::SoftPort;

constexpr std::uint32_t v1 = 1;  // as enum ibv_gid_type_sysfs of entries has them
constexpr std::uint32_t v2 = 2;

/// A port whose interface is this machine's loopback, which every machine has.
SoftPort loopback_port() {
  SoftPort port;
  const unsigned loopback = if_nametoindex("lo");
  port.gids = {gid_entry(0, "fe80::1234", v1, loopback), gid_entry(1, "fe80::1234", v2, loopback),
               gid_entry(3, "127.0.0.1", v2, loopback)};
  return port;
}

TEST(VerbsDevices, AreToldWithTheirPorts) {
  SoftPort down;
  down.state = IBV_PORT_DOWN;
  down.physical_state = 3;
  SoftNics nics({{"mlx5_0", {loopback_port(), down}}});
  const std::vector<DeviceFacts> devices = look_at_devices(nics.api);
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_EQ(devices[0].name, "mlx5_0");
  EXPECT_TRUE(devices[0].can_connect);
  ASSERT_EQ(devices[0].ports.size(), 2u);
  const PortFacts& first = devices[0].ports[0];
  EXPECT_TRUE(first.is_usable());
  EXPECT_TRUE(first.ethernet);
  EXPECT_EQ(first.mtu, 1024u);
  EXPECT_EQ(first.megabits, 100'000u);
  EXPECT_EQ(devices[0].ports[1].number, 2);
  EXPECT_FALSE(devices[0].ports[1].is_usable());
  EXPECT_STREQ(physical_state_text(devices[0].ports[1].physical_state), "disabled");
  EXPECT_EQ(nics.open_contexts(), 0);
  EXPECT_EQ(nics.open_lists(), 0);
}

TEST(VerbsDevices, HaveGidsThatAreUsableWhereAnInterfaceHasTheAddress) {
  SoftNics nics({{"rxe0", {loopback_port()}}});
  const std::vector<DeviceFacts> devices = look_at_devices(nics.api);
  const std::vector<Gid>& gids = devices[0].ports[0].gids;
  ASSERT_EQ(gids.size(), 3u);
  EXPECT_FALSE(gids[0].is_usable()) << "loopback has no such address";
  EXPECT_EQ(gids[1].type, GidType::roce_v2);
  EXPECT_TRUE(gids[2].is_usable());
  EXPECT_EQ(gids[2].index, 3u) << "holes of a table keep their numbers";
  EXPECT_EQ(gids[2].interface, "lo");
  EXPECT_EQ(gids[2].prefix, 96 + 8);
}

TEST(VerbsDevices, TellTheEffectiveSpeedWhereTheyCan) {
  SoftPort bond = loopback_port();
  bond.effective_speed = 2000;  // of 100 Mbit/s
  SoftNics nics({{"bond_0", {bond}}});
  EXPECT_EQ(look_at_devices(nics.api)[0].ports[0].megabits, 200'000u);
  nics.api.query_port_speed = nullptr;
  EXPECT_EQ(look_at_devices(nics.api)[0].ports[0].megabits, 100'000u);
}

TEST(VerbsDevices, OfUnknownSpeedSaySo) {
  SoftPort strange = loopback_port();
  strange.speed = 3;
  const SoftNics nics({{"new_0", {strange}}});
  EXPECT_EQ(look_at_devices(nics.api)[0].ports[0].megabits, 0u);
}

TEST(VerbsDevices, WithTheOldStructAreAskedByTheLibrary) {
  SoftDevice old{"old_0", {loopback_port()}};
  old.is_old = true;
  const SoftNics nics({old});
  EXPECT_TRUE(look_at_devices(nics.api)[0].ports[0].is_usable());
}

TEST(VerbsDevices, ThatAreRefusedKeepTheReason) {
  SoftDevice closed{"mlx5_0", {loopback_port()}};
  closed.open_error = EACCES;
  const SoftNics nics({closed});
  const std::vector<DeviceFacts> devices = look_at_devices(nics.api);
  EXPECT_EQ(devices[0].open_error, EACCES);
  EXPECT_TRUE(devices[0].ports.empty());
}

TEST(VerbsDevices, OfAGidTableThatCannotBeReadHaveNone) {
  SoftNics nics({{"mlx5_0", {loopback_port()}}});
  nics.api.query_gid_table = [](ibv_context*, ibv_gid_entry*, std::size_t, std::uint32_t, std::size_t) -> ssize_t {
    return -EPERM;
  };
  EXPECT_TRUE(look_at_devices(nics.api)[0].ports[0].gids.empty());
}

}  // namespace
}  // namespace tutti::verbs
