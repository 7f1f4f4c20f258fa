#include "src/executors/simulator/indices.h"

#include <algorithm>
#include <cstddef>

#include "src/base/plural.h"
#include "src/tables/element_types.h"

namespace tutti::simulator {
namespace {

constexpr std::size_t most_ranks = 1 << 20;

/// Why a step cannot be looked at; nullptr where it can.
const char* wrong_with(const Program& program, const Step& step) {
  if (step.sources == 0 || step.destinations == 0) return "has no source or no destination";
  const std::uint64_t end = std::uint64_t{step.operands} + step.sources + step.destinations;
  if (end > program.operands.size()) return "has operands beyond the program's";
  for (std::uint64_t o = step.operands; o < end; ++o) {
    const Operand& operand = program.operands[o];
    if (operand.place > Place::link) return "has an operand of an unknown kind";
    if (operand.place != Place::link) continue;
    if (operand.link >= program.links.size()) return "uses a link beyond the program's";
    if (program.links[operand.link].sends != (o >= std::uint64_t{step.operands} + step.sources)) {
      return "uses a link against its direction";
    }
  }
  if (std::uint64_t{step.dependencies} + step.dependency_count > program.dependencies.size()) {
    return "has dependencies beyond the program's";
  }
  const auto first = program.dependencies.begin() + step.dependencies;
  const bool known = std::all_of(first, first + step.dependency_count, [&](const Dependency& on) {
    return on.lane < program.lanes.size() && on.step < program.lanes[on.lane].count;
  });
  return known ? nullptr : "depends on a step that does not exist";
}

Fault check_program(const Plan& plan, int rank, const Program& program) {
  Fault fault;
  fault.rank = rank;
  if (program.lanes.size() != plan.shape.lanes) {
    fault.what = "has " + plural(static_cast<std::int64_t>(program.lanes.size()), "lane") + ", the plan " +
                 std::to_string(plan.shape.lanes);
    return fault;
  }
  for (const Link& link : program.links) {
    if (link.peer >= 0 && link.peer < plan.problem.ranks) continue;
    fault.what = "has a link to rank " + std::to_string(link.peer) + ", which does not exist";
    return fault;
  }
  for (std::size_t l = 0; l < program.lanes.size(); ++l) {
    const Lane& lane = program.lanes[l];
    fault.lane = static_cast<std::int64_t>(l);
    if (std::uint64_t{lane.first} + lane.count > program.steps.size()) {
      fault.what = "has steps beyond the program's";
      return fault;
    }
    for (std::uint32_t s = 0; s < lane.count; ++s) {
      const char* wrong = wrong_with(program, program.steps[lane.first + s]);
      if (wrong == nullptr) continue;
      fault.step = s;
      fault.what = wrong;
      return fault;
    }
  }
  return {};
}

/// Whether a buffer has as many blocks as its rank's problem says, none longer than plans may be.
bool right_blocks(const Problem& problem, Buffer buffer, int rank, std::span<const tutti_block> blocks) {
  return blocks.size() == blocks_of(problem, buffer, rank) &&
         std::all_of(blocks.begin(), blocks.end(), [](const tutti_block& block) { return block.count <= most_elements; });
}

/// Blocks with counts of their own, where the problem has such.
Fault check_blocks(const Problem& problem, const SimulatorConfig& config) {
  Fault fault;
  if (problem.irregular != !config.irregular.empty() ||
      (problem.irregular && config.irregular.size() != static_cast<std::size_t>(problem.ranks))) {
    fault.what = problem.irregular ? "each rank of an irregular problem needs its blocks, but there are those of " +
                                         std::to_string(config.irregular.size()) + " ranks"
                                   : "there are blocks with counts of their own, but the problem is not irregular";
    return fault;
  }
  for (std::size_t r = 0; r < config.irregular.size(); ++r) {
    const IrregularBuffers& of = config.irregular[r];
    fault.rank = static_cast<int>(r);
    if (right_blocks(problem, Buffer::input, fault.rank, of.input) &&
        right_blocks(problem, Buffer::output, fault.rank, of.output)) {
      continue;
    }
    fault.what = "has other blocks than its problem, or longer ones than 2^42 elements";
    return fault;
  }
  return {};
}

/// programs: how many ranks there are programs for.
Fault check_plan(const Plan& plan, std::size_t programs, const SimulatorConfig& config) {
  Fault fault;
  const Problem& problem = plan.problem;
  const auto ranks = static_cast<std::size_t>(std::max(0, problem.ranks));
  if (ranks == 0 || programs != ranks || config.view.machine.size() != ranks || config.view.numa.size() != ranks ||
      (!config.memory.empty() && config.memory.size() != ranks)) {
    fault.what = "the plan's " + std::to_string(problem.ranks) +
                 " ranks need a program, a place and memory each, but there are " + std::to_string(programs) + ", " +
                 std::to_string(config.view.machine.size()) + " and " + std::to_string(config.memory.size());
  } else if (ranks > most_ranks) {
    fault.what = "the simulator takes " + std::to_string(most_ranks) + " ranks at most";
  } else if (problem.root < 0 || problem.root >= problem.ranks) {
    fault.what = "the root is no rank";
  } else if (const char* wrong = wrong_sizes(plan)) {
    fault.what = wrong;
  } else if (element_bytes(problem.type) == 0 || plan.shape.depth == 0) {
    fault.what = "the plan has no element type, or no depth";
  }
  return fault.any() ? fault : check_blocks(problem, config);
}

}  // namespace

Fault check_indices(const Plan& plan, std::span<const Program> programs, const SimulatorConfig& config) {
  Fault fault = check_plan(plan, programs.size(), config);
  for (std::size_t r = 0; r < programs.size() && !fault.any(); ++r) {
    fault = check_program(plan, static_cast<int>(r), programs[r]);
  }
  return fault;
}

Fault check_indices(const Plan& plan, const ProgramClasses& program_classes, const SimulatorConfig& config) {
  Fault fault = check_plan(plan, program_classes.class_of.size(), config);
  if (!fault.any() && !config.memory.empty()) fault.what = "program classes move no data, but there is memory";
  std::vector<bool> checked(program_classes.programs.size());
  for (std::size_t r = 0; r < program_classes.class_of.size() && !fault.any(); ++r) {
    if (checked[program_classes.class_of[r]]) continue;
    checked[program_classes.class_of[r]] = true;
    fault = check_program(plan, static_cast<int>(r), program_classes.programs[program_classes.class_of[r]]);
  }
  return fault;
}

}  // namespace tutti::simulator
