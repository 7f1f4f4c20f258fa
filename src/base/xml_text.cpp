#include "src/base/xml_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <vector>

namespace tutti {
namespace {

constexpr std::string_view white = " \t\r\n";
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

/// What stands between & and ;.
bool is_reference(std::string_view name) {
  constexpr std::array<std::string_view, 5> known = {"amp", "lt", "gt", "quot", "apos"};
  if (!name.starts_with('#')) return std::find(known.begin(), known.end(), name) != known.end();
  name.remove_prefix(1);
  const bool hex = name.starts_with('x');
  if (hex) name.remove_prefix(1);
  std::uint32_t code = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), code, hex ? 16 : 10);
  if (name.empty() || error != std::errc{} || end != name.data() + name.size()) return false;
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return code != 0 && !surrogate && code <= 0x10ffff;
}

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {
    if (text.starts_with(byte_order_mark)) at_ = byte_order_mark.size();
  }

  std::string scan() {
    while (fault_.empty() && at_ < text_.size()) {
      if (text_[at_] == '<') {
        markup();
      } else {
        characters();
      }
    }
    return fault_;
  }

 private:
  void markup() {
    const std::string_view rest = text_.substr(at_);
    if (rest.starts_with("<!--")) return skip_past("-->");
    if (rest.starts_with("<![CDATA[")) return skip_past("]]>");
    if (rest.starts_with("<?")) return skip_past("?>");
    if (rest.starts_with("<!")) return document_type();
    if (rest.starts_with("</")) return --depth_, skip_past(">");
    element();
  }

  void characters() {
    const std::size_t end = std::min(text_.find('<', at_), text_.size());
    const std::size_t word = text_.find_first_not_of(white, at_);
    if (depth_ == 0 && word < end) return fail(word, "text outside of the root element");
    references(at_, end);
    at_ = end;
  }

  void document_type() {
    const std::size_t begin = at_;
    skip_past(">");
    if (text_.substr(begin, at_ - begin).find('[') != std::string_view::npos)
      fail(begin, "a document type with declarations of its own");
  }

  void element() {
    const std::size_t begin = at_;
    if (depth_ == 0 && ++roots_ > 1) return fail(begin, "a second root element");
    names_.clear();
    go_to(text_.find_first_of(" \t\r\n/>", at_));
    while (fault_.empty() && at_ < text_.size() && text_[at_] != '>' && text_[at_] != '/') attribute();
    std::sort(names_.begin(), names_.end());
    if (std::adjacent_find(names_.begin(), names_.end()) != names_.end())
      return fail(begin, "an element that has an attribute twice");
    if (at_ < text_.size() && text_[at_] == '>') ++depth_;
    skip_past(">");
  }

  /// One of an element's, with the white space around it.
  void attribute() {
    const std::size_t begin = text_.find_first_not_of(white, at_);
    go_to(begin);
    if (at_ == text_.size() || text_[at_] == '>' || text_[at_] == '/') return;
    names_.push_back(text_.substr(begin, text_.find_first_of("= \t\r\n", begin) - begin));
    const std::size_t quote = text_.find_first_of("\"'", begin);
    if (quote == std::string_view::npos) return go_to(quote);
    const std::size_t close = text_.find(text_[quote], quote + 1);
    references(quote + 1, std::min(close, text_.size()));
    go_to(close == std::string_view::npos ? close : close + 1);
  }

  void references(std::size_t begin, std::size_t end) {
    const std::string_view value = text_.substr(begin, end - begin);
    for (std::size_t at = value.find('&'); at != std::string_view::npos; at = value.find('&', at + 1)) {
      const std::size_t close = value.find(';', at);
      if (close == std::string_view::npos || !is_reference(value.substr(at + 1, close - at - 1)))
        return fail(begin + at, "a reference to an entity or a character that there is not");
    }
  }

  void skip_past(std::string_view mark) {
    const std::size_t found = text_.find(mark, at_);
    go_to(found == std::string_view::npos ? found : found + mark.size());
  }
  void go_to(std::size_t place) { at_ = std::min(place, text_.size()); }
  void fail(std::size_t offset, const char* why) {
    if (fault_.empty()) fault_ = fmt::format("byte {}: it has {}", offset, why);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  int roots_ = 0;
  std::vector<std::string_view> names_;
  std::string fault_;
};

}  // namespace

std::string xml_fault(std::string_view text) { return Scanner(text).scan(); }

}  // namespace tutti
