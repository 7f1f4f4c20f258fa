// Sizes of a grid's dimensions as people write them: 16x16, 4x4x2.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tutti {

/// Whole numbers of at least 1 with x between them; nothing where the text is anything else.
inline std::optional<std::vector<std::int32_t>> parse_dimensions(std::string_view text) {
  std::vector<std::int32_t> sizes;
  while (true) {
    const std::string_view word = text.substr(0, text.find('x'));
    std::int32_t size = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), size);
    if (error != std::errc() || stop != word.data() + word.size() || size < 1) return std::nullopt;
    sizes.push_back(size);
    if (word.size() == text.size()) return sizes;
    text.remove_prefix(word.size() + 1);
  }
}

}  // namespace tutti
