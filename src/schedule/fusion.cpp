#include "src/schedule/fusion.h"

#include <algorithm>
#include <optional>
#include <span>

#include "src/schedule/cells.h"

namespace tutti {
namespace {

/// A step with its own lists, so that it can grow. `parts`: indices in its lane of the steps that it came from.
struct Draft {
  std::vector<Operand> sources;
  std::vector<Operand> destinations;
  std::vector<Dependency> dependencies;
  std::uint16_t flags = 0;
  std::vector<std::uint32_t> parts;
};

/// A step's parts, wherever they are.
struct StepView {
  std::span<const Operand> sources;
  std::span<const Operand> destinations;
  std::span<const Dependency> dependencies;
  std::uint16_t flags;

  StepView(const Draft& draft)  // NOLINT: implicit, as for a span
      : sources(draft.sources), destinations(draft.destinations), dependencies(draft.dependencies), flags(draft.flags) {}
  StepView(const Program& program, const Step& step)
      : sources(std::span(program.operands).subspan(step.operands, step.sources)),
        destinations(std::span(program.operands).subspan(std::size_t{step.operands} + step.sources, step.destinations)),
        dependencies(std::span(program.dependencies).subspan(step.dependencies, step.dependency_count)),
        flags(step.flags) {}
};

bool same_memory(const Operand& a, const Operand& b) {
  return a.place == b.place && a.place != Place::link && a.range == b.range;
}

bool shares_link(std::span<const Operand> a, std::span<const Operand> b) {
  return std::any_of(a.begin(), a.end(), [&](const Operand& x) {
    return x.place == Place::link &&
           std::any_of(b.begin(), b.end(), [&](const Operand& y) { return y.place == Place::link && x.link == y.link; });
  });
}

class Fusion {
 public:
  Fusion(const Plan& plan, int rank, const Program& program)
      : program_(program), cells_(plan.problem, plan.shape, rank, true) {}

  /// Whether there is anything to do.
  bool any() const {
    for (const Lane& lane : program_.lanes) {
      for (std::uint32_t s = lane.first; s + 1 < lane.first + lane.count; ++s) {
        const StepView first(program_, program_.steps[s]);
        const StepView second(program_, program_.steps[s + 1]);
        if (forwards(first, second) || only_reader(first, second)) return true;
      }
    }
    return false;
  }

  Program run() {
    for (const Lane& lane : program_.lanes) {
      std::vector<Draft> out;
      for (std::uint32_t s = 0; s < lane.count; ++s) {
        Draft next = draft(program_.steps[lane.first + s], s);
        // What came of the last merge may merge again: several receives into one fold.
        while (!out.empty()) {
          std::optional<Draft> merged = merge(out.back(), next);
          if (!merged) break;
          next = *std::move(merged);
          out.pop_back();
        }
        out.push_back(std::move(next));
      }
      lanes_.push_back(std::move(out));
    }
    return finish();
  }

 private:
  /// Counts who reads and writes each cell, over all lanes. Not before somebody asks: cells may be many more than steps.
  void count() const {
    if (!readers_.empty()) return;
    readers_.resize(cells_.size());
    writers_.resize(cells_.size());
    for (const Step& step : program_.steps) {
      for (std::uint32_t o = step.operands; o < step.operands + step.sources + step.destinations; ++o) {
        const Operand& operand = program_.operands[o];
        if (operand.place == Place::link) continue;
        auto& counts = o < step.operands + step.sources ? readers_ : writers_;
        cells_.each(operand, [&](std::size_t cell) { ++counts[cell]; });
      }
    }
  }

  Draft draft(const Step& step, std::uint32_t index) const {
    const StepView view(program_, step);
    return {{view.sources.begin(), view.sources.end()},
            {view.destinations.begin(), view.destinations.end()},
            {view.dependencies.begin(), view.dependencies.end()},
            step.flags,
            {index}};
  }

  std::optional<Draft> merge(const Draft& first, const Draft& second) const {
    if (forwards(first, second)) return forwarded(first, second);
    if (const std::optional<std::size_t> source = only_reader(first, second)) return taken(first, second, *source);
    return std::nullopt;
  }

  /// Whether `second` is a plain move of memory that `first` wrote, waits for nothing of its own, and writes nothing twice.
  static bool forwards(const StepView& first, const StepView& second) {
    if (second.sources.size() != 1 || second.flags != 0 || !second.dependencies.empty()) return false;
    if (shares_link(first.destinations, second.destinations)) return false;
    const Operand& handed = second.sources[0];
    const bool wrote = std::any_of(first.destinations.begin(), first.destinations.end(),
                                   [&](const Operand& destination) { return same_memory(destination, handed); });
    // A further copy in memory may overlap what the first step reads or writes: only links are handed on to.
    return wrote && std::all_of(second.destinations.begin(), second.destinations.end(),
                                [](const Operand& destination) { return destination.place == Place::link; });
  }

  static Draft forwarded(const Draft& first, const Draft& second) {
    Draft merged = first;
    merged.destinations.insert(merged.destinations.end(), second.destinations.begin(), second.destinations.end());
    merged.parts.insert(merged.parts.end(), second.parts.begin(), second.parts.end());
    return merged;
  }

  /// The source of `second` that only it reads, and that `first` merely receives.
  std::optional<std::size_t> only_reader(const StepView& first, const StepView& second) const {
    if (first.sources.size() != 1 || first.sources[0].place != Place::link || first.flags != 0) return std::nullopt;
    if (first.destinations.size() != 1 || first.destinations[0].place != Place::scratch) return std::nullopt;
    if (shares_link(first.sources, second.sources)) return std::nullopt;
    const Operand& kept = first.destinations[0];
    count();
    bool alone = true;
    cells_.each(kept, [&](std::size_t cell) { alone = alone && readers_[cell] == 1 && writers_[cell] == 1; });
    if (!alone) return std::nullopt;
    for (std::size_t s = 0; s < second.sources.size(); ++s) {
      if (same_memory(second.sources[s], kept)) return s;
    }
    return std::nullopt;
  }

  static Draft taken(const Draft& first, const Draft& second, std::size_t source) {
    Draft merged = second;
    merged.sources[source] = first.sources[0];
    for (const Dependency& on : first.dependencies) {
      if (std::find(merged.dependencies.begin(), merged.dependencies.end(), on) == merged.dependencies.end()) {
        merged.dependencies.push_back(on);
      }
    }
    merged.parts.insert(merged.parts.begin(), first.parts.begin(), first.parts.end());
    return merged;
  }

  Program finish() const {
    std::vector<std::vector<std::uint32_t>> now(lanes_.size());  // per lane: where a step went
    for (std::size_t l = 0; l < lanes_.size(); ++l) {
      now[l].resize(program_.lanes[l].count);
      for (std::uint32_t s = 0; s < lanes_[l].size(); ++s) {
        for (const std::uint32_t part : lanes_[l][s].parts) now[l][part] = s;
      }
    }
    Program out;
    out.links = program_.links;
    for (const std::vector<Draft>& lane : lanes_) {
      out.lanes.push_back({static_cast<std::uint32_t>(out.steps.size()), static_cast<std::uint32_t>(lane.size())});
      for (const Draft& draft : lane) append(out, draft, now);
    }
    return out;
  }

  static void append(Program& out, const Draft& draft, const std::vector<std::vector<std::uint32_t>>& now) {
    Step step;
    step.operands = static_cast<std::uint32_t>(out.operands.size());
    step.sources = static_cast<std::uint16_t>(draft.sources.size());
    step.destinations = static_cast<std::uint16_t>(draft.destinations.size());
    step.dependencies = static_cast<std::uint32_t>(out.dependencies.size());
    step.dependency_count = static_cast<std::uint16_t>(draft.dependencies.size());
    step.flags = draft.flags;
    out.operands.insert(out.operands.end(), draft.sources.begin(), draft.sources.end());
    out.operands.insert(out.operands.end(), draft.destinations.begin(), draft.destinations.end());
    for (Dependency on : draft.dependencies) {
      on.step = now[on.lane][on.step];
      out.dependencies.push_back(on);
    }
    out.steps.push_back(step);
  }

  const Program& program_;
  Cells cells_;
  mutable std::vector<std::uint32_t> readers_;
  mutable std::vector<std::uint32_t> writers_;
  std::vector<std::vector<Draft>> lanes_;
};

}  // namespace

Program fuse(const Plan& plan, int rank, Program program) {
  if (Fusion fusion(plan, rank, program); fusion.any()) return fusion.run();
  return program;
}

}  // namespace tutti
