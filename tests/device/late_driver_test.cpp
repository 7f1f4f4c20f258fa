// The driver comes late: host collectives run without it, and device calls follow once somebody has loaded it. A process of
// its own, since a driver that was loaded stays.
#include "tests/device/calls.h"
#include "tests/device/device_fixture.h"
#include "tests/support/child.h"

namespace tutti::test {
namespace {

constexpr std::size_t kCount = 1000;

/// first_by_lists: of the calls that find the driver there.
void run_before_and_after_the_driver_is_loaded(bool first_by_lists) {
  const Ranks ranks(3);
  ranks.run([](int rank, tutti_comm* comm) {
    std::vector<std::int32_t> data(kCount, rank + 1);
    for (int round = 0; round < 3; ++round) {
      ASSERT_EQ(tutti_all_reduce(data.data(), data.data(), kCount, TUTTI_INT32, TUTTI_SUM, comm, {}, nullptr),
                TUTTI_SUCCESS)
          << last_error();
    }
    EXPECT_EQ(data, std::vector<std::int32_t>(kCount, 54));
  });
  EXPECT_FALSE(cuda::Driver::loaded_already()) << "nobody asked for a device";
  const auto driver = cuda::Driver::get();
  ASSERT_TRUE(driver.ok()) << driver.status().text();
  const auto standin = cuda::StandinControl::find();
  const auto launches = [&] { return standin ? standin.calls("cuLaunchKernelEx") : 0; };
  MeetingPoint point(3);
  ranks.run([&](int rank, tutti_comm* comm) {
    const CurrentPlace current(0);
    const Stream stream;
    const auto sum = [&](std::size_t count, tutti_stream on_stream, bool by_lists = false) {
      const Memory send = device_values(std::vector<std::int32_t>(count, rank + 1));
      const Memory recv = device_values(std::vector<std::int32_t>(count, -1));
      const tutti_block from[] = {{send.data(), 1}, {send.as<std::int32_t>() + 1, count - 1}}, to = {recv.data(), count};
      ASSERT_EQ(by_lists
                    ? tutti_all_reduce_v(from, 2, &to, 1, TUTTI_INT32, TUTTI_SUM, comm, on_stream, nullptr)
                    : tutti_all_reduce(send.data(), recv.data(), count, TUTTI_INT32, TUTTI_SUM, comm, on_stream, nullptr),
                TUTTI_SUCCESS)
          << last_error();
      stream.wait();
      EXPECT_EQ(recv.read_all<std::int32_t>(), std::vector<std::int32_t>(count, 6));
    };
    // Device memory by itself, of a call that was not made before; a stream; and the call that was made before.
    sum(kCount + 1, {}, first_by_lists);
    sum(kCount, on(stream));
    sum(kCount, {});
    point.meet();
    EXPECT_EQ(launches(), standin ? 3u : 0u) << "each on the device, by one launch for all ranks";
    point.meet();
    std::vector<std::int32_t> data(kCount, rank + 1);
    EXPECT_EQ(tutti_all_reduce(data.data(), data.data(), kCount, TUTTI_INT32, TUTTI_SUM, comm, {}, nullptr), TUTTI_SUCCESS)
        << last_error();
    EXPECT_EQ(data, std::vector<std::int32_t>(kCount, 6));
  });
}

TEST(LateDriver, HostCallsDoNotLoadItAndDeviceCallsFollowIt) {
  if (!child_says([] { return cuda::Driver::get().ok(); })) GTEST_SKIP() << "there is no driver";
  for (const bool first_by_lists : {false, true}) {
    const Child child([&] { run_before_and_after_the_driver_is_loaded(first_by_lists); });
  }
}

}  // namespace
}  // namespace tutti::test
