// Lanes in sequential order: see sequential_order in lowering.h.
#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <numeric>
#include <tuple>

#include "src/schedule/cells.h"
#include "src/schedule/lowering.h"

namespace tutti {
namespace {

using Orders = std::vector<std::vector<std::uint32_t>>;

/// All ranks' programs, run against each other for one pass, with the least credit: in each round every lane whose next
/// step is ready takes it. So a rank's order is that of the depths, and what waits for nobody comes first. Or every rank
/// keeps to an order that is given. Whatever a step could offer is taken for offered, in place: what is read out of a
/// rank's memory is not overwritten before it has been taken, as it is where that rank does not run in sequential order.
class DryRun {
 public:
  /// orders: by rank; empty: by lanes.
  DryRun(const Plan& plan, const ProgramOf& program_of, const Orders& orders = {}) : credit_(plan.shape.credit) {
    for (int r = 0; r < plan.problem.ranks; ++r) {
      ranks_.emplace_back(program_of(r), Cells(plan.problem, plan.shape, r, true));
      if (!orders.empty()) ranks_.back().given = orders[static_cast<std::size_t>(r)];
    }
    for (int r = 0; r < plan.problem.ranks; ++r) {
      for (const Link& link : at(r).program.links) {
        const auto from = link.sends ? r : link.peer;
        const auto to = link.sends ? link.peer : r;
        Wire& wire = wires_[{from, to, link.channel}];
        wire.sender = &at(from);
        at(r).wires.push_back(&wire);
      }
    }
  }

  /// The steps of all ranks in the order of the run; nothing where it stopped before the end.
  Orders run() {
    while (round()) {
    }
    Orders orders;
    for (const Rank& each : ranks_) {
      if (each.order.size() != each.program.steps.size()) return {};
      orders.push_back(each.order);
    }
    return orders;
  }

 private:
  struct Rank;
  /// What is under way: of each message the memory that it is read out of, if any.
  struct Wire {
    Rank* sender = nullptr;
    std::vector<const Operand*> messages;
  };
  struct Rank {
    Rank(Program its, Cells memory)
        : program(std::move(its)),
          cells(memory),
          holds(cells.size()),
          next(program.lanes.size()),
          done(program.steps.size()) {}
    Program program;
    Cells cells;
    std::vector<std::uint32_t> holds;  ///< messages that are read out of a cell
    std::vector<std::uint32_t> next;   ///< by lane
    std::vector<std::uint8_t> done;    ///< by step
    std::vector<Wire*> wires;          ///< by link
    std::vector<std::uint32_t> given;
    std::vector<std::uint32_t> order;
  };

  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  /// Whether any step was taken. What is ready is found for all ranks before any of it is taken.
  bool round() {
    std::vector<std::pair<Rank*, std::uint32_t>> ready;
    const auto consider = [&](Rank& rank, std::uint32_t step) {
      if (is_ready(rank, rank.program.steps[step])) ready.emplace_back(&rank, step);
    };
    for (Rank& rank : ranks_) {
      if (rank.order.size() < rank.given.size()) consider(rank, rank.given[rank.order.size()]);
      for (std::uint32_t l = 0; rank.given.empty() && l < rank.program.lanes.size(); ++l) {
        const Lane& lane = rank.program.lanes[l];
        while (rank.next[l] < lane.count && rank.done[lane.first + rank.next[l]] != 0) ++rank.next[l];
        if (rank.next[l] < lane.count) consider(rank, lane.first + rank.next[l]);
      }
    }
    for (const auto& [rank, step] : ready) take(*rank, step);
    return !ready.empty();
  }

  bool is_ready(const Rank& rank, const Step& step) const {
    for (std::uint32_t d = step.dependencies; d < step.dependencies + step.dependency_count; ++d) {
      const Dependency& on = rank.program.dependencies[d];
      if (on.distance == 0 && rank.done[rank.program.lanes[on.lane].first + on.step] == 0) return false;
    }
    for (std::uint32_t o = 0; o < std::uint32_t{step.sources} + step.destinations; ++o) {
      const Operand& operand = rank.program.operands[step.operands + o];
      if (operand.place != Place::link) {
        if (o >= step.sources && is_held(rank, operand)) return false;
        continue;
      }
      std::uint32_t before = 0;  // messages of the same link in this step
      for (std::uint32_t b = 0; b < o; ++b) {
        const Operand& other = rank.program.operands[step.operands + b];
        before += other.place == Place::link && other.link == operand.link ? 1 : 0;
      }
      const std::size_t under_way = rank.wires[operand.link]->messages.size();
      if (o < step.sources ? under_way <= before : under_way + before >= credit_) return false;
    }
    return true;
  }

  static bool is_held(const Rank& rank, const Operand& operand) {
    std::uint32_t held = 0;
    rank.cells.each(operand, [&](std::size_t cell) { held |= rank.holds[cell]; });
    return held != 0;
  }

  static void take(Rank& rank, std::uint32_t index) {
    const Step& step = rank.program.steps[index];
    const Operand* const operands = &rank.program.operands[step.operands];
    for (std::uint32_t o = 0; o < step.sources; ++o) {
      if (operands[o].place != Place::link) continue;
      Wire& wire = *rank.wires[operands[o].link];
      hold(*wire.sender, wire.messages.front(), UINT32_MAX);
      wire.messages.erase(wire.messages.begin());
    }
    const Operand* const memory = offered(step, operands);
    for (std::uint32_t o = step.sources; o < std::uint32_t{step.sources} + step.destinations; ++o) {
      if (operands[o].place != Place::link) continue;
      rank.wires[operands[o].link]->messages.push_back(memory);
      hold(rank, memory, 1);
    }
    rank.done[index] = 1;
    rank.order.push_back(index);
  }

  /// change: 1, or UINT32_MAX for one less.
  static void hold(Rank& rank, const Operand* memory, std::uint32_t change) {
    if (memory == nullptr) return;
    rank.cells.each(*memory, [&](std::size_t cell) { rank.holds[cell] += change; });
  }

  const std::uint32_t credit_;
  std::map<std::tuple<int, int, std::uint32_t>, Wire> wires_;  ///< by (from, to, channel)
  std::deque<Rank> ranks_;                                     ///< which wires point to
};

/// Steps that put the only message of their links in a pass into the output, and do nothing else.
class PlainReceives {
 public:
  PlainReceives(const Program& program, std::uint32_t output_blocks)
      : program_(program), output_blocks_(output_blocks), messages_(program.links.size(), 0) {
    for (const Operand& operand : program.operands) {
      if (operand.place == Place::link) ++messages_[operand.link];
    }
  }
  bool has(std::uint32_t step) const {
    const Step& its = program_.steps[step];
    if (its.sources != 1 || its.destinations != 1) return false;
    const Operand& from = source(step);
    return from.place == Place::link && messages_[from.link] == 1 && destination(step).place == Place::output;
  }
  const Operand& source(std::uint32_t step) const { return program_.operands[program_.steps[step].operands]; }
  /// Whether no two of some write to one place; not sure of longer ranges.
  bool are_apart(std::span<const std::uint32_t> steps) const {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const Range& a = destination(steps[i]).range;
        const Range& b = destination(steps[j]).range;
        const bool chunks = a.chunk < b.chunk + b.chunks && b.chunk < a.chunk + a.chunks;
        const bool one_each = a.blocks == 1 && b.blocks == 1;
        if (chunks && (!one_each || a.block_at(0, output_blocks_) == b.block_at(0, output_blocks_))) return false;
      }
    }
    return true;
  }

 private:
  const Operand& destination(std::uint32_t step) const { return program_.operands[program_.steps[step].operands + 1]; }

  const Program& program_;
  const std::uint32_t output_blocks_;
  std::vector<std::uint32_t> messages_;  ///< by link, in a pass
};

}  // namespace

std::vector<std::uint32_t> same_core_first(std::vector<std::uint32_t> order, const Program& program,
                                           std::span<const std::uint8_t> same_core, std::uint32_t output_blocks) {
  const PlainReceives plain(program, output_blocks);
  for (auto first = order.begin(); first != order.end();) {
    const auto last = std::find_if_not(first, order.end(), [&](std::uint32_t step) { return plain.has(step); });
    if (plain.are_apart({first, last}))
      std::stable_partition(first, last, [&](std::uint32_t step) { return same_core[plain.source(step).link] != 0; });
    first = last == order.end() ? last : std::next(last);
  }
  return order;
}

bool near_first_goes_through(const Plan& plan, const ProgramOf& program_of, const NearOf& same_core_of) {
  Orders orders = DryRun(plan, program_of).run();
  bool changed = false;
  for (std::size_t r = 0; r < orders.size(); ++r) {
    const int rank = static_cast<int>(r);
    const Program program = program_of(rank);
    auto first =
        same_core_first(orders[r], program, same_core_of(rank, program), blocks_of(plan.problem, Buffer::output, rank));
    changed = changed || first != orders[r];
    orders[r] = std::move(first);
  }
  return changed && !DryRun(plan, program_of, orders).run().empty();
}

std::vector<std::uint32_t> sequential_order(const Plan& plan, int rank, const Program& program,
                                            const ProgramOf& program_of) {
  if (program.lanes.size() > 1) {
    const Orders orders = program_of ? DryRun(plan, program_of).run() : Orders();
    return orders.empty() ? std::vector<std::uint32_t>() : orders[static_cast<std::size_t>(rank)];
  }
  std::vector<std::uint32_t> order(program.steps.size());
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

}  // namespace tutti
