// What a machine without usable verbs is told, and what makes them usable.
#include "transports/verbs/viable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/soft_nic/soft_nic.h"

namespace tutti::verbs {
namespace {

using ::testing::HasSubstr;

const VerbsApi there;  // viable asks whether there is one, no more

PortFacts sound_port() {
  PortFacts port;
  port.number = 1;
  port.state = IBV_PORT_ACTIVE;
  port.physical_state = 5;
  port.ethernet = true;
  Gid gid;
  gid.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
  gid.type = GidType::roce_v2;
  gid.interface = "eth0";
  port.gids = {gid};
  return port;
}

DeviceFacts sound_device() {
  DeviceFacts device;
  device.name = "mlx5_0";
  device.can_connect = true;
  device.ports = {sound_port()};
  return device;
}

const Surroundings sound{{"mlx5_0"}, UINT64_MAX};

std::string why(const std::vector<DeviceFacts>& devices, const Surroundings& around = sound, const VerbsApi* api = &there) {
  const Status status = viable(api, devices, around);
  EXPECT_EQ(status.code(), TUTTI_UNSUPPORTED);
  EXPECT_NE(status.error().remedy, "");
  return status.text();
}

/// One device whose port is as `change` makes it.
template <typename Change>
std::vector<DeviceFacts> with_port(Change change) {
  DeviceFacts device = sound_device();
  change(device.ports[0]);
  return {device};
}

TEST(VerbsViable, WhereOnePortIsSound) { EXPECT_TRUE(viable(&there, {sound_device()}, sound).ok()); }

TEST(VerbsViable, NamesWhatIsMissingFirst) {
  EXPECT_THAT(why({}, {{}, UINT64_MAX}), HasSubstr("no RDMA device"));
  EXPECT_THAT(why({}, {{}, UINT64_MAX}, nullptr), HasSubstr("no RDMA device")) << "a library would not help";
  EXPECT_THAT(why({}, sound, nullptr), HasSubstr("libibverbs.so.1 is not installed"));
  EXPECT_THAT(why({}), HasSubstr("the kernel has mlx5_0, and libibverbs has no driver for it"));
}

TEST(VerbsViable, NamesAClosedDevice) {
  DeviceFacts closed = sound_device();
  closed.open_error = EACCES;
  closed.ports.clear();
  EXPECT_THAT(why({closed}), HasSubstr("mlx5_0 may not be opened: Permission denied"));
  EXPECT_THAT(why({closed}), HasSubstr("--device=/dev/infiniband"));
  EXPECT_TRUE(viable(&there, {closed, sound_device()}, sound).ok()) << "another one is open";
}

TEST(VerbsViable, NamesDevicesWithoutImmediateData) {
  DeviceFacts warp = sound_device();
  warp.name = "siw0";
  warp.can_connect = false;
  EXPECT_THAT(why({warp}), HasSubstr("siw0 has no reliable connections with immediate data"));
}

TEST(VerbsViable, NamesWhatAPortLacks) {
  EXPECT_THAT(why(with_port([](PortFacts& port) {
                port.state = IBV_PORT_DOWN;
                port.physical_state = 2;
              })),
              HasSubstr("port 1 of mlx5_0 is down (physically polling)"));
  EXPECT_THAT(why(with_port([](PortFacts& port) {
                port.state = IBV_PORT_INIT;
                port.ethernet = false;
              })),
              HasSubstr("port 1 of mlx5_0 has no LID: no subnet manager has seen it"));
  EXPECT_THAT(why(with_port([](PortFacts& port) { port.ethernet = false; })), HasSubstr("has no LID"));
  EXPECT_THAT(why(with_port([](PortFacts& port) { port.gids.clear(); })),
              HasSubstr("has no GID that this process can read"));
  EXPECT_THAT(why(with_port([](PortFacts& port) { port.gids[0].interface.clear(); })),
              HasSubstr("has no GID with an address of an interface here (10.0.0.1 is the first)"));
}

TEST(VerbsViable, OfInfinibandNeedsALid) {
  EXPECT_TRUE(viable(&there, with_port([](PortFacts& port) {
                port.ethernet = false;
                port.lid = 7;
                port.gids.clear();
              }),
                     sound)
                  .ok());
}

TEST(VerbsViable, NamesTheLimitOfLockedMemory) {
  const std::string text = why({sound_device()}, {{"mlx5_0"}, 64 << 10});
  EXPECT_THAT(text, HasSubstr("this process may lock 64 KiB (ulimit -l), and verbs needs 65536 here"));
  EXPECT_THAT(text, HasSubstr("docker --ulimit memlock=-1"));
}

TEST(VerbsViable, OfThisProcessIsToldWhateverTheMachineHas) {
  const VerbsApi* const api = load_verbs();
  const Status status = viable(api, api != nullptr ? look_at_devices(*api) : std::vector<DeviceFacts>(), surroundings());
  if (!status.ok()) std::printf("%s\n", status.text().c_str());
  EXPECT_EQ(load_verbs(), api);
}

}  // namespace
}  // namespace tutti::verbs
