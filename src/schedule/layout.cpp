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

/// Lays the pieces of one pass out where blocks have counts of their own.
class IrregularArranger {
 public:
  IrregularArranger(const Plan& plan, const Program& program, const IrregularBuffers& buffers)
      : plan_(plan),
        program_(program),
        buffers_{buffers.input, buffers.output},
        base_{lowest(buffers.input), lowest(buffers.output)},
        element_(element_bytes(plan.problem.type)) {}

  void arrange(std::uint64_t pass, Layout& layout) const {
    layout.message_bytes.assign(program_.steps.size(), 0);
    layout.tags.assign(program_.steps.size(), 0);
    layout.first_piece.resize(program_.operands.size() + 1);
    layout.pieces.clear();
    for (std::size_t s = 0; s < program_.steps.size(); ++s) {
      const Step& step = program_.steps[s];
      const Operand& of_blocks = *block_operand(program_, step);
      for (std::uint32_t o = step.operands; o < step.operands + step.sources + step.destinations; ++o)
        append(o, of_blocks, pass, layout);
      const std::uint32_t first = step.operands;
      for (std::uint32_t i = 0; i < of_blocks.range.blocks; ++i) {
        layout.message_bytes[s] += layout.pieces[layout.first_piece[first] + i].bytes;
        const std::uint64_t count = block(of_blocks, i).count;
        layout.tags[s] = tag_with(layout.tags[s], count <= plan_.window ? 0 : tag_of_count(count));
      }
    }
    layout.first_piece.back() = static_cast<std::uint32_t>(layout.pieces.size());
  }

 private:
  void append(std::uint32_t index, const Operand& of_blocks, std::uint64_t pass, Layout& layout) const {
    layout.first_piece[index] = static_cast<std::uint32_t>(layout.pieces.size());
    const Operand& operand = program_.operands[index];
    const Range& range = operand.range;
    std::uint64_t of_message = 0;
    for (std::uint32_t i = 0; i < range.blocks; ++i) {
      const Elements elements = elements_of(plan_, block(of_blocks, i).count, pass, range.chunk, range.chunks);
      const std::uint64_t bytes = elements.size() * element_;
      const std::uint64_t within = bytes == 0 ? 0 : (elements.begin - pass * plan_.window) * element_;
      const std::uint64_t begin = bytes == 0 || operand.place == Place::link ? of_message : begin_of(operand, i);
      layout.pieces.push_back({operand.place == Place::link ? of_message : begin + within, bytes});
      of_message += bytes;
    }
  }
  const tutti_block& block(const Operand& operand, std::uint32_t i) const {
    const auto& blocks = buffers_[static_cast<std::size_t>(operand.place)];
    return blocks[operand.range.block_at(i, static_cast<std::uint32_t>(blocks.size()))];
  }
  std::uint64_t begin_of(const Operand& operand, std::uint32_t i) const {
    if (operand.place == Place::scratch)
      return operand.range.block_at(i, plan_.shape.scratch_blocks) * plan_.window * element_;
    return static_cast<std::uint64_t>(static_cast<std::byte*>(block(operand, i).ptr) -
                                      base_[static_cast<std::size_t>(operand.place)]);
  }

  const Plan& plan_;
  const Program& program_;
  const std::array<std::span<const tutti_block>, 2> buffers_;
  const std::array<std::byte*, 2> base_;
  const std::uint64_t element_;
};

/// The passes from which on the layout is another one than before: those in which some block is no whole window any more,
/// or nothing.
std::vector<std::uint64_t> turning_points(const Plan& plan, const IrregularBuffers& buffers, std::uint64_t passes) {
  std::vector<std::uint64_t> points = {0};
  for (const auto& blocks : {buffers.input, buffers.output}) {
    for (const tutti_block& block : blocks) {
      const std::uint64_t whole = block.count / plan.window;
      for (const std::uint64_t point : {whole, plan.passes(block.count)}) {
        if (point < passes) points.push_back(point);
      }
    }
  }
  std::sort(points.begin(), points.end());
  points.erase(std::unique(points.begin(), points.end()), points.end());
  return points;
}

}  // namespace

std::byte* lowest(std::span<const tutti_block> blocks) {
  std::byte* found = nullptr;
  for (const tutti_block& block : blocks) {
    auto* const at = static_cast<std::byte*>(block.ptr);
    if (block.count != 0 && (found == nullptr || at < found)) found = at;
  }
  return found;
}

const Operand* block_operand(const Program& program, const Step& step) {
  const auto begin = program.operands.begin() + step.operands;
  const auto end = begin + step.sources + step.destinations;
  const auto found = std::find_if(
      begin, end, [](const Operand& each) { return each.place == Place::input || each.place == Place::output; });
  return found != end ? &*found : nullptr;
}

bool can_be_irregular(const Program& program) {
  return std::all_of(program.steps.begin(), program.steps.end(),
                     [&](const Step& step) { return block_operand(program, step) != nullptr; });
}

void lay_out_irregular(const Plan& plan, const Program& program, const IrregularBuffers& buffers, Layouts& out) {
  const std::uint64_t element = element_bytes(plan.problem.type);
  out.passes = 0;
  for (std::size_t b = 0; b < 2; ++b) {
    const auto& blocks = b == 0 ? buffers.input : buffers.output;
    const std::byte* const base = lowest(blocks);
    out.bytes[b] = out.span[b] = 0;
    for (const tutti_block& block : blocks) {
      if (block.count == 0) continue;
      out.passes = std::max(out.passes, plan.passes(block.count));
      out.bytes[b] += block.count * element;
      const auto end = static_cast<std::uint64_t>(static_cast<std::byte*>(block.ptr) - base) + block.count * element;
      out.span[b] = std::max(out.span[b], end);
    }
  }
  out.copies = plan.shape.depth;
  const std::uint64_t window = plan.window * element;
  out.begin = {};
  out.stride = {window, window, scratch_bytes(plan) / plan.shape.depth};
  const std::vector<std::uint64_t> points = turning_points(plan, buffers, out.passes);
  out.stretches.resize(points.size());
  out.longest_message = 0;
  const IrregularArranger arranger(plan, program, buffers);
  for (std::size_t s = 0; s < points.size(); ++s) {
    out.stretches[s].first = points[s];
    arranger.arrange(points[s], out.stretches[s].layout);
    for (const std::uint64_t bytes : out.stretches[s].layout.message_bytes)
      out.longest_message = std::max(out.longest_message, bytes);
  }
}

std::uint64_t scratch_bytes(const Plan& plan) {
  const std::uint64_t most = plan.problem.irregular ? plan.window : std::max<std::uint64_t>(1, plan.problem.count);
  const std::uint64_t window = std::min(plan.window, most);
  return window * plan.shape.scratch_blocks * plan.shape.depth * plan.strands * element_bytes(plan.problem.type);
}

std::uint32_t unit_shift(const Problem& problem) {
  if (!combines(problem.collective) || problem.op == user_operator) return 0;
  const tutti_type folded = problem.pre_mul ? problem.type : fold_kind(problem.type, problem.op).type;
  return static_cast<std::uint32_t>(std::countr_zero(element_bytes(folded)));
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
  layouts.span = layouts.bytes;
  layouts.last = Arranger(plan, rank, strand.pass(layouts.passes - 1)).arrange(program);
  if (layouts.passes > 1) layouts.full = Arranger(plan, rank, 0).arrange(program);
  for (const Layout* layout : {&layouts.full, &layouts.last}) {
    for (const std::uint64_t bytes : layout->message_bytes)
      layouts.longest_message = std::max(layouts.longest_message, bytes);
  }
  return layouts;
}

}  // namespace tutti
