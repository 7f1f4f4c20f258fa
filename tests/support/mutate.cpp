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
    constexpr std::size_t kinds = 16, sizings = 16;
    const std::size_t kind = below(schedule_.plan.problem.irregular ? kinds + sizings : kinds);
    const char* what = kind < kinds ? change(kind) : resize(kind - kinds);
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

  /// Changes what sizes the step, and perhaps only that.
  const char* resize(std::size_t kind) {
    switch (kind) {
      case 0:
        return whole_step("another block of input and output", [this](Operand& operand) {
          if (operand.place != Place::scratch) operand.range.block = block_of(operand.place);
        });
      case 1: {
        const std::uint32_t blocks = 1 + small(static_cast<std::uint32_t>(schedule_.plan.problem.ranks));
        return whole_step("another number of blocks", [=](Operand& operand) { operand.range.blocks = blocks; });
      }
      case 2: {
        const Range parts = some_chunks();
        return whole_step("other chunks for all operands", [=](Operand& operand) {
          operand.range.chunk = parts.chunk;
          operand.range.chunks = parts.chunks;
        });
      }
      case 3:
        return spread();
      case 4:
        return exchange();
      case 5:
        return turn_destinations();
      case 6:
      case 7:
        return further_destination();
      case 8:
      case 9:
        return further_copy();
      case 10:
      case 11:
        return further_message();
      case 12:
        return park();
      case 13:
        return overwrite();
      default:
        return carry();
    }
  }

  std::uint32_t blocks_in(Place place, std::size_t rank) const {
    if (place == Place::scratch) return schedule_.plan.shape.scratch_blocks;
    return blocks_of(schedule_.plan.problem, static_cast<Buffer>(place), static_cast<int>(rank));
  }
  std::uint32_t block_of(Place place) { return small(blocks_in(place, rank_)); }
  Range some_chunks() {
    const std::uint32_t chunks = schedule_.plan.shape.chunks, first = small(chunks);
    return {.chunk = first, .chunks = 1 + small(chunks - first)};
  }

  template <typename Change>
  const char* whole_step(const char* what, Change change_operand) {
    bool changed = false;
    for (auto* list : {&draft().sources, &draft().destinations}) {
      for (Operand& operand : *list) {
        const Range before = operand.range;
        change_operand(operand);
        changed = changed || !(operand.range == before);
      }
    }
    return changed ? what : nullptr;
  }
  const char* spread() {
    Range& range = any_operand().range;
    if (range.blocks == 1) return nullptr;
    range.run = 1 + small(range.blocks);
    range.stride = small(static_cast<std::uint32_t>(schedule_.plan.problem.ranks));
    return "another spread of an operand's blocks";
  }
  const char* exchange() {
    Operand& one = any_operand();
    Draft& other = lane()[below(lane().size())];
    for (auto* list : {&other.sources, &other.destinations}) {
      for (Operand& operand : *list) {
        if (operand.place != one.place || operand.place == Place::link || operand.range.block == one.range.block) continue;
        std::swap(operand.range.block, one.range.block);
        return "two operands' blocks exchanged";
      }
    }
    return nullptr;
  }
  /// Somewhere in a buffer; the other operands of a step have the same chunks.
  Operand some_block(Place place, const Range& like, std::size_t rank) {
    Operand operand;
    operand.place = place;
    operand.range = like;
    operand.range.block = small(blocks_in(place, rank));
    return operand;
  }
  Operand some_block(Place place, const Range& like) { return some_block(place, like, rank_); }
  Operand some_source(const Range& like) {
    return some_block(std::array{Place::output, Place::scratch, Place::input}[below(3)], like);
  }
  Operand some_target(const Range& like) { return some_block(std::array{Place::output, Place::scratch}[below(2)], like); }
  static Draft move_of(const Operand& source, std::vector<Operand> destinations) {
    Draft draft;
    draft.id = UINT32_MAX;
    draft.sources = {source};
    draft.destinations = std::move(destinations);
    return draft;
  }

  const char* further_destination() {
    auto& list = draft().destinations;
    const Operand operand = some_target(draft().sources[0].range);
    list.insert(list.begin() + static_cast<std::ptrdiff_t>(below(list.size() + 1)), operand);
    return "a further destination";
  }
  const char* further_copy() {
    const Range range = some_chunks();
    insert({move_of(some_source(range), {some_target(range)})});
    return "a further copy";
  }
  /// Puts moves one behind the other somewhere in the lane, or at its end, where most of the output is written.
  void insert(const std::vector<Draft>& moves) {
    const std::size_t at = below(2) == 0 ? lane().size() : below(lane().size() + 1);
    lane().insert(lane().begin() + static_cast<std::ptrdiff_t>(at), moves.begin(), moves.end());
  }

  /// Chunks of two blocks of the output lie in one block of the scratch for a while.
  const char* park() {
    const Range some = some_chunks(), others = some_chunks();
    const Operand one = some_block(Place::output, some), other = some_block(Place::output, others);
    const Operand kept = some_block(Place::scratch, some);
    Operand beside = kept;
    beside.range.chunk = others.chunk;
    beside.range.chunks = others.chunks;
    insert({move_of(one, {kept}), move_of(other, {beside}), move_of(kept, {one}), move_of(beside, {other})});
    return "two blocks parked in the scratch";
  }
  /// Chunks of a block that lies in the scratch are another block's for a while.
  const char* overwrite() {
    const Range all{.chunks = schedule_.plan.shape.chunks}, part = some_chunks();
    const auto part_of = [&](Operand operand) {
      operand.range.chunk = part.chunk;
      operand.range.chunks = part.chunks;
      return operand;
    };
    const Operand one = some_block(Place::output, all), other = some_block(Place::output, part);
    const Operand kept = some_block(Place::scratch, all);
    insert({move_of(one, {kept}), move_of(other, {part_of(kept)}), move_of(part_of(one), {part_of(kept)}),
            move_of(kept, {one})});
    return "a block in the scratch overwritten for a while";
  }
  /// A block of the output goes from scratch to scratch, where the step is as long as another block. That one is kept.
  const char* carry() {
    const Range range = some_chunks();
    const Operand one = some_block(Place::output, range), other = some_block(Place::output, range);
    const Operand from = some_block(Place::scratch, range), to = some_block(Place::scratch, range);
    const Operand kept = some_block(Place::scratch, range);
    insert({move_of(one, {from}), move_of(other, {kept}), move_of(from, {to, other}), move_of(to, {one}),
            move_of(kept, {other})});
    return "a block carried with another's length";
  }

  struct At {
    std::size_t lane, step;
  };
  /// Steps that use a link, in the order of its messages.
  static std::vector<At> uses_of(const Lanes& lanes, std::size_t link) {
    const auto is_it = [=](const Operand& operand) { return operand.place == Place::link && operand.link == link; };
    std::vector<At> uses;
    for (std::size_t l = 0; l < lanes.size(); ++l) {
      for (std::size_t s = 0; s < lanes[l].size(); ++s) {
        const Draft& draft = lanes[l][s];
        if (std::ranges::any_of(draft.sources, is_it) || std::ranges::any_of(draft.destinations, is_it))
          uses.push_back({l, s});
      }
    }
    return uses;
  }
  static void insert(Lanes& lanes, At at, const Draft& draft) {
    lanes[at.lane].insert(lanes[at.lane].begin() + static_cast<std::ptrdiff_t>(at.step), draft);
  }
  /// A message before another one of a link, at both ends. Often it lands where that other one will.
  const char* further_message() {
    if (links_.empty()) return nullptr;
    const std::size_t l = below(links_.size());
    const auto peer = static_cast<std::size_t>(links_[l].peer);
    if (!links_[l].sends || peer == rank_ || peer >= schedule_.programs.size()) return nullptr;
    Program& theirs = schedule_.programs[peer];
    const auto other = std::ranges::find(theirs.links, Link{static_cast<std::int32_t>(rank_), links_[l].channel, false});
    if (other == theirs.links.end()) return nullptr;
    const auto other_link = static_cast<std::size_t>(other - theirs.links.begin());
    Lanes their_lanes = open(theirs);
    const std::vector<At> sent = uses_of(lanes_, l), taken = uses_of(their_lanes, other_link);
    const std::size_t messages = std::min(sent.size(), taken.size());
    if (messages == 0) return nullptr;
    const std::size_t m = below(messages);
    const Draft& next = their_lanes[taken[m].lane][taken[m].step];
    const Range range =
        below(2) == 0 ? some_chunks() : Range{.chunk = next.sources[0].range.chunk, .chunks = next.sources[0].range.chunks};
    Operand target = some_block(Place::output, range, peer);
    if (below(2) == 0) target.range.block = next.destinations[0].range.block;
    Operand out, in;
    out.place = in.place = Place::link;
    out.range = in.range = range;
    out.link = static_cast<std::uint32_t>(l);
    in.link = static_cast<std::uint32_t>(other_link);
    insert(lanes_, sent[m], move_of(some_source(range), {out}));
    insert(their_lanes, taken[m], move_of(in, {target}));
    theirs = close(their_lanes, theirs.links);
    return "a further message";
  }

  const char* turn_destinations() {
    auto& list = draft().destinations;
    if (list.size() == 1) return nullptr;
    std::rotate(list.begin(), list.begin() + 1, list.end());
    return "destinations in another order";
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
