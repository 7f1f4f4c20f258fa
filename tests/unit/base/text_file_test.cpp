#include "src/base/text_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace tutti {
namespace {

TEST(TextFile, IsReadWholeUpToItsLimit) {
  const std::string path = testing::TempDir() + "/tutti_text_" + std::to_string(getpid());
  std::ofstream(path, std::ios::binary) << std::string(100'000, 'x');
  EXPECT_EQ(*read_text_file(path), std::string(100'000, 'x'));
  EXPECT_TRUE(read_text_file(path, 100'000).ok());
  EXPECT_EQ(read_text_file(path, 99'999).status().text(), "it is longer than 99999 bytes");
  std::ofstream(path, std::ios::binary).close();
  EXPECT_EQ(*read_text_file(path), "");
  EXPECT_EQ(read_text_file(path + "/nowhere").status().text(), "Not a directory");
  unlink(path.c_str());
  EXPECT_EQ(read_text_file(path).status().text(), "No such file or directory");
}

TEST(TextFile, FoldersAndDevicesAreNone) {
  EXPECT_EQ(read_text_file("/").status().text(), "it is a folder");
  EXPECT_EQ(read_text_file("/dev/zero").status().text(), "it is a device");
  EXPECT_EQ(read_text_file("/dev/zero").status().code(), TUTTI_INVALID_ARGUMENT);
}

TEST(TextFile, APipeIsReadToItsEndAndNoFurtherThanTheLimit) {
  const auto from = [](const std::string& command, std::size_t longest) {
    FILE* pipe = popen(command.c_str(), "r");
    const auto text = read_text_file("/proc/self/fd/" + std::to_string(fileno(pipe)), longest);
    pclose(pipe);
    return text;
  };
  EXPECT_EQ(*from("printf abc", 3), "abc");
  EXPECT_EQ(from("cat /dev/zero 2> /dev/null", 1 << 20).status().text(), "it is longer than 1 MiB");
}

}  // namespace
}  // namespace tutti
