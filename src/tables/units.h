// Text of times, sizes and rates, and back: the one place that knows their units.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

/// A limit or a wait as errors tell it: "30 s", "1.5 s", "200 ms", "20 us", never as 0 of a unit that is too coarse.
std::string duration_text(std::uint64_t ns);
/// The number with the coarsest unit that divides it, as settings read it: 500000000 is "500ms".
std::string exact_duration_text(std::uint64_t ns);
/// A measured time in the unit that suits it, to two places where it has less than three digits before them: "12.34 s",
/// "345 ms", "45.60 us", "0 s".
std::string time_text(double seconds);
/// A computed time, to three places: "12.340 s".
std::string exact_time_text(double seconds);
/// `seconds` to four digits in the unit that suits `whole`, as beside an axis that long.
std::string time_text_within(double seconds, double whole);

/// The number with the largest unit that divides it: 1048576 is "1M", 1000 is "1000". parse_size reads it back.
std::string size_text(std::uint64_t size);
/// A size as sentences tell it, in powers of 1024: "99999 bytes", "512 KiB", "1.5 GiB", "16 GiB". From 1 MiB on rounded.
std::string bytes_text(std::uint64_t bytes);
/// What has been carried, in powers of 1000, as rates are: "1.05 MB".
std::string traffic_text(double bytes);
/// "12.50 GB/s".
std::string rate_text(double bytes_per_second);

/// A value, or why the text gives none (part of a sentence: "a size begins with a digit").
template <class T>
struct Parsed {
  std::optional<T> value;
  std::string why;
};

/// Bytes or elements: digits, then nothing, B, or one of K, M, G (powers of 1024, either case), which B or iB may follow.
/// With a unit the number may have a fraction ("0.5G"); the size is then rounded down. Thread safe.
Parsed<std::uint64_t> parse_size(std::string_view text);

/// A comma-separated list of what parse_size takes; empty lists and empty items are refused. Thread safe.
Parsed<std::vector<std::uint64_t>> parse_size_list(std::string_view text);

}  // namespace tutti
