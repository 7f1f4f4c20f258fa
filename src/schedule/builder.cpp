#include "src/schedule/builder.h"

#include <algorithm>
#include <cassert>

#include "src/schedule/cells.h"

namespace tutti {
namespace {

constexpr std::uint32_t nobody = UINT32_MAX;

/// The latest step of each other lane that a step has to wait for.
class Waits {
 public:
  Waits(std::uint32_t lanes, std::uint32_t own) : latest_(lanes, nobody), own_(own) {}
  void on(std::uint32_t lane, std::uint32_t step) {
    if (lane == own_) return;
    if (latest_[lane] == nobody || latest_[lane] < step) latest_[lane] = step;
  }
  std::vector<Dependency> list() const {
    std::vector<Dependency> out;
    for (std::uint32_t lane = 0; lane < latest_.size(); ++lane) {
      if (latest_[lane] != nobody) out.push_back({lane, latest_[lane], 0});
    }
    return out;
  }

 private:
  std::vector<std::uint32_t> latest_;
  std::uint32_t own_;
};

Operand to_operand(const Ref& ref, const Ref& sizing) {
  Operand operand;
  operand.place = ref.place;
  operand.link = ref.link;
  operand.range = ref.place == Place::link ? sizing.range : ref.range;
  const Place sized_by = ref.place == Place::link ? sizing.place : ref.place;
  operand.sizing = sized_by == Place::output    ? Buffer::output
                   : sized_by == Place::scratch ? Buffer::scratch
                                                : Buffer::input;
  return operand;
}

}  // namespace

LaneBuilder Builder::lane(std::uint32_t index) {
  assert(index < shape_.lanes);
  return {*this, index};
}

std::uint32_t Builder::link(int peer, std::uint32_t channel, bool sends) {
  const auto [at, added] = link_index_.try_emplace({peer, channel, sends}, static_cast<std::uint32_t>(links_.size()));
  if (added) links_.push_back({peer, channel, sends});
  return at->second;
}

void LaneBuilder::move(std::span<const Ref> sources, std::span<const Ref> destinations, const Ref* sizing) const {
  for (const auto list : {sources, destinations}) {
    for (const Ref& ref : list) {
      if (sizing == nullptr && ref.place != Place::link) sizing = &ref;
    }
  }
  assert(sizing != nullptr && !sources.empty() && !destinations.empty());
  Builder& builder = *builder_;
  builder.drafts_.push_back({index_, static_cast<std::uint32_t>(builder.operands_.size()),
                             static_cast<std::uint16_t>(sources.size()), static_cast<std::uint16_t>(destinations.size()),
                             false});
  for (const Ref& ref : sources) builder.operands_.push_back(to_operand(ref, *sizing));
  for (const Ref& ref : destinations) builder.operands_.push_back(to_operand(ref, *sizing));
}

void LaneBuilder::complete(std::span<const Ref> sources, std::span<const Ref> destinations) const {
  move(sources, destinations);
  builder_->drafts_.back().completes = true;
}

/// Whether each lane keeps to chunks of its own, from its first to its last. It then waits for no other, and nobody has to
/// look at every cell: on large machines those are many more than a program has steps.
bool Builder::lanes_are_apart() const {
  struct Span {
    std::uint64_t begin = UINT64_MAX;
    std::uint64_t end = 0;
  };
  std::vector<Span> spans(shape_.lanes);
  for (const Draft& draft : drafts_) {
    Span& span = spans[draft.lane];
    for (std::uint32_t o = draft.first; o < draft.first + draft.sources + draft.destinations; ++o) {
      const Operand& operand = operands_[o];
      if (operand.place == Place::link) continue;
      span.begin = std::min<std::uint64_t>(span.begin, operand.range.chunk);
      span.end = std::max(span.end, std::uint64_t{operand.range.chunk} + operand.range.chunks);
    }
  }
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
  const auto meet = [](const Span& a, const Span& b) { return b.begin < a.end; };
  return std::adjacent_find(spans.begin(), spans.end(), meet) == spans.end();
}

std::vector<std::vector<Dependency>> Builder::derive_dependencies(const std::vector<std::uint32_t>& position) const {
  // One lane is in order.
  if (shape_.lanes == 1 || lanes_are_apart()) return std::vector<std::vector<Dependency>>(drafts_.size());
  const Cells cells(problem_, shape_, rank_, true);
  std::vector<std::uint32_t> writer(cells.size(), nobody);
  std::vector<std::vector<std::uint32_t>> readers(cells.size());
  std::vector<std::vector<Dependency>> waits;
  for (std::uint32_t d = 0; d < drafts_.size(); ++d) {
    const Draft& draft = drafts_[d];
    Waits mine(shape_.lanes, draft.lane);
    const auto on = [&](std::uint32_t other) { mine.on(drafts_[other].lane, position[other]); };
    const std::span<const Operand> operands =
        std::span(operands_).subspan(draft.first, std::size_t{draft.sources} + draft.destinations);
    for (const Operand& source : operands.first(draft.sources)) {
      if (source.place == Place::link) continue;
      cells.each(source, [&](std::size_t cell) {
        if (writer[cell] != nobody) on(writer[cell]);
        readers[cell].push_back(d);
      });
    }
    for (const Operand& destination : operands.subspan(draft.sources)) {
      if (destination.place == Place::link) continue;
      cells.each(destination, [&](std::size_t cell) {
        if (writer[cell] != nobody) on(writer[cell]);
        for (const std::uint32_t reader : readers[cell]) on(reader);
        readers[cell].clear();
        writer[cell] = d;
      });
    }
    waits.push_back(mine.list());
  }
  return waits;
}

Program Builder::finish() {
  Program program;
  std::vector<std::uint32_t> position(drafts_.size());
  std::vector<std::vector<std::uint32_t>> by_lane(shape_.lanes);
  for (std::uint32_t d = 0; d < drafts_.size(); ++d) {
    auto& lane = by_lane[drafts_[d].lane];
    position[d] = static_cast<std::uint32_t>(lane.size());
    lane.push_back(d);
  }
  const auto waits = derive_dependencies(position);
  program.steps.reserve(drafts_.size());
  program.operands.reserve(operands_.size());
  for (const auto& lane : by_lane) {
    program.lanes.push_back({static_cast<std::uint32_t>(program.steps.size()), static_cast<std::uint32_t>(lane.size())});
    for (const std::uint32_t d : lane) {
      const Draft& draft = drafts_[d];
      Step step;
      step.operands = static_cast<std::uint32_t>(program.operands.size());
      step.sources = draft.sources;
      step.destinations = draft.destinations;
      step.dependencies = static_cast<std::uint32_t>(program.dependencies.size());
      step.dependency_count = static_cast<std::uint16_t>(waits[d].size());
      step.flags = static_cast<std::uint16_t>((draft.completes ? last_touch : 0) | (draft.sources > 1 ? folds : 0));
      const auto operands = operands_.begin() + draft.first;
      program.operands.insert(program.operands.end(), operands, operands + draft.sources + draft.destinations);
      program.dependencies.insert(program.dependencies.end(), waits[d].begin(), waits[d].end());
      program.steps.push_back(step);
    }
  }
  program.links = std::move(links_);
  return program;
}

}  // namespace tutti
