// Settings that are for devices: how many blocks a launch takes, and TUTTI_LAUNCH_ORDER. memory and device are looked at by
// failures_test and collectives_test.
#include <atomic>
#include <cstdlib>
#include <thread>

#include "tests/device/calls.h"
#include "tests/device/device_fixture.h"

namespace tutti::test {
namespace {

constexpr std::size_t kCount = 5000;

class DeviceSettings : public DeviceTest {};

/// The most blocks that one launch of eight ranks on a device has resident.
std::uint64_t blocks_of_eight(const cuda::StandinControl& standin, std::uint32_t least, std::uint32_t most) {
  const DeviceRanks ranks({.ranks = 8, .max_blocks = most, .min_blocks = least});
  standin.most_resident(0);
  ranks.run([](const DeviceRank& rank) { expect_sums(rank, on(rank.stream), rank.stream); });
  return standin.most_resident(0);
}

TEST_F(DeviceSettings, BlocksOfALaunchKeepTheirLimits) {
  if (!standin) GTEST_SKIP() << "a real driver does not count resident blocks";
  const std::uint64_t usual = blocks_of_eight(standin, 0, 0);
  EXPECT_GT(usual, 2u);
  EXPECT_EQ(blocks_of_eight(standin, 0, 1), 1u);
  EXPECT_EQ(blocks_of_eight(standin, 0, 2), 2u);
  EXPECT_EQ(blocks_of_eight(standin, 0, 1000), usual);
  EXPECT_EQ(blocks_of_eight(standin, 1000, 0), usual) << "one task a rank is all that there is to do";
  ASSERT_EQ(::setenv("TUTTI_MIN_BLOCKS", "3", 1), 0);
  EXPECT_EQ(blocks_of_eight(standin, 0, 2), 2u) << "the upper limit wins, where one of them is the environment's";
  ASSERT_EQ(::unsetenv("TUTTI_MIN_BLOCKS"), 0);
}

/// Two communicators of two ranks, called in the same order; the streams of the first stand still. Whether the second one's
/// call came to an end meanwhile, on both ranks.
bool second_overtakes() {
  const DeviceRanks first({.ranks = 2, .places = 2});
  const DeviceRanks second({.ranks = 2, .places = 2});
  MeetingPoint point(2);
  const CurrentPlace current(0);
  Hold holds[2];
  std::atomic<int> overtakes = 0;
  first.run([&](const DeviceRank& rank) {
    const Stream other;
    const Memory a = device_values(std::vector<std::int32_t>(kCount, 0));
    const Memory b = device_values(std::vector<std::int32_t>(kCount, 0));
    const auto call = [&](tutti_comm* comm, const Memory& data, const Stream& stream, std::size_t count = kCount) {
      ASSERT_EQ(tutti_all_reduce(data.data(), data.data(), count, TUTTI_INT32, TUTTI_SUM, comm, on(stream), nullptr),
                TUTTI_SUCCESS)
          << last_error();
    };
    // The first call waits for all ranks and their devices.
    call(rank.comm, a, rank.stream, 1);
    call(second[rank.rank], b, other, 1);
    rank.stream.wait();
    other.wait();
    a.write_all(std::vector<std::int32_t>(kCount, 1));
    b.write_all(std::vector<std::int32_t>(kCount, 2));
    point.meet();
    holds[rank.rank].hold(rank.stream);
    call(rank.comm, a, rank.stream);
    call(second[rank.rank], b, other);
    for (int look = 0; look < 100; ++look) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (api().cuStreamQuery(other.handle()) != kOk) continue;
      ++overtakes;
      break;
    }
    point.meet();
    holds[rank.rank].open();
    rank.stream.wait();
    other.wait();
    EXPECT_EQ(a.read_all<std::int32_t>(), std::vector<std::int32_t>(kCount, 2));
    EXPECT_EQ(b.read_all<std::int32_t>(), std::vector<std::int32_t>(kCount, 4));
  });
  return overtakes == 2;
}

TEST_F(DeviceSettings, LaunchesKeepTheOrderOfCallsWhereThatIsAsked) {
  if (standin) standin.set("QUEUES", "32");
  // Two streams that share a hardware queue keep their order anyhow, so one try is not enough.
  bool overtakes = false;
  for (int attempt = 0; attempt < 20 && !overtakes; ++attempt) overtakes = second_overtakes();
  EXPECT_TRUE(overtakes) << "nothing orders two communicators, where that is not asked";
  ASSERT_EQ(::setenv("TUTTI_LAUNCH_ORDER", "on", 1), 0);
  for (int attempt = 0; attempt < 3; ++attempt) EXPECT_FALSE(second_overtakes());
  ASSERT_EQ(::unsetenv("TUTTI_LAUNCH_ORDER"), 0);
}

}  // namespace
}  // namespace tutti::test
