// Damaged texts for tests of what reads texts: the same ones in every run.
#pragma once

#include <cstddef>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace tutti::testing {

/// Takes good texts and hands out random damage of them: bytes changed and lost, other numbers, words of another text,
/// lines doubled and lost, ends cut off. Not thread safe.
class TextFuzzer {
 public:
  /// texts: good ones, none empty. separators: what ends a word, a newline among them. most: damages of one text.
  TextFuzzer(std::vector<std::string> texts, std::string separators, std::size_t most = 4)
      : texts_(std::move(texts)), separators_(std::move(separators)), most_(most) {}

  /// A text with at least one damage.
  std::string next() {
    std::string text = texts_[below(texts_.size())];
    for (std::size_t n = 1 + below(most_); n != 0; --n) damage(text);
    return text;
  }

 private:
  std::size_t below(std::size_t limit) { return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_); }

  /// Begin and end of a random word.
  std::pair<std::size_t, std::size_t> word(const std::string& text) {
    std::size_t begin = below(text.size());
    while (begin > 0 && separators_.find(text[begin - 1]) == std::string::npos) --begin;
    const std::size_t end = text.find_first_of(separators_, begin);
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
  std::string separators_;
  std::size_t most_;
};

}  // namespace tutti::testing
