#include "src/schedule/msccl_programs.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <utility>

#include "src/schedule/cells.h"

namespace tutti::msccl {
namespace {

/// Cells of a message at most, so that a slot of 256 KiB takes one of any element format.
constexpr std::uint32_t most_cells_together = 256;

/// Where a chunk of data lies in a program's memory. Its chunk is the data's.
struct Home {
  tutti::Place place = tutti::Place::scratch;
  std::uint32_t block = 0;
};

/// Homes of one rank.
class Homes {
 public:
  Homes(const Flow& flow, std::size_t rank, bool stage) : flow_(flow), locations_(flow.locations[rank]) {
    for (const auto& block : flow.actions[rank]) {
      for (const FlowAction& action : block) {
        if (!writes_destination(action.type)) continue;
        for (const FlowCell& cell : action.cells) {
          if (!natural(cell.destination)) parked_[{cell.destination.chunk, cell.destination.location}] = 0;
        }
      }
    }
    // Chunk by chunk, in the file's order: neighbours stay neighbours, so that they may travel together.
    std::map<std::uint32_t, std::uint32_t> next;
    for (auto& [key, block] : parked_) block = next[key.first]++;
    for (const auto& [chunk, count] : next) blocks_ = std::max(blocks_, count);
    staged_.assign(locations_.inputs() / flow.of_block, nothing);
    const Alias alias = in_place_alias(flow.problem, static_cast<int>(rank));
    for (std::uint32_t b = 0; stage && alias.any && b < staged_.size(); ++b) {
      if (alias.all || b == alias.input_block) staged_[b] = blocks_++;
    }
  }

  Home of(const Version& version) const {
    if (version.initial) {
      const std::uint32_t block = locations_.initial_chunk(version.location) / flow_.of_block;
      if (staged_[block] != nothing) return {tutti::Place::scratch, staged_[block]};
      return {tutti::Place::input, block};
    }
    if (natural(version)) return {tutti::Place::output, locations_.place(version.location).chunk / flow_.of_block};
    return {tutti::Place::scratch, parked_.at({version.chunk, version.location})};
  }
  /// The scratch block that holds a copy of each input block, `nothing` where none does.
  const std::vector<std::uint32_t>& staged() const { return staged_; }
  std::uint32_t blocks() const { return blocks_; }

 private:
  bool natural(const Version& version) const {
    const Place place = locations_.place(version.location);
    return locations_.is_output(place) && place.chunk % flow_.of_block == version.chunk;
  }

  const Flow& flow_;
  const Locations& locations_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> parked_;  ///< scratch block by (chunk, location)
  std::vector<std::uint32_t> staged_;
  std::uint32_t blocks_ = 0;
};

/// Chunks of an action that make one step: `blocks` times `length` of them from `first` on.
struct Group {
  std::uint32_t first = 0;
  std::uint32_t length = 1;
  std::uint32_t blocks = 1;
};

/// Cuts actions into steps. Both ends of a message, and whoever hands it on, are cut alike.
class Groups {
 public:
  Groups(const Flow& flow, const std::vector<Homes>& homes) : homes_(homes) {
    for (const auto& of_rank : flow.actions) {
      auto& first = first_.emplace_back();
      for (const auto& of_block : of_rank) {
        first.push_back(static_cast<std::uint32_t>(parent_.size()));
        parent_.resize(parent_.size() + of_block.size());
      }
    }
    std::iota(parent_.begin(), parent_.end(), 0u);
    for (const FlowTransfer& t : flow.transfers) {
      parent_[root(number(t.from, t.from_block, t.from_action))] = root(number(t.to, t.to_block, t.to_action));
    }
    std::map<std::uint32_t, std::vector<Member>> together;
    for (std::uint32_t r = 0; r < flow.actions.size(); ++r) {
      for (std::uint32_t b = 0; b < flow.actions[r].size(); ++b) {
        for (std::uint32_t a = 0; a < flow.actions[r][b].size(); ++a) {
          together[root(number(r, b, a))].push_back({&flow.actions[r][b][a], homes_of(r, flow.actions[r][b][a])});
        }
      }
    }
    for (const auto& [at, members] : together) groups_[at] = cut(members);
  }

  const std::vector<Group>& of(std::uint32_t rank, std::uint32_t block, std::uint32_t action) {
    return groups_.at(root(number(rank, block, action)));
  }

 private:
  struct Member {
    const FlowAction* action;
    std::vector<std::vector<Home>> homes;  ///< by operand in memory (sources, then the destination) and cell
  };

  std::uint32_t number(std::uint32_t rank, std::uint32_t block, std::uint32_t action) const {
    return first_[rank][block] + action;
  }
  std::uint32_t root(std::uint32_t at) {
    while (parent_[at] != at) at = parent_[at] = parent_[parent_[at]];
    return at;
  }

  std::vector<std::vector<Home>> homes_of(std::uint32_t rank, const FlowAction& action) const {
    const bool writes = writes_destination(action.type);
    std::vector<std::vector<Home>> out(action.sources.size() + (writes ? 1 : 0));
    for (const FlowCell& cell : action.cells) {
      for (std::size_t s = 0; s < cell.sources.size(); ++s) out[s].push_back(homes_[rank].of(cell.sources[s]));
      if (writes) out.back().push_back(homes_[rank].of(cell.destination));
    }
    return out;
  }

  /// Whether cell c is the next chunk of the very blocks that the cell before it is of, and is treated alike.
  static bool continues(const Member& member, std::uint32_t c) {
    const FlowCell& now = member.action->cells[c];
    const FlowCell& before = member.action->cells[c - 1];
    return now.chunk == before.chunk + 1 && alike(now, before) &&
           std::all_of(member.homes.begin(), member.homes.end(), [&](const std::vector<Home>& homes) {
             return homes[c].place == homes[c - 1].place && homes[c].block == homes[c - 1].block;
           });
  }
  static bool alike(const FlowCell& a, const FlowCell& b) { return a.complete == b.complete && a.order == b.order; }

  /// Whether the run at `next` is the same chunks as those of the group, in blocks as far on as each is from the one
  /// before.
  static bool extends(const Member& member, const Group& group, std::uint32_t next) {
    const std::uint32_t last = next - group.length;
    const FlowCell& now = member.action->cells[next];
    const FlowCell& before = member.action->cells[last];
    if (now.chunk != before.chunk || !alike(now, before)) return false;
    return std::all_of(member.homes.begin(), member.homes.end(), [&](const std::vector<Home>& homes) {
      if (homes[next].place != homes[last].place || homes[next].block <= homes[last].block) return false;
      return group.blocks == 1 ||
             homes[next].block - homes[last].block == homes[group.first + group.length].block - homes[group.first].block;
    });
  }

  static std::vector<Group> cut(const std::vector<Member>& members) {
    const std::uint32_t count = members[0].action->count;
    std::vector<Group> runs;
    for (std::uint32_t c = 0; c < count; ++c) {
      const bool joins = c != 0 && runs.back().length < most_cells_together &&
                         std::all_of(members.begin(), members.end(), [&](const Member& m) { return continues(m, c); });
      if (joins) {
        ++runs.back().length;
      } else {
        runs.push_back({c, 1, 1});
      }
    }
    std::vector<Group> groups;
    for (const Group& run : runs) {
      const bool joins = !groups.empty() && groups.back().length == run.length &&
                         (groups.back().blocks + 1) * run.length <= most_cells_together &&
                         std::all_of(members.begin(), members.end(),
                                     [&](const Member& m) { return extends(m, groups.back(), run.first); });
      if (joins) {
        ++groups.back().blocks;
      } else {
        groups.push_back(run);
      }
    }
    return groups;
  }

  const std::vector<Homes>& homes_;
  std::vector<std::vector<std::uint32_t>> first_;
  std::vector<std::uint32_t> parent_;  ///< actions that a message connects
  std::map<std::uint32_t, std::vector<Group>> groups_;
};

constexpr std::uint64_t at_the_end = UINT64_MAX;

/// A step that may still grow.
struct Draft {
  std::vector<Operand> sources;
  std::vector<Operand> destinations;
  std::vector<Dependency> waits;
  bool completes = false;
  std::uint64_t time = 0;  ///< 0: before all others; at_the_end: after them
  StepOrigin origin;
};

/// Waits for the latest of each other lane are enough.
void add_wait(Draft& draft, std::uint32_t own, std::uint32_t lane, std::uint32_t step) {
  if (lane == own) return;
  const auto same =
      std::find_if(draft.waits.begin(), draft.waits.end(), [&](const Dependency& d) { return d.lane == lane; });
  if (same == draft.waits.end()) {
    draft.waits.push_back({lane, step, 0});
  } else {
    same->step = std::max(same->step, step);
  }
}

/// One rank's program.
class Sketch {
 public:
  Sketch(const Flow& flow, std::uint32_t rank, const Homes& homes, Groups& groups, Care care)
      : flow_(flow), rank_(rank), homes_(homes), groups_(groups), care_(care), scratch_(homes.blocks()) {}

  /// lanes: of the plan; where input is staged, the last of them does that.
  void sketch(std::uint32_t lanes) {
    lanes_.resize(lanes);
    if (care_.stage) stage();
    find_ends();
    for (std::uint32_t b = 0; b < flow_.actions[rank_].size(); ++b) {
      for (std::uint32_t a = 0; a < flow_.actions[rank_][b].size(); ++a) add_action(b, a);
    }
    copy_the_rest();
    if (care_.stage) wait_for_stage();
    if (care_.keep) keep();
    guard();
  }

  std::uint32_t scratch() const { return scratch_; }
  std::uint32_t longest_message() const { return longest_message_; }

  Program finish(std::vector<StepOrigin>& origins) {
    Program program;
    program.links = std::move(links_);
    for (const std::vector<Draft>& lane : lanes_) {
      program.lanes.push_back({static_cast<std::uint32_t>(program.steps.size()), static_cast<std::uint32_t>(lane.size())});
      for (const Draft& draft : lane) {
        tutti::Step step;
        step.operands = static_cast<std::uint32_t>(program.operands.size());
        step.sources = static_cast<std::uint16_t>(draft.sources.size());
        step.destinations = static_cast<std::uint16_t>(draft.destinations.size());
        step.dependencies = static_cast<std::uint32_t>(program.dependencies.size());
        step.dependency_count = static_cast<std::uint16_t>(draft.waits.size());
        step.flags =
            static_cast<std::uint16_t>((draft.completes ? last_touch : 0) | (draft.sources.size() > 1 ? tutti::folds : 0));
        program.operands.insert(program.operands.end(), draft.sources.begin(), draft.sources.end());
        program.operands.insert(program.operands.end(), draft.destinations.begin(), draft.destinations.end());
        program.dependencies.insert(program.dependencies.end(), draft.waits.begin(), draft.waits.end());
        program.steps.push_back(step);
        origins.push_back(draft.origin);
      }
    }
    return program;
  }

 private:
  static Operand operand_of(tutti::Place place, const Range& range) {
    Operand operand;
    operand.place = place;
    operand.range = range;
    operand.sizing = place == tutti::Place::link ? Buffer::input : static_cast<Buffer>(place);
    return operand;
  }

  /// Copies every input block that is output in place.
  void stage() {
    const auto& staged = homes_.staged();
    for (std::uint32_t b = 0; b < staged.size(); ++b) {
      if (staged[b] == nothing) continue;
      Draft draft;
      draft.sources = {operand_of(tutti::Place::input, {.block = b, .chunks = flow_.of_block})};
      draft.destinations = {operand_of(tutti::Place::scratch, {.block = staged[b], .chunks = flow_.of_block})};
      stage_step_[staged[b]] = static_cast<std::uint32_t>(lanes_.back().size());
      lanes_.back().push_back(std::move(draft));
    }
  }

  /// The last step of each action in its lane.
  void find_ends() {
    for (std::uint32_t b = 0; b < flow_.actions[rank_].size(); ++b) {
      auto& ends = ends_.emplace_back();
      std::uint32_t steps = 0;
      for (std::uint32_t a = 0; a < flow_.actions[rank_][b].size(); ++a) {
        steps += static_cast<std::uint32_t>(groups_.of(rank_, b, a).size());
        ends.push_back(steps - 1);
      }
    }
  }

  void add_action(std::uint32_t block, std::uint32_t index) {
    const FlowAction& action = flow_.actions[rank_][block][index];
    bool first = true;
    for (const Group& group : groups_.of(rank_, block, index)) {
      Draft draft = draft_of(action, group);
      if (first) {
        for (const Wait& on : action.waits) add_wait(draft, block, on.block, ends_[on.block][on.action]);
      }
      first = false;
      lanes_[block].push_back(std::move(draft));
      lanes_[block].back().origin = {static_cast<std::int32_t>(block), action.first_step};
    }
  }

  Draft draft_of(const FlowAction& action, const Group& group) {
    const FlowCell& cell = action.cells[group.first];
    Draft draft;
    draft.completes = cell.complete;
    draft.time = action.time + 1;
    const std::uint32_t messages = action.received == nothing ? 0 : 1;
    std::vector<Operand> sources(messages + cell.sources.size());
    for (std::size_t s = 0; s < cell.sources.size(); ++s) {
      sources[messages + s] =
          memory(group, [&](std::uint32_t c) { return homes_.of(action.cells[c].sources[s]); }, cell.chunk);
    }
    if (writes_destination(action.type)) {
      draft.destinations.push_back(
          memory(group, [&](std::uint32_t c) { return homes_.of(action.cells[c].destination); }, cell.chunk));
    }
    const Operand& sized_by = cell.sources.empty() ? draft.destinations[0] : sources[messages];
    if (messages != 0) sources[0] = link(flow_.transfers[action.received], false, sized_by);
    for (const std::uint16_t o : cell.order) draft.sources.push_back(sources[o]);
    if (action.sent != nothing) draft.destinations.push_back(link(flow_.transfers[action.sent], true, sized_by));
    return draft;
  }

  template <typename HomeOf>
  static Operand memory(const Group& group, HomeOf home_of, std::uint32_t chunk) {
    const Home home = home_of(group.first);
    Range range{.block = home.block, .blocks = group.blocks, .chunk = chunk, .chunks = group.length};
    if (group.blocks > 1) range.stride = home_of(group.first + group.length).block - home.block;
    return operand_of(home.place, range);
  }

  Operand link(const FlowTransfer& transfer, bool sends, const Operand& sized_by) {
    const int peer = static_cast<int>(sends ? transfer.to : transfer.from);
    const Link wanted{peer, transfer.channel, sends};
    const auto found = std::find(links_.begin(), links_.end(), wanted);
    Operand operand = operand_of(tutti::Place::link, sized_by.range);
    operand.sizing = sized_by.sizing;
    operand.link = static_cast<std::uint32_t>(found - links_.begin());
    if (found == links_.end()) links_.push_back(wanted);
    longest_message_ = std::max(longest_message_, operand.range.blocks * operand.range.chunks);
    return operand;
  }

  /// Output that no step writes is what the input was.
  void copy_the_rest() {
    const std::vector<bool>& written = flow_.written[rank_];
    for (std::uint32_t chunk = 0; chunk < written.size(); ++chunk) {
      if (written[chunk]) continue;
      std::uint32_t end = chunk + 1;
      while (end < written.size() && !written[end] && end % flow_.of_block != 0) ++end;
      const std::uint32_t location = flow_.locations[rank_].number(Buffer::output, chunk);
      const Home home = homes_.of({location, chunk % flow_.of_block, true});
      Draft draft;
      Range range{.block = home.block, .chunk = chunk % flow_.of_block, .chunks = end - chunk};
      draft.sources = {operand_of(home.place, range)};
      range.block = chunk / flow_.of_block;
      draft.destinations = {operand_of(tutti::Place::output, range)};
      draft.time = at_the_end;
      lanes_[0].push_back(std::move(draft));
      chunk = end - 1;
    }
  }

  void wait_for_stage() {
    const auto last = static_cast<std::uint32_t>(lanes_.size() - 1);
    for (std::uint32_t l = 0; l < last; ++l) {
      for (Draft& draft : lanes_[l]) {
        for (const Operand& source : draft.sources) {
          if (source.place != tutti::Place::scratch) continue;
          for (std::uint32_t i = 0; i < source.range.blocks; ++i) {
            const auto staged = stage_step_.find(source.range.block_at(i, scratch_));
            if (staged != stage_step_.end()) add_wait(draft, l, last, staged->second);
          }
        }
      }
    }
  }

  Cells cells() const {
    Shape shape;
    shape.chunks = flow_.of_block;
    shape.scratch_blocks = scratch_;
    return Cells(flow_.problem, shape, static_cast<int>(rank_), true);
  }

  /// See Care::keep. Whoever reads the input in place may be overtaken by any writer, whenever the file has it write.
  void keep() {
    const Cells cells = this->cells();
    std::vector<std::uint64_t> last_write(cells.size());
    each_draft([&](std::uint32_t, std::uint32_t, Draft& draft) {
      for (const Operand& to : draft.destinations) {
        if (to.place == tutti::Place::link) continue;
        cells.each(to, [&](std::size_t cell) { last_write[cell] = std::max(last_write[cell], draft.time); });
      }
    });
    std::vector<std::uint32_t> next(flow_.of_block, scratch_);
    each_draft([&](std::uint32_t, std::uint32_t, Draft& draft) {
      const Operand& source = draft.sources[0];
      const bool only_sends = draft.sources.size() == 1 && source.place != tutti::Place::link &&
                              std::all_of(draft.destinations.begin(), draft.destinations.end(),
                                          [](const Operand& to) { return to.place == tutti::Place::link; });
      if (!only_sends) return;
      const std::uint64_t since = source.place == tutti::Place::input && care_.guard ? 0 : draft.time;
      bool overwritten = false;
      cells.each(source, [&](std::size_t cell) { overwritten = overwritten || last_write[cell] > since; });
      if (!overwritten) return;
      const auto begin = next.begin() + source.range.chunk;
      const std::uint32_t base = *std::max_element(begin, begin + source.range.chunks);
      std::fill_n(begin, source.range.chunks, base + source.range.blocks);
      scratch_ = std::max(scratch_, base + source.range.blocks);
      const Range kept{
          .block = base, .blocks = source.range.blocks, .chunk = source.range.chunk, .chunks = source.range.chunks};
      draft.destinations.push_back(operand_of(tutti::Place::scratch, kept));
    });
  }

  /// See Care::guard; copies at the end wait in any case, since the file knows nothing of them. Where a step reads in the
  /// same lane after the write nothing helps but staging.
  void guard() {
    const Cells cells = this->cells();
    std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> readers(cells.size());  // lane, its latest step
    each_draft([&](std::uint32_t lane, std::uint32_t step, Draft& draft) {
      for (const Operand& source : draft.sources) {
        if (source.place == tutti::Place::input) {
          cells.each(source, [&](std::size_t cell) {
            if (readers[cell].empty() || readers[cell].back().first != lane) readers[cell].emplace_back(lane, step);
            readers[cell].back().second = step;
          });
        }
      }
    });
    each_draft([&](std::uint32_t lane, std::uint32_t, Draft& draft) {
      if (!care_.guard && draft.time != at_the_end) return;
      for (const Operand& to : draft.destinations) {
        if (to.place != tutti::Place::output) continue;
        cells.each(to, [&](std::size_t cell) {
          for (const auto& [other, step] : readers[cell]) add_wait(draft, lane, other, step);
        });
      }
    });
  }

  template <typename Visit>
  void each_draft(Visit visit) {
    for (std::uint32_t l = 0; l < lanes_.size(); ++l) {
      for (std::uint32_t s = 0; s < lanes_[l].size(); ++s) visit(l, s, lanes_[l][s]);
    }
  }

  const Flow& flow_;
  const std::uint32_t rank_;
  const Homes& homes_;
  Groups& groups_;
  const Care care_;
  std::uint32_t scratch_;
  std::uint32_t longest_message_ = 1;
  std::vector<std::vector<Draft>> lanes_;
  std::vector<std::vector<std::uint32_t>> ends_;       ///< by thread block and action
  std::map<std::uint32_t, std::uint32_t> stage_step_;  ///< by scratch block: who fills it
  std::vector<Link> links_;
};

}  // namespace

Drawn draw(const Flow& flow, Care care) {
  const auto ranks = static_cast<std::uint32_t>(flow.actions.size());
  std::vector<Homes> homes;
  Drawn drawn;
  drawn.shape.chunks = flow.of_block;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    homes.emplace_back(flow, r, care.stage);
    drawn.shape.lanes = std::max(drawn.shape.lanes, static_cast<std::uint32_t>(flow.actions[r].size()));
  }
  if (care.stage) ++drawn.shape.lanes;
  Groups groups(flow, homes);
  for (std::uint32_t r = 0; r < ranks; ++r) {
    Sketch sketch(flow, r, homes[r], groups, care);
    sketch.sketch(drawn.shape.lanes);
    drawn.programs.push_back(sketch.finish(drawn.origins.emplace_back()));
    drawn.shape.scratch_blocks = std::max(drawn.shape.scratch_blocks, sketch.scratch());
    drawn.shape.message_cells = std::max(drawn.shape.message_cells, sketch.longest_message());
  }
  return drawn;
}

}  // namespace tutti::msccl
