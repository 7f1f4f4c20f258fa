#include "src/tables/units.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace tutti {
namespace {

struct Unit {
  const char* name;
  double value;
};
constexpr std::array<Unit, 3> seconds_units = {{{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}}};
constexpr std::array<Unit, 6> traffic_units = {
    {{"PB", 1e15}, {"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1}}};

/// The coarsest unit that `value` has at least `least` of, or the finest one.
template <std::size_t N>
const Unit& unit_for(const std::array<Unit, N>& units, double value, double least) {
  return *std::find_if(units.begin(), units.end() - 1, [&](const Unit& unit) { return value >= least * unit.value; });
}

std::string with_unit(const char* format, double number, const char* unit) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), format, number, unit);
  return text.data();
}

/// Of "K", "KB" or "KiB": all are powers of 1024, as in nccl-tests, which looks at the first letter alone. -1: it is none.
int shift_of(std::string_view unit) {
  const std::string_view rest = unit.substr(std::min<std::size_t>(unit.size(), 1));
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
Parsed<std::uint64_t> parse_fraction(std::string_view text) {
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
  return {static_cast<std::uint64_t>(bytes), ""};
}

}  // namespace

std::string duration_text(std::uint64_t ns) {
  if (ns < 1'000) return std::to_string(ns) + " ns";
  if (ns < 1'000'000) return std::to_string(ns / 1'000) + " us";
  const std::uint64_t ms = ns / 1'000'000u;
  if (ms < 1000 || ms % 100 != 0) return std::to_string(ms) + " ms";
  const std::string whole = std::to_string(ms / 1000);
  return ms % 1000 == 0 ? whole + " s" : whole + "." + std::to_string(ms % 1000 / 100) + " s";
}

std::string exact_duration_text(std::uint64_t ns) {
  if (ns % 1'000'000'000 == 0) return std::to_string(ns / 1'000'000'000) + "s";
  if (ns % 1'000'000 == 0) return std::to_string(ns / 1'000'000) + "ms";
  return ns % 1'000 == 0 ? std::to_string(ns / 1'000) + "us" : std::to_string(ns) + "ns";
}

std::string time_text(double seconds) {
  if (seconds <= 0) return "0 s";
  // 0.9995 of a unit would be rounded up to 1.00 of it.
  const Unit& unit = unit_for(seconds_units, seconds, 0.9995);
  const double number = seconds / unit.value;
  return with_unit(number < 99.95 ? "%.2f %s" : "%.0f %s", number, unit.name);
}

std::string exact_time_text(double seconds) {
  const Unit& unit = unit_for(seconds_units, seconds, 1);
  return with_unit("%.3f %s", seconds / unit.value, unit.name);
}

std::string time_text_within(double seconds, double whole) {
  const Unit& unit = unit_for(seconds_units, whole, 1);
  return with_unit("%.4g %s", seconds / unit.value, unit.name);
}

std::string size_text(std::uint64_t size) {
  constexpr std::array<char, 3> units = {'G', 'M', 'K'};
  for (std::size_t i = 0; i < units.size(); ++i) {
    const std::size_t shift = 30 - 10 * i;
    if (size != 0 && (size & ((std::uint64_t{1} << shift) - 1)) == 0) return std::to_string(size >> shift) + units[i];
  }
  return std::to_string(size);
}

std::string bytes_text(std::uint64_t bytes) {
  const double gibibytes = static_cast<double>(bytes) / 0x1p30;
  if (gibibytes >= 1) return with_unit(gibibytes < 10 ? "%.1f %s" : "%.0f %s", gibibytes, "GiB");
  if (bytes >= 1u << 20) return std::to_string(bytes >> 20) + " MiB";
  return bytes != 0 && bytes % 1024 == 0 ? std::to_string(bytes >> 10) + " KiB" : std::to_string(bytes) + " bytes";
}

std::string traffic_text(double bytes) {
  const Unit& unit = unit_for(traffic_units, bytes, 1);
  return with_unit("%.3g %s", bytes / unit.value, unit.name);
}

std::string rate_text(double bytes_per_second) { return with_unit("%.2f %s", bytes_per_second * 1e-9, "GB/s"); }

Parsed<std::uint64_t> parse_size(std::string_view text) {
  const std::size_t first = text.starts_with('.') ? 1 : 0;
  const bool digit_first = text.size() > first && text[first] >= '0' && text[first] <= '9';
  if (digit_first && text.find('.') != std::string_view::npos) return parse_fraction(text);
  std::uint64_t number = 0;
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

Parsed<std::vector<std::uint64_t>> parse_size_list(std::string_view text) {
  std::vector<std::uint64_t> sizes;
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    const Parsed<std::uint64_t> size = parse_size(item);
    if (!size.value) return {std::nullopt, "of its item '" + std::string(item) + "': " + size.why};
    sizes.push_back(*size.value);
    if (comma == std::string_view::npos) return {sizes, ""};
    text.remove_prefix(comma + 1);
  }
}

}  // namespace tutti
