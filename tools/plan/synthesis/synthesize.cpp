#include "tools/plan/synthesis/synthesize.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include "algorithms/algorithm.h"
#include "src/base/plural.h"
#include "src/executors/simulator/simulator.h"
#include "src/schedule/verifier.h"
#include "src/selection/select.h"
#include "src/tables/element_types.h"
#include "tools/plan/synthesis/linear_program.h"
#include "tools/plan/synthesis/schedule_of_trees.h"
#include "topology/search.h"
#include "topology/search_costs.h"

namespace tutti::synthesis {
namespace {

/// Bytes of a message: the library's links take the longest (link_slot_bytes). Shorter ones would win in the simulator,
/// where a message costs nothing but its latency.
constexpr std::array<std::uint64_t, 5> message_lengths = {256 << 10, 128 << 10, 64 << 10, 32 << 10, 16 << 10};
constexpr std::uint64_t usual_message = 64 << 10;
/// What a hop of a tree's height costs, see share_chunks.
constexpr std::array<double, 5> height_prices = {0, 0.02, 0.05, 0.2, 0.5};
/// Those that go on to be tried with all lengths of messages.
constexpr std::size_t finalists = 4;

/// Chunks to try. Few are few trees, which is best for few bytes; many follow the linear program's rates more closely; as
/// many for each rank, because machines are often as symmetrical.
std::set<std::uint32_t> chunk_counts(int ranks) {
  std::set<std::uint32_t> counts = {1, 2, 4, 8, 16, 24, 32, 48};
  for (const std::uint32_t times : {1u, 2u, 3u}) counts.insert(times * static_cast<std::uint32_t>(ranks));
  return counts;
}

/// A way to make a schedule, and how it did.
struct Draft {
  std::vector<TreeShare> trees;  ///< or
  std::vector<RingShare> rings;
  double rate = 0;  ///< bytes per second that links and processors allow; 0: not looked at
  std::uint64_t message = usual_message;
  double seconds = kNever;

  Schedule schedule(const Problem& problem) const {
    return trees.empty() ? schedule_of_rings(problem, rings, message) : schedule_of_trees(problem, trees, message);
  }
  Contender contender(const Problem& problem) const {
    const Schedule made = schedule(problem);
    const std::string kind = trees.empty()
                                 ? plural(static_cast<std::int64_t>(rings.size()), "ring")
                                 : fmt::format("{} of trees", plural(static_cast<std::int64_t>(trees.size()), "pair"));
    return {made.plan.algorithm,
            fmt::format("{}, {} chunks, messages up to {} KiB", kind, made.plan.shape.chunks, message / 1024), seconds};
  }
};

void by_seconds(std::vector<Draft>& drafts) {
  std::stable_sort(drafts.begin(), drafts.end(), [](const Draft& a, const Draft& b) { return a.seconds < b.seconds; });
}

/// Simulates on one network, with one view.
class Judge {
 public:
  Judge(const Network& network, const View& view) {
    config_.network = &network;
    config_.view = view;
    config_.credit = most_credit;
  }

  /// Seconds; infinite where a schedule does not come to a good end.
  double seconds(const Schedule& schedule) const {
    const SimulatorReport report = simulate(schedule.plan, schedule.programs, config_);
    return report.verdict == SimulatorReport::Verdict::completed ? report.seconds : kNever;
  }

  const View& view() const { return config_.view; }

 private:
  SimulatorConfig config_;
};

/// Lanes in proportion to rates, `lanes` of them if possible, by largest remainder; rings that get none are left out.
std::vector<RingShare> share_lanes(const std::vector<tutti::FoundRing>& rings, std::uint32_t lanes) {
  double sum = 0;
  for (const tutti::FoundRing& ring : rings) sum += ring.bytes_per_second;
  std::vector<std::pair<double, std::size_t>> remainders;
  std::vector<std::uint32_t> counts;
  std::uint32_t left = lanes;
  for (const tutti::FoundRing& ring : rings) {
    const double quota = lanes * ring.bytes_per_second / sum;
    counts.push_back(std::min(left, static_cast<std::uint32_t>(quota + 1e-9)));
    left -= counts.back();
    remainders.emplace_back(counts.back() - quota, counts.size() - 1);
  }
  std::stable_sort(remainders.begin(), remainders.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (std::size_t i = 0; i < remainders.size() && left > 0; ++i, --left) ++counts[remainders[i].second];
  std::vector<RingShare> shares;
  for (std::size_t r = 0; r < rings.size(); ++r) {
    if (counts[r] > 0) shares.push_back({rings[r].order, counts[r]});
  }
  return shares;
}

/// Trees of a packing in all numbers of chunks, and the shallowest there are.
void draft_trees(const Resources& resources, const TreePacking& packing, std::vector<Draft>& drafts) {
  const auto add = [&](std::vector<TreeShare> trees) {
    Draft draft;
    draft.rate = rate_of(resources, trees);
    draft.trees = std::move(trees);
    drafts.push_back(std::move(draft));
  };
  for (const std::uint32_t chunks : chunk_counts(resources.ranks())) {
    for (const double height_price : height_prices) add(share_chunks(resources, packing, chunks, height_price));
  }
  for (const std::uint32_t chunks_each : {1u, 2u, 4u}) add(shallow_shares(resources, chunks_each));
}

/// The search's rings, on as many lanes as there are rings, and on more.
void draft_rings(const Network& network, std::vector<Draft>& drafts) {
  constexpr std::uint32_t most_lanes = 16;
  const std::vector<tutti::FoundRing> rings = search_rings(network).rings;
  const auto count = static_cast<std::uint32_t>(rings.size());
  for (const std::uint32_t lanes : {1u, count, 2 * count, 8u}) {
    if (count == 0 || lanes > most_lanes) continue;
    Draft draft;
    draft.rings = share_lanes(rings, lanes);
    drafts.push_back(std::move(draft));
  }
}

/// Simulates drafts, those that promise most first and none that cannot win, then the best of them with other lengths of
/// messages. The best comes first.
void judge(const Judge& judge, const Problem& problem, std::vector<Draft>& drafts) {
  const double bytes = static_cast<double>(problem.count * element_bytes(problem.type));
  std::stable_sort(drafts.begin(), drafts.end(), [](const Draft& a, const Draft& b) { return a.rate > b.rate; });
  double best = kNever;
  for (Draft& draft : drafts) {
    if (draft.rate > 0 && bytes / draft.rate >= best) continue;
    draft.seconds = judge.seconds(draft.schedule(problem));
    best = std::min(best, draft.seconds);
  }
  by_seconds(drafts);
  const std::size_t count = std::min(finalists, drafts.size());
  for (std::size_t d = 0; d < count; ++d) {
    for (const std::uint64_t message : message_lengths) {
      if (message == usual_message) continue;
      Draft other = drafts[d];
      other.message = message;
      other.seconds = judge.seconds(other.schedule(problem));
      drafts.push_back(std::move(other));
    }
  }
  by_seconds(drafts);
}

Contender judge_named(const Judge& judge, const Problem& problem, const Candidate& candidate, std::uint64_t message) {
  Schedule schedule{make_plan(*candidate.algorithm, problem, judge.view(), candidate.parameters, message), {}};
  for (int rank = 0; rank < problem.ranks; ++rank) {
    schedule.programs.push_back(make_program(*candidate.algorithm, schedule.plan, judge.view(), rank));
  }
  return {candidate.algorithm->name,
          fmt::format("{}, {} chunks, messages up to {} KiB", plural(schedule.plan.shape.lanes, "lane"),
                      schedule.plan.shape.chunks, message / 1024),
          judge.seconds(schedule)};
}

/// The named algorithms, each with its best length of messages and number of lanes, quickest first.
std::vector<Contender> judge_named(const Judge& judge, const Problem& problem) {
  constexpr std::uint32_t own_choice = 0;
  std::vector<Contender> best;
  for (const std::uint32_t lanes : {own_choice, 2u, 4u}) {
    for (const Candidate& candidate : rank_algorithms(problem, judge.view(), lanes)) {
      for (const std::uint64_t message : message_lengths) {
        const Contender now = judge_named(judge, problem, candidate, message);
        const auto known = std::find_if(best.begin(), best.end(), [&](const Contender& c) { return c.name == now.name; });
        if (known == best.end()) {
          best.push_back(now);
        } else if (now.seconds < known->seconds) {
          *known = now;
        }
      }
    }
  }
  std::stable_sort(best.begin(), best.end(), [](const Contender& a, const Contender& b) { return a.seconds < b.seconds; });
  return best;
}

Status check(const Problem& problem) {
  if (!has_solver()) {
    return Status(TUTTI_UNSUPPORTED,
                  "this build has no solver of linear programs, which a synthesis needs; install Clp "
                  "(coinor-libclp-dev) and build again");
  }
  if (problem.ranks < 2 || problem.ranks > most_ranks) {
    return Status(TUTTI_INVALID_ARGUMENT,
                  fmt::format("a synthesis takes 2 to {} ranks, and not {}; give --ranks", most_ranks, problem.ranks));
  }
  if (problem.count == 0) return Status(TUTTI_INVALID_ARGUMENT, "there is nothing to be reduced; give --bytes above 0");
  return Status();
}

}  // namespace

Result<Synthesis> synthesize(const Network& network, const View& view, const Problem& problem) {
  if (Status status = check(problem); !status.ok()) return status;
  const std::vector<std::size_t> lengths = way_lengths(network, problem.ranks);
  if (lengths.empty()) {
    return Status(TUTTI_INVALID_ARGUMENT,
                  fmt::format("the first {} endpoints of the network do not all reach each other", problem.ranks));
  }
  const Judge simulation(network, view);
  Synthesis result;
  std::vector<Draft> trees;
  std::vector<Draft> rings;
  for (const std::size_t length : lengths) {
    const ListedNetwork near = nearby(network, problem.ranks, length);
    const Resources resources(near, view.gamma);
    const auto packing = pack_tree_pairs(resources);
    if (!packing) return Status(TUTTI_INTERNAL_ERROR, "the linear program of trees has no solution");
    result.bytes_per_second = std::max(result.bytes_per_second, packing->bytes_per_second);
    draft_trees(resources, *packing, trees);
    draft_rings(near, rings);
    if (length == lengths.back()) result.limit = any_algorithm_bound(resources);
  }
  judge(simulation, problem, trees);
  judge(simulation, problem, rings);
  const bool by_trees = rings.empty() || trees[0].seconds <= rings[0].seconds;
  const Draft& best = by_trees ? trees[0] : rings[0];
  result.schedule = best.schedule(problem);
  result.winner = best.contender(problem);
  result.made.push_back(result.winner);
  if (!rings.empty()) result.made.push_back((by_trees ? rings[0] : trees[0]).contender(problem));
  const Verdict verdict = verify(result.schedule.plan, result.schedule.programs);
  if (!verdict.proved()) return Status(TUTTI_INTERNAL_ERROR, "the schedule is not proved: " + verdict.fault.text());
  result.named = judge_named(simulation, problem);
  return result;
}

}  // namespace tutti::synthesis
