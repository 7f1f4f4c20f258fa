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
  const Lane& lane = lowered.program.lanes[0];
  for (std::uint32_t s = lane.first; s < lane.first + lane.count; ++s) straightener.append(s);
  return straightener.take();
}

const Outcome& HostExecutor::run_straight(Agent& agent) {
  // Only read from; see window_at.
  const std::array<std::byte*, 3> buffers = {const_cast<std::byte*>(binding_.input), binding_.output, binding_.scratch};
  for (const Straight::Move& move : layouts_->straight.moves) {
    if (!take_operands(move, buffers, agent)) return outcome_;
    for (std::uint32_t p = 0; p < move.pieces; ++p) fold_piece(move, p);
    const Straight::Operand* const operands = &layouts_->straight.operands[move.operand];
    for (std::uint32_t o = 0; o < move.sources; ++o) {
      if (operands[o].link == Straight::in_memory) continue;
      const HostLink& link = *links_[operands[o].link];
      link.transport->release(link.link);
    }
    for (std::uint32_t o = move.sources; o < move.sources + move.destinations; ++o) {
      if (operands[o].link != Straight::in_memory && !commit(operands[o].link, move.bytes, agent)) return outcome_;
    }
  }
  awaited_ = nullptr;
  // Nothing was offered, so only what a socket still holds is not with the peers yet.
  return needs_progress_ ? finish(agent) : outcome_;
}

/// Finds where all operands of a move lie, as soon as they are there. False: the outcome says why not.
bool HostExecutor::take_operands(const Straight::Move& move, const std::array<std::byte*, 3>& buffers, Agent& agent) {
  const Straight::Operand* const operands = &layouts_->straight.operands[move.operand];
  for (std::uint32_t o = 0; o < move.sources + move.destinations; ++o) {
    if (operands[o].link == Straight::in_memory) {
      at_[o] = buffers[operands[o].buffer];
      continue;
    }
    HostLink& link = *links_[operands[o].link];
    const bool there = await(
        link, agent, [&] { return o < move.sources ? view(link, move.bytes, at_[o]) : reserve(link, move.bytes, at_[o]); });
    if (!there) return false;
  }
  return true;
}

void HostExecutor::fold_piece(const Straight::Move& move, std::uint32_t piece) {
  const std::uint32_t operands = move.sources + move.destinations;
  const std::uint64_t* const offsets = &layouts_->straight.offsets[move.offset + piece * operands];
  for (std::uint32_t o = 0; o < move.sources; ++o) fold_sources_[o].data = at_[o] + offsets[o];
  std::uint32_t targets = 0;
  for (std::uint32_t o = move.sources; o < operands; ++o) {
    std::byte* const target = at_[o] + offsets[o];
    // Nothing to do where it lies in its place already.
    if (move.sources == 1 && target == fold_sources_[0].data && move.divide_by == 0) continue;
    fold_destinations_[targets].data = target;
    fold_destinations_[targets++].streaming = false;
  }
  if (targets == 0) return;
  fold_({fold_sources_.data(), fold_destinations_.data(), move.sources, targets,
         layouts_->straight.counts[move.piece + piece], move.divide_by});
}

bool HostExecutor::commit(std::uint32_t l, std::uint64_t bytes, Agent& agent) {
  HostLink& link = *links_[l];
  return await(link, agent, [&] {
    const tutti_link_result result = link.transport->commit(link.link, bytes, binding_.fingerprint);
    if (result == TUTTI_LINK_BROKEN) return broken(link);
    if (result == TUTTI_LINK_NOT_YET) return Turn::blocked;
    ++link.offered;
    return Turn::moved;
  });
}

}  // namespace tutti
