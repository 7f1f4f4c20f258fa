#include "src/schedule/msccl_races.h"

#include "src/schedule/races.h"

namespace tutti::msccl {
namespace {

/// A rank's steps as they stand, one for one, nops included, with every location a block of scratch.
class OrderSketch {
 public:
  explicit OrderSketch(const Locations& locations) : locations_(locations) {}

  Program draw(const Gpu& gpu) {
    for (std::uint32_t b = 0; b < gpu.blocks.size(); ++b) {
      program_.lanes.push_back(
          {static_cast<std::uint32_t>(program_.steps.size()), static_cast<std::uint32_t>(gpu.blocks[b].steps.size())});
      for (const Step& step : gpu.blocks[b].steps) add(b, step);
    }
    return std::move(program_);
  }

 private:
  void add(std::uint32_t block, const Step& from) {
    tutti::Step step;
    step.operands = static_cast<std::uint32_t>(program_.operands.size());
    step.dependencies = static_cast<std::uint32_t>(program_.dependencies.size());
    if (from.depends_block >= 0 && from.depends_block != static_cast<std::int32_t>(block)) {
      program_.dependencies.push_back({static_cast<std::uint32_t>(from.depends_block), from.depends_step, 0});
      step.dependency_count = 1;
    }
    const bool moves = !locations_.copies_onto_itself(from);
    if (moves && reads_source(from.type)) step.sources = touch(from.source, from.count);
    // A local fold reads its destination, too, but whoever orders its writing orders that.
    if (moves && writes_destination(from.type)) step.destinations = touch(from.destination, from.count);
    program_.steps.push_back(step);
  }

  /// One operand for each run of consecutive numbers: where input chunks are output chunks, a range may fall apart.
  std::uint16_t touch(Place place, std::uint32_t count) {
    std::uint16_t operands = 0;
    std::uint32_t before = 0;
    for (std::uint32_t c = 0; c < count; ++c) {
      const std::uint32_t at = locations_.number(place.buffer, place.chunk + c);
      if (c == 0 || at != before + 1) {
        Operand& operand = program_.operands.emplace_back();
        operand.place = tutti::Place::scratch;
        operand.range.block = at;
        ++operands;
      } else {
        ++program_.operands.back().range.blocks;
      }
      before = at;
    }
    return operands;
  }

  const Locations& locations_;
  Program program_;
};

}  // namespace

Fault find_race(const Gpu& gpu, const Locations& locations) {
  Plan plan;
  plan.problem.ranks = 1;
  plan.shape.lanes = static_cast<std::uint32_t>(gpu.blocks.size());
  plan.shape.scratch_blocks = locations.size();
  Fault fault = check_races(plan, 0, OrderSketch(locations).draw(gpu), VerifyLimits());
  for (std::size_t at = 0; (at = fault.what.find("lane ", at)) != std::string::npos;)
    fault.what.replace(at, 5, "thread block ");
  return fault;
}

}  // namespace tutti::msccl
