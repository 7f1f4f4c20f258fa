#include "perf/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>

namespace tutti::perf {
namespace {

// The whole text as a number of that base; nothing otherwise.
std::optional<uint32_t> number(std::string_view text, int base) {
  uint32_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value, base);
  if (error != std::errc() || rest != end || value > INT32_MAX) return std::nullopt;
  return value;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return text;
}

// Decimal, 0x… or 0b….
std::optional<uint32_t> any_base(std::string_view text) {
  if (text.rfind("0x", 0) == 0) return number(text.substr(2), 16);
  if (text.rfind("0b", 0) == 0) return number(text.substr(2), 2);
  return number(text, 10);
}

std::optional<ProcessSplit> parse_split(const std::string& given) {
  struct Spelling {
    const char* text;
    ProcessSplit::By by;
  };
  constexpr Spelling kSpellings[] = {{"and", ProcessSplit::By::kAnd}, {"&", ProcessSplit::By::kAnd},
                                     {"or", ProcessSplit::By::kOr},   {"|", ProcessSplit::By::kOr},
                                     {"mod", ProcessSplit::By::kMod}, {"%", ProcessSplit::By::kMod},
                                     {"div", ProcessSplit::By::kDiv}, {"/", ProcessSplit::By::kDiv}};
  const std::string text = lower(given);
  for (const Spelling& spelling : kSpellings) {
    if (text.rfind(spelling.text, 0) != 0) continue;
    const size_t begin = text.find_first_not_of(' ', std::string_view(spelling.text).size());
    const auto value = begin == std::string::npos ? std::nullopt : any_base(std::string_view(text).substr(begin));
    const bool divides = spelling.by == ProcessSplit::By::kMod || spelling.by == ProcessSplit::By::kDiv;
    if (!value || (divides && *value == 0)) return std::nullopt;
    return ProcessSplit{spelling.by, *value};
  }
  return std::nullopt;
}

// nccl-tests reads the mask in base 16, with or without 0x.
std::optional<ProcessSplit> parse_mask(const std::string& given) {
  const std::string text = lower(given);
  const auto value = number(text.rfind("0x", 0) == 0 ? std::string_view(text).substr(2) : text, 16);
  if (!value) return std::nullopt;
  return ProcessSplit{ProcessSplit::By::kAnd, *value};
}

}  // namespace

int ProcessSplit::group_of(int process) const {
  const auto p = static_cast<uint32_t>(process);
  switch (by) {
    case By::kAnd:
      return static_cast<int>(p & value);
    case By::kOr:
      return static_cast<int>(p | value);
    case By::kMod:
      return static_cast<int>(p % value);
    case By::kDiv:
      break;
  }
  return static_cast<int>(p / value);
}

std::string read_environment(const std::function<const char*(const char*)>& get, PerfEnvironment& environment) {
  const auto text = [&](const char* name) {
    const char* value = get(name);
    return std::string(value != nullptr ? value : "");
  };
  const std::string split = text("NCCL_TESTS_SPLIT");
  const std::string mask = text("NCCL_TESTS_SPLIT_MASK");
  const std::string least = text("NCCL_TESTS_MIN_BW");
  if (!split.empty()) environment.split = parse_split(split);
  if (!split.empty() && !environment.split) {
    return fmt::format("NCCL_TESTS_SPLIT is '{}', but it takes AND, OR, MOD or DIV and a number, as in \"MOD 2\"", split);
  }
  // As in nccl-tests, the mask counts where both are set.
  if (!mask.empty()) environment.split = parse_mask(mask);
  if (!mask.empty() && !environment.split) {
    return fmt::format("NCCL_TESTS_SPLIT_MASK is '{}', but it takes a hexadecimal number, as in 0x7", mask);
  }
  if (!least.empty()) {
    char* rest = nullptr;
    const double value = std::strtod(least.c_str(), &rest);
    if (*rest != 0 || !std::isfinite(value)) {
      return fmt::format("NCCL_TESTS_MIN_BW is '{}', but it takes a number of GB/s, as in 10.5", least);
    }
    // Below 0 nccl-tests checks nothing.
    if (value >= 0) environment.least_bandwidth = value;
  }
  environment.device = !text("NCCL_TESTS_DEVICE").empty();
  return "";
}

}  // namespace tutti::perf
