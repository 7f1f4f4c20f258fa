// Sizes as people write them (64K, 1M), and as people read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::program {

/// A value, or why the text gives none (part of a sentence: "a size begins with a digit").
template <class T>
struct Parsed {
  std::optional<T> value;
  std::string why;
};

/// Bytes or elements: digits, then nothing, B, or one of K, M, G (powers of 1024, either case), which B or iB may follow.
/// With a unit the number may have a fraction ("0.5G"); the size is then rounded down. Thread safe.
Parsed<uint64_t> parse_size(std::string_view text);

/// A comma-separated list of what parse_size takes; empty lists and empty items are refused. Thread safe.
Parsed<std::vector<uint64_t>> parse_size_list(std::string_view text);

/// The number with the largest unit that divides it: 1048576 is "1M", 1000 is "1000". parse_size reads it back.
std::string size_text(uint64_t size);

}  // namespace tutti::program
