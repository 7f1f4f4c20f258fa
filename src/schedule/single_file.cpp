// Lanes in single file: see single_file in lowering.h.
#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <tuple>

#include "src/schedule/lowering.h"

namespace tutti {
namespace {

/// Messages of one link in this pass.
struct Traffic {
  std::uint32_t sent = 0;
  std::uint32_t taken = 0;
};

/// All ranks' programs, run against each other for one pass: in each round every lane whose next step is ready takes it. So
/// a rank's order is that of the depths, and what waits for nobody comes first.
class Rehearsal {
 public:
  Rehearsal(const Plan& plan, const ProgramOf& program_of) : credit_(plan.shape.credit) {
    for (int r = 0; r < plan.problem.ranks; ++r) ranks_.emplace_back(program_of(r));
    for (int r = 0; r < plan.problem.ranks; ++r) {
      for (const Link& link : at(r).program.links) {
        const auto from = link.sends ? r : link.peer;
        const auto to = link.sends ? link.peer : r;
        at(r).traffic.push_back(&traffic_[{from, to, link.channel}]);
      }
    }
  }

  /// The steps of `rank` in the order of the run; empty where it stopped before the end.
  std::vector<std::uint32_t> order_of(int rank) {
    while (round()) {
    }
    for (const Rank& each : ranks_) {
      if (each.order.size() != each.program.steps.size()) return {};
    }
    return at(rank).order;
  }

 private:
  struct Rank {
    explicit Rank(Program its) : program(std::move(its)), next(program.lanes.size(), 0) {}
    Program program;
    std::vector<std::uint32_t> next;  ///< by lane
    std::vector<Traffic*> traffic;    ///< by link
    std::vector<std::uint32_t> order;
  };

  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  /// Whether any step was taken. What is ready is found for all ranks before any of it is taken.
  bool round() {
    std::vector<std::pair<Rank*, std::uint32_t>> ready;
    for (Rank& rank : ranks_) {
      for (std::uint32_t l = 0; l < rank.program.lanes.size(); ++l) {
        const Lane& lane = rank.program.lanes[l];
        if (rank.next[l] < lane.count && is_ready(rank, rank.program.steps[lane.first + rank.next[l]]))
          ready.emplace_back(&rank, l);
      }
    }
    for (const auto& [rank, lane] : ready) take(*rank, lane);
    return !ready.empty();
  }

  bool is_ready(const Rank& rank, const Step& step) const {
    for (std::uint32_t d = step.dependencies; d < step.dependencies + step.dependency_count; ++d) {
      const Dependency& on = rank.program.dependencies[d];
      if (on.distance == 0 && rank.next[on.lane] <= on.step) return false;
    }
    for (std::uint32_t o = 0; o < std::uint32_t{step.sources} + step.destinations; ++o) {
      const Operand& operand = rank.program.operands[step.operands + o];
      if (operand.place != Place::link) continue;
      const Traffic& traffic = *rank.traffic[operand.link];
      std::uint32_t before = 0;  // messages of the same link in this step
      for (std::uint32_t b = 0; b < o; ++b) {
        const Operand& other = rank.program.operands[step.operands + b];
        before += other.place == Place::link && other.link == operand.link ? 1 : 0;
      }
      const std::uint32_t under_way = traffic.sent - traffic.taken;
      if (o < step.sources ? under_way <= before : under_way + before >= credit_) return false;
    }
    return true;
  }

  void take(Rank& rank, std::uint32_t lane) {
    const std::uint32_t index = rank.program.lanes[lane].first + rank.next[lane]++;
    const Step& step = rank.program.steps[index];
    for (std::uint32_t o = 0; o < std::uint32_t{step.sources} + step.destinations; ++o) {
      const Operand& operand = rank.program.operands[step.operands + o];
      if (operand.place != Place::link) continue;
      Traffic& traffic = *rank.traffic[operand.link];
      ++(o < step.sources ? traffic.taken : traffic.sent);
    }
    rank.order.push_back(index);
  }

  const std::uint32_t credit_;
  std::map<std::tuple<int, int, std::uint32_t>, Traffic> traffic_;  ///< by (from, to, channel)
  std::vector<Rank> ranks_;
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

std::vector<std::uint32_t> near_first(std::vector<std::uint32_t> order, const Program& program,
                                      std::span<const std::uint8_t> near, std::uint32_t output_blocks) {
  const PlainReceives plain(program, output_blocks);
  for (auto first = order.begin(); first != order.end();) {
    const auto last = std::find_if_not(first, order.end(), [&](std::uint32_t step) { return plain.has(step); });
    if (plain.are_apart({first, last}))
      std::stable_partition(first, last, [&](std::uint32_t step) { return near[plain.source(step).link] != 0; });
    first = last == order.end() ? last : std::next(last);
  }
  return order;
}

std::vector<std::uint32_t> single_file(const Plan& plan, int rank, const Program& program, const ProgramOf& program_of) {
  if (program.lanes.size() > 1)
    return program_of ? Rehearsal(plan, program_of).order_of(rank) : std::vector<std::uint32_t>();
  std::vector<std::uint32_t> order(program.steps.size());
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

}  // namespace tutti
