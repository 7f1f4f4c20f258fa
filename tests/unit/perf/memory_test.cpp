// What all ranks of a machine are about to take, against what it has.
#include "perf/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/topology/fake_files.h"

namespace tutti::perf {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr Room kEndless = {0, UINT64_MAX};

FakeFiles& machine(FakeFiles& fake) {
  return fake.file("/proc/sys/kernel/random/boot_id", "one")
      .file("/proc/meminfo", "MemTotal: 33554432 kB\nMemFree: 1 kB\nMemAvailable:   16777216 kB");
}

TEST(Rooms, CountWhatTheRanksOfAMachineTakeTogether) {
  const std::vector<Rooms> ranks(8, Rooms{{{7, 16 * kGiB}, kEndless}});
  EXPECT_EQ(check_rooms(ranks, 2 * kGiB), "");
  EXPECT_THAT(check_rooms(ranks, 2 * kGiB + 1), AllOf(HasSubstr("8 ranks"), HasSubstr("2.00 GiB"), HasSubstr("16.00 GiB")));
}

TEST(Rooms, OfDifferentMachinesAreNotAddedUp) {
  std::vector<Rooms> ranks;
  for (uint64_t rank = 0; rank < 8; ++rank) ranks.push_back({{{rank / 2, 16 * kGiB}, kEndless}});
  EXPECT_EQ(check_rooms(ranks, 8 * kGiB), "");
  ranks[7][0].bytes = 15 * kGiB;  // read a moment later: the least counts, for all
  EXPECT_THAT(check_rooms(ranks, 8 * kGiB), AllOf(HasSubstr("2 ranks"), HasSubstr("15.00 GiB")));
}

TEST(Rooms, AreTheMachinesAvailableMemoryWithoutGroups) {
  FakeFiles fake;
  const Rooms rooms = read_rooms(machine(fake).files().root());
  EXPECT_EQ(rooms[0].bytes, 16 * kGiB);
  EXPECT_EQ(rooms[1].bytes, UINT64_MAX);
  EXPECT_EQ(check_rooms({rooms, rooms}, 8 * kGiB), "");
}

TEST(Rooms, AreTheTightestGroupsOnTheWayUp) {
  FakeFiles fake;
  machine(fake).file("/proc/self/cgroup", "0::/job/task").file("/sys/fs/cgroup/job/task/memory.max", "max");
  fake.file("/sys/fs/cgroup/job/task/memory.current", "0").file("/sys/fs/cgroup/job/memory.max", "4294967296");
  fake.file("/sys/fs/cgroup/job/memory.current", "3221225472");
  fake.file("/sys/fs/cgroup/job/memory.stat", "anon 1\ninactive_file 1073741824\nactive_file 5");
  const Rooms rooms = read_rooms(fake.files().root());
  EXPECT_EQ(rooms[1].bytes, 2 * kGiB);
  EXPECT_THAT(check_rooms({rooms, rooms, rooms}, kGiB), AllOf(HasSubstr("3 ranks"), HasSubstr("control group")));
}

TEST(Rooms, OfTheFirstVersionOfGroups) {
  FakeFiles fake;
  machine(fake).file("/proc/self/cgroup", "5:cpu:/x\n4:memory,hugetlb:/box\n0::/");
  fake.file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  fake.file("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1");
  fake.file("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "1073741824");
  fake.file("/sys/fs/cgroup/memory/box/memory.usage_in_bytes", "2147483648");  // it may be over its limit for a moment
  EXPECT_EQ(read_rooms(fake.files().root())[1].bytes, 0u);
}

}  // namespace
}  // namespace tutti::perf
