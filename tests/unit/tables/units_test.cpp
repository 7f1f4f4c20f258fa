// Text of times, sizes and rates.
#include "src/tables/units.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(Units, TellTimesForTheirReaders) {
  EXPECT_EQ(duration_text(200'000'000), "200 ms");
  EXPECT_EQ(duration_text(1'500'000'000), "1.5 s");
  EXPECT_EQ(exact_duration_text(500'000'000), "500ms");
  EXPECT_EQ(exact_duration_text(1'500), "1500ns");
  EXPECT_EQ(time_text(0.345), "345 ms");
  EXPECT_EQ(exact_time_text(0.345), "345.000 ms");
  EXPECT_EQ(exact_time_text(5e-7), "0.500 us");
  EXPECT_EQ(time_text_within(0.0005, 2), "0.0005 s");
}

TEST(Units, TellSizesAndRates) {
  EXPECT_EQ(size_text(1536), "1536");
  EXPECT_EQ(size_text(3u << 20), "3M");
  EXPECT_EQ(size_text(0), "0");
  EXPECT_EQ(bytes_text(0), "0 bytes");
  EXPECT_EQ(bytes_text(99'999), "99999 bytes");
  EXPECT_EQ(bytes_text(512u << 10), "512 KiB");
  EXPECT_EQ(bytes_text(32u << 20), "32 MiB");
  EXPECT_EQ(bytes_text(std::uint64_t{3} << 29), "1.5 GiB");
  EXPECT_EQ(bytes_text(std::uint64_t{16} << 30), "16 GiB");
  EXPECT_EQ(traffic_text(1.05e6), "1.05 MB");
  EXPECT_EQ(traffic_text(12), "12 B");
  EXPECT_EQ(rate_text(12.5e9), "12.50 GB/s");
}

}  // namespace
}  // namespace tutti
