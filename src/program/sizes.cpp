#include "src/program/sizes.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tutti::program {
namespace {

/// Of "K", "KB" or "KiB": all are powers of 1024, as in nccl-tests, which looks at the first letter alone. -1: it is none.
int shift_of(std::string_view unit) {
  const std::string_view rest = unit.substr(std::min<size_t>(unit.size(), 1));
  if (!rest.empty() && rest != "B" && rest != "b" && rest != "iB" && rest != "ib" && rest != "IB") return -1;
  switch (unit.empty() ? ' ' : unit.front()) {
    case 'B':
    case 'b':
      return rest.empty() ? 0 : -1;
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

constexpr char kAfterDigits[] = "after its digits a size may only have a unit, as in 64B, 64K, 64MB and 64GiB";

// "0.5G", as nccl-tests takes it. A fraction that is whole in its unit has so few binary digits that a double is exact.
Parsed<uint64_t> parse_fraction(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (error != std::errc()) return {std::nullopt, "a size begins with a digit"};
  if (rest == end) return {std::nullopt, "a fraction needs one of K, M and G behind it"};
  const int shift = shift_of({rest, end});
  if (shift < 0) return {std::nullopt, kAfterDigits};
  if (shift == 0) return {std::nullopt, "a fraction needs one of K, M and G behind it"};
  const double bytes = std::floor(std::ldexp(number, shift));
  if (bytes >= std::ldexp(1.0, 64)) return {std::nullopt, "it is larger than 2^64 - 1"};
  return {static_cast<uint64_t>(bytes), ""};
}

}  // namespace

Parsed<uint64_t> parse_size(std::string_view text) {
  const size_t first = text.starts_with('.') ? 1 : 0;
  const bool digit_first = text.size() > first && text[first] >= '0' && text[first] <= '9';
  if (digit_first && text.find('.') != std::string_view::npos) return parse_fraction(text);
  uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc::result_out_of_range) return {std::nullopt, "it is larger than 2^64 - 1"};
  if (error != std::errc()) return {std::nullopt, "a size begins with a digit"};
  if (rest == end) return {number, ""};
  if (*rest == ',') return {std::nullopt, "a fraction is written with a point, as in 0.5G"};
  const int shift = shift_of({rest, end});
  if (shift < 0) return {std::nullopt, kAfterDigits};
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
