// Files by which ranks find each other: what is left of dead processes goes, what is somebody's stays.
#include "src/bootstrap/id_file.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <barrier>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "src/base/random.h"

namespace tutti::testing {
namespace {

UniqueIdContents some_identity() {
  return UniqueIdContents{random_key(), {SocketAddress::v4(std::array<unsigned char, 4>{127, 0, 0, 1}, 4242)}};
}

TEST(IdFiles, OfDeadProcessesAreSweptFromThePrivateFolderAndOthersStay) {
  const std::filesystem::path home = std::filesystem::temp_directory_path() / ("tutti-test-" + std::to_string(::getpid()));
  std::filesystem::create_directory(home);
  ::setenv("XDG_RUNTIME_DIR", home.c_str(), 1);
  const auto path_of = [](const char* job) { return std::string(private_path(job).value()); };
  const std::string dead = path_of("dead");
  const std::string alive = path_of("alive");
  const pid_t child = ::fork();
  if (child == 0) ::_exit(write_id_file(dead, some_identity()).ok() ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  ASSERT_TRUE(write_id_file(alive, some_identity()).ok());
  const std::string strange = std::filesystem::path(alive).parent_path() / "notes";
  ASSERT_EQ(std::system(("umask 077; echo mine > " + strange).c_str()), 0);
  ASSERT_TRUE(std::filesystem::exists(dead));

  sweep_private_folder();
  EXPECT_FALSE(std::filesystem::exists(dead));
  EXPECT_TRUE(std::filesystem::exists(alive));
  EXPECT_TRUE(std::filesystem::exists(strange));

  ::unsetenv("XDG_RUNTIME_DIR");
  std::filesystem::remove_all(home);
}

TEST(IdFiles, OfTwoWhoBeginAtTheSameMomentOneHasTheNameAndKeepsIt) {
  const std::filesystem::path path = std::filesystem::temp_directory_path() / ("tutti-race-" + std::to_string(::getpid()));
  std::barrier begin(2);
  for (int i = 0; i < 200; ++i) {
    std::array<std::string, 2> texts;
    std::array<Status, 2> refusals;
    const auto take = [&](std::size_t one) {
      const UniqueIdContents contents = some_identity();
      begin.arrive_and_wait();
      const auto written = write_id_file(path, contents);
      if (written) texts[one] = *written;
      refusals[one] = written.status();
    };
    std::thread other([&] { take(1); });
    take(0);
    other.join();
    ASSERT_NE(refusals[0].ok(), refusals[1].ok()) << i;
    const std::size_t winner = refusals[0].ok() ? 0 : 1;
    EXPECT_EQ(refusals[1 - winner].code(), TUTTI_INVALID_USAGE);
    EXPECT_NE(refusals[1 - winner].text().find("is in use by another creation"), std::string::npos);
    EXPECT_EQ(read_id_file(path).value()->text, texts[winner]);
    remove_id_file(path, texts[winner]);
    ASSERT_FALSE(std::filesystem::exists(path));
  }
}

}  // namespace
}  // namespace tutti::testing
