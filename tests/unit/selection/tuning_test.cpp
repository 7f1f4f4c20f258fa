#include "src/selection/tuning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/selection/select.h"

namespace tutti {
namespace {

using testing::HasSubstr;

Tuning parsed(const std::string& text) {
  auto tuning = Tuning::parse(text, "the text");
  EXPECT_TRUE(tuning.ok()) << tuning.status().text();
  return tuning.ok() ? *tuning : Tuning();
}

TEST(Tuning, TakesTheLaterOfTwoRowsThatSaySomethingElse) {
  const auto tuning = Tuning::parse(
      "tutti tuning 1\nuse all_reduce 4 0 1000 ring\nuse all_reduce 4 400 800 tree\nuse all_reduce 4 900 2000 direct\n"
      "use all_reduce 2 0 5000 flat\n",
      "the text");
  ASSERT_TRUE(tuning.ok());
  Problem problem;
  problem.type = TUTTI_UINT8;
  problem.ranks = 4;
  for (const auto& [bytes, algorithm] : {std::pair{0, "ring"},
                                         {399, "ring"},
                                         {400, "tree"},
                                         {800, "tree"},
                                         {801, "ring"},
                                         {899, "ring"},
                                         {900, "direct"},
                                         {2000, "direct"},
                                         {2001, ""}}) {
    problem.count = static_cast<std::uint64_t>(bytes);
    EXPECT_EQ(tuning->use(problem), algorithm) << bytes;
  }
}

TEST(Tuning, ReadsWhatItPrints) {
  const Tuning tuning = parsed(
      "# a comment\n\ntutti tuning 1 # and another\n  link shm same_numa 2e-07 9e-11\nlink tcp other_machine 3e-5 1e-9\n"
      "fold 6e-11\nyield_seconds 2e-06\nring_share 0.25\nuse broadcast 3 0 99 chain\n");
  EXPECT_EQ(parsed(tuning.text()).text(), tuning.text());
  EXPECT_EQ(tuning.digest(), parsed(tuning.text()).digest());
  EXPECT_EQ(tuning.link("shm", LinkClass::same_numa), (LinkEstimate{2e-7, 9e-11}));
  EXPECT_FALSE(tuning.link("shm", LinkClass::same_machine).has_value());
  View view = flat_view(4);
  tuning.apply(view);
  EXPECT_DOUBLE_EQ(view.gamma, 6e-11);
  EXPECT_DOUBLE_EQ(view.yield_seconds, 2e-6);
  EXPECT_DOUBLE_EQ(view.ring_share, .25);
  EXPECT_EQ(view.links, kUnmeasuredLinks);
  tuning.apply_with_links(view);
  EXPECT_EQ(view.link(LinkClass::other_machine), (LinkEstimate{3e-5, 1e-9}));
}

TEST(Tuning, SaysNothingWhereItIsEmpty) {
  View view = flat_view(4);
  Tuning().apply_with_links(view);
  EXPECT_EQ(view, flat_view(4));
  EXPECT_EQ(Tuning().digest(), "");
  EXPECT_EQ(parsed("tutti tuning 1\n").digest(), "");
}

TEST(Tuning, MalformedLinesAreNamed) {
  for (const char* line : {"fold",
                           "fold -1",
                           "fold 0",
                           "fold 1e39",
                           "fold 1e-60",
                           "fold 1e-9x",
                           "fold nan",
                           "fold 1 2",
                           "speed 3",
                           "link shm near 1 1",
                           "link shm same_numa 1",
                           "link shm same_numa 0 1",
                           "use all_reduce 2 9 8 ring",
                           "use all_reduce 2 0 8 telepathy",
                           "use nothing 2 0 8 ring",
                           "use all_reduce -2 0 8 ring",
                           "use broadcast 2 0 8 ring",
                           "use all_reduce 2 0 ring",
                           "link,shm,,2e-7,9e-11",
                           "use,all_reduce,2,0,8",
                           "use,all_reduce,2,0,8,ring,tree",
                           "fold,6,0E-11",
                           "fold;\"six\""}) {
    const auto tuning = Tuning::parse("tutti tuning 1\n" + std::string(line), "the text");
    ASSERT_FALSE(tuning.ok()) << line;
    EXPECT_THAT(tuning.status().text(), HasSubstr("line 2 of the text says \"" + std::string(line) + "\""));
  }
  EXPECT_THAT(Tuning::parse("tutti tuning 1,\r\n\r\nfold,,\r\n", "the text").status().text(),
              HasSubstr("line 3 of the text says \"fold,,\". Write `link"));
  for (const auto& [line, why] :
       {std::pair{"use all_reduce 2 9 8 ring", ", but its bytes end before they begin. Write"},
        {"use all_reduce 2 0 8 telepathy", ", but there is no algorithm telepathy of all_reduce."},
        {"use nothing 2 0 8 ring", ", but there is no collective nothing."},
        {"use all_reduce 2 0 99999999999999999999999 ring", ", but ranks and bytes are whole"},
        {"use broadcast 2 0 8 ring", ", but there is no algorithm ring of broadcast."}}) {
    EXPECT_THAT(Tuning::parse("tutti tuning 1\n" + std::string(line), "the text").status().text(), HasSubstr(why));
  }
  EXPECT_FALSE(Tuning::parse("", "the text").ok());
  EXPECT_FALSE(Tuning::parse("tutti tuning 2\n", "the text").ok());
  EXPECT_THAT(Tuning::read("/dev/null").status().text(), HasSubstr("\"/dev/null\" cannot be read: it is a device"));
  EXPECT_THAT(Tuning::read("/").status().text(), HasSubstr("\"/\" cannot be read: it is a folder"));
  EXPECT_THAT(Tuning::read("/nowhere/at/all").status().text(), HasSubstr("/nowhere/at/all"));
}

/// What spreadsheets make of a table: cells padded to the widest row, quotes, CRLF, a byte order mark, capital exponents.
TEST(Tuning, ReadsWhatWentThroughASpreadsheet) {
  const Tuning plain = parsed(
      "tutti tuning 1\n# by hand, on two cores\nlink shm same_numa 2e-07 9e-11\nfold 6e-11\n"
      "use broadcast 3 0 99 chain\nuse broadcast 3 100 18446744073709551615 binomial\n");
  EXPECT_EQ(parsed(plain.text(',')).text(), plain.text());
  EXPECT_EQ(plain.text(',').substr(0, 40), "tutti tuning 1\nlink,shm,same_numa,2e-07,");
  const std::string excel =
      "\xef\xbb\xbftutti tuning 1,,,,,\r\n\"# by hand, on \"\"two\"\" "
      "cores\",,,,,\r\nlink,shm,same_numa,2.00E-07,9E-11,\r\n"
      ",,,,,\r\nfold,6E-11,,,,\r\nuse,broadcast,3,0,99,chain\r\nuse,broadcast,3,100,1.84467440737096E+19,binomial\r\n";
  EXPECT_EQ(parsed(excel).text(), plain.text());
  const std::string quoted =
      "\"tutti tuning 1\"\n\"link\";\"shm\";\"same_numa\";\"2e-07\";\"9e-11\"\n\"fold\" ; 6e-11 ;;\n"
      "\"use\", \"broadcast\", \"3\", \"0\", \"99\", \"chain\"\nuse,broadcast,3,100,18446744073709600000,binomial";
  EXPECT_EQ(parsed(quoted).text(), plain.text());
  // Large numbers are rounded there; small ones, and what is out of all bounds, are not taken so.
  EXPECT_EQ(parsed("tutti tuning 1\nuse,broadcast,3,0,4E+15,chain").uses(Collective::broadcast, 3).at(0).to,
            4000000000000000u);
  for (const char* number : {"1E+3", "1.5", "1e300", "-1", "1E+15x", "inf", "nan"}) {
    EXPECT_FALSE(Tuning::parse("tutti tuning 1\nuse,broadcast,3,0," + std::string(number) + ",chain", "the text").ok())
        << number;
  }
}

TEST(Tuning, OverrulesTheModelButNotTheUser) {
  const Tuning tuning = parsed("tutti tuning 1\nuse all_reduce 4 1024 2048 tree\n");
  Problem problem;
  problem.ranks = 4;
  problem.count = 512;
  const View view = flat_view(4);
  const std::string model = select(problem, view, Overrides(), "", 0)->algorithm->name;
  EXPECT_NE(model, "tree");
  EXPECT_STREQ(select(problem, view, Overrides(), "", 0, tuning)->algorithm->name, "tree");
  EXPECT_STREQ(select(problem, view, Overrides(), "ring", 0, tuning)->algorithm->name, "ring");
  EXPECT_STREQ(select(problem, view, *Overrides::parse("direct"), "", 0, tuning)->algorithm->name, "direct");
  problem.count = 513;
  EXPECT_EQ(select(problem, view, Overrides(), "", 0, tuning)->algorithm->name, model);
  problem.count = (std::uint64_t{1} << 62) + 512;
  EXPECT_EQ(tuning.use(problem), "") << "2048 bytes, if they began again at 2^64";
  EXPECT_STRNE(select(problem, view, *Overrides::parse("all_reduce:1K-2K:tree"), "", 0)->algorithm->name, "tree");
}

}  // namespace
}  // namespace tutti
