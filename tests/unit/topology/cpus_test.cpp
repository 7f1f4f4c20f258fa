#include "topology/cpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "tests/unit/topology/fake_files.h"

namespace tutti {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(CpuList, ReadsAndWritesTheKernelsForm) {
  EXPECT_THAT(*parse_cpu_list("0-3,8"), ElementsAre(0, 1, 2, 3, 8));
  EXPECT_THAT(*parse_cpu_list("5"), ElementsAre(5));
  EXPECT_THAT(*parse_cpu_list("7,1-2,2"), ElementsAre(1, 2, 7));
  EXPECT_THAT(*parse_cpu_list(""), IsEmpty());
  EXPECT_EQ(cpu_list_text({0, 1, 2, 3, 8, 10, 11}), "0-3,8,10-11");
  EXPECT_EQ(cpu_list_text({}), "");
}

TEST(CpuList, RefusesWhatIsNone) {
  for (const char* text : {"a", "1-", "3-1", "-1", "1,", ",1", "1 2", "0-99999999", "99999999999999"}) {
    EXPECT_FALSE(parse_cpu_list(text).has_value()) << text;
  }
}

/// A machine whose only bounds are those of its groups.
FakeFiles& with_v2(FakeFiles& fake, const std::string& group) {
  fake.file("/proc/self/cgroup", "0::" + group);
  fake.file("/proc/self/mountinfo",
            "22 27 0:21 / /proc rw - proc proc rw\n41 31 0:38 / /cg rw,relatime shared:4 - cgroup2 cgroup2 rw");
  return fake;
}

TEST(CpuQuota, WithoutGroupsThereIsNone) {
  FakeFiles fake;
  EXPECT_TRUE(std::isinf(cpu_limits(fake.files()).quota));
  with_v2(fake, "/a").file("/cg/a/cpu.max", "max 100000");
  EXPECT_TRUE(std::isinf(cpu_limits(fake.files()).quota));
}

TEST(CpuQuota, Version2IsReadFromTheOwnGroup) {
  FakeFiles fake;
  with_v2(fake, "/a/b").file("/cg/a/b/cpu.max", "150000 100000");
  const CpuLimits limits = cpu_limits(fake.files());
  EXPECT_DOUBLE_EQ(limits.quota, 1.5);
  EXPECT_EQ(limits.quota_from, "/cg/a/b/cpu.max");
}

TEST(CpuQuota, AParentsQuotaBoundsItsChildren) {
  FakeFiles fake;
  with_v2(fake, "/a/b/c").file("/cg/a/b/c/cpu.max", "400000 100000").file("/cg/a/cpu.max", "50000 100000");
  fake.file("/cg/a/b/cpu.max", "max 100000");
  EXPECT_DOUBLE_EQ(cpu_limits(fake.files()).quota, 0.5);
}

TEST(CpuQuota, Version1IsReadFromTheMountWithTheCpuController) {
  FakeFiles fake;
  fake.file("/proc/self/cgroup", "5:memory:/m\n4:cpuset:/s\n3:cpu,cpuacct:/x/y\n1:name=systemd:/\n0::/");
  fake.file(
      "/proc/self/mountinfo",
      "30 1 0:1 / /cg/cpuset rw - cgroup cgroup rw,cpuset\n31 1 0:2 / /cg/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct");
  fake.file("/cg/cpu,cpuacct/x/y/cpu.cfs_quota_us", "-1").file("/cg/cpu,cpuacct/x/y/cpu.cfs_period_us", "100000");
  fake.file("/cg/cpu,cpuacct/x/cpu.cfs_quota_us", "250000").file("/cg/cpu,cpuacct/x/cpu.cfs_period_us", "100000");
  fake.file("/cg/cpuset/x/cpu.cfs_quota_us", "1000").file("/cg/cpuset/x/cpu.cfs_period_us", "100000");
  EXPECT_DOUBLE_EQ(cpu_limits(fake.files()).quota, 2.5);
}

TEST(CpuQuota, AContainersGroupIsFoundWhereItsMountShowsIt) {
  FakeFiles fake;
  fake.file("/proc/self/cgroup", "3:cpu:/docker/abc");
  fake.file("/proc/self/mountinfo", "31 1 0:2 /docker/abc /cg/cpu\\040set rw - cgroup cgroup rw,cpu");
  fake.file("/cg/cpu set/cpu.cfs_quota_us", "100000").file("/cg/cpu set/cpu.cfs_period_us", "50000");
  EXPECT_DOUBLE_EQ(cpu_limits(fake.files()).quota, 2);
  // Without a namespace of its own the process is told a path of the host's, which the mount does not show.
  fake.file("/proc/self/cgroup", "3:cpu:/kubepods/pod1");
  EXPECT_DOUBLE_EQ(cpu_limits(fake.files()).quota, 2);
  fake.file("/proc/self/cgroup", "3:cpu:/../..");
  EXPECT_DOUBLE_EQ(cpu_limits(fake.files()).quota, 2);
}

TEST(CpuQuota, NonsenseDoesNotBound) {
  for (const char* text : {"", "abc", "-5 100000", "100000 0", "100000 -1", "max", "1e400 5"}) {
    FakeFiles fake;
    with_v2(fake, "/").file("/cg/cpu.max", text);
    EXPECT_TRUE(std::isinf(cpu_limits(fake.files()).quota)) << text;
  }
  FakeFiles fake;
  fake.file("/proc/self/cgroup", "garbage\n::\n0:\n3:cpu:relative").file("/proc/self/mountinfo", "1 2 3\n - cgroup2\n");
  EXPECT_TRUE(std::isinf(cpu_limits(fake.files()).quota));
}

TEST(EffectiveCpus, AreTheAllowedOnesWithinTheQuotaRoundedUpAndAtLeastOne) {
  CpuLimits limits;
  limits.allowed = {0, 1, 2, 3};
  EXPECT_EQ(limits.effective(), 4);
  limits.quota = 2.5;
  EXPECT_EQ(limits.effective(), 3);
  limits.quota = 2;
  EXPECT_EQ(limits.effective(), 2);
  limits.quota = 0.1;
  EXPECT_EQ(limits.effective(), 1);
  limits.quota = 64;
  EXPECT_EQ(limits.effective(), 4);
}

TEST(EffectiveCpus, OfProcessesBoundToACoreEachAreAllTheirCores) {
  CpuLimits a, b;
  a.allowed = {0};
  b.allowed = {1};
  EXPECT_EQ(effective_cpus({a, b}), 2);
  EXPECT_EQ(effective_cpus({a, a}), 1);
  a.quota = b.quota = 0.5;
  EXPECT_EQ(effective_cpus({a, b}), 1);
  EXPECT_EQ(effective_cpus(std::vector<CpuLimits>{}), 1);
}

TEST(EffectiveCpus, FollowTheAffinityOfThisProcess) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  const CpuLimits all = cpu_limits();
  EXPECT_EQ(static_cast<int>(all.allowed.size()), CPU_COUNT(&before));
  for (const int cpu : all.allowed) EXPECT_TRUE(CPU_ISSET(cpu, &before)) << cpu;

  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(all.allowed.back(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_THAT(cpu_limits().allowed, ElementsAre(all.allowed.back()));
  EXPECT_EQ(effective_cpus(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(cpu_limits().allowed, all.allowed);
}

bool write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  return file.good();
}

/// Runs `check` in a child that has joined the group; its exit code, or -1.
template <typename Check>
int in_group(const std::string& tasks, Check check) {
  const pid_t child = fork();
  if (child == 0) _exit(write_file(tasks, std::to_string(getpid())) ? check() : 99);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(EffectiveCpus, FollowALiveControlGroupWhoseParentHasTheQuota) {
  const std::string outer = "/sys/fs/cgroup/cpu/tutti_test_" + std::to_string(getpid());
  const std::string inner = outer + "/inner";
  std::error_code failed;
  if (!std::filesystem::create_directories(inner, failed))
    GTEST_SKIP() << "no cgroup v1 cpu controller may be written here";
  const bool set = write_file(outer + "/cpu.cfs_quota_us", "70000");
  const int code = in_group(inner + "/tasks", [] { return cpu_limits().quota == 0.7 && effective_cpus() == 1 ? 0 : 1; });
  rmdir(inner.c_str());
  rmdir(outer.c_str());
  if (!set || code == 99) GTEST_SKIP() << "the kernel refuses quotas here";
  EXPECT_EQ(code, 0) << "a child in a group with 70 ms each 100 ms did not see it";
}

}  // namespace
}  // namespace tutti
