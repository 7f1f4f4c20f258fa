#include "topology/caches.h"

#include <gtest/gtest.h>

#include "tests/unit/topology/fake_files.h"

namespace tutti {
namespace {

FakeFiles& cache(FakeFiles& fake, int index, const char* level, const char* type, const char* size, const char* shared) {
  const std::string folder = "/sys/devices/system/cpu/cpu4/cache/index" + std::to_string(index);
  return fake.file(folder + "/level", level)
      .file(folder + "/type", type)
      .file(folder + "/size", size)
      .file(folder + "/shared_cpu_list", shared);
}

TEST(Caches, DataCachesAreReadByLevelWithThoseWhoShareThem) {
  FakeFiles fake;
  cache(fake, 0, "1", "Data", "48K", "4,20").file("/sys/devices/system/cpu/cpu4/cache/index0/coherency_line_size", "128");
  cache(fake, 1, "1", "Instruction", "32K", "4,20");
  cache(fake, 2, "2", "Unified", "2048K", "4,20");
  cache(fake, 3, "3", "Unified", "32M", "0-7,16-23");
  const CacheSizes sizes = read_cache_sizes(fake.files(), 4);
  EXPECT_EQ(sizes.l1d, 48u << 10);
  EXPECT_EQ(sizes.l2, 2u << 20);
  EXPECT_EQ(sizes.l3, 32u << 20);
  EXPECT_EQ(sizes.l2_sharers, 2);
  EXPECT_EQ(sizes.l3_sharers, 16);
  EXPECT_EQ(sizes.line, 128u);
  EXPECT_EQ(sizes.l2_share(), 1u << 20);
}

TEST(Caches, AMachineWithoutAnL3HasNone) {
  FakeFiles fake;
  cache(fake, 0, "1", "Data", "32K", "4");
  cache(fake, 1, "2", "Unified", "512K", "4-7");
  const CacheSizes sizes = read_cache_sizes(fake.files(), 4);
  EXPECT_EQ(sizes.l3, 0u);
  EXPECT_EQ(sizes.l2_share(), 128u << 10);
}

TEST(Caches, NonsenseLeavesAUsableShare) {
  FakeFiles fake;
  cache(fake, 0, "2", "Unified", "lots", "everyone");
  cache(fake, 1, "x", "", "", "");
  EXPECT_GE(read_cache_sizes(fake.files(), 4).l2_share(), 1u);
}

TEST(Caches, OfThisMachineArePlausible) {
  const CacheSizes& sizes = cache_sizes();
  EXPECT_EQ(&sizes, &cache_sizes());
  EXPECT_GE(sizes.l2_share(), 32u << 10);
  EXPECT_GE(sizes.l2_sharers, 1);
}

}  // namespace
}  // namespace tutti
