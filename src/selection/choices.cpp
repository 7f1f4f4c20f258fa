#include "src/selection/choices.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "src/selection/select.h"

namespace tutti {
namespace {

/// Above it the rounding of times decides between algorithms that differ in their messages alone.
constexpr std::uint64_t kLargest = std::uint64_t{1} << 56;

/// What is chosen for a size, by the registry's own entry.
struct Choice {
  std::uint64_t bytes = 0;
  const Algorithm* algorithm = nullptr;
};

/// A collective, and what selection takes for it.
class Chooser {
 public:
  Chooser(Collective collective, const View& view, const Tuning& tuning) : view_(view), tuning_(tuning) {
    // Costs and rows know bytes alone, which elements of one byte count. The root makes no difference to either.
    problem_.collective = collective;
    problem_.type = TUTTI_UINT8;
    problem_.ranks = view.ranks();
  }

  Choice at(std::uint64_t bytes) const {
    Problem problem = problem_;
    problem.count = problem.collective == Collective::barrier ? 1 : bytes;
    return {bytes, select(problem, view_, Overrides(), "", 0, tuning_)->algorithm};
  }

  /// Appends the sizes in (from, to] where the choice becomes another one. Costs are lines over these sizes: who is
  /// quickest at both ends is quickest in between.
  void divide(const Choice& from, const Choice& to, std::vector<Choice>& changes) const {
    if (from.algorithm == to.algorithm) return;
    if (to.bytes - from.bytes == 1) return changes.push_back(to);
    const Choice middle = at(from.bytes + (to.bytes - from.bytes) / 2);
    divide(from, middle, changes);
    divide(middle, to, changes);
  }

 private:
  const View& view_;
  const Tuning& tuning_;
  Problem problem_;
};

/// Sizes after which costs may bend: a grain more is filled, a window more is sent (algorithms/arithmetic.h; what is less
/// than one in so many bends no choice), a row of the table begins or ends, and powers of two for all else. In order.
std::vector<std::uint64_t> bends(const std::vector<TuningUse>& rows) {
  constexpr std::uint64_t so_many = 512;
  std::vector<std::uint64_t> ends;
  for (std::uint64_t bytes = 1; bytes <= kLargest; bytes *= 2) ends.push_back(bytes);
  for (const std::uint64_t unit : {std::uint64_t{128}, std::uint64_t{256 * 1024}}) {
    for (std::uint64_t n = 1; n <= so_many; ++n) ends.push_back(n * unit);
  }
  for (const TuningUse& row : rows) {
    if (row.from > 0) ends.push_back(row.from - 1);
    ends.push_back(row.to);
  }
  std::erase_if(ends, [](std::uint64_t bytes) { return bytes > kLargest; });
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  return ends;
}

std::vector<TuningUse> rows_of(Collective collective, const View& view, const Tuning& tuning) {
  const Chooser chooser(collective, view, tuning);
  std::vector<Choice> changes = {chooser.at(0)};
  std::uint64_t begin = 0;
  for (const std::uint64_t end : bends(tuning.uses(collective, view.ranks()))) {
    const Choice first = chooser.at(begin);
    if (first.algorithm != changes.back().algorithm) changes.push_back(first);
    chooser.divide(first, chooser.at(end), changes);
    begin = end + 1;
  }
  std::vector<TuningUse> rows;
  for (std::size_t c = 0; c < changes.size(); ++c) {
    const std::uint64_t to = c + 1 < changes.size() ? changes[c + 1].bytes - 1 : UINT64_MAX;
    rows.push_back({collective, view.ranks(), changes[c].bytes, to, changes[c].algorithm->name});
  }
  return rows;
}

}  // namespace

Tuning with_every_choice(const Tuning& tuning, const View& view, std::span<const Collective> wanted) {
  Tuning whole = tuning;
  whole.take_constants(view);
  for (const Collective collective : wanted) {
    whole.replace_uses(collective, view.ranks(), rows_of(collective, view, tuning));
  }
  return whole;
}

}  // namespace tutti
