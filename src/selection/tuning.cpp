#include "src/selection/tuning.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <sstream>
#include <vector>

#include "algorithms/algorithm.h"
#include "src/base/bytes.h"
#include "src/base/text_file.h"

namespace tutti {
namespace {

constexpr std::string_view kHeader = "tutti tuning 1";
constexpr std::array<std::pair<std::string_view, LinkClass>, 4> kClasses = {{{"same_numa", LinkClass::same_numa},
                                                                             {"same_machine", LinkClass::same_machine},
                                                                             {"other_machine", LinkClass::other_machine},
                                                                             {"other_rack", LinkClass::other_rack}}};
const char* const kForm =
    "Write `link TRANSPORT same_numa|same_machine|other_machine|other_rack SECONDS SECONDS_A_BYTE`, `fold SECONDS`, "
    "`hand_over "
    "SECONDS`, "
    "`ring_share FACTOR`, numbers above 0, or `use COLLECTIVE RANKS BYTES BYTES ALGORITHM`.";

std::vector<std::string> words_of(std::string_view line) {
  std::istringstream in{std::string(line.substr(0, line.find('#')))};
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::optional<double> number(const std::string& word) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  // Ranks tell each other floats.
  const bool good =
      error == std::errc{} && end == word.data() + word.size() && value > 0 && std::isnormal(static_cast<float>(value));
  return good ? std::optional(value) : std::nullopt;
}

template <typename Whole>
bool whole(const std::string& word, Whole& value) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc{} && end == word.data() + word.size() && value >= 0;
}

std::optional<LinkClass> class_named(std::string_view name) {
  for (const auto& [known, near] : kClasses) {
    if (known == name) return near;
  }
  return std::nullopt;
}

}  // namespace

Result<Tuning> Tuning::read(const std::string& path) {
  const auto text = read_text_file(path);
  if (!text.ok()) {
    return Status(TUTTI_INVALID_ARGUMENT,
                  fmt::format("the tuning table \"{}\" cannot be read: {}", path, text.status().error().message),
                  "Name a file that perf/tune wrote, or leave TUTTI_TUNING unset.");
  }
  return parse(*text, fmt::format("the tuning table \"{}\"", path));
}

Result<Tuning> Tuning::parse(std::string_view text, const std::string& place) {
  Tuning tuning;
  bool headed = false;
  for (int line = 1; !text.empty(); ++line) {
    const std::string_view content = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), content.size() + 1));
    const std::vector<std::string> words = words_of(content);
    if (words.empty()) continue;
    if (!headed) {
      headed = fmt::format("{}", fmt::join(words, " ")) == kHeader;
      if (headed) continue;
      return Status(TUTTI_INVALID_ARGUMENT, fmt::format("{} does not begin with \"{}\"", place, kHeader),
                    "Name a file that perf/tune wrote.");
    }
    if (!tuning.take(words))
      return Status(TUTTI_INVALID_ARGUMENT, fmt::format("line {} of {} says \"{}\"", line, place, content), kForm);
  }
  if (headed) return tuning;
  return Status(TUTTI_INVALID_ARGUMENT, fmt::format("{} is empty", place), "Name a file that perf/tune wrote.");
}

/// One line; false: it is malformed.
bool Tuning::take(const std::vector<std::string>& words) {
  if (words[0] == "use") {
    auto use = parse_use(words);
    if (use) uses_.push_back(std::move(*use));
    return use.has_value();
  }
  const auto value = number(words.back());
  if (!value) return false;
  if (words[0] == "link" && words.size() == 5) {
    const auto near = class_named(words[2]);
    const auto alpha = number(words[3]);
    if (near && alpha) links_[{words[1], *near}] = {*alpha, *value};
    return near && alpha;
  }
  const std::array<std::pair<std::string_view, std::optional<double>*>, 3> single = {
      {{"fold", &fold_}, {"hand_over", &hand_over_}, {"ring_share", &ring_share_}}};
  for (const auto& [name, place] : single) {
    if (words.size() == 2 && words[0] == name) return *place = value, true;
  }
  return false;
}

std::optional<Tuning::Use> Tuning::parse_use(const std::vector<std::string>& words) {
  if (words.size() != 6) return std::nullopt;
  Use use;
  bool known = false;
  for (int c = 0; c < collective_count && !known; ++c) {
    use.collective = static_cast<Collective>(c);
    known = words[1] == name_of(use.collective);
  }
  use.algorithm = words[5];
  const bool numbers = whole(words[2], use.ranks) && whole(words[3], use.from) && whole(words[4], use.to);
  const bool good =
      known && numbers && use.from <= use.to && find_algorithm(use.collective, use.algorithm.c_str()) != nullptr;
  return good ? std::optional(use) : std::nullopt;
}

std::string_view Tuning::use(const Problem& problem) const {
  const std::uint64_t bytes = bytes_of(problem.count, problem.type);
  for (const Use& use : uses_) {
    const bool fits = use.collective == problem.collective && use.ranks == problem.ranks;
    if (fits && bytes >= use.from && bytes <= use.to) return use.algorithm;
  }
  return {};
}

std::optional<LinkEstimate> Tuning::link(std::string_view transport, LinkClass near) const {
  const auto found = links_.find({std::string(transport), near});
  return found != links_.end() ? std::optional(found->second) : std::nullopt;
}

void Tuning::apply(View& view) const {
  view.gamma = fold_.value_or(view.gamma);
  view.hand_over = hand_over_.value_or(view.hand_over);
  view.ring_share = ring_share_.value_or(view.ring_share);
}

void Tuning::apply_with_links(View& view) const {
  apply(view);
  for (const auto& [name, near] : kClasses) {
    auto said = link(near >= LinkClass::other_machine ? "tcp" : "shm", near);
    if (near == LinkClass::other_rack && !said) said = link("tcp", LinkClass::other_machine);
    if (said) view.link(near) = *said;
  }
}

std::string Tuning::text() const {
  std::string lines;
  for (const auto& [of, estimate] : links_) {
    for (const auto& [name, near] : kClasses) {
      if (near == of.second) lines += fmt::format("link {} {} {} {}\n", of.first, name, estimate.alpha, estimate.beta);
    }
  }
  if (fold_) lines += fmt::format("fold {}\n", *fold_);
  if (hand_over_) lines += fmt::format("hand_over {}\n", *hand_over_);
  if (ring_share_) lines += fmt::format("ring_share {}\n", *ring_share_);
  for (const Use& use : uses_) {
    lines += fmt::format("use {} {} {} {} {}\n", name_of(use.collective), use.ranks, use.from, use.to, use.algorithm);
  }
  return lines.empty() ? lines : fmt::format("{}\n{}", kHeader, lines);
}

std::string Tuning::digest() const {
  const std::string said = text();
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : said) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return said.empty() ? said : fmt::format("{:016x}", hash);
}

}  // namespace tutti
