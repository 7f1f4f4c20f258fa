#include "src/schedule/lowering.h"

#include <algorithm>

#include "src/schedule/cells.h"

namespace tutti {

std::vector<std::uint8_t> only_offered(const Plan& plan, int rank, const Program& program) {
  const Cells cells(plan.problem, plan.shape, rank, false);
  std::vector<std::uint8_t> read(cells.size());
  // A barrier's result is scratch block 0.
  if (plan.problem.collective == Collective::barrier && cells.scratch() != 0) {
    std::fill_n(read.begin() + static_cast<std::ptrdiff_t>(cells.first(Place::scratch, 0)), cells.chunks(),
                std::uint8_t{1});
  }
  for (const Step& step : program.steps) {
    for (std::uint32_t o = step.operands; o < step.operands + step.sources; ++o) {
      const Operand& operand = program.operands[o];
      if (operand.place == Place::scratch) cells.each(operand, [&](std::size_t cell) { read[cell] = 1; });
    }
  }
  std::vector<std::uint8_t> offered(program.operands.size());
  for (const Step& step : program.steps) {
    const std::uint32_t first = step.operands + step.sources;
    bool sends = false;
    for (std::uint32_t o = first; o < first + step.destinations; ++o)
      sends = sends || program.operands[o].place == Place::link;
    for (std::uint32_t o = first; o < first + step.destinations; ++o) {
      const Operand& operand = program.operands[o];
      if (!sends || operand.place != Place::scratch) continue;
      bool any = false;
      cells.each(operand, [&](std::size_t cell) { any = any || read[cell] != 0; });
      offered[o] = any ? 0 : 1;
    }
  }
  return offered;
}

namespace {

/// How many operands write each cell.
std::vector<std::uint32_t> writers(const Cells& cells, const Program& program) {
  std::vector<std::uint32_t> count(cells.size());
  for (const Step& step : program.steps) {
    const std::uint32_t first = step.operands + step.sources;
    for (std::uint32_t o = first; o < first + step.destinations; ++o) {
      if (program.operands[o].place == Place::link) continue;
      cells.each(program.operands[o], [&](std::size_t cell) { ++count[cell]; });
    }
  }
  return count;
}

}  // namespace

std::vector<std::vector<Receive>> receives(const Plan& plan, int rank, const Program& program) {
  const Cells cells(plan.problem, plan.shape, rank, false);
  const std::vector<std::uint32_t> written = writers(cells, program);
  // Who reads a cell of the output reads it after its only writer; scratch is used again by a later pass, the output is not.
  const auto only_here = [&](const Operand& target) {
    if (target.place != Place::output) return false;
    bool only = true;
    cells.each(target, [&](std::size_t cell) { only = only && written[cell] == 1; });
    return only;
  };
  std::vector<std::vector<Receive>> out(program.links.size());
  for (std::uint32_t l = 0; l < program.lanes.size(); ++l) {
    for (std::uint32_t s = 0; s < program.lanes[l].count; ++s) {
      const Step& step = program.steps[program.lanes[l].first + s];
      for (std::uint32_t o = step.operands; o < step.operands + step.sources; ++o) {
        const Operand& source = program.operands[o];
        if (source.place != Place::link) continue;
        out[source.link].push_back({l, s, step.sources == 1 && only_here(program.operands[step.operands + 1])});
      }
    }
  }
  return out;
}

}  // namespace tutti
