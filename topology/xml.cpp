#include "topology/xml.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "src/base/xml_text.h"

namespace tutti::xml {
Status load(std::string_view text, const char* remedy, pugi::xml_document& document) {
  const pugi::xml_parse_result parsed = document.load_buffer(text.data(), text.size());
  if (!parsed)
    return Status(TUTTI_INVALID_ARGUMENT, fmt::format("byte {}: {}", parsed.offset, parsed.description()), remedy);
  const std::string fault = xml_fault(text);
  return fault.empty() ? Status() : Status(TUTTI_INVALID_ARGUMENT, fault, remedy);
}

Status refusal(const pugi::xml_node& at, const std::string& why, const char* remedy) {
  return Status(TUTTI_INVALID_ARGUMENT, fmt::format("byte {}: {}", at.offset_debug(), why), remedy);
}

Status of_file(const std::string& path, const Status& status) {
  return Status(status.code(), path + " is refused: " + status.error().message, status.error().remedy);
}

bool parse_mask(std::string_view text, std::vector<int>& cpus) {
  cpus.clear();
  if (text.starts_with("0xf...f")) return false;  // without end: no real machine's
  std::vector<std::uint32_t> words;
  while (true) {
    const std::size_t comma = text.find(',');
    std::string_view word = text.substr(0, comma);
    if (word.starts_with("0x")) word.remove_prefix(2);
    std::uint32_t value = 0;
    if (!word.empty() && !number_in(word, value, 16)) return false;
    words.push_back(value);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  if (words.size() > kMostCpus / 32) return false;
  std::reverse(words.begin(), words.end());
  for (std::size_t w = 0; w < words.size(); ++w) {
    for (unsigned bit = 0; bit < 32; ++bit) {
      if ((words[w] >> bit & 1u) != 0) cpus.push_back(static_cast<int>(w * 32 + bit));
    }
  }
  return true;
}

bool is_pci_address(std::string_view text) {
  constexpr std::string_view short_form = "dddd:dd:dd.d";  // d: a digit
  if (text.size() < short_form.size() || text.size() > short_form.size() + 4) return false;
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  const std::size_t longer = text.size() - short_form.size();
  if (!std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(longer), is_digit)) return false;
  for (std::size_t i = 0; i < short_form.size(); ++i) {
    const char c = text[longer + i];
    if (short_form[i] == 'd' ? !is_digit(c) : c != short_form[i]) return false;
  }
  return true;
}

}  // namespace tutti::xml
