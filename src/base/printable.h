// Texts from files and devices, which may hold anything, on their way to a terminal.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace tutti {

namespace letters {

/// Bytes of the UTF-8 sequence that `text` begins with, 0 where it begins with none.
inline std::size_t bytes_of(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t bytes = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 0;
  if (bytes == 0 || first > 0xf4 || bytes > text.size()) return 0;
  const auto follows = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; };
  return std::all_of(text.begin() + 1, text.begin() + static_cast<std::ptrdiff_t>(bytes), follows) ? bytes : 0;
}

/// Of ASCII, and those from U+0080 to U+009F, which terminals obey too.
inline bool is_control(std::string_view letter) {
  const auto first = static_cast<unsigned char>(letter[0]);
  if (letter.size() == 1) return first < ' ' || first == 0x7f;
  return first == 0xc2 && static_cast<unsigned char>(letter[1]) < 0xa0;
}

}  // namespace letters

/// The text without what would command a terminal: every control character (newlines too), and every byte that is no UTF-8,
/// is a "?". Thread safe.
inline std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t bytes = letters::bytes_of(text);
    const bool shown = bytes > 0 && !letters::is_control(text.substr(0, bytes));
    out += shown ? text.substr(0, bytes) : "?";
    text.remove_prefix(std::max<std::size_t>(1, bytes));
  }
  return out;
}

/// A name as sentences show it: printable, and whole, or what of it is within 60 bytes and "…", so that the rest of the
/// sentence stays.
inline std::string shown_name(std::string_view given) {
  constexpr std::size_t most = 60;
  const std::string whole = printable(given);
  if (whole.size() <= most) return whole;
  const std::string_view name = whole;
  std::size_t shown = 0;
  while (true) {
    const std::size_t next = std::max<std::size_t>(1, letters::bytes_of(name.substr(shown)));
    if (shown + next > most) return std::string(name.substr(0, shown)) + "…";
    shown += next;
  }
}

}  // namespace tutti
