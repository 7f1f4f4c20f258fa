// Fuzzes the reader of MSCCL algorithm files: texts of good ones are damaged at random, the same way in every run. Whatever
// comes in, there is an answer; what is refused is refused with a sentence; and what is accepted is right, in the eyes of
// the referee, who shares nothing with the reader but the simulator's schedule.
#include <gtest/gtest.h>

#include <iterator>
#include <random>
#include <utility>

#include "src/schedule/msccl_xml.h"
#include "tests/support/msccl_files.h"
#include "tests/support/referee.h"

namespace tutti::testing {
namespace {

class Fuzzer {
 public:
  Fuzzer() {
    for (const std::string& path : own_msccl_files()) texts_.push_back(text_of_file(path));
  }
  bool empty() const { return texts_.empty(); }

  std::string next() {
    std::string text = texts_[below(texts_.size())];
    for (std::size_t n = 1 + below(3); n != 0; --n) damage(text);
    return text;
  }

 private:
  std::size_t below(std::size_t limit) { return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_); }

  /// Begin and end of what stands between two quotes somewhere.
  std::pair<std::size_t, std::size_t> value(const std::string& text) {
    std::size_t at = text.find("=\"", below(text.size()));
    if (at == std::string::npos) at = text.find("=\"");
    if (at == std::string::npos) return {0, 0};
    const std::size_t end = text.find('"', at + 2);
    return {at + 2, end == std::string::npos ? text.size() : end};
  }

  /// Begin and end of a line.
  std::pair<std::size_t, std::size_t> line(const std::string& text) {
    const std::size_t at = below(text.size());
    const std::size_t begin = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
    const std::size_t end = text.find('\n', at);
    return {begin == std::string::npos ? 0 : begin + 1, end == std::string::npos ? text.size() : end + 1};
  }

  void damage(std::string& text) {
    if (text.size() < 8) return;
    const char* values[] = {"0",
                            "1",
                            "2",
                            "3",
                            "4",
                            "7",
                            "-1",
                            "-2",
                            "255",
                            "65535",
                            "65536",
                            "2147483647",
                            "i",
                            "o",
                            "s",
                            "r",
                            "rcs",
                            "rrs",
                            "rrc",
                            "rrcs",
                            "re",
                            "cpy",
                            "nop",
                            "",
                            "9223372036854775807",
                            "99999999999999999999",
                            "allreduce",
                            "allgather",
                            "alltoall",
                            "reduce"};
    switch (below(8)) {
      case 0:
        text[below(text.size())] = static_cast<char>(below(256));
        break;
      case 1:
        text.erase(below(text.size()), 1 + below(8));
        break;
      case 2:
      case 3:
      case 4: {
        const auto [begin, end] = value(text);
        text.replace(begin, end - begin, values[below(std::size(values))]);
        break;
      }
      case 5: {
        const auto [begin, end] = line(text);
        text.insert(end, text.substr(begin, end - begin));
        break;
      }
      case 6: {
        const auto [begin, end] = line(text);
        text.erase(begin, end - begin);
        break;
      }
      default: {
        const auto [begin, end] = value(text);
        const auto [from, to] = value(text);
        text.replace(begin, end - begin, text.substr(from, to - from));
      }
    }
  }

  std::mt19937_64 random_{42};
  std::vector<std::string> texts_;
};

TEST(MscclFuzz, WhatIsAcceptedIsRightAndWhatIsNotIsRefusedWithASentence) {
  Fuzzer fuzzer;
  ASSERT_FALSE(fuzzer.empty()) << "there are no files in " << own_msccl("");
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
