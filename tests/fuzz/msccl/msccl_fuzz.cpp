// Fuzzes the reader of MSCCL algorithm files: texts of good ones are damaged at random, the same way in every run. Whatever
// comes in, there is an answer; what is refused is refused with a sentence; and what is accepted is right, in the eyes of
// the referee, who shares nothing with the reader but the simulator's schedule.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "src/schedule/msccl_xml.h"
#include "tests/support/msccl_files.h"
#include "tests/support/referee.h"
#include "tests/support/text_fuzzer.h"

namespace tutti::testing {
namespace {

std::vector<std::string> files() {
  std::vector<std::string> texts;
  for (const std::string& path : own_msccl_files()) texts.push_back(text_of_file(path));
  return texts;
}

TEST(MscclFuzz, WhatIsAcceptedIsRightAndWhatIsNotIsRefusedWithASentence) {
  const std::vector<std::string> good = files();
  ASSERT_FALSE(good.empty()) << "there are no files in " << own_msccl("");
  TextFuzzer fuzzer(good, "\"\n", 2);
  std::mt19937_64 random(7);
  int accepted = 0;
  int located = 0;
  constexpr int texts = 20000;
  for (int i = 0; i < texts; ++i) {
    const std::string text = fuzzer.next();
    const auto file = parse_msccl(text);
    if (!file.ok()) {
      ASSERT_GT(file.status().error().message.size(), 8u) << text;
      located += file.status().error().message.find(", step ") != std::string::npos ? 1 : 0;
      continue;
    }
    if (accepted++ % 8 != 0) continue;
    Match match;
    match.count = 1 + random() % 2000;
    match.credit = file->shape.credit;
    match.in_place = .5;
    match.pulled = .5;
    match.put = .5;
    ASSERT_EQ(referee(file->schedule(file->problem(match.count), 1), match, random), "") << text;
  }
  std::printf("%d texts, %d accepted, %d refused naming a step\n", texts, accepted, located);
  EXPECT_GT(accepted, texts / 100);
  EXPECT_GT(located, texts / 5);
}

}  // namespace
}  // namespace tutti::testing
