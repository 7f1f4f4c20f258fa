// What `tutti-doctor verbs` says of ports.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>

#include "tests/support/soft_nic/soft_nic.h"
#include "tests/unit/topology/fake_files.h"
#include "tools/doctor/verbs_look.h"

namespace tutti::doctor {
namespace {

using test::gid_entry;
using test::SoftDevice;
using test::SoftNics;
using test::SoftPort;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(DoctorVerbs, TellsOfEachPortItsRateDriverAddressesAndErrors) {
  FakeFiles fake;
  const std::string folder = "/sys/class/infiniband/mlx5_0";
  fake.folder("/sys/bus/pci/drivers/mlx5_core").link(folder + "/device/driver", "/sys/bus/pci/drivers/mlx5_core");
  fake.file(folder + "/ports/1/hw_counters/local_ack_timeout_err", "12").folder("/sys/class/net/lo/bonding");
  fake.file(folder + "/ports/1/hw_counters/out_of_sequence", "0");
  SoftPort port;
  port.gids = {gid_entry(0, "fe80::5", 2, if_nametoindex("lo")), gid_entry(3, "127.0.0.1", 2, if_nametoindex("lo"))};
  const SoftNics nics({{"mlx5_0", {port}}});
  const VerbsLook look = look_at_verbs_ports(fake.files(), &nics.api);
  ASSERT_EQ(look.ports.size(), 1u);
  EXPECT_EQ(look.ports[0].name, "mlx5_0:1");
  EXPECT_EQ(look.ports[0].health, Health::good);
  const std::string& text = look.ports[0].text;
  EXPECT_THAT(text, HasSubstr("RoCE, active (physically up), 100 Gbit/s, MTU 1024, driver mlx5_core"));
  EXPECT_THAT(text, HasSubstr("GID fe80::5 (0, RoCE v2, unused: no interface here has it)"));
  EXPECT_THAT(text, HasSubstr("GID 127.0.0.1 (3, RoCE v2, lo)"));
  EXPECT_THAT(text, HasSubstr("lo is a bond; local_ack_timeout_err 12"));
  EXPECT_THAT(text, Not(HasSubstr("out_of_sequence")));
}

TEST(DoctorVerbs, TellsWhatKeepsAPortFromBeingUsed) {
  const FakeFiles fake;
  SoftPort unmanaged;
  unmanaged.state = IBV_PORT_INIT;
  unmanaged.link_layer = IBV_LINK_LAYER_INFINIBAND;
  SoftDevice closed{"mlx5_1", {}};
  closed.open_error = EACCES;
  const SoftNics nics({{"mlx5_0", {unmanaged}}, closed});
  const VerbsLook look = look_at_verbs_ports(fake.files(), &nics.api);
  ASSERT_EQ(look.ports.size(), 2u);
  EXPECT_EQ(look.ports[0].health, Health::note);
  EXPECT_THAT(look.ports[0].text, HasSubstr("InfiniBand, LID 0, initializing"));
  EXPECT_THAT(look.ports[0].text, HasSubstr("no subnet manager has seen it"));
  EXPECT_THAT(look.ports[0].remedy, HasSubstr("opensm"));
  EXPECT_THAT(look.ports[1].text, HasSubstr("cannot be asked: Permission denied"));
  EXPECT_FALSE(look.usable.ok());
}

TEST(DoctorVerbs, TellsOfSoftwareDevicesWhatTheyAreMadeOf) {
  FakeFiles fake;
  fake.file("/sys/class/infiniband/rxe0/parent", "veth0");
  const SoftNics nics({{"rxe0", std::vector<SoftPort>(1)}});
  EXPECT_THAT(look_at_verbs_ports(fake.files(), &nics.api).ports[0].text, HasSubstr("software on veth0"));
}

}  // namespace
}  // namespace tutti::doctor
