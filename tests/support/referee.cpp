#include "tests/support/referee.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace tutti::testing {
namespace {

using Number = std::uint64_t;
constexpr Number poison = 0xdeadbeefdeadbeefu;

/// Elements of memory that an operand means in a pass: addresses, in the order of the message.
using Addresses = std::vector<Number*>;

struct Message {
  std::vector<Number> values;  ///< where the message was copied
  Addresses pulled;            ///< else where it is
  bool delivered = false;      ///< put: it is already where the receiver wants it
  std::map<Number*, int>* holds = nullptr;
};

struct Wire {
  std::deque<Message> queue;
};

struct LaneRun {
  std::uint64_t pass = 0;
  std::uint32_t step = 0;
  bool reading = false;  ///< has read, has to write
  std::vector<Number> result;
};

struct RankRun {
  std::vector<Number> input, output, scratch;
  bool in_place = false;
  std::vector<LaneRun> lanes;
  std::map<Number*, int> holds;  ///< messages that read an address
};

/// One match. A fault in `error_` ends it.
class Field {
 public:
  Field(const Schedule& schedule, const Match& match, std::mt19937_64& random)
      : schedule_(schedule), plan_(schedule.plan), match_(match), random_(random) {
    barrier_ = plan_.problem.collective == Collective::barrier;
    count_ = barrier_ ? 1 : match.count;
    passes_ = plan_.passes(count_);
    for (int r = 0; r < plan_.problem.ranks; ++r) set_up(r);
  }

  std::string run() {
    std::vector<std::pair<std::size_t, std::size_t>> order;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      for (std::size_t l = 0; l < ranks_[r].lanes.size(); ++l) order.emplace_back(r, l);
    }
    for (bool moved = true; moved && error_.empty();) {
      moved = false;
      std::shuffle(order.begin(), order.end(), random_);
      for (const auto& [r, l] : order) {
        // Some lanes run ahead for a while, others rest.
        for (std::uint64_t turns = random_() % 4; turns != 0 && error_.empty() && turn(r, l); --turns) moved = true;
      }
      if (!moved) {
        for (const auto& [r, l] : order) moved = moved || (error_.empty() && turn(r, l));
      }
    }
    if (error_.empty()) check();
    return error_;
  }

 private:
  bool chance(double share) { return std::uniform_real_distribution(0.0, 1.0)(random_) < share; }
  Problem problem() const { return plan_.problem; }
  std::uint32_t blocks(int rank, Place place) const {
    if (place == Place::scratch) return plan_.shape.scratch_blocks;
    return blocks_of(problem(), place == Place::input ? Buffer::input : Buffer::output, rank);
  }
  std::uint64_t window() const { return std::min(plan_.window, count_); }

  void set_up(int rank) {
    RankRun run;
    run.in_place = chance(match_.in_place) && in_place_alias(problem(), rank).any;
    run.input.resize(blocks(rank, Place::input) * count_);
    for (Number& number : run.input) number = random_();
    inputs_.push_back(run.input);
    run.output.assign(blocks(rank, Place::output) * count_, poison);
    run.scratch.assign(std::size_t{plan_.shape.scratch_blocks} * plan_.shape.depth * window(), poison);
    if (barrier_ && !run.scratch.empty()) run.scratch[0] = Number{1} << (rank % 64);
    if (run.in_place) {
      for (std::uint32_t b = 0; b < blocks(rank, Place::input); ++b) {
        const auto to = alias(rank, b);
        if (to) std::copy_n(run.input.begin() + offset(b), count_, run.output.begin() + offset(*to));
      }
    }
    run.lanes.resize(schedule_.programs[static_cast<std::size_t>(rank)].lanes.size());
    ranks_.push_back(std::move(run));
  }

  std::ptrdiff_t offset(std::uint32_t block) const { return static_cast<std::ptrdiff_t>(block * count_); }

  std::optional<std::uint32_t> alias(int rank, std::uint32_t block) const {
    const Alias alias = in_place_alias(problem(), rank);
    if (alias.all) return block;
    if (alias.any && block == alias.input_block) return alias.output_block;
    return std::nullopt;
  }

  bool fail(std::size_t rank, std::size_t lane, const std::string& what) {
    const LaneRun& run = ranks_[rank].lanes[lane];
    error_ = "rank " + std::to_string(rank) + ", lane " + std::to_string(lane) + ", step " + std::to_string(run.step) +
             ", pass " + std::to_string(run.pass) + " " + what;
    return false;
  }

  /// Addresses of an operand in memory; nothing and an error where it is outside.
  std::optional<Addresses> addresses(std::size_t rank, std::size_t lane, const Operand& operand) {
    RankRun& run = ranks_[rank];
    const std::uint64_t pass = run.lanes[lane].pass;
    const std::uint32_t total = blocks(static_cast<int>(rank), operand.place);
    const Range& range = operand.range;
    if (range.block >= total || range.chunk + range.chunks > plan_.shape.chunks || range.run == 0) {
      fail(rank, lane, "leaves its memory");
      return std::nullopt;
    }
    const Elements elements = elements_of(plan_, count_, pass, range.chunk, range.chunks);
    Addresses out;
    for (std::uint32_t i = 0; i < range.blocks; ++i) {
      const std::uint32_t block = range.block_at(i, total);
      for (std::uint64_t e = elements.begin; e < elements.end; ++e) {
        if (operand.place == Place::scratch) {
          const std::uint64_t copy = pass % plan_.shape.depth * plan_.shape.scratch_blocks + block;
          out.push_back(&run.scratch[copy * window() + e - pass * plan_.window]);
        } else if (operand.place == Place::output) {
          out.push_back(&run.output[block * count_ + e]);
        } else {
          const auto to = run.in_place ? alias(static_cast<int>(rank), block) : std::nullopt;
          out.push_back(to ? &run.output[*to * count_ + e] : &run.input[block * count_ + e]);
        }
      }
    }
    return out;
  }

  std::uint64_t length(std::size_t rank, std::size_t lane, const Operand& operand) const {
    const Range& range = operand.range;
    return elements_of(plan_, count_, ranks_[rank].lanes[lane].pass, range.chunk, range.chunks).size() * range.blocks;
  }

  Wire& wire(std::size_t rank, const Operand& operand) {
    const Link& link = schedule_.programs[rank].links[operand.link];
    const int own = static_cast<int>(rank);
    return wires_[{link.sends ? own : link.peer, link.sends ? link.peer : own, link.channel}];
  }

  const Step& step_of(std::size_t rank, std::size_t lane) const {
    const Program& program = schedule_.programs[rank];
    return program.steps[program.lanes[lane].first + ranks_[rank].lanes[lane].step];
  }

  /// One turn of a lane: reads, or writes what it read. False where it cannot move.
  bool turn(std::size_t rank, std::size_t lane) {
    LaneRun& run = ranks_[rank].lanes[lane];
    const Program& program = schedule_.programs[rank];
    if (run.pass == passes_) return false;
    if (program.lanes[lane].count == 0) return begins(rank, run) ? retire(rank, lane) : false;
    const Step& step = step_of(rank, lane);
    if (run.reading) return write(rank, lane, step);
    if ((run.step == 0 && !begins(rank, run)) || !waited(rank, run, step)) return false;
    if (length(rank, lane, program.operands[step.operands]) == 0) return retire(rank, lane);
    return ready(rank, lane, step) && read(rank, lane, step);
  }

  bool begins(std::size_t rank, const LaneRun& run) const {
    const auto& lanes = ranks_[rank].lanes;
    return std::all_of(lanes.begin(), lanes.end(),
                       [&](const LaneRun& other) { return other.pass + plan_.shape.depth > run.pass; });
  }

  bool waited(std::size_t rank, const LaneRun& run, const Step& step) const {
    for (std::uint32_t d = step.dependencies; d < step.dependencies + step.dependency_count; ++d) {
      const Dependency& on = schedule_.programs[rank].dependencies[d];
      const LaneRun& other = ranks_[rank].lanes[on.lane];
      const bool done =
          other.pass + on.distance > run.pass || (other.pass + on.distance == run.pass && other.step > on.step);
      if (!done) return false;
    }
    return true;
  }

  /// Whether messages, room and memory that nobody reads are there.
  bool ready(std::size_t rank, std::size_t lane, const Step& step) {
    for (std::uint32_t o = 0; o < std::uint32_t{step.sources} + step.destinations; ++o) {
      const Operand& operand = schedule_.programs[rank].operands[step.operands + o];
      if (operand.place == Place::link) {
        if (operand.link >= schedule_.programs[rank].links.size()) return fail(rank, lane, "uses no link");
        const std::size_t waiting = wire(rank, operand).queue.size();
        if (o < step.sources ? waiting == 0 : waiting >= match_.credit) return false;
        if (o >= step.sources && length(rank, lane, operand) > room()) return fail(rank, lane, "overruns a message");
        continue;
      }
      const auto at = addresses(rank, lane, operand);
      if (!at) return false;
      if (o < step.sources) continue;
      if (operand.place == Place::input) return fail(rank, lane, "writes the input");
      for (Number* address : *at) {
        if (ranks_[rank].holds.count(address) != 0) return false;
      }
    }
    return true;
  }

  /// Elements that a message may have: the plan's cells.
  std::uint64_t room() const {
    const std::uint64_t cell = std::max<std::uint64_t>(1, plan_.window / plan_.shape.chunks);
    return cell * plan_.shape.message_cells;
  }

  bool read(std::size_t rank, std::size_t lane, const Step& step) {
    LaneRun& run = ranks_[rank].lanes[lane];
    std::vector<Number> result;
    for (std::uint32_t o = 0; o < step.sources; ++o) {
      const auto values = take(rank, lane, schedule_.programs[rank].operands[step.operands + o], step);
      if (!values) return false;
      if (o == 0) {
        result = *values;
        continue;
      }
      if (values->size() != result.size()) return fail(rank, lane, "folds different lengths");
      for (std::size_t i = 0; i < result.size(); ++i)
        result[i] = barrier_ ? result[i] | (*values)[i] : result[i] + (*values)[i];
    }
    if ((step.flags & last_touch) != 0) {
      for (Number& number : result) number = 3 * number + 1;
    }
    run.result = std::move(result);
    run.reading = true;
    return true;
  }

  std::optional<std::vector<Number>> take(std::size_t rank, std::size_t lane, const Operand& operand, const Step& step) {
    std::vector<Number> values;
    if (operand.place != Place::link) {
      const auto at = addresses(rank, lane, operand);
      if (!at) return std::nullopt;
      for (const Number* address : *at) values.push_back(*address);
      return values;
    }
    auto& queue = wire(rank, operand).queue;
    if (queue.empty()) return fail(rank, lane, "takes two messages where there is one"), std::nullopt;
    Message message = std::move(queue.front());
    queue.pop_front();
    if (message.delivered) {
      const Operand& target = schedule_.programs[rank].operands[step.operands + step.sources];
      const auto at = addresses(rank, lane, target);
      if (!at) return std::nullopt;
      for (const Number* address : *at) values.push_back(*address);
      if (values.size() != message.values.size()) return fail(rank, lane, "got another length than it takes"), std::nullopt;
      return values;
    }
    values = message.values;
    for (Number* address : message.pulled) {
      values.push_back(*address);
      if (--(*message.holds)[address] == 0) message.holds->erase(address);
    }
    if (values.size() != length(rank, lane, operand))
      return fail(rank, lane, "got another length than it takes"), std::nullopt;
    return values;
  }

  bool write(std::size_t rank, std::size_t lane, const Step& step) {
    LaneRun& run = ranks_[rank].lanes[lane];
    const Operand* operands = &schedule_.programs[rank].operands[step.operands];
    std::optional<Addresses> kept;
    for (std::uint32_t o = step.sources; o < std::uint32_t{step.sources} + step.destinations; ++o) {
      if (operands[o].place == Place::link) continue;
      const auto at = addresses(rank, lane, operands[o]);
      if (!at) return false;
      if (at->size() != run.result.size()) return fail(rank, lane, "writes another length than it read");
      for (std::size_t i = 0; i < at->size(); ++i) *(*at)[i] = run.result[i];
      if (!kept) kept = at;
    }
    if (!kept && step.sources == 1 && operands[0].place != Place::link) kept = addresses(rank, lane, operands[0]);
    for (std::uint32_t o = step.sources; o < std::uint32_t{step.sources} + step.destinations; ++o) {
      if (operands[o].place == Place::link) send(rank, operands[o], kept, run.result);
    }
    run.reading = false;
    return retire(rank, lane);
  }

  void send(std::size_t rank, const Operand& operand, const std::optional<Addresses>& kept,
            const std::vector<Number>& values) {
    Message message;
    Wire& to = wire(rank, operand);
    const auto waiting = to.queue.empty() && chance(match_.put) ? granted(rank, operand, values.size()) : std::nullopt;
    if (waiting) {
      for (std::size_t i = 0; i < values.size(); ++i) *(*waiting)[i] = values[i];
      message.delivered = true;
      message.values = values;
    } else if (kept && chance(match_.pulled)) {
      message.pulled = *kept;
      message.holds = &ranks_[rank].holds;
      for (Number* address : *kept) ++ranks_[rank].holds[address];
    } else {
      message.values = values;
    }
    to.queue.push_back(std::move(message));
  }

  /// Where the receiver waits for just this message, if it does: its lane stands at a plain receive, and nobody reads
  /// there.
  std::optional<Addresses> granted(std::size_t sender, const Operand& operand, std::size_t size) {
    const Link& link = schedule_.programs[sender].links[operand.link];
    const auto rank = static_cast<std::size_t>(link.peer);
    if (rank >= ranks_.size()) return std::nullopt;
    const Program& program = schedule_.programs[rank];
    for (std::size_t lane = 0; lane < program.lanes.size(); ++lane) {
      const LaneRun& run = ranks_[rank].lanes[lane];
      if (run.pass == passes_ || program.lanes[lane].count == 0 || run.reading) continue;
      const Step& step = step_of(rank, lane);
      const Operand& source = program.operands[step.operands];
      const Operand& target = program.operands[step.operands + step.sources];
      if (step.sources != 1 || source.place != Place::link || target.place == Place::link) continue;
      const Link& own = program.links[source.link];
      if (own.sends || own.peer != static_cast<int>(sender) || own.channel != link.channel) continue;
      if ((run.step == 0 && !begins(rank, run)) || !waited(rank, run, step)) continue;
      auto at = addresses(rank, lane, target);
      if (!at) return std::nullopt;
      const bool held =
          std::any_of(at->begin(), at->end(), [&](Number* address) { return ranks_[rank].holds.count(address) != 0; });
      if (!held && at->size() == size) return at;
    }
    return std::nullopt;
  }

  bool retire(std::size_t rank, std::size_t lane) {
    LaneRun& run = ranks_[rank].lanes[lane];
    if (++run.step < schedule_.programs[rank].lanes[lane].count) return true;
    run.step = 0;
    ++run.pass;
    return true;
  }

  void check() {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      for (std::size_t l = 0; l < ranks_[r].lanes.size(); ++l) {
        if (ranks_[r].lanes[l].pass != passes_) return void(fail(r, l, "waits for ever"));
      }
    }
    for (const auto& [key, wire] : wires_) {
      if (!wire.queue.empty()) return void(error_ = "a message is left over");
    }
    for (std::size_t r = 0; r < ranks_.size() && error_.empty(); ++r) check_rank(static_cast<int>(r));
  }

  void check_rank(int rank) {
    const RankRun& run = ranks_[static_cast<std::size_t>(rank)];
    if (barrier_) {
      Number all = 0;
      for (int r = 0; r < plan_.problem.ranks; ++r) all |= Number{1} << (r % 64);
      if (run.scratch.empty() || run.scratch[0] != all) error_ = "rank " + std::to_string(rank) + " did not hear of all";
      return;
    }
    for (std::uint32_t b = 0; b < blocks(rank, Place::output); ++b) {
      for (std::uint64_t e = 0; e < count_; ++e) {
        if (run.output[b * count_ + e] == expected(rank, b, e)) continue;
        error_ = "rank " + std::to_string(rank) + " ends with element " + std::to_string(e) + " of block " +
                 std::to_string(b) + " wrong" + (run.in_place ? " in place" : "");
        return;
      }
    }
  }

  Number expected(int rank, std::uint32_t block, std::uint64_t element) const {
    const auto of = [&](int from, std::uint32_t b) {
      return inputs_[static_cast<std::size_t>(from)][b * count_ + element];
    };
    const auto own = static_cast<std::uint32_t>(rank);
    const int from = static_cast<int>(block);
    if (reduces(problem().collective)) {
      Number sum = 0;
      for (int r = 0; r < plan_.problem.ranks; ++r)
        sum += of(r, problem().collective == Collective::reduce_scatter ? own : 0);
      return 3 * sum + 1;
    }
    switch (problem().collective) {
      case Collective::broadcast:
        return of(plan_.problem.root, 0);
      case Collective::scatter:
        return of(plan_.problem.root, own);
      case Collective::all_to_all:
        return of(from, own);
      default:
        return of(from, 0);
    }
  }

  const Schedule& schedule_;
  const Plan& plan_;
  Match match_;
  std::mt19937_64& random_;
  bool barrier_ = false;
  std::uint64_t count_ = 0;
  std::uint64_t passes_ = 0;
  std::vector<std::vector<Number>> inputs_;
  std::deque<RankRun> ranks_;  // a deque: addresses of its elements stay
  std::map<std::tuple<int, int, std::uint32_t>, Wire> wires_;
  std::string error_;
};

}  // namespace

std::string referee(const Schedule& schedule, const Match& match, std::mt19937_64& random) {
  return Field(schedule, match, random).run();
}

}  // namespace tutti::testing
