#include "src/schedule/structure.h"

#include <algorithm>
#include <tuple>

#include "src/base/plural.h"
#include "src/schedule/cells.h"

namespace tutti {
namespace {

Fault of_plan(std::string what) {
  Fault fault;
  fault.what = std::move(what);
  return fault;
}

/// Looks at one program; the members say where it is.
class Structure {
 public:
  Structure(const Plan& plan, int rank, const Program& program)
      : plan_(plan),
        program_(program),
        cells_(plan.problem, plan.shape, rank, true),
        folds_allowed_(combines(plan.problem.collective)) {
    fault_.rank = rank;
  }

  Fault check(std::vector<LinkUse>& uses) {
    links() && lanes() && steps();
    uses = std::move(uses_);
    return fault_;
  }

 private:
  bool refuse(std::string what) {
    fault_.what = std::move(what);
    return false;
  }

  bool links() {
    uses_.assign(program_.links.size(), {});
    last_use_.resize(program_.links.size());
    for (const Link& link : program_.links) {
      if (link.peer < 0 || link.peer >= plan_.problem.ranks) {
        return refuse("has a link to rank " + std::to_string(link.peer) + ", which does not exist");
      }
      if (link.peer == fault_.rank) return refuse("has a link to itself");
    }
    std::vector<Link> sorted = program_.links;
    std::sort(sorted.begin(), sorted.end(), [](const Link& a, const Link& b) {
      return std::tie(a.peer, a.channel, a.sends) < std::tie(b.peer, b.channel, b.sends);
    });
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (twice != sorted.end()) return refuse("lists a link to rank " + std::to_string(twice->peer) + " twice");
    return true;
  }

  bool lanes() {
    if (program_.lanes.size() != plan_.shape.lanes) {
      return refuse("has " + plural(static_cast<std::int64_t>(program_.lanes.size()), "lane") + ", the plan " +
                    std::to_string(plan_.shape.lanes));
    }
    std::uint64_t next = 0;
    for (const Lane& lane : program_.lanes) {
      if (lane.first != next) return refuse("has a lane that does not begin where the one before it ends");
      next += lane.count;
    }
    if (next != program_.steps.size()) return refuse("has steps that belong to no lane, or lanes that have no steps");
    return true;
  }

  bool steps() {
    marks_.assign(cells_.size(), {});
    for (std::uint32_t l = 0; l < program_.lanes.size(); ++l) {
      fault_.lane = l;
      for (std::uint32_t s = 0; s < program_.lanes[l].count; ++s) {
        fault_.step = s;
        const Step& step = program_.steps[program_.lanes[l].first + s];
        if (!header(step) || !dependencies(step)) return false;
        for (std::uint32_t o = 0; o < std::uint32_t{step.sources} + step.destinations; ++o) {
          if (!operand(step, o)) return false;
        }
        if (!overlap(step)) return false;
      }
    }
    fault_.lane = fault_.step = -1;
    return true;
  }

  bool header(const Step& step) {
    ++stamp_;
    if (step.sources == 0) return refuse("has no source");
    if (step.destinations == 0) return refuse("has no destination");
    if (std::uint64_t{step.operands} + step.sources + step.destinations > program_.operands.size()) {
      return refuse("has operands beyond the program's");
    }
    if ((step.flags & ~(last_touch | folds)) != 0) return refuse("has unknown flags");
    if (((step.flags & folds) != 0) != (step.sources > 1)) {
      return refuse(step.sources > 1 ? "has several sources but does not fold" : "folds a single source");
    }
    if (step.sources > 1 && !folds_allowed_) return refuse("folds in a collective that does not reduce");
    if ((step.flags & last_touch) != 0 && !reduces(plan_.problem.collective)) {
      return refuse("completes a fold in a collective that does not reduce");
    }
    return true;
  }

  bool dependencies(const Step& step) {
    if (std::uint64_t{step.dependencies} + step.dependency_count > program_.dependencies.size()) {
      return refuse("has dependencies beyond the program's");
    }
    for (std::uint32_t d = step.dependencies; d < step.dependencies + step.dependency_count; ++d) {
      const Dependency& on = program_.dependencies[d];
      if (on.lane >= program_.lanes.size() || on.step >= program_.lanes[on.lane].count) {
        return refuse("depends on lane " + std::to_string(on.lane) + ", step " + std::to_string(on.step) +
                      ", which does not exist");
      }
    }
    return true;
  }

  bool operand(const Step& step, std::uint32_t index) {
    const Operand& operand = program_.operands[step.operands + index];
    const Range& range = operand.range;
    const Range& like = program_.operands[step.operands].range;
    const bool source = index < step.sources;
    if (operand.place > Place::link || operand.sizing > Buffer::scratch) {
      return refuse("has an operand of an unknown kind");
    }
    if (range.blocks == 0 || range.chunks == 0 || range.run == 0) return refuse("has an empty operand");
    if (std::uint64_t{range.chunk} + range.chunks > plan_.shape.chunks) {
      return refuse("touches chunk " + std::to_string(std::uint64_t{range.chunk} + range.chunks - 1) + " of " +
                    std::to_string(plan_.shape.chunks));
    }
    if (range.blocks != like.blocks || range.chunk != like.chunk || range.chunks != like.chunks) {
      return refuse("has operands of different shapes");
    }
    if (operand.place == Place::link) return link(operand, source);
    const std::uint32_t total = cells_.blocks(operand.place);
    if (range.block >= total || range.blocks > total) {
      const char* memories[] = {"the input", "the output", "scratch"};
      return refuse("touches block " + std::to_string(std::uint64_t{range.block} + range.blocks - 1) + " of " +
                    memories[static_cast<int>(operand.place)] + ", which has " + std::to_string(total));
    }
    if (!source && operand.place == Place::input) return refuse("writes the input");
    return true;
  }

  bool link(const Operand& operand, bool source) {
    if (operand.link >= program_.links.size()) return refuse("uses a link that does not exist");
    const Link& link = program_.links[operand.link];
    if (link.sends == source) return refuse(source ? "receives on a sending link" : "sends on a receiving link");
    const std::uint64_t cells = std::uint64_t{operand.range.blocks} * operand.range.chunks;
    if (cells > plan_.shape.message_cells) {
      return refuse("has a message of " + std::to_string(cells) + " cells, the plan allows " +
                    std::to_string(plan_.shape.message_cells));
    }
    LinkUse& use = uses_[operand.link];
    if (use.messages++ == 0) use.lane = static_cast<std::uint32_t>(fault_.lane);
    if (use.lane != fault_.lane) return refuse("uses a link of lane " + std::to_string(use.lane));
    if (last_use_[operand.link] == stamp_) return refuse("uses a link twice");
    last_use_[operand.link] = stamp_;
    return true;
  }

  bool overlap(const Step& step) {
    const std::uint32_t first = step.operands + step.sources;
    for (std::uint32_t o = first; o < first + step.destinations; ++o) {
      if (program_.operands[o].place == Place::link) continue;
      std::uint32_t position = 0;
      bool twice = false;
      cells_.each(program_.operands[o], [&](std::size_t cell) {
        twice = twice || marks_[cell].stamp == stamp_;
        marks_[cell] = {stamp_, position++};
      });
      if (twice) return refuse("writes a chunk twice");
    }
    for (std::uint32_t o = step.operands; o < first; ++o) {
      if (program_.operands[o].place == Place::link) continue;
      std::uint32_t position = 0;
      bool crossed = false;
      cells_.each(program_.operands[o], [&](std::size_t cell) {
        crossed = crossed || (marks_[cell].stamp == stamp_ && marks_[cell].position != position);
        ++position;
      });
      if (crossed) return refuse("reads a chunk that it overwrites at another place of the message");
    }
    return true;
  }

  struct Mark {
    std::uint64_t stamp = 0;
    std::uint32_t position = 0;
  };
  const Plan& plan_;
  const Program& program_;
  Cells cells_;
  bool folds_allowed_;
  Fault fault_;
  std::vector<LinkUse> uses_;
  std::vector<std::uint64_t> last_use_;  ///< per link, stamp of the step
  std::vector<Mark> marks_;              ///< per cell, where the step of that stamp writes it
  std::uint64_t stamp_ = 0;
};

Fault check_problem(const Problem& problem) {
  if (static_cast<int>(problem.collective) >= collective_count) return of_plan("the collective is unknown");
  if (problem.ranks < 1 || problem.ranks > most_ranks) {
    return of_plan("a schedule has 1 to " + std::to_string(most_ranks) + " ranks, not " + std::to_string(problem.ranks));
  }
  if (problem.root < 0 || problem.root >= problem.ranks) {
    return of_plan("root " + std::to_string(problem.root) + " is none of the " + plural(problem.ranks, "rank"));
  }
  if (problem.irregular && info_of(problem.collective).v_variant == nullptr)
    return of_plan("blocks of " + std::string(name_of(problem.collective)) + " have one count");
  if (problem.local_operands == 1) return {};
  if (problem.local_operands == 0 || !takes_several_operands(problem.collective))
    return of_plan("ranks have one operand each, or several of a reduce or an all_reduce");
  if (std::uint64_t{problem.local_operands} * static_cast<std::uint64_t>(problem.ranks) > most_total_operands)
    return of_plan("several operands a rank are up to " + std::to_string(most_total_operands));
  return {};
}

}  // namespace

Fault check_plan(const Plan& plan, std::size_t programs, const VerifyLimits& limits) {
  const Problem& problem = plan.problem;
  const Shape& shape = plan.shape;
  if (Fault fault = check_problem(problem); fault.any()) return fault;
  if (programs != static_cast<std::size_t>(problem.ranks)) {
    return of_plan("there are " + std::to_string(programs) + " programs for " + plural(problem.ranks, "rank"));
  }
  if (const char* wrong = wrong_sizes(plan)) return of_plan(wrong);
  if (shape.lanes == 0 || shape.depth == 0 || shape.credit == 0) return of_plan("lanes, depth and credit are at least 1");
  if (std::max(shape.depth, shape.credit) >= limits.passes) return of_plan("depth or credit are too large to be proved");
  std::uint64_t cells = 0;
  std::uint64_t most_inputs = 1;
  for (int rank = 0; rank < problem.ranks; ++rank) {
    const std::uint64_t inputs = blocks_of(problem, Buffer::input, rank);
    const std::uint64_t blocks = inputs + blocks_of(problem, Buffer::output, rank) + shape.scratch_blocks;
    most_inputs = std::max(most_inputs, inputs);
    const std::uint64_t room = limits.cells - cells;
    if (blocks != 0 && shape.chunks > room / blocks / shape.depth) return of_plan("it has too many chunks to be proved");
    cells += blocks * shape.chunks * shape.depth;
  }
  if (most_inputs * static_cast<std::uint64_t>(problem.ranks) >= (1u << 30))
    return of_plan("it has too many blocks to be proved");
  if (plan.window % (std::uint64_t{shape.chunks} * plan.grain) != 0)
    return of_plan("the window is no multiple of chunks times grain, so messages would be longer than their share of it");
  return {};
}

Fault check_program(const Plan& plan, int rank, const Program& program, std::vector<LinkUse>& uses) {
  return Structure(plan, rank, program).check(uses);
}

std::uint64_t largest_distance(const Program& program) {
  std::uint64_t largest = 0;
  for (const Dependency& on : program.dependencies) largest = std::max<std::uint64_t>(largest, on.distance);
  return largest;
}

}  // namespace tutti
