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

}  // namespace tutti
