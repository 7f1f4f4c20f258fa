#include "src/selection/tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <set>
#include <sstream>
#include <vector>

#include "algorithms/algorithm.h"
#include "src/base/saturating.h"
#include "src/base/text_file.h"
#include "src/tables/names.h"

namespace tutti {
namespace {

constexpr std::string_view kHeader = "tutti tuning 1";
constexpr std::array kClasses = {LinkClass::same_numa, LinkClass::same_machine, LinkClass::other_machine,
                                 LinkClass::other_rack};
const char* const kForm =
    "Write `link TRANSPORT same_numa|same_machine|other_machine|other_rack SECONDS SECONDS_A_BYTE`, `fold SECONDS`, "
    "`yield_seconds SECONDS`, `ring_share FACTOR`, numbers above 0, or `use COLLECTIVE RANKS BYTES BYTES ALGORITHM`, words "
    "apart by blanks or commas.";

/// The words of a line before its comment. No word of a table has a quote, a comma or a semicolon in it, so they all are
/// but what stands between words; empty cells are none.
std::vector<std::string> words_of(std::string_view line) {
  std::string plain(line.substr(0, line.find('#')));
  const auto separates = [](char c) { return c == ',' || c == ';' || c == '"'; };
  std::replace_if(plain.begin(), plain.end(), separates, ' ');
  std::istringstream in{plain};
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

/// Whether a table can say this number. Ranks tell each other floats.
bool can_be_said(double value) { return value > 0 && std::isnormal(static_cast<float>(value)); }

std::optional<double> number(const std::string& word) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  const bool good = error == std::errc{} && end == word.data() + word.size() && can_be_said(value);
  return good ? std::optional(value) : std::nullopt;
}

/// A spreadsheet has 15 digits, and makes 1.84467440737096E+19 of the largest number of bytes: what is above it, is it.
bool whole(const std::string& word, std::uint64_t& value) {
  const char* const end = word.data() + word.size();
  if (const auto read = std::from_chars(word.data(), end, value); read.ptr == end && read.ec == std::errc{}) return true;
  double rounded = 0;
  const auto read = std::from_chars(word.data(), end, rounded);
  if (read.ec != std::errc{} || read.ptr != end || !(rounded >= 1e15 && rounded < 1e20)) return false;
  value = rounded < 0x1p64 ? static_cast<std::uint64_t>(rounded) : UINT64_MAX;
  return true;
}

bool whole(const std::string& word, int& value) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc{} && end == word.data() + word.size() && value >= 0;
}

std::optional<LinkClass> class_named(std::string_view name) {
  const auto* const found = std::find_if(kClasses.begin(), kClasses.end(), [&](LinkClass c) { return name == name_of(c); });
  return found != kClasses.end() ? std::optional(*found) : std::nullopt;
}

/// What ranks so near to each other commonly use.
const char* transport_assumed(LinkClass near) { return near >= LinkClass::other_machine ? "tcp" : "shm"; }

}  // namespace

Result<Tuning> Tuning::read(const std::string& path) {
  const auto text = read_text_file(path);
  if (!text.ok()) {
    return Status(TUTTI_INVALID_ARGUMENT,
                  fmt::format("the tuning table \"{}\" cannot be read: {}", path, text.status().error().message),
                  "Name a file that perf/tune, `tutti-perf --measure-links` or `tutti-plan cost --csv` wrote, or none.");
  }
  return parse(*text, fmt::format("the tuning table \"{}\"", path));
}

Result<Tuning> Tuning::parse(std::string_view text, const std::string& place) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  Tuning tuning;
  bool headed = false;
  for (int line = 1; !text.empty(); ++line) {
    std::string_view content = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), content.size() + 1));
    if (content.ends_with('\r')) content.remove_suffix(1);
    const std::vector<std::string> words = words_of(content);
    if (words.empty()) continue;
    if (!headed) {
      headed = fmt::format("{}", fmt::join(words, " ")) == kHeader;
      if (headed) continue;
      return Status(TUTTI_INVALID_ARGUMENT, fmt::format("{} does not begin with \"{}\"", place, kHeader),
                    "Name a file that perf/tune or `tutti-plan cost --csv` wrote.");
    }
    if (const auto wrong = tuning.take(words)) {
      return Status(TUTTI_INVALID_ARGUMENT, fmt::format("line {} of {} says \"{}\"{}", line, place, content, *wrong),
                    kForm);
    }
  }
  if (headed) return tuning;
  return Status(TUTTI_INVALID_ARGUMENT, fmt::format("{} is empty", place),
                "Name a file that perf/tune or `tutti-plan cost --csv` wrote.");
}

/// One line; otherwise what is wrong with it, to be said behind it: empty where it is of no known form.
std::optional<std::string> Tuning::take(const std::vector<std::string>& words) {
  if (words[0] == "use") return take_use(words);
  const auto value = number(words.back());
  if (!value) return "";
  if (words[0] == "link" && words.size() == 5) {
    const auto near = class_named(words[2]);
    const auto alpha = number(words[3]);
    if (!near || !alpha) return "";
    links_[{words[1], *near}] = {*alpha, *value};
    return std::nullopt;
  }
  const std::array<std::pair<std::string_view, std::optional<double>*>, 3> single = {
      {{"fold", &fold_}, {"yield_seconds", &yield_seconds_}, {"ring_share", &ring_share_}}};
  for (const auto& [name, place] : single) {
    if (words.size() != 2 || words[0] != name) continue;
    *place = value;
    return std::nullopt;
  }
  return "";
}

std::optional<std::string> Tuning::take_use(const std::vector<std::string>& words) {
  if (words.size() != 6) return "";
  TuningUse use;
  const auto known = collective_of(words[1]);
  if (!known) return fmt::format(", but there is no collective {}", words[1]);
  use.collective = *known;
  if (!whole(words[2], use.ranks) || !whole(words[3], use.from) || !whole(words[4], use.to)) {
    return ", but ranks and bytes are whole numbers, up to 2^31 - 1 and 2^64 - 1";
  }
  if (use.from > use.to) return ", but its bytes end before they begin";
  use.algorithm = words[5];
  if (find_algorithm(use.collective, use.algorithm.c_str()) == nullptr) {
    return fmt::format(", but there is no algorithm {} of {}", words[5], words[1]);
  }
  uses_.push_back(std::move(use));
  return std::nullopt;
}

std::string_view Tuning::use(const Problem& problem) const {
  const std::uint64_t bytes = bytes_of(problem.count, problem.type);
  // Of two that say something else the later one counts, as with all lines.
  const auto fits = [&](const TuningUse& use) {
    return use.collective == problem.collective && use.ranks == problem.ranks && bytes >= use.from && bytes <= use.to;
  };
  const auto last = std::find_if(uses_.rbegin(), uses_.rend(), fits);
  return last != uses_.rend() ? std::string_view(last->algorithm) : std::string_view();
}

std::optional<LinkEstimate> Tuning::link(std::string_view transport, LinkClass near) const {
  const auto found = links_.find({std::string(transport), near});
  return found != links_.end() ? std::optional(found->second) : std::nullopt;
}

void Tuning::apply(View& view) const {
  view.gamma = fold_.value_or(view.gamma);
  view.yield_seconds = yield_seconds_.value_or(view.yield_seconds);
  view.ring_share = ring_share_.value_or(view.ring_share);
}

void Tuning::apply_with_links(View& view) const {
  apply(view);
  for (const LinkClass near : kClasses) {
    auto said = link(transport_assumed(near), near);
    if (near == LinkClass::other_rack && !said) said = link(transport_assumed(near), LinkClass::other_machine);
    if (said) view.link(near) = *said;
  }
}

std::vector<std::string> Tuning::unsaid_links(const View& view) const {
  std::vector<std::string> names;
  for (const LinkClass near : classes_between(view)) {
    const bool as_another = near == LinkClass::other_rack && link(transport_assumed(near), LinkClass::other_machine);
    if (as_another || link(transport_assumed(near), near)) continue;
    names.push_back(fmt::format("{} {}", transport_assumed(near), name_of(near)));
  }
  return names;
}

std::vector<TuningUse> Tuning::uses(Collective collective, int ranks) const {
  std::vector<TuningUse> rows;
  const auto wanted = [&](const TuningUse& use) { return use.collective == collective && use.ranks == ranks; };
  std::copy_if(uses_.begin(), uses_.end(), std::back_inserter(rows), wanted);
  return rows;
}

void Tuning::replace_uses(Collective collective, int ranks, std::vector<TuningUse> rows) {
  std::erase_if(uses_, [&](const TuningUse& use) { return use.collective == collective && use.ranks == ranks; });
  std::move(rows.begin(), rows.end(), std::back_inserter(uses_));
}

void Tuning::take_constants(const View& view) {
  for (const LinkClass near : classes_between(view)) {
    const LinkEstimate& estimate = view.link(near);
    if (can_be_said(estimate.alpha) && can_be_said(estimate.beta)) links_[{transport_assumed(near), near}] = estimate;
  }
  const std::array<std::pair<double, std::optional<double>*>, 3> single = {
      {{view.gamma, &fold_}, {view.yield_seconds, &yield_seconds_}, {view.ring_share, &ring_share_}}};
  for (const auto& [value, place] : single) {
    if (can_be_said(value)) *place = value;
  }
}

std::string Tuning::text(char separator) const {
  std::string lines;
  const auto add = [&](const auto&... words) {
    const std::array<std::string, sizeof...(words)> row = {fmt::format("{}", words)...};
    lines += fmt::format("{}\n", fmt::join(row, std::string_view(&separator, 1)));
  };
  for (const auto& [of, estimate] : links_) add("link", of.first, name_of(of.second), estimate.alpha, estimate.beta);
  if (fold_) add("fold", *fold_);
  if (yield_seconds_) add("yield_seconds", *yield_seconds_);
  if (ring_share_) add("ring_share", *ring_share_);
  for (const TuningUse& use : uses_) add("use", name_of(use.collective), use.ranks, use.from, use.to, use.algorithm);
  return lines.empty() ? lines : fmt::format("{}\n{}", kHeader, lines);
}

std::string Tuning::digest() const {
  const std::string said = text();
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : said) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return said.empty() ? said : fmt::format("{:016x}", hash);
}

}  // namespace tutti
