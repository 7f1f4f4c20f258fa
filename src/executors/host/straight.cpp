#include "src/executors/host/straight.h"

#include "src/executors/host/executor.h"

namespace tutti {
namespace {

/// Puts a call's moves together, step by step.
class Straightener {
 public:
  Straightener(const Problem& problem, const Lowered& lowered, const Layout& layout)
      : problem_(problem), lowered_(lowered), layout_(layout) {}

  void append(std::uint32_t index) {
    const Step& step = lowered_.program.steps[index];
    Straight::Move move;
    move.bytes = layout_.message_bytes[index];
    if (move.bytes == 0) return;
    move.divide_by = (step.flags & last_touch) != 0 ? divisor(problem_) : 0;
    move.operand = static_cast<std::uint32_t>(straight_.operands.size());
    move.sources = step.sources;
    std::vector<std::uint32_t> taken;
    for (std::uint32_t o = step.operands; o < step.operands + step.sources + step.destinations; ++o) {
      if (lowered_.only_offered[o] == 0) taken.push_back(o);
    }
    move.destinations = static_cast<std::uint32_t>(taken.size()) - move.sources;
    for (const std::uint32_t o : taken) {
      const Operand& operand = lowered_.program.operands[o];
      const bool in_memory = operand.place != Place::link;
      straight_.operands.push_back(
          {in_memory ? Straight::in_memory : operand.link, in_memory ? static_cast<std::uint32_t>(operand.place) : 0});
    }
    append_pieces(move, step, taken);
    straight_.moves.push_back(move);
  }

  Straight take() { return std::move(straight_); }

 private:
  void append_pieces(Straight::Move& move, const Step& step, const std::vector<std::uint32_t>& taken) {
    move.piece = static_cast<std::uint32_t>(straight_.counts.size());
    move.offset = static_cast<std::uint32_t>(straight_.offsets.size());
    const std::uint32_t blocks = lowered_.program.operands[step.operands].range.blocks;
    for (std::uint32_t b = 0; b < blocks; ++b) {
      const std::uint64_t bytes = layout_.pieces[layout_.first_piece[step.operands] + b].bytes;
      if (bytes == 0) continue;
      straight_.counts.push_back(bytes >> unit_shift(problem_));
      for (const std::uint32_t o : taken) straight_.offsets.push_back(layout_.pieces[layout_.first_piece[o] + b].offset);
    }
    move.pieces = static_cast<std::uint32_t>(straight_.counts.size()) - move.piece;
  }

  const Problem& problem_;
  const Lowered& lowered_;
  const Layout& layout_;
  Straight straight_;
};

}  // namespace

Straight straighten(const Problem& problem, const Lowered& lowered, const Layout& layout) {
  Straightener straightener(problem, lowered, layout);
  for (const std::uint32_t step : lowered.single_file) straightener.append(step);
  return straightener.take();
}

/// One straight call under way. Everything is within one function once compiled: a call of a few bytes has no time for
/// more.
class HostExecutor::StraightRun {
 public:
  StraightRun(HostExecutor& executor, Agent& agent)
      : executor_(executor),
        agent_(agent),
        links_(executor.links_.data()),
        at_(executor.at_.data()),
        sources_(executor.fold_sources_.data()),
        destinations_(executor.fold_destinations_.data()),
        // Only read from; see window_at.
        buffers_{const_cast<std::byte*>(executor.binding_.input), executor.binding_.output, executor.binding_.scratch} {}

  /// False: the outcome says why the move did not come about.
  bool make(const Straight& straight, const Straight::Move& move) {
    const Straight::Operand* const operands = &straight.operands[move.operand];
    if (!take(move, operands)) return false;
    fold(move, &straight.counts[move.piece], &straight.offsets[move.offset]);
    return give(move, operands);
  }

 private:
  /// Finds where all operands of a move lie, as soon as they are there.
  bool take(const Straight::Move& move, const Straight::Operand* operands) {
    const std::uint32_t all = move.sources + move.destinations;
    for (std::uint32_t o = 0; o < all; ++o) {
      if (operands[o].link == Straight::in_memory) {
        at_[o] = buffers_[operands[o].buffer];
        continue;
      }
      const HostLink& link = *links_[operands[o].link];
      const auto look = [&] {
        return o < move.sources ? executor_.view(link, move.bytes, at_[o]) : executor_.reserve(link, move.bytes, at_[o]);
      };
      if (look() != Turn::moved && !executor_.await(link, agent_, look)) [[unlikely]]
        return false;
    }
    return true;
  }

  void fold(const Straight::Move& move, const std::uint64_t* counts, const std::uint64_t* offset) {
    // Nothing to do where one source lies in its place already.
    const bool may_lie_there = move.sources == 1 && move.divide_by == 0;
    for (std::uint32_t p = 0; p < move.pieces; ++p) {
      std::byte* const* at = at_;
      for (std::uint32_t o = 0; o < move.sources; ++o) sources_[o].data = *at++ + *offset++;
      std::uint32_t targets = 0;
      for (std::uint32_t o = 0; o < move.destinations; ++o) {
        std::byte* const target = *at++ + *offset++;
        if (may_lie_there && target == sources_[0].data) continue;
        destinations_[targets].data = target;
        destinations_[targets++].streaming = false;
      }
      if (targets != 0) executor_.fold_({sources_, destinations_, move.sources, targets, counts[p], move.divide_by});
    }
  }

  /// Lets the sources' messages go, and the destinations' on their way.
  bool give(const Straight::Move& move, const Straight::Operand* operands) {
    const std::uint32_t all = move.sources + move.destinations;
    for (std::uint32_t o = 0; o < all; ++o) {
      if (operands[o].link == Straight::in_memory) continue;
      HostLink& link = *links_[operands[o].link];
      if (o < move.sources) {
        link.transport->release(link.link);
        continue;
      }
      const auto commit = [&] {
        const tutti_link_result result = link.transport->commit(link.link, move.bytes, executor_.binding_.fingerprint);
        if (result == TUTTI_LINK_OK) [[likely]]
          return ++link.offered, Turn::moved;
        return result == TUTTI_LINK_BROKEN ? executor_.broken(link) : Turn::blocked;
      };
      if (commit() != Turn::moved && !executor_.await(link, agent_, commit)) [[unlikely]]
        return false;
    }
    return true;
  }

  HostExecutor& executor_;
  Agent& agent_;
  HostLink* const* const links_;
  std::byte** const at_;
  FoldSource* const sources_;
  FoldDestination* const destinations_;
  std::byte* const buffers_[3];
};

const Outcome& HostExecutor::run_straight(Agent& agent) {
  StraightRun run(*this, agent);
  const Straight& straight = layouts_->straight;
  for (const Straight::Move& move : straight.moves) {
    if (!run.make(straight, move)) return outcome_;
  }
  awaited_ = nullptr;
  // Nothing was offered, so only what a socket still holds is not with the peers yet.
  return needs_progress_ ? finish(agent) : outcome_;
}

}  // namespace tutti
