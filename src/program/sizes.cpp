#include "src/program/sizes.h"

#include <charconv>

namespace tutti::program {
namespace {

int shift_of(char unit) {
  switch (unit) {
    case 'K':
    case 'k':
      return 10;
    case 'M':
    case 'm':
      return 20;
    case 'G':
    case 'g':
      return 30;
    default:
      return -1;
  }
}

}  // namespace

Parsed<uint64_t> parse_size(std::string_view text) {
  uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc::result_out_of_range) return {std::nullopt, "it is larger than 2^64 - 1"};
  if (error != std::errc()) return {std::nullopt, "a size begins with a digit"};
  if (rest == end) return {number, ""};
  if (*rest == '.' || *rest == ',') return {std::nullopt, "fractions are not taken"};
  const int shift = end - rest == 1 ? shift_of(*rest) : -1;
  if (shift < 0) return {std::nullopt, "after its digits a size may only have one of K, M and G"};
  if (number > (UINT64_MAX >> shift)) return {std::nullopt, "it is larger than 2^64 - 1"};
  return {number << shift, ""};
}

Parsed<std::vector<uint64_t>> parse_size_list(std::string_view text) {
  std::vector<uint64_t> sizes;
  while (true) {
    const size_t comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    const Parsed<uint64_t> size = parse_size(item);
    if (!size.value) return {std::nullopt, "of its item '" + std::string(item) + "': " + size.why};
    sizes.push_back(*size.value);
    if (comma == std::string_view::npos) return {sizes, ""};
    text.remove_prefix(comma + 1);
  }
}

std::string size_text(uint64_t size) {
  constexpr char kUnits[] = {'G', 'M', 'K'};
  for (int i = 0; i < 3; ++i) {
    const int shift = 30 - 10 * i;
    if (size != 0 && (size & ((uint64_t{1} << shift) - 1)) == 0) return std::to_string(size >> shift) + kUnits[i];
  }
  return std::to_string(size);
}

}  // namespace tutti::program
