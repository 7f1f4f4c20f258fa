#include "tests/support/mutate.h"

#include <algorithm>
#include <array>
#include <vector>

namespace tutti::testing {
namespace {

/// A step with lists of its own. Dependencies name steps by `id`, so that they survive moves.
struct Draft {
  std::uint32_t id = 0;
  std::vector<Operand> sources;
  std::vector<Operand> destinations;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> after;  ///< id and distance
  bool completes = false;
};

using Lanes = std::vector<std::vector<Draft>>;

Lanes open(const Program& program) {
  Lanes lanes;
  for (const Lane& lane : program.lanes) {
    std::vector<Draft> drafts;
    for (std::uint32_t s = lane.first; s < lane.first + lane.count; ++s) {
      const Step& step = program.steps[s];
      const auto operands = program.operands.begin() + step.operands;
      Draft draft{s,
                  {operands, operands + step.sources},
                  {operands + step.sources, operands + step.sources + step.destinations},
                  {},
                  (step.flags & last_touch) != 0};
      for (std::uint32_t d = step.dependencies; d < step.dependencies + step.dependency_count; ++d) {
        const Dependency& on = program.dependencies[d];
        draft.after.emplace_back(program.lanes[on.lane].first + on.step, on.distance);
      }
      drafts.push_back(std::move(draft));
    }
    lanes.push_back(std::move(drafts));
  }
  return lanes;
}

Program close(const Lanes& lanes, const std::vector<Link>& links) {
  std::vector<std::pair<std::uint32_t, Dependency>> places;
  for (std::uint32_t l = 0; l < lanes.size(); ++l) {
    for (std::uint32_t s = 0; s < lanes[l].size(); ++s) places.push_back({lanes[l][s].id, {l, s, 0}});
  }
  Program program;
  program.links = links;
  for (const auto& lane : lanes) {
    program.lanes.push_back({static_cast<std::uint32_t>(program.steps.size()), static_cast<std::uint32_t>(lane.size())});
    for (const Draft& draft : lane) {
      Step step;
      step.operands = static_cast<std::uint32_t>(program.operands.size());
      step.sources = static_cast<std::uint16_t>(draft.sources.size());
      step.destinations = static_cast<std::uint16_t>(draft.destinations.size());
      step.dependencies = static_cast<std::uint32_t>(program.dependencies.size());
      step.flags = static_cast<std::uint16_t>((draft.completes ? last_touch : 0) | (draft.sources.size() > 1 ? folds : 0));
      program.operands.insert(program.operands.end(), draft.sources.begin(), draft.sources.end());
      program.operands.insert(program.operands.end(), draft.destinations.begin(), draft.destinations.end());
      for (const auto& [id, distance] : draft.after) {
        const auto found =
            std::find_if(places.begin(), places.end(), [wanted = id](const auto& place) { return place.first == wanted; });
        if (found == places.end()) continue;
        program.dependencies.push_back({found->second.lane, found->second.step, distance});
        ++step.dependency_count;
      }
      program.steps.push_back(step);
    }
  }
  return program;
}

/// One mutation under way.
class Mutation {
 public:
  Mutation(Schedule& schedule, std::mt19937_64& random) : schedule_(schedule), random_(random) {}

  std::string run() {
    rank_ = below(schedule_.programs.size());
    Program& program = schedule_.programs[rank_];
    if (program.steps.empty()) return {};
    lanes_ = open(program);
    links_ = program.links;
    do {
      lane_ = below(lanes_.size());
    } while (lanes_[lane_].empty());
    step_ = below(lanes_[lane_].size());
    const std::string where =
        "rank " + std::to_string(rank_) + ", lane " + std::to_string(lane_) + ", step " + std::to_string(step_);
    const char* what = change(below(16));
    if (what == nullptr) return {};
    program = close(lanes_, links_);
    return where + ": " + what;
  }

 private:
  std::size_t below(std::size_t limit) { return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_); }
  std::uint32_t small(std::uint32_t limit) { return static_cast<std::uint32_t>(below(std::max<std::uint32_t>(1, limit))); }
  std::vector<Draft>& lane() { return lanes_[lane_]; }
  Draft& draft() { return lane()[step_]; }

  const char* change(std::size_t kind) {
    switch (kind) {
      case 0:
        return drop();
      case 1:
        return twice();
      case 2:
        return shift(below(lane().size()));
      case 3:
        return shift(std::min(step_ + 1, lane().size() - 1));
      case 4:
        return other_lane();
      case 5:
        return chunk(true);
      case 6:
        return chunk(false);
      case 7:
        return block();
      case 8:
        return peer();
      case 9:
        return link();
      case 10:
        return buffer();
      case 11:
        return drop_operand(draft().sources, "a source dropped");
      case 12:
        return drop_operand(draft().destinations, "a destination dropped");
      case 13:
        return swap_sources();
      case 14:
        return draft().completes = !draft().completes, "last touch toggled";
      default:
        return dependency();
    }
  }

  const char* drop() {
    lane().erase(lane().begin() + static_cast<std::ptrdiff_t>(step_));
    return "dropped";
  }
  const char* twice() {
    Draft copy = draft();
    copy.id = UINT32_MAX;
    lane().insert(lane().begin() + static_cast<std::ptrdiff_t>(step_), std::move(copy));
    return "doubled";
  }
  const char* shift(std::size_t to) {
    if (to == step_) return nullptr;
    Draft moved = draft();
    lane().erase(lane().begin() + static_cast<std::ptrdiff_t>(step_));
    lane().insert(lane().begin() + static_cast<std::ptrdiff_t>(to), std::move(moved));
    return "moved";
  }
  const char* other_lane() {
    if (lanes_.size() == 1) return nullptr;
    const std::size_t to = (lane_ + 1 + below(lanes_.size() - 1)) % lanes_.size();
    Draft moved = draft();
    lane().erase(lane().begin() + static_cast<std::ptrdiff_t>(step_));
    lanes_[to].insert(lanes_[to].begin() + static_cast<std::ptrdiff_t>(below(lanes_[to].size() + 1)), std::move(moved));
    return "moved to another lane";
  }

  Operand& any_operand() {
    const std::size_t o = below(draft().sources.size() + draft().destinations.size());
    return o < draft().sources.size() ? draft().sources[o] : draft().destinations[o - draft().sources.size()];
  }

  const char* chunk(bool everywhere) {
    if (schedule_.plan.shape.chunks == 1) return nullptr;
    Operand& one = any_operand();
    const std::uint32_t first = small(schedule_.plan.shape.chunks);
    if (first == one.range.chunk) return nullptr;
    if (!everywhere) return one.range.chunk = first, "another chunk for one operand";
    for (auto* list : {&draft().sources, &draft().destinations}) {
      for (Operand& operand : *list) operand.range.chunk = first;
    }
    return "another chunk";
  }
  const char* block() {
    Operand& operand = any_operand();
    const std::uint32_t blocks =
        static_cast<std::uint32_t>(schedule_.plan.problem.ranks) + schedule_.plan.shape.scratch_blocks;
    const std::uint32_t first = small(blocks);
    if (operand.place == Place::link || first == operand.range.block) return nullptr;
    return operand.range.block = first, "another block";
  }
  const char* peer() {
    if (links_.empty()) return nullptr;
    Link& link = links_[below(links_.size())];
    const auto to = static_cast<std::int32_t>(small(static_cast<std::uint32_t>(schedule_.plan.problem.ranks)));
    if (to == link.peer) return nullptr;
    return link.peer = to, "another peer for a link";
  }
  const char* link() {
    Operand& operand = any_operand();
    if (operand.place != Place::link) return nullptr;
    const std::uint32_t other = small(static_cast<std::uint32_t>(links_.size()));
    if (other == operand.link || links_[other].sends != links_[operand.link].sends) return nullptr;
    return operand.link = other, "another link";
  }
  const char* buffer() {
    Operand& operand = any_operand();
    const Place place = std::array{Place::input, Place::output, Place::scratch}[below(3)];
    if (operand.place == Place::link || operand.place == place) return nullptr;
    return operand.place = place, "another buffer";
  }
  const char* drop_operand(std::vector<Operand>& list, const char* what) {
    if (list.size() == 1) return nullptr;
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(below(list.size())));
    return what;
  }
  const char* swap_sources() {
    auto& sources = draft().sources;
    if (sources.size() == 1) return nullptr;
    const std::size_t at = below(sources.size() - 1);
    std::swap(sources[at], sources[at + 1]);
    return "sources swapped";
  }
  const char* dependency() {
    auto& after = draft().after;
    if (after.empty()) return nullptr;
    const std::size_t at = below(after.size());
    if (below(2) == 0) return ++after[at].second, "a dependency on an earlier pass";
    after.erase(after.begin() + static_cast<std::ptrdiff_t>(at));
    return "a dependency dropped";
  }

  Schedule& schedule_;
  std::mt19937_64& random_;
  Lanes lanes_;
  std::vector<Link> links_;
  std::size_t rank_ = 0;
  std::size_t lane_ = 0;
  std::size_t step_ = 0;
};

}  // namespace

std::string mutate(Schedule& schedule, std::mt19937_64& random) {
  for (int catching = 0; catching < 100; ++catching) {
    std::string what = Mutation(schedule, random).run();
    if (!what.empty()) return what;
  }
  return {};
}

}  // namespace tutti::testing
