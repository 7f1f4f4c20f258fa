// Sizes, JSON lines, exit codes, plots: what our programs read and write as text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "src/program/exit_code.h"
#include "src/program/json.h"
#include "src/program/plot.h"
#include "src/tables/units.h"
#include "tests/support/temporary_folder.h"

namespace tutti::program {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ParseSize, ReadsUnitsAsPowersOf1024) {
  EXPECT_EQ(parse_size("0").value, 0u);
  EXPECT_EQ(parse_size("17").value, 17u);
  EXPECT_EQ(parse_size("4K").value, 4096u);
  EXPECT_EQ(parse_size("3m").value, 3u << 20);
  EXPECT_EQ(parse_size("2G").value, uint64_t{2} << 30);
  EXPECT_EQ(parse_size("18446744073709551615").value, UINT64_MAX);
}

TEST(ParseSize, ReadsFractionsOfAUnitAsNcclTestsDoes) {
  EXPECT_EQ(parse_size("0.5G").value, 512u << 20);
  EXPECT_EQ(parse_size("1.5k").value, 1536u);
  EXPECT_EQ(parse_size("2.0M").value, 2u << 20);
  EXPECT_EQ(parse_size("0.3K").value, 307u) << "rounded down";
  EXPECT_EQ(parse_size("0.0009765625K").value, 1u);
}

TEST(ParseSize, ReadsBytesBehindAUnit) {
  EXPECT_EQ(parse_size("8MB").value, 8u << 20);
  EXPECT_EQ(parse_size("8MiB").value, 8u << 20);
  EXPECT_EQ(parse_size("4kb").value, 4096u);
  EXPECT_EQ(parse_size("64B").value, 64u);
  EXPECT_EQ(parse_size("1.5KB").value, 1536u);
  EXPECT_EQ(parse_size(".5K").value, 512u);
}

TEST(ParseSize, RefusesWhatIsNoWholeSize) {
  for (const char* text : {"",
                           "K",
                           "-1",
                           "-1.5K",
                           "+1",
                           " 1",
                           "1.5",
                           "1.5.1K",
                           ".",
                           ".K",
                           "1.5B",
                           "1e3",
                           "1.5e3K",
                           "4KX",
                           "4iB",
                           "4BB",
                           "4 K",
                           "18446744073709551616",
                           "17179869184G",
                           "17179869184.5G"}) {
    const auto size = parse_size(text);
    EXPECT_FALSE(size.value) << text;
    EXPECT_NE(size.why, "") << text;
  }
  EXPECT_THAT(parse_size("1.5").why, HasSubstr("a fraction needs one of K, M and G"));
  EXPECT_THAT(parse_size("1,5M").why, HasSubstr("with a point"));
  EXPECT_THAT(parse_size("17179869184G").why, HasSubstr("2^64"));
}

TEST(ParseSize, ReadsBackWhatSizeTextWrites) {
  for (const uint64_t size : {uint64_t{0}, uint64_t{1}, uint64_t{1000}, uint64_t{1024}, uint64_t{1536}, uint64_t{3} << 20,
                              uint64_t{5} << 30, UINT64_MAX}) {
    EXPECT_EQ(parse_size(size_text(size)).value, size);
  }
  EXPECT_EQ(size_text(1536), "1536");
  EXPECT_EQ(size_text(128u << 20), "128M");
}

TEST(ParseSizeList, SplitsAtCommasAndNamesTheItemAtFault) {
  EXPECT_THAT(*parse_size_list("0,1,17,1M").value, ElementsAre(0u, 1u, 17u, 1u << 20));
  EXPECT_FALSE(parse_size_list("").value);
  EXPECT_FALSE(parse_size_list("1,").value);
  EXPECT_THAT(parse_size_list("1,x7,2").why, HasSubstr("'x7'"));
}

TEST(JsonObject, KeepsTheOrderOfItsFieldsAndEscapesText) {
  JsonObject inner;
  inner.measured("min", 1.23456789).add("gone", std::nan(""));
  JsonObject object;
  object.add("z", 1).add("a", "quote\" and \n").add("yes", true).add("big", UINT64_MAX).add("time", inner);
  EXPECT_EQ(object.text(),
            R"({"z":1,"a":"quote\" and \n","yes":true,"big":18446744073709551615,"time":{"min":1.23457,"gone":null}})");
}

TEST(JsonObject, TakesWhatIsWrittenAlreadyAsOneLineOrAsNull) {
  JsonObject object;
  object.add_json("list", "[1,2.50]").add_json("lines", "{\n  \"a\": [1,\r\n 2]\n}").add_json("broken", "[1,");
  object.add_json("list", "[3]").add("last", 1.5);
  EXPECT_EQ(object.text(), R"({"list":[3],"lines":{"a":[1,2]},"broken":null,"last":1.5})");
}

TEST(JsonObject, WritesTextThatIsNotUtf8) {
  JsonObject object;
  object.add("name", "a\xff");
  EXPECT_THAT(object.text(), HasSubstr("a\xef\xbf\xbd"));
}

TEST(ExitCode, FollowsTheContract) {
  EXPECT_EQ(exit_code(TUTTI_SUCCESS), 0);
  EXPECT_EQ(exit_code(TUTTI_SYSTEM_ERROR), 1);
  EXPECT_EQ(exit_code(TUTTI_INTERNAL_ERROR), 1);
  EXPECT_EQ(exit_code(TUTTI_UNSUPPORTED), 2);
  EXPECT_EQ(exit_code(TUTTI_INVALID_ARGUMENT), 2);
  EXPECT_EQ(exit_code(TUTTI_REMOTE_ERROR), 4);
  EXPECT_EQ(exit_code(TUTTI_TIMEOUT), 4);
}

TEST(ExitCode, WrongDataOutweighsThePeersThatWereLostByIt) {
  EXPECT_EQ(worse(kPeerLost, kWrongData), kWrongData);
  EXPECT_EQ(worse(kWrongData, kWrongUse), kWrongData);
  EXPECT_EQ(worse(kPeerLost, kFailed), kFailed);
  EXPECT_EQ(worse(kGood, kPeerLost), kPeerLost);
  EXPECT_EQ(worse(77, kPeerLost), 77);
}

Plot small_plot() {
  Plot plot;
  plot.title = "it's $HOME `id`";
  plot.x_label = "size";
  plot.y_label = "GB/s";
  plot.log_x = plot.log_y = true;
  plot.series = {{"one_two", {8, 1024, 1048576}, {0.1, 2, 10}}, {"gap", {8, 1024}, {0, std::nan("")}}};
  return plot;
}

TEST(OneSentence, JoinsAMessageAndItsRemedyWithoutFullStops) {
  EXPECT_EQ(one_sentence("There is no x.", "Choose from y, z."), "There is no x; choose from y, z");
  EXPECT_EQ(one_sentence("It failed", "TUTTI_LOG=debug says more"), "It failed; TUTTI_LOG=debug says more");
  EXPECT_EQ(one_sentence("It failed. ", ""), "It failed");
}

TEST(Plot, IsDrawnAsSvgAndPng) {
  if (std::system("gnuplot --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "gnuplot is not installed here";
  const auto folder = std::filesystem::temp_directory_path();
  const std::string svg = folder / ("program_test_" + std::to_string(getpid()) + ".svg");
  const std::string png = folder / ("program_test_" + std::to_string(getpid()) + ".png");
  EXPECT_EQ(draw_plot(small_plot(), svg), "");
  EXPECT_EQ(draw_plot(small_plot(), png), "");
  std::stringstream text;
  text << std::ifstream(svg).rdbuf();
  const std::string drawn = text.str();
  EXPECT_THAT(drawn, HasSubstr("one_two"));
  EXPECT_THAT(drawn, HasSubstr("$HOME"));
  EXPECT_GT(std::filesystem::file_size(png), 1000u);
  std::filesystem::remove(svg);
  std::filesystem::remove(png);
}

TEST(Plot, WithNothingAboveZeroOnALogarithmicAxisSaysSoAndLeavesNoFile) {
  Plot plot = small_plot();
  plot.series = {{"none", {0, 8}, {1, 0}}};
  const std::string file =
      std::filesystem::temp_directory_path() / ("program_test_" + std::to_string(getpid()) + ".none.svg");
  EXPECT_THAT(draw_plot(plot, file), HasSubstr("above 0"));
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(Plot, SaysWhatIsMissing) {
  const std::string path = std::getenv("PATH") != nullptr ? std::getenv("PATH") : "";
  setenv("PATH", "/nowhere", 1);
  EXPECT_THAT(draw_plot(small_plot(), "x.svg"), HasSubstr("gnuplot"));
  EXPECT_THAT(check_plot_file("x.svg"), AllOf(HasSubstr("'x.svg'"), HasSubstr("install gnuplot")));
  // Who draws nothing needs no gnuplot: rank 1 may be on a machine without.
  setenv("TUTTI_RANK", "1", 1);
  setenv("TUTTI_RANKS", "2", 1);
  EXPECT_EQ(check_plot_file("x.svg"), "");
  unsetenv("TUTTI_RANK");
  unsetenv("TUTTI_RANKS");
  setenv("PATH", path.c_str(), 1);
  EXPECT_THAT(check_plot_file("x.gif"), HasSubstr("'x.gif'"));
  if (std::system("gnuplot --version >/dev/null 2>&1") != 0) return;
  EXPECT_EQ(check_plot_file("x.svg"), "");
  EXPECT_THAT(check_plot_file("/nowhere/x.svg"), HasSubstr("'/nowhere/'"));
  EXPECT_THAT(check_plot_file("/proc/x.svg"), HasSubstr("cannot be written"));  // root may, until it does
  EXPECT_THAT(draw_plot(small_plot(), "/nowhere/x.svg"), HasSubstr("/nowhere/x.svg"));
}

// A gnuplot that runs `commands` of the shell instead.
class FakeGnuplot {
 public:
  explicit FakeGnuplot(const std::string& commands) {
    std::ofstream(folder_.file("gnuplot")) << "#!/bin/sh\n" << commands << '\n';
    std::filesystem::permissions(folder_.file("gnuplot"), std::filesystem::perms::owner_all);
    setenv("PATH", (folder_.file("") + ":" + path_).c_str(), 1);
  }
  ~FakeGnuplot() { setenv("PATH", path_.c_str(), 1); }

 private:
  const test::TemporaryFolder folder_;
  const std::string path_ = std::getenv("PATH") != nullptr ? std::getenv("PATH") : "/bin:/usr/bin";
};

std::string content(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// gnuplot exits with 0 where what it writes to takes no more.
TEST(Plot, ThatIsNotWholeIsAnErrorAndLeavesWhatWasThere) {
  const test::TemporaryFolder folder;
  for (const char* commands : {"printf '<svg><path/>'", "printf '\\211PNG'", "true", "echo '</svg>'; exit 1"}) {
    const FakeGnuplot gnuplot(commands);
    for (const char* name : {"x.svg", "x.png"}) {
      std::ofstream(folder.file(name)) << "before";
      EXPECT_THAT(draw_plot(small_plot(), folder.file(name)), HasSubstr("to its end")) << commands;
      EXPECT_EQ(content(folder.file(name)), "before") << commands;
    }
  }
  EXPECT_THAT(folder.names(), testing::UnorderedElementsAre("x.svg", "x.png"));
}

TEST(Plot, ThatFindsNoRoomIsAnError) {
  const test::TemporaryFolder folder;
  const FakeGnuplot gnuplot("echo '<svg></svg>'");
  std::filesystem::create_symlink("/dev/full", folder.file("x.svg"));
  EXPECT_THAT(draw_plot(small_plot(), folder.file("x.svg")),
              AllOf(HasSubstr("x.svg cannot be written: No space left on device; "), HasSubstr("another file")));
  EXPECT_EQ(draw_plot(small_plot(), folder.file("y.svg")), "");
  EXPECT_EQ(content(folder.file("y.svg")), "<svg></svg>\n");
}

TEST(Plot, IsWaitedForWhereTheSystemDoesNotTellHowAChildEnded) {
  const test::TemporaryFolder folder;
  const FakeGnuplot gnuplot("sleep .2; echo '<svg></svg>'");
  const auto before = ::signal(SIGCHLD, SIG_IGN);
  EXPECT_EQ(draw_plot(small_plot(), folder.file("x.svg")), "");
  EXPECT_EQ(content(folder.file("x.svg")), "<svg></svg>\n");
  ::signal(SIGCHLD, before);
}

}  // namespace
}  // namespace tutti::program
