#include "tools/plan/simulated_choices.h"

#include <cmath>
#include <map>
#include <optional>
#include <vector>

#include "algorithms/algorithm.h"
#include "src/selection/select.h"
#include "src/tables/element_types.h"

namespace tutti::plan_tool {
namespace {

constexpr std::uint64_t first = 64, last = std::uint64_t{64} << 20;
/// A change of the choice is looked for until the sizes about it differ by no more.
constexpr double close_enough = 1.1;
/// More bytes take longer, but for another number of lanes that an algorithm may take for them: so little longer at least.
/// A margin with nothing to derive it from; tests compare with what is found without it.
constexpr double least_growth = .8;

/// What is quickest at a size.
struct Choice {
  std::uint64_t bytes = 0;
  const Algorithm* algorithm = nullptr;
};

/// A collective on a network. Octaves are asked for in rising order, so that who was far too slow for less need not be
/// simulated again: on many ranks those are the ones that take most steps.
class Chooser {
 public:
  Chooser(Collective collective, const Simulation& simulation, std::uint64_t slot_bytes)
      : simulation_(simulation), slot_bytes_(slot_bytes) {
    problem_.collective = collective;
    problem_.type = collective == Collective::barrier ? TUTTI_UINT8 : TUTTI_FLOAT32;
    problem_.op = collective == Collective::barrier ? TUTTI_MAX : TUTTI_SUM;
    problem_.ranks = simulation.view.ranks();
  }

  Choice at(std::uint64_t bytes) {
    problem_.count = problem_.collective == Collective::barrier ? 1 : bytes / element_bytes(problem_.type);
    const std::vector<Candidate> candidates = rank_algorithms(problem_, simulation_.view, 0);
    Choice best{bytes, candidates[0].algorithm};
    std::optional<double> least;
    for (const Candidate& candidate : candidates) {
      const double bound = least_seconds(*candidate.algorithm, bytes);
      if (least && bound > *least) continue;
      const Plan plan = make_plan(*candidate.algorithm, problem_, simulation_.view, candidate.parameters, slot_bytes_);
      const auto seconds = simulated_seconds(*candidate.algorithm, plan, simulation_);
      if (!seconds) continue;
      simulated_[candidate.algorithm][bytes] = *seconds;
      if (least && *seconds >= *least) continue;
      least = seconds;
      best.algorithm = candidate.algorithm;
    }
    return best;
  }

  /// Appends the sizes in (from, to] from which on the choice is another one.
  void divide(const Choice& from, const Choice& to, std::vector<Choice>& changes) {
    if (from.algorithm == to.algorithm) return;
    const double ratio = static_cast<double>(to.bytes) / static_cast<double>(from.bytes);
    const auto middle = static_cast<std::uint64_t>(static_cast<double>(from.bytes) * std::sqrt(ratio)) / 4 * 4;
    if (ratio <= close_enough || middle <= from.bytes) return changes.push_back(to);
    const Choice between = at(middle);
    divide(from, between, changes);
    divide(between, to, changes);
  }

 private:
  /// What the algorithm takes for so many bytes at the least, by what it took for fewer.
  double least_seconds(const Algorithm& algorithm, std::uint64_t bytes) const {
    const auto known = simulated_.find(&algorithm);
    if (known == simulated_.end()) return 0;
    const auto above = known->second.upper_bound(bytes);
    return above == known->second.begin() ? 0 : least_growth * std::prev(above)->second;
  }

  const Simulation& simulation_;
  std::uint64_t slot_bytes_;
  Problem problem_;
  std::map<const Algorithm*, std::map<std::uint64_t, double>> simulated_;  ///< seconds, by bytes
};

std::vector<TuningUse> rows_of(Collective collective, const Simulation& simulation, std::uint64_t slot_bytes) {
  Chooser chooser(collective, simulation, slot_bytes);
  std::vector<Choice> changes = {chooser.at(first)};
  if (collective != Collective::barrier) {  // which has one size
    Choice from = changes[0];
    for (std::uint64_t bytes = 2 * first; bytes <= last; bytes *= 2) {
      const Choice to = chooser.at(bytes);
      chooser.divide(from, to, changes);
      from = to;
    }
  }
  changes[0].bytes = 0;
  std::vector<TuningUse> rows;
  for (std::size_t c = 0; c < changes.size(); ++c) {
    const std::uint64_t to = c + 1 < changes.size() ? changes[c + 1].bytes - 1 : UINT64_MAX;
    rows.push_back({collective, simulation.view.ranks(), changes[c].bytes, to, changes[c].algorithm->name});
  }
  return rows;
}

}  // namespace

Tuning with_simulated_choices(const Tuning& tuning, const Simulation& simulation, std::uint64_t slot_bytes,
                              std::span<const Collective> wanted) {
  Tuning whole = tuning;
  whole.take_constants(simulation.view);
  for (const Collective collective : wanted) {
    whole.replace_uses(collective, simulation.view.ranks(), rows_of(collective, simulation, slot_bytes));
  }
  return whole;
}

}  // namespace tutti::plan_tool
