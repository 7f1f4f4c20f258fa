#include "src/schedule/verifier.h"

#include <algorithm>
#include <deque>
#include <tuple>
#include <vector>

#include "src/schedule/cells.h"
#include "src/schedule/expressions.h"
#include "src/schedule/lengths.h"
#include "src/schedule/races.h"
#include "src/schedule/structure.h"

namespace tutti {
namespace {

constexpr std::uint32_t none = UINT32_MAX;

std::string on_channel(std::uint32_t channel) { return " on channel " + std::to_string(channel); }

/// One rank's memory, twice: as it is out of place, and in place. Cells hold expressions. Inputs that are no output block
/// in place are never written, so they are not kept.
class Memory {
 public:
  Memory(const Plan& plan, int rank, Expressions& expressions)
      : cells_(plan.problem, plan.shape, rank, true),
        expressions_(&expressions),
        rank_(static_cast<std::uint32_t>(rank)),
        local_operands_(plan.problem.local_operands),
        barrier_(plan.problem.collective == Collective::barrier),
        copy_size_((std::size_t{cells_.outputs()} + cells_.scratch()) * cells_.chunks()),
        values_{std::vector<Value>(copy_size_ * plan.shape.depth), std::vector<Value>(copy_size_ * plan.shape.depth)},
        holds_(copy_size_ * plan.shape.depth) {
    for (std::uint32_t copy = 0; copy < plan.shape.depth; ++copy) reset(copy);
  }

  const Cells& cells() const { return cells_; }

  /// Memory of a pass as it is when the pass begins.
  void reset(std::uint32_t copy) {
    for (auto& plane : values_) std::fill_n(plane.begin() + offset(copy), copy_size_, unwritten);
    for (std::uint32_t block = 0; block < cells_.inputs(); ++block) {
      const std::uint32_t alias = cells_.alias_of_input(block);
      if (alias == none) continue;
      std::fill_n(values_[1].begin() + offset(copy) + std::size_t{alias} * cells_.chunks(), cells_.chunks(), leaf(block));
    }
    if (!barrier_ || cells_.scratch() == 0) return;
    for (auto& plane : values_) std::fill_n(plane.begin() + offset(copy), cells_.chunks(), leaf(0));
  }

  /// Value of a chunk of a block. in_place: 0 or 1.
  Value read(Place place, std::uint32_t block, std::uint32_t chunk, std::uint32_t copy, int in_place) const {
    if (place == Place::input) {
      const std::uint32_t alias = in_place != 0 ? cells_.alias_of_input(block) : none;
      if (alias == none) return leaf(block);
      return values_[1][index(Place::output, alias, chunk, copy)];
    }
    return values_[static_cast<std::size_t>(in_place)][index(place, block, chunk, copy)];
  }
  void write(Place place, std::uint32_t block, std::uint32_t chunk, std::uint32_t copy, Value out, Value in) {
    const std::size_t at = index(place, block, chunk, copy);
    values_[0][at] = out;
    values_[1][at] = in;
  }

  /// Counts a message that is read out of `operand`'s memory in (+1) or out (-1).
  void hold(const Operand& operand, std::uint32_t copy, int change) {
    each_kept(operand, copy, [&](std::size_t at) {
      holds_[at] = static_cast<std::uint32_t>(static_cast<std::int64_t>(holds_[at]) + change);
      return true;
    });
  }
  bool held(const Operand& operand, std::uint32_t copy) const {
    bool any = false;
    each_kept(operand, copy, [&](std::size_t at) { return !(any = holds_[at] != 0); });
    return any;
  }

 private:
  /// An input block, as the call began. A rank's operands count as those of as many ranks.
  Value leaf(std::uint32_t block) const {
    return local_operands_ == 1 ? expressions_->leaf(rank_, block) : expressions_->leaf(rank_ * local_operands_ + block, 0);
  }
  std::ptrdiff_t offset(std::uint32_t copy) const { return static_cast<std::ptrdiff_t>(copy * copy_size_); }
  std::size_t index(Place place, std::uint32_t block, std::uint32_t chunk, std::uint32_t copy) const {
    const std::size_t kept = place == Place::output ? block : std::size_t{cells_.outputs()} + block;
    return copy * copy_size_ + kept * cells_.chunks() + chunk;
  }

  /// Visits cells that can be overwritten, until visit returns false.
  template <typename Visit>
  void each_kept(const Operand& operand, std::uint32_t copy, Visit visit) const {
    const std::uint32_t total = cells_.blocks(operand.place);
    for (std::uint32_t i = 0; i < operand.range.blocks; ++i) {
      std::uint32_t block = operand.range.block_at(i, total);
      if (operand.place == Place::input) block = cells_.alias_of_input(block);
      if (block == none) continue;
      const std::size_t first =
          index(operand.place == Place::scratch ? Place::scratch : Place::output, block, operand.range.chunk, copy);
      for (std::uint32_t c = 0; c < operand.range.chunks; ++c) {
        if (!visit(first + c)) return;
      }
    }
  }

  Cells cells_;
  Expressions* expressions_;
  std::uint32_t rank_;
  std::uint32_t local_operands_;
  bool barrier_;
  std::size_t copy_size_;
  std::vector<Value> values_[2];
  std::vector<std::uint32_t> holds_;
};

/// What a collective promises, cell by cell.
class Promise {
 public:
  Promise(const Plan& plan, Expressions& expressions) : plan_(plan), expressions_(expressions) {
    if (plan.problem.collective == Collective::all_reduce) agreed_.assign(plan.shape.chunks, unwritten);
  }

  /// Empty where `value` is what chunk `chunk` of output block `block` of `rank` has to be.
  std::string fault(std::uint32_t rank, std::uint32_t block, std::uint32_t chunk, Value value) {
    const Problem& problem = plan_.problem;
    if (value == unwritten) return "is never written";
    if (reduces(problem.collective)) {
      const std::uint32_t wanted = origin(rank, block).block;
      if (!expressions_.complete(value)) return "is " + expressions_.text(value) + ", which did not pass the last touch";
      if (expressions_.block(value) != wanted) return "is of block " + std::to_string(expressions_.block(value));
      if (problem.one_fold && !expressions_.is_one_fold(value))
        return "is " + expressions_.text(value) + ", which is no single fold in rank order";
      return agreed_.empty() ? std::string{} : agree(chunk, value);
    }
    const BlockOrigin from = origin(rank, block);
    const Value wanted = expressions_.leaf(static_cast<std::uint32_t>(from.rank), from.block);
    if (value == wanted) return {};
    return "is " + expressions_.text(value) + " instead of " + expressions_.text(wanted);
  }

  /// Takes the association of a promised cell into the plan's.
  void associate(std::uint32_t rank, std::uint32_t block, std::uint32_t chunk, Value value) {
    const std::uint64_t one = expressions_.association(value);
    if (first_ == 0) first_ = one;
    same_ = same_ && one == first_;
    for (const std::uint64_t part : {std::uint64_t{rank}, std::uint64_t{block}, std::uint64_t{chunk}, one}) {
      all_ = (all_ ^ part) * 0x9e3779b97f4a7c15u;
      all_ ^= all_ >> 29;
    }
    rank_order_ = rank_order_ && expressions_.in_rank_order(value);
  }
  /// Where all cells are folded alike the windows don't matter; otherwise they are part of it.
  std::uint64_t association() const {
    if (first_ == 0 || same_) return first_;
    return (all_ ^ plan_.window) * 0x9e3779b97f4a7c15u ^ (std::uint64_t{plan_.shape.chunks} << 32 | plan_.grain);
  }
  bool rank_order() const { return rank_order_; }

 private:
  std::string agree(std::uint32_t chunk, Value value) {
    if (agreed_[chunk] == unwritten) agreed_[chunk] = value;
    if (agreed_[chunk] == value) return {};
    return "is folded as " + expressions_.text(value) + ", elsewhere as " + expressions_.text(agreed_[chunk]) +
           ", so that ranks get different bits";
  }

  BlockOrigin origin(std::uint32_t rank, std::uint32_t block) const {
    const Problem& problem = plan_.problem;
    return info_of(problem.collective).origin(static_cast<int>(rank), problem.ranks, problem.root, block);
  }

  const Plan& plan_;
  Expressions& expressions_;
  std::vector<Value> agreed_;  ///< all_reduce: each chunk's expression, the same on all ranks
  std::uint64_t first_ = 0;
  std::uint64_t all_ = 0x243f6a8885a308d3u;
  bool same_ = true;
  bool rank_order_ = true;
};

/// A message under way. Its values are the same in place and out of place: that is checked when it is sent.
struct Message {
  Range range;
  const Operand* held = nullptr;  ///< memory of the sender that may be read until it is consumed
  std::uint32_t next = none;
  std::uint64_t pass = 0;
  std::uint32_t copy = 0;
  Value single = unwritten;
  std::vector<Value> many;

  Value at(std::size_t cell) const { return many.empty() ? single : many[cell]; }
};

/// One direction between two ranks, with what is under way.
struct Wire {
  int from = 0;
  int to = 0;
  std::uint32_t channel = 0;
  std::uint32_t sending_lane = none;
  std::uint32_t receiving_lane = none;
  std::uint32_t head = none;
  std::uint32_t tail = none;
  std::uint32_t count = 0;

  /// By receiver first: who folds from many looks at all of them, time and again.
  bool operator<(const Wire& other) const {
    return std::tie(to, from, channel) < std::tie(other.to, other.from, other.channel);
  }
};

/// Runs all ranks symbolically. Any fair order of the steps decides for all of them (docs/schedule.md), so each lane runs
/// until it is blocked, and is looked at again when what it waits for has changed.
class Run {
 public:
  Run(const Plan& plan, std::span<const Program> programs, std::uint64_t passes)
      : plan_(plan),
        programs_(programs),
        passes_(passes),
        expressions_(total_operands(plan.problem), leaf_blocks(plan.problem)),
        promise_(plan, expressions_) {}

  Fault prepare(const std::vector<std::vector<LinkUse>>& uses) {
    connect(uses);
    for (const Wire& wire : wires_) {
      if (wire.sending_lane == none && wire.receiving_lane != none) {
        return at(
            wire.to, wire.receiving_lane,
            "receives from rank " + std::to_string(wire.from) + on_channel(wire.channel) + ", which sends nothing there");
      }
      if (wire.receiving_lane == none && wire.sending_lane != none) {
        return at(wire.from, wire.sending_lane,
                  "sends to rank " + std::to_string(wire.to) + on_channel(wire.channel) + ", which receives nothing there");
      }
    }
    memory_.reserve(ranks());
    for (int rank = 0; rank < plan_.problem.ranks; ++rank) memory_.emplace_back(plan_, rank, expressions_);
    ranks_.resize(ranks());
    for (std::uint32_t r = 0; r < ranks(); ++r) {
      ranks_[r].lanes.resize(plan_.shape.lanes);
      for (std::uint32_t l = 0; l < plan_.shape.lanes; ++l) wake(r, l);
    }
    return {};
  }

  Fault go() {
    while (!queue_.empty() && !fault_.any()) {
      const auto [rank, lane] = queue_.front();
      queue_.pop_front();
      look_ahead();
      ranks_[rank].lanes[lane].queued = false;
      while (!fault_.any() && advance(rank, lane)) {
      }
    }
    if (!fault_.any()) check_end();
    return fault_;
  }

  std::uint64_t messages() const { return messages_; }
  const Promise& promise() const { return promise_; }

 private:
  enum class Wait : std::uint8_t { nothing, depth, dependency, arrival, credit, hold };
  struct LaneState {
    std::uint64_t pass = 0;
    std::uint32_t step = 0;
    std::uint32_t met = 0;  ///< conditions of the step that hold, in the order of `blocked`; they stay met
    std::uint32_t wire = none;
    Wait wait = Wait::nothing;
    bool queued = false;
  };
  struct RankState {
    std::vector<LaneState> lanes;
    std::uint64_t finished = 0;  ///< passes that all lanes have finished
    std::uint32_t ahead = 0;     ///< lanes that have finished one more
  };

  static std::uint32_t leaf_blocks(const Problem& problem) {
    std::uint32_t most = 1;
    for (int rank = 0; rank < problem.ranks; ++rank) most = std::max(most, blocks_of(problem, Buffer::input, rank));
    return most / problem.local_operands;
  }

  std::uint32_t ranks() const { return static_cast<std::uint32_t>(plan_.problem.ranks); }

  static Fault at(int rank, std::int64_t lane, std::string what) {
    Fault fault;
    fault.rank = rank;
    fault.lane = lane;
    fault.what = std::move(what);
    return fault;
  }

  /// Numbers the wires, those of one receiver together and in order, and finds each program's.
  void connect(const std::vector<std::vector<LinkUse>>& uses) {
    std::vector<std::vector<Wire>> by_receiver(ranks());
    each_link([&](std::uint32_t, std::uint32_t, const Link&, const Wire& wire) {
      by_receiver[static_cast<std::size_t>(wire.to)].push_back(wire);
    });
    const auto same = [](const Wire& a, const Wire& b) { return !(a < b) && !(b < a); };
    std::vector<std::ptrdiff_t> first{0};
    for (std::vector<Wire>& wires : by_receiver) {
      std::sort(wires.begin(), wires.end());
      wires.erase(std::unique(wires.begin(), wires.end(), same), wires.end());
      wires_.insert(wires_.end(), wires.begin(), wires.end());
      first.push_back(static_cast<std::ptrdiff_t>(wires_.size()));
      wires = {};
    }
    wire_of_link_.resize(ranks());
    each_link([&](std::uint32_t rank, std::uint32_t l, const Link& link, const Wire& wire) {
      const auto to = static_cast<std::size_t>(wire.to);
      const auto found = std::lower_bound(wires_.begin() + first[to], wires_.begin() + first[to + 1], wire);
      wire_of_link_[rank].push_back(static_cast<std::uint32_t>(found - wires_.begin()));
      (link.sends ? found->sending_lane : found->receiving_lane) = uses[rank][l].lane;
    });
  }

  template <typename Visit>
  void each_link(Visit visit) const {
    for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
      const std::vector<Link>& links = programs_[rank].links;
      for (std::uint32_t l = 0; l < links.size(); ++l) {
        const int own = static_cast<int>(rank);
        const int peer = links[l].peer;
        visit(rank, l, links[l], Wire{links[l].sends ? own : peer, links[l].sends ? peer : own, links[l].channel});
      }
    }
  }

  void wake(std::uint32_t rank, std::uint32_t lane) {
    LaneState& state = ranks_[rank].lanes[lane];
    if (state.queued) return;
    state.queued = true;
    queue_.emplace_back(rank, lane);
  }

  void wake_waiting(std::uint32_t rank, Wait what) {
    for (std::uint32_t l = 0; l < ranks_[rank].lanes.size(); ++l) {
      if (ranks_[rank].lanes[l].wait == what) wake(rank, l);
    }
  }

  const Step& step_of(std::uint32_t rank, std::uint32_t lane, std::uint32_t step) const {
    return programs_[rank].steps[programs_[rank].lanes[lane].first + step];
  }

  std::uint32_t wire_of(std::uint32_t rank, const Operand& operand) const { return wire_of_link_[rank][operand.link]; }

  /// Asks for the steps that are looked at soon: with many ranks each is in another corner of memory, and fetching them is
  /// most of the work.
  void look_ahead() const {
    constexpr std::size_t far = 16;
    constexpr std::size_t near = 8;
    if (queue_.size() > far) {
      if (const Step* step = next_step(queue_[far])) __builtin_prefetch(step);
    }
    if (queue_.size() > near) {
      const Step* step = next_step(queue_[near]);
      if (step == nullptr) return;
      const Operand* operands = &programs_[queue_[near].first].operands[step->operands];
      __builtin_prefetch(operands);
      __builtin_prefetch(operands + 2);
    }
  }

  const Step* next_step(const std::pair<std::uint32_t, std::uint32_t>& at) const {
    const Lane& lane = programs_[at.first].lanes[at.second];
    return lane.count == 0 ? nullptr : &programs_[at.first].steps[lane.first + ranks_[at.first].lanes[at.second].step];
  }

  /// Takes one step of a lane, or says why not by its `wait`.
  bool advance(std::uint32_t rank, std::uint32_t lane) {
    LaneState& state = ranks_[rank].lanes[lane];
    const std::uint32_t count = programs_[rank].lanes[lane].count;
    if (state.pass == passes_) return false;
    if (count != 0) {
      const Step& step = step_of(rank, lane, state.step);
      state.wait = blocked(rank, state, step);
      if (state.wait != Wait::nothing) return false;
      execute(rank, lane, step);
    } else if (!may_begin(rank, state)) {
      state.wait = Wait::depth;
      return false;
    }
    state.met = 0;
    if (count == 0 || ++state.step == count) {
      state.step = 0;
      if (state.pass++ == ranks_[rank].finished) finish_pass(rank);
    }
    // Nobody waits for a lane that has no steps.
    if (count != 0 && ranks_[rank].lanes.size() > 1) wake_waiting(rank, Wait::dependency);
    return true;
  }

  bool may_begin(std::uint32_t rank, const LaneState& state) const {
    return state.pass < ranks_[rank].finished + plan_.shape.depth;
  }

  bool retired(std::uint32_t rank, const Dependency& on, std::uint64_t pass) const {
    if (on.distance > pass) return true;
    const LaneState& other = ranks_[rank].lanes[on.lane];
    return other.pass > pass - on.distance || (other.pass == pass - on.distance && other.step > on.step);
  }

  /// What the step waits for. Conditions that once hold keep holding, so they are not looked at again.
  Wait blocked(std::uint32_t rank, LaneState& state, const Step& step) {
    const Program& program = programs_[rank];
    if (state.met == 0) {
      if (state.step == 0 && !may_begin(rank, state)) return Wait::depth;
      state.met = 1;
    }
    for (; state.met <= step.dependency_count; ++state.met) {
      if (!retired(rank, program.dependencies[step.dependencies + state.met - 1], state.pass)) return Wait::dependency;
    }
    const std::uint32_t operands = std::uint32_t{step.sources} + step.destinations;
    for (; state.met - 1 - step.dependency_count < operands; ++state.met) {
      const std::uint32_t index = state.met - 1 - step.dependency_count;
      const Operand& operand = program.operands[step.operands + index];
      const bool source = index < step.sources;
      if (operand.place == Place::link) {
        state.wire = wire_of(rank, operand);
        if (source && wires_[state.wire].count == 0) return Wait::arrival;
        if (!source && wires_[state.wire].count >= plan_.shape.credit) return Wait::credit;
      } else if (!source && memory_[rank].held(operand, copy_of(state.pass))) {
        return Wait::hold;
      }
    }
    return Wait::nothing;
  }

  std::uint32_t copy_of(std::uint64_t pass) const { return static_cast<std::uint32_t>(pass % plan_.shape.depth); }

  bool refuse(std::uint32_t rank, std::uint32_t lane, std::string what) {
    const LaneState& state = ranks_[rank].lanes[lane];
    fault_.rank = static_cast<int>(rank);
    fault_.lane = lane;
    fault_.step = state.step;
    fault_.pass = static_cast<std::int64_t>(state.pass);
    fault_.what = std::move(what);
    return false;
  }

  void execute(std::uint32_t rank, std::uint32_t lane, const Step& step) {
    const Operand* operands = &programs_[rank].operands[step.operands];
    const std::uint64_t pass = ranks_[rank].lanes[lane].pass;
    if (!check_messages(rank, lane, step, pass)) return;
    if (!compute(rank, lane, step)) return;
    for (std::uint32_t o = 0; o < step.sources; ++o) {
      if (operands[o].place == Place::link) consume(wire_of(rank, operands[o]));
    }
    const Operand* held = offered(step, operands);
    for (std::uint32_t o = step.sources; o < std::uint32_t{step.sources} + step.destinations; ++o) {
      if (operands[o].place == Place::link) send(rank, operands[o], held, pass);
    }
  }

  bool check_messages(std::uint32_t rank, std::uint32_t lane, const Step& step, std::uint64_t pass) {
    for (std::uint32_t o = step.operands; o < step.operands + step.sources; ++o) {
      const Operand& operand = programs_[rank].operands[o];
      if (operand.place != Place::link) continue;
      const Wire& wire = wires_[wire_of(rank, operand)];
      const Message& message = messages_in_flight_[wire.head];
      const Range& sent = message.range;
      const Range& taken = operand.range;
      if (message.pass == pass && sent.blocks == taken.blocks && sent.chunk == taken.chunk && sent.chunks == taken.chunks)
        continue;
      const std::string from = "receives from rank " + std::to_string(wire.from) + on_channel(wire.channel);
      if (message.pass != pass) return refuse(rank, lane, from + " a message of pass " + std::to_string(message.pass));
      return refuse(rank, lane, from + " " + describe(taken) + ", but " + describe(sent) + " were sent");
    }
    return true;
  }

  static std::string describe(const Range& range) {
    const std::string chunks = range.chunks == 1 ? "chunk " + std::to_string(range.chunk)
                                                 : "chunks " + std::to_string(range.chunk) + " to " +
                                                       std::to_string(range.chunk + range.chunks - 1);
    return chunks + " of " + std::to_string(range.blocks) + (range.blocks == 1 ? " block" : " blocks");
  }

  /// Finds the step's results, cell by cell, and writes those that stay in memory. results_ has them for the messages.
  bool compute(std::uint32_t rank, std::uint32_t lane, const Step& step) {
    const Operand* operands = &programs_[rank].operands[step.operands];
    const Range& shape = operands[0].range;
    const std::uint32_t copy = copy_of(ranks_[rank].lanes[lane].pass);
    const std::uint32_t end = std::uint32_t{step.sources} + step.destinations;
    Memory& memory = memory_[rank];
    bool sends = false;
    for (std::uint32_t o = step.sources; o < end; ++o) sends = sends || operands[o].place == Place::link;
    results_.clear();
    for (std::uint32_t i = 0; i < shape.blocks; ++i) {
      for (std::uint32_t c = 0; c < shape.chunks; ++c) {
        gather(rank, step, i, c, copy);
        const Value out = result(rank, lane, step, gathered_[0], " out of place");
        const Value in = gathered_[1] == gathered_[0] ? out : result(rank, lane, step, gathered_[1], " in place");
        if (fault_.any()) return false;
        if (sends && out != in) {
          return refuse(rank, lane, "sends " + expressions_.text(out) + ", but in place " + expressions_.text(in));
        }
        for (std::uint32_t o = step.sources; o < end; ++o) {
          if (operands[o].place == Place::link) continue;
          const std::uint32_t block = operands[o].range.block_at(i, memory.cells().blocks(operands[o].place));
          memory.write(operands[o].place, block, operands[o].range.chunk + c, copy, out, in);
        }
        if (sends) results_.push_back(out);
      }
    }
    return true;
  }

  /// The sources' values of one cell, out of place and in place.
  void gather(std::uint32_t rank, const Step& step, std::uint32_t i, std::uint32_t c, std::uint32_t copy) {
    const Memory& memory = memory_[rank];
    for (auto& plane : gathered_) plane.clear();
    for (std::uint32_t o = step.operands; o < step.operands + step.sources; ++o) {
      const Operand& operand = programs_[rank].operands[o];
      for (int plane = 0; plane < 2; ++plane) {
        if (operand.place == Place::link) {
          const Message& message = messages_in_flight_[wires_[wire_of(rank, operand)].head];
          gathered_[plane].push_back(message.at(std::size_t{i} * operand.range.chunks + c));
        } else {
          const std::uint32_t block = operand.range.block_at(i, memory.cells().blocks(operand.place));
          gathered_[plane].push_back(memory.read(operand.place, block, operand.range.chunk + c, copy, plane));
        }
      }
    }
  }

  Value result(std::uint32_t rank, std::uint32_t lane, const Step& step, const std::vector<Value>& operands,
               const char* where) {
    const bool completes = (step.flags & last_touch) != 0;
    const auto wrong = [&](const std::string& what) {
      refuse(rank, lane, what + where);
      return unwritten;
    };
    if (std::find(operands.begin(), operands.end(), unwritten) != operands.end())
      return wrong("reads memory that nobody wrote");
    if (operands.size() == 1 && !completes) return operands[0];
    for (const Value operand : operands) {
      if (expressions_.complete(operand))
        return wrong("folds " + expressions_.text(operand) + ", which is complete already");
    }
    const Value value = expressions_.fold(operands, completes);
    if (!completes) {
      const bool counts = reduces(plan_.problem.collective);
      if (counts && expressions_.shares(value) > total_operands(plan_.problem))
        return wrong("folds a rank's share twice, as " + expressions_.text(value));
      return value;
    }
    if (value <= proved_) return value;
    const std::string fault = expressions_.shares_fault(value);
    if (!fault.empty()) return wrong("completes " + expressions_.text(operands[0]) + " …, which " + fault);
    if (expressions_.block(value) == UINT32_MAX) return wrong("completes a fold of different blocks");
    proved_ = value;
    return value;
  }

  void consume(std::uint32_t index) {
    Wire& wire = wires_[index];
    const std::uint32_t taken = wire.head;
    Message& message = messages_in_flight_[taken];
    wire.head = message.next;
    if (--wire.count == 0) wire.tail = none;
    const std::uint32_t sender = static_cast<std::uint32_t>(wire.from);
    if (message.held != nullptr) {
      memory_[sender].hold(*message.held, message.copy, -1);
      wake_waiting(sender, Wait::hold);
    }
    free_messages_.push_back(taken);
    const LaneState& lane = ranks_[sender].lanes[wire.sending_lane];
    if (lane.wait == Wait::credit && lane.wire == index) wake(sender, wire.sending_lane);
  }

  void send(std::uint32_t rank, const Operand& operand, const Operand* held, std::uint64_t pass) {
    if (free_messages_.empty()) {
      free_messages_.push_back(static_cast<std::uint32_t>(messages_in_flight_.size()));
      messages_in_flight_.emplace_back();
    }
    const std::uint32_t number = free_messages_.back();
    free_messages_.pop_back();
    Message& message = messages_in_flight_[number];
    message.range = operand.range;
    message.held = held;
    message.next = none;
    message.pass = pass;
    message.copy = copy_of(pass);
    message.single = results_[0];
    message.many.clear();
    if (results_.size() > 1) message.many = results_;
    if (held != nullptr) memory_[rank].hold(*held, message.copy, 1);
    const std::uint32_t index = wire_of(rank, operand);
    Wire& wire = wires_[index];
    (wire.tail == none ? wire.head : messages_in_flight_[wire.tail].next) = number;
    wire.tail = number;
    ++wire.count;
    if (pass == 0) ++messages_;
    const std::uint32_t receiver = static_cast<std::uint32_t>(wire.to);
    const LaneState& lane = ranks_[receiver].lanes[wire.receiving_lane];
    if (lane.wait == Wait::arrival && lane.wire == index) wake(receiver, wire.receiving_lane);
  }

  /// A lane has finished the first pass that some have not. Checks the outputs of passes that all have.
  void finish_pass(std::uint32_t rank) {
    RankState& state = ranks_[rank];
    if (++state.ahead < state.lanes.size()) return;
    std::uint64_t finished = passes_;
    for (const LaneState& lane : state.lanes) finished = std::min(finished, lane.pass);
    for (; state.finished < finished && !fault_.any(); ++state.finished) {
      check_outputs(rank, state.finished);
      memory_[rank].reset(copy_of(state.finished));
    }
    state.ahead = static_cast<std::uint32_t>(std::count_if(
        state.lanes.begin(), state.lanes.end(), [&](const LaneState& lane) { return lane.pass > state.finished; }));
    wake_waiting(rank, Wait::depth);
  }

  void check_outputs(std::uint32_t rank, std::uint64_t pass) {
    const Memory& memory = memory_[rank];
    const bool barrier = plan_.problem.collective == Collective::barrier;
    const Place place = barrier ? Place::scratch : Place::output;
    const std::uint32_t blocks = barrier ? 1 : memory.cells().outputs();
    if (blocks > memory.cells().blocks(place)) return wrong_output(rank, pass, "has no scratch block for its token");
    for (std::uint32_t block = 0; block < blocks; ++block) {
      for (std::uint32_t chunk = 0; chunk < plan_.shape.chunks; ++chunk) {
        for (int plane = 0; plane < 2; ++plane) {
          const Value value = memory.read(place, block, chunk, copy_of(pass), plane);
          const std::string what = barrier ? expressions_.missing_fault(value) : promise_.fault(rank, block, chunk, value);
          if (!what.empty()) {
            wrong_output(rank, pass,
                         "ends with " + std::string(barrier ? "scratch" : "output") + " block " + std::to_string(block) +
                             ", chunk " + std::to_string(chunk) + " wrong" + (plane == 0 ? "" : " in place") + ": it " +
                             what);
            fault_.block = block;
            fault_.chunk = chunk;
            return;
          }
          if (plane == 0 && pass == 0 && reduces(plan_.problem.collective)) promise_.associate(rank, block, chunk, value);
        }
      }
    }
  }

  void wrong_output(std::uint32_t rank, std::uint64_t pass, std::string what) {
    fault_ = at(static_cast<int>(rank), -1, std::move(what));
    fault_.pass = static_cast<std::int64_t>(pass);
  }

  /// Nothing can move: all is done, or the earliest lane that is not is at fault.
  void check_end() {
    std::uint32_t worst_rank = none;
    std::uint32_t worst_lane = 0;
    std::uint64_t earliest = passes_;
    for (std::uint32_t r = 0; r < ranks(); ++r) {
      for (std::uint32_t l = 0; l < ranks_[r].lanes.size(); ++l) {
        if (ranks_[r].lanes[l].pass >= earliest) continue;
        earliest = ranks_[r].lanes[l].pass;
        worst_rank = r;
        worst_lane = l;
      }
    }
    if (worst_rank != none) {
      refuse(worst_rank, worst_lane, waiting(ranks_[worst_rank].lanes[worst_lane]));
      return;
    }
    for (const Wire& wire : wires_) {
      if (wire.count == 0) continue;
      fault_ = at(wire.to, wire.receiving_lane,
                  "does not receive the last message from rank " + std::to_string(wire.from) + on_channel(wire.channel));
      return;
    }
  }

  std::string waiting(const LaneState& lane) const {
    const std::string at_credit = " at credit " + std::to_string(plan_.shape.credit);
    const auto where = [&](int rank, std::uint32_t of) {
      const LaneState& other = ranks_[static_cast<std::size_t>(rank)].lanes[of];
      const std::string name = "its lane " + std::to_string(of);
      if (other.pass == passes_) return name + " has finished";
      return name + " stands at step " + std::to_string(other.step) + " of pass " + std::to_string(other.pass);
    };
    switch (lane.wait) {
      case Wait::arrival: {
        const Wire& wire = wires_[lane.wire];
        return "waits for ever for a message from rank " + std::to_string(wire.from) + on_channel(wire.channel) + " (" +
               where(wire.from, wire.sending_lane) + ")" + at_credit;
      }
      case Wait::credit: {
        const Wire& wire = wires_[lane.wire];
        return "waits for ever for room on the link to rank " + std::to_string(wire.to) + on_channel(wire.channel) + " (" +
               where(wire.to, wire.receiving_lane) + ")" + at_credit;
      }
      case Wait::dependency:
        return "waits for ever for a step of another lane that it depends on" + at_credit;
      case Wait::hold:
        return "waits for ever to overwrite memory that a message it offered is still read from" + at_credit;
      case Wait::depth:
        return "waits for ever for the lanes of its rank to finish an earlier pass" + at_credit;
      case Wait::nothing:
        break;
    }
    return "stops" + at_credit;
  }

  const Plan& plan_;
  std::span<const Program> programs_;
  std::uint64_t passes_;
  Expressions expressions_;
  Promise promise_;
  std::vector<Memory> memory_;
  std::vector<RankState> ranks_;
  std::vector<Wire> wires_;
  std::vector<std::vector<std::uint32_t>> wire_of_link_;  ///< per rank and link of its program
  std::deque<Message> messages_in_flight_;
  std::vector<std::uint32_t> free_messages_;
  std::deque<std::pair<std::uint32_t, std::uint32_t>> queue_;  ///< lanes to look at
  std::vector<Value> gathered_[2];
  std::vector<Value> results_;
  Value proved_ = unwritten;  ///< complete expressions up to this number were checked
  std::uint64_t messages_ = 0;
  Fault fault_;
};

}  // namespace

std::string Fault::text() const {
  if (rank < 0) return what;
  std::string out = "rank " + std::to_string(rank);
  if (lane >= 0) out += ", lane " + std::to_string(lane);
  if (step >= 0) out += ", step " + std::to_string(step);
  if (pass >= 0) out += ", pass " + std::to_string(pass);
  return out + " " + what;
}

Status Verdict::status() const {
  if (proved()) return {};
  return Status(TUTTI_INVALID_ARGUMENT, "the schedule is wrong: " + fault.text());
}

Verdict verify(const Plan& plan, std::span<const Program> programs, const VerifyLimits& limits) {
  Verdict verdict;
  verdict.fault = check_plan(plan, programs.size(), limits);
  if (verdict.fault.any()) return verdict;
  std::vector<std::vector<LinkUse>> uses(programs.size());
  std::uint64_t back = plan.shape.depth;  // passes that the longest reach back covers
  for (std::size_t rank = 0; rank < programs.size(); ++rank) {
    verdict.fault = check_program(plan, static_cast<int>(rank), programs[rank], uses[rank]);
    if (verdict.fault.any()) return verdict;
    verdict.fault = check_races(plan, static_cast<int>(rank), programs[rank], limits);
    if (verdict.fault.any()) return verdict;
    verdict.proof.steps += programs[rank].steps.size();
    back = std::max(back, largest_distance(programs[rank]));
    for (const LinkUse& use : uses[rank]) {
      // A message waits for room until the one `credit` before it is taken, which may be passes ago.
      if (use.messages != 0) back = std::max<std::uint64_t>(back, (plan.shape.credit + use.messages - 1) / use.messages);
    }
  }
  if (back >= limits.passes) {
    verdict.fault.what = "a dependency reaches back over too many passes to be proved";
    return verdict;
  }
  verdict.proof.passes = back + 1;
  Run run(plan, programs, verdict.proof.passes);
  verdict.fault = run.prepare(uses);
  if (!verdict.fault.any()) verdict.fault = run.go();
  if (!verdict.fault.any() && plan.problem.irregular) verdict.fault = check_lengths(plan, programs);
  if (verdict.fault.any()) return verdict;
  verdict.proof.messages = run.messages();
  verdict.proof.association = reduces(plan.problem.collective) ? run.promise().association() : 0;
  verdict.proof.rank_order = reduces(plan.problem.collective) && run.promise().rank_order();
  return verdict;
}

std::uint32_t least_credit(Plan plan, std::span<const Program> programs, std::uint32_t limit) {
  for (std::uint32_t credit = 1; credit <= limit; ++credit) {
    plan.shape.credit = credit;
    if (verify(plan, programs).proved()) return credit;
  }
  return 0;
}

}  // namespace tutti
