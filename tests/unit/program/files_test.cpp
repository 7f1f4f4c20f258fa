#include "src/program/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/temporary_folder.h"

namespace tutti::program {
namespace {

using ::testing::ElementsAre;

std::string content(const std::string& path) {
  std::ostringstream all;
  all << std::ifstream(path).rdbuf();
  return all.str();
}

TEST(WriteFile, LeavesTheWholeFileAndNothingElse) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(write_file(folder.file("a"), "one"), 0);
  EXPECT_EQ(write_file(folder.file("a"), "two\n"), 0);
  EXPECT_EQ(content(folder.file("a")), "two\n");
  EXPECT_THAT(folder.names(), ElementsAre("a"));
}

TEST(WriteFile, KeepsWhatWasThereWhereItFails) {
  EXPECT_EQ(write_file("/nowhere/at/all", "x"), ENOENT);
  EXPECT_EQ(write_file("/dev/full", "x"), ENOSPC);
  EXPECT_EQ(write_file("/dev/null", "x"), 0);
  const test::TemporaryFolder folder;
  ASSERT_EQ(write_file(folder.file("a"), "before"), 0);
  std::filesystem::create_directory(folder.file("taken"));
  EXPECT_NE(write_file(folder.file("taken"), "x"), 0);
  // No file may grow beyond this many bytes: a disk that fills up while it is written.
  rlimit usual;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &usual), 0);
  rlimit small = usual;
  small.rlim_cur = 100;
  const auto before = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const int error = write_file(folder.file("a"), std::string(1000, 'x'));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &usual), 0);
  ::signal(SIGXFSZ, before);
  EXPECT_EQ(error, EFBIG);
  EXPECT_EQ(content(folder.file("a")), "before");
  EXPECT_THAT(folder.names(), ::testing::UnorderedElementsAre("a", "taken"));
}

/// /dev/stdout is such a link, and must go on being one.
TEST(Overwritten, IsAFileWrittenTwiceOrReadHoweverItIsSpelt) {
  const test::TemporaryFolder folder;
  ASSERT_EQ(write_file(folder.file("there"), "x"), 0);
  std::filesystem::create_symlink(folder.file("there"), folder.file("link"));
  const auto told = [](const std::string& written, const std::string& other, const std::string& read) {
    const NamedFile outputs[] = {{"--svg", written}, {"--json", other}};
    const NamedFile inputs[] = {{"--tuning", read}};
    return overwritten(outputs, inputs);
  };
  EXPECT_EQ(told(folder.file("a"), folder.file("b"), folder.file("there")), "");
  EXPECT_EQ(told(folder.file("a"), folder.file("") + "./a", ""), "--svg and --json name the same file; give each its own");
  EXPECT_EQ(told("", folder.file("there"), folder.file("link")),
            "--json would overwrite the file that --tuning reads; name another");
  EXPECT_EQ(told("", "", ""), "");
  EXPECT_EQ(told("-", "-", "-"), "");
  EXPECT_EQ(told("/dev/null", "/dev/null", "/dev/null"), "");
}

TEST(WriteFile, WritesWhatALinkLeadsTo) {
  const test::TemporaryFolder folder;
  ASSERT_EQ(write_file(folder.file("a"), "before"), 0);
  std::filesystem::create_symlink("a", folder.file("link"));
  EXPECT_EQ(write_file(folder.file("link"), "after"), 0);
  EXPECT_TRUE(std::filesystem::is_symlink(folder.file("link")));
  EXPECT_EQ(content(folder.file("a")), "after");
}

}  // namespace
}  // namespace tutti::program
