// Fuzzes what reads schedules: the text's parser, and the verifier behind it. Texts of real schedules are damaged at
// random, the same way in every run; whatever comes in, there is a verdict, and what parses prints and parses again.
#include <gtest/gtest.h>

#include <random>

#include "tests/support/schedules.h"

namespace tutti::testing {
namespace {

class Fuzzer {
 public:
  Fuzzer() {
    for (const Algorithm* algorithm : all_algorithms()) {
      for (const int ranks : {2, 3}) {
        if (!ranks_fit(*algorithm, ranks)) continue;
        const Schedule schedule = make_schedule(*algorithm, ranks, 0);
        texts_.push_back(print_schedule(schedule.plan, schedule.programs));
      }
    }
  }

  std::string next() {
    std::string text = texts_[below(texts_.size())];
    for (std::size_t n = 1 + below(4); n != 0; --n) damage(text);
    return text;
  }

 private:
  std::size_t below(std::size_t limit) { return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_); }

  /// Begin and end of a random word.
  std::pair<std::size_t, std::size_t> word(const std::string& text) {
    std::size_t begin = below(text.size());
    while (begin > 0 && text[begin - 1] != ' ' && text[begin - 1] != '\n') --begin;
    const std::size_t end = text.find_first_of(" \n", begin);
    return {begin, end == std::string::npos ? text.size() : end};
  }

  /// Begin and end of a random line.
  std::pair<std::size_t, std::size_t> line(const std::string& text) {
    const std::size_t at = below(text.size());
    const std::size_t begin = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
    const std::size_t end = text.find('\n', at);
    return {begin == std::string::npos ? 0 : begin + 1, end == std::string::npos ? text.size() : end + 1};
  }

  void damage(std::string& text) {
    if (text.size() < 2) return;
    switch (below(7)) {
      case 0:
        text[below(text.size())] = static_cast<char>(below(256));
        break;
      case 1:
        text.erase(below(text.size()), 1 + below(8));
        break;
      case 2:
        number(text);
        break;
      case 3: {
        const auto [begin, end] = word(text);
        const auto& other = texts_[below(texts_.size())];
        const auto [from, to] = word(other);
        text.replace(begin, end - begin, other.substr(from, to - from));
        break;
      }
      case 4: {
        const auto [begin, end] = line(text);
        text.insert(end, text.substr(begin, end - begin));
        break;
      }
      case 5: {
        const auto [begin, end] = line(text);
        text.erase(begin, end - begin);
        break;
      }
      default:
        text.resize(below(text.size()));
    }
  }

  /// Puts an interesting number where there is one.
  void number(std::string& text) {
    const std::size_t at = text.find_first_of("0123456789", below(text.size()));
    if (at == std::string::npos) return;
    const std::size_t end = text.find_first_not_of("0123456789", at);
    const char* numbers[] = {
        "0", "1", "2", "3", "5", "255", "65535", "65536", "2147483647", "4294967295", "18446744073709551615", "-1"};
    text.replace(at, (end == std::string::npos ? text.size() : end) - at, numbers[below(std::size(numbers))]);
  }

  std::mt19937_64 random_{42};
  std::vector<std::string> texts_;
};

TEST(ScheduleTextFuzz, EndsInAVerdictWhateverComesIn) {
  Fuzzer fuzzer;
  const VerifyLimits limits{1 << 16, 16, 1 << 16};
  int parsed = 0;
  int proved = 0;
  constexpr int texts = 60000;
  for (int i = 0; i < texts; ++i) {
    const std::string text = fuzzer.next();
    const Result<Schedule> read = parse_schedule(text);
    if (!read.ok()) {
      ASSERT_TRUE(read.status().error().message.starts_with("schedule text, line ")) << read.status().text();
      continue;
    }
    ++parsed;
    const std::string printed = print_schedule(read->plan, read->programs);
    const Result<Schedule> again = parse_schedule(printed);
    ASSERT_TRUE(again.ok()) << again.status().text() << "\n" << printed;
    ASSERT_EQ(print_schedule(again->plan, again->programs), printed);
    const Verdict verdict = verify(read->plan, read->programs, limits);
    ASSERT_EQ(verdict.proved(), verdict.fault.text().empty());
    proved += verdict.proved() ? 1 : 0;
  }
  std::printf("%d texts, %d parsed, %d proved\n", texts, parsed, proved);
  EXPECT_GT(parsed, texts / 50);
  EXPECT_GT(parsed, proved);
}

}  // namespace
}  // namespace tutti::testing
