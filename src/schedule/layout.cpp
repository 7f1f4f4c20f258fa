#include "src/schedule/layout.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "src/tables/element_types.h"
#include "src/tables/operators.h"

namespace tutti {
namespace {

/// Which peers share our core, and what follows from it.
void find_near(const Plan& plan, std::span<const std::int32_t> core, int rank, const ProgramOf& program_of,
               Lowered& lowered) {
  const NearOf same_core_of = [core](int r, const Program& program) {
    std::vector<std::uint8_t> same_core;
    for (const Link& link : program.links) {
      const bool same = core[static_cast<std::size_t>(link.peer)] == core[static_cast<std::size_t>(r)];
      same_core.push_back(same ? 1 : 0);
    }
    return same_core;
  };
  lowered.same_core = same_core_of(rank, lowered.program);
  lowered.on_core =
      static_cast<std::size_t>(std::count(core.begin(), core.end(), core[static_cast<std::size_t>(rank)])) - 1;
  if (!program_of || !near_first_goes_through(plan, program_of, same_core_of)) return;
  lowered.sequential_order = same_core_first(std::move(lowered.sequential_order), lowered.program, lowered.same_core,
                                             blocks_of(plan.problem, Buffer::output, rank));
}

/// Lays the pieces of one pass out.
class Arranger {
 public:
  Arranger(const Plan& plan, int rank, std::uint64_t pass)
      : plan_(plan),
        pass_(pass),
        element_(element_bytes(plan.problem.type)),
        blocks_{blocks_of(plan.problem, Buffer::input, rank), blocks_of(plan.problem, Buffer::output, rank),
                plan.shape.scratch_blocks} {}

  Layout arrange(const Program& program) const {
    Layout layout;
    layout.message_bytes.resize(program.steps.size());
    for (const Operand& operand : program.operands) append(operand, layout);
    layout.first_piece.push_back(static_cast<std::uint32_t>(layout.pieces.size()));
    for (std::size_t s = 0; s < program.steps.size(); ++s) {
      const std::uint32_t first = program.steps[s].operands;
      for (std::uint32_t p = layout.first_piece[first]; p < layout.first_piece[first + 1]; ++p)
        layout.message_bytes[s] += layout.pieces[p].bytes;
    }
    return layout;
  }

 private:
  void append(const Operand& operand, Layout& layout) const {
    layout.first_piece.push_back(static_cast<std::uint32_t>(layout.pieces.size()));
    const Range& range = operand.range;
    const std::uint64_t window_begin = pass_ * plan_.window;
    const Elements elements = elements_of(plan_, plan_.problem.count, pass_, range.chunk, range.chunks);
    const std::uint64_t bytes = elements.size() * element_;
    std::uint64_t of_message = 0;
    for (std::uint32_t i = 0; i < range.blocks; ++i, of_message += bytes) {
      const std::uint64_t within =
          operand.place == Place::link ? of_message : begin_of(operand, i) + (elements.begin - window_begin) * element_;
      layout.pieces.push_back({within, bytes});
    }
  }

  /// Bytes from a buffer's beginning to its block's.
  std::uint64_t begin_of(const Operand& operand, std::uint32_t i) const {
    const std::uint32_t block = operand.range.block_at(i, blocks_[static_cast<std::size_t>(operand.place)]);
    const std::uint64_t count = plan_.problem.count;
    const std::uint64_t size =
        operand.place == Place::scratch ? std::min(plan_.window, std::max<std::uint64_t>(1, count)) : count;
    return block * size * element_;
  }

  const Plan& plan_;
  const std::uint64_t pass_;
  const std::uint64_t element_;
  const std::array<std::uint32_t, 3> blocks_;
};

}  // namespace

std::uint64_t scratch_bytes(const Plan& plan) {
  const std::uint64_t window = std::min(plan.window, std::max<std::uint64_t>(1, plan.problem.count));
  return window * plan.shape.scratch_blocks * plan.shape.depth * plan.strands * element_bytes(plan.problem.type);
}

std::uint32_t unit_shift(const Problem& problem) {
  if (!combines(problem.collective)) return 0;
  return static_cast<std::uint32_t>(std::countr_zero(element_bytes(fold_kind(problem.type, problem.op).type)));
}

Lowered lower(const Plan& plan, int rank, Program program, const ProgramOf& program_of, const Cores& cores) {
  Lowered lowered;
  lowered.only_offered = only_offered(plan, rank, program);
  lowered.receives = receives(plan, rank, program, program_of);
  lowered.sequential_order = sequential_order(plan, rank, program, program_of);
  for (const Step& step : program.steps) {
    lowered.most_operands = std::max(lowered.most_operands, std::uint32_t{step.sources} + step.destinations);
  }
  lowered.program = std::move(program);
  lowered.shares_cores = cores.shared;
  if (!cores.core.empty()) find_near(plan, cores.core, rank, program_of, lowered);
  return lowered;
}

Layouts lay_out(const Plan& plan, int rank, const Program& program, std::uint32_t index) {
  const Strand strand{index, plan.strands};
  Layouts layouts;
  const std::uint64_t count = plan.problem.count;
  const std::uint64_t element = element_bytes(plan.problem.type);
  layouts.passes = strand.passes(plan.passes(count));
  if (layouts.passes == 0) return layouts;
  layouts.copies = plan.shape.depth;
  const std::uint64_t window = plan.window * element;
  const std::uint64_t scratch = scratch_bytes(plan) / plan.shape.depth / plan.strands;
  layouts.begin = {index * window, index * window, index * scratch * plan.shape.depth};
  layouts.stride = {plan.strands * window, plan.strands * window, scratch};
  for (const Buffer buffer : {Buffer::input, Buffer::output})
    layouts.bytes[static_cast<std::size_t>(buffer)] = count * element * blocks_of(plan.problem, buffer, rank);
  layouts.last = Arranger(plan, rank, strand.pass(layouts.passes - 1)).arrange(program);
  if (layouts.passes > 1) layouts.full = Arranger(plan, rank, 0).arrange(program);
  for (const Layout* layout : {&layouts.full, &layouts.last}) {
    for (const std::uint64_t bytes : layout->message_bytes)
      layouts.longest_message = std::max(layouts.longest_message, bytes);
  }
  return layouts;
}

}  // namespace tutti
